"""Requests to memories and stores alone: traces of other simulators and tracers, and patterns."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
from pathlib import Path

import jsonschema
import pytest
import tierscope as ts
from conftest import Runner
from tierscope import _call, _core, table
from tierscope._compare import Comparison
from tierscope._shape import ResultData

DDR4 = "device/ddr4-2400"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A thousand requests, a third of them writes, in the format of DRAMsim3."""
    file = tmp_path / "app.trc"
    lines = [
        f"{number * 7919 % 65536 * 64:#x} {'WRITE' if number % 3 == 0 else 'READ'} {number * 10}"
        for number in range(1000)
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


@pytest.fixture
def result(trace: Path) -> ts.Result:
    """It on two memories."""
    return ts.compare([DDR4, "device/lpddr5-6400"], f"dramsim3:{trace}")


def test_the_figures_of_a_device_agree_with_each_other(result: ts.Result) -> None:
    assert result.data["completeness"] == "complete"
    system = result.data["systems"][DDR4]
    device = system["device"]
    assert device is not None
    assert (device["reads"], device["writes"]) == (666, 334)
    assert system["accesses"] == 1000
    assert system["latency_ns"] is not None
    assert sum(system["stages_ns"].values()) == pytest.approx(system["latency_ns"]["mean"])
    reads, writes = device["read_latency_ns"], device["write_latency_ns"]
    assert reads is not None
    assert writes is not None
    means = reads["mean"] * 666 + writes["mean"] * 334
    assert means / 1000 == pytest.approx(system["latency_ns"]["mean"])
    assert device["bytes_per_s"] == pytest.approx(64_000 / system["time_s"])
    assert device["peak_bytes_per_s"] == pytest.approx(19.2e9)
    found = device["row_hits"] + device["row_closed"] + device["row_conflicts"]
    assert 0 < found <= 1000
    assert device["activates"] >= device["row_closed"] + device["row_conflicts"]
    energy = system["energy"]
    assert energy["total_j"] == pytest.approx(sum(energy["parts_j"].values()))
    assert energy["average_w"] == pytest.approx((energy["total_j"] or 0) / system["time_s"])
    whole = result.data["systems"]["device/lpddr5-6400"]["energy"]
    assert whole["not_counted"] == {}
    assert (whole["total_j"] or 0) > 0


def test_devices_that_get_different_loads_are_remarked_on(trace: Path) -> None:
    devices = [DDR4, "device/lpddr5-6400"]
    remarks = ts.compare(devices, f"dramsim3:{trace}").data["remarks"]
    assert [DDR4 + " at 1200 MHz, device/lpddr5-6400 at 800 MHz" in one for one in remarks] == [
        True
    ]
    for said in ({"clock": "1.2GHz"}, {"outstanding": 8}):
        workload = ts.workload(f"dramsim3:{trace}", **said)
        assert ts.compare(devices, workload).data["remarks"] == []


def test_the_latency_of_what_did_not_come_is_null_and_not_zero(tmp_path: Path) -> None:
    (tmp_path / "reads.trc").write_text("0x40 READ 1\n0x80 READ 2\n", encoding="utf-8")
    result = ts.run(DDR4, f"dramsim3:{tmp_path / 'reads.trc'}")
    device = result[DDR4]["device"]
    assert device is not None
    assert device["write_latency_ns"] is None
    assert device["read_latency_ns"] is not None
    assert device["read_latency_ns"]["mean"] > 0
    jsonschema.validate(result.data, _call.parsed(_core.schema("result")))
    (row,) = result.to_polars().to_dicts()
    assert row["read_latency_mean_ns"] == device["read_latency_ns"]["mean"]
    assert row["write_latency_mean_ns"] is None
    cells = dict(table.rows(result.data))
    assert "  of writes, until taken" not in cells, "a row that tells nothing is left out"


def test_the_result_keeps_to_its_schema_and_can_be_kept(result: ts.Result, tmp_path: Path) -> None:
    jsonschema.validate(result.data, _call.parsed(_core.schema("result")))
    result.save(tmp_path / "kept")
    assert ts.load(tmp_path / "kept").data == result.data
    frame = result.to_polars()
    assert frame["energy_j"].null_count() == 0
    assert frame["read_latency_mean_ns"].null_count() == 0
    assert result.plot_breakdown() is not None


def test_the_report_is_of_requests(tierscope: Runner, trace: Path) -> None:
    shown = tierscope("run", "-s", f"{DDR4},device/lpddr5-6400", "-w", f"dramsim3:{trace}")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "app.trc: 1.00 k requests, dramsim3" in shown.stdout
    for label in ("Bandwidth", "of its peak", "Rows found open", "Refreshes", "average power"):
        assert label in shown.stdout
    assert "Where the requests' time goes" in shown.stdout
    assert "Instructions per cycle" not in shown.stdout
    energy = next(line for line in shown.stdout.splitlines() if line.startswith("Energy"))
    assert "–" not in energy, "both are known"


def test_latencies_have_a_row_for_each_request(tierscope: Runner, trace: Path) -> None:
    ran = tierscope(
        "run", "-s", DDR4, "-w", f"dramsim3:{trace}", "--latencies", "all.csv", "--json"
    )
    system = json.loads(ran.stdout)["systems"][DDR4]
    with (trace.parent / "all.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sorted(int(row["request"]) for row in rows) == list(range(1000))
    mean = sum(int(row["latency_ps"]) for row in rows) / 1000
    assert mean / 1000 == pytest.approx(system["latency_ns"]["mean"])
    stages = ("host_queue_ps", "controller_ps", "dram_queue_ps", "dram_ps")
    for row in rows:
        assert int(row["latency_ps"]) == sum(int(row[stage]) for stage in stages)
    assert not list(trace.parent.glob("*.partial"))


def test_several_devices_have_a_file_each(trace: Path) -> None:
    file = trace.parent / "all.csv"
    ts.compare([DDR4, "device/ddr3-1333"], f"dramsim3:{trace}", latencies=file)
    names = {path.name for path in trace.parent.glob("*.csv")}
    assert names == {"all-device-ddr4-2400.csv", "all-device-ddr3-1333.csv"}


def test_formats_without_times_come_as_fast_as_they_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"{n * 64:#x} R\n" for n in range(4000)), encoding="utf-8")
    (tmp_path / "b").write_text("".join(f"LD {n * 64}\n" for n in range(4000)), encoding="utf-8")

    def figures(work: ts.MemoryTrace) -> tuple[object, float]:
        device = ts.run(DDR4, work).data["systems"][DDR4]
        return device["device"], device["time_s"]

    first = figures(ts.MemoryTrace("ramulator", tmp_path / "a"))
    assert first == figures(ts.MemoryTrace("ramulator2", tmp_path / "b"))
    narrow = ts.MemoryTrace("ramulator", tmp_path / "a", {"outstanding": 1})
    assert figures(narrow)[1] > 3 * first[1]


def test_the_clock_is_the_devices_unless_another_is_said(trace: Path) -> None:
    def time_s(clock: str | None = None) -> float:
        said = {} if clock is None else {"clock": clock}
        work = ts.MemoryTrace("dramsim3", trace, said)
        return ts.run(DDR4, work).data["systems"][DDR4]["time_s"]

    assert time_s() == pytest.approx(9990 / 1.2e9, rel=0.1)
    assert time_s(clock="100MHz") == pytest.approx(9990 / 1e8, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-s", "hybrid/quick"), "has a processor, which takes programs"),
        (("-s", f"{DDR4},hybrid/quick"), "has a processor, which takes programs"),
        (("--seed", "1"), "a seed means nothing to the trace"),
        (("--repeat", "3"), "repeating means nothing"),
        (("--allow-truncated",), "allowing truncation means nothing"),
        (("--set", "workload.clock=fast"), "workload.clock"),
        (("--set", "workload.clock=1.2"), "workload.clock"),
        (("--set", "workload.clock=1kHz"), "a clock lies between 1MHz and 1THz"),
        (("--set", "workload.outstanding=0"), "a whole number from 1"),
        (("--set", "workload.clok=1GHz"), "did you mean `clock`?"),
        (("--scale-to-footprint", "2"), "set device.capacity instead"),
        (("--roi",), "marks"),
        (("--limit", "5 instructions"), "given has no instructions"),
        (("--set", "device.capacity=1MiB"), "beyond the 1MiB"),
        (("--latencies", "nowhere/x.csv"), "there is no directory nowhere"),
        (("--latencies", "x.csv", "--dry-run"), "it is for one run"),
    ],
)
def test_what_means_nothing_is_told(
    tierscope: Runner, trace: Path, arguments: tuple[str, ...], said: str
) -> None:
    system = () if "-s" in arguments else ("-s", DDR4)
    ran = tierscope("run", *system, "-w", f"dramsim3:{trace}", *arguments)
    assert ran.returncode == 125, ran.stdout
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("work", [("-w", "gups"), ("--", "true")])
def test_a_device_alone_runs_no_program(tierscope: Runner, work: tuple[str, ...]) -> None:
    ran = tierscope("run", "-s", DDR4, *work)
    assert ran.returncode == 125
    assert f"{DDR4} is a device alone, which has no processor" in ran.stderr


def test_a_wrong_line_ends_the_run_with_its_place(tierscope: Runner, trace: Path) -> None:
    with trace.open("a", encoding="utf-8") as file:
        file.write("\n0x40 REED 100000\n")
    ran = tierscope("run", "-s", DDR4, "-w", f"dramsim3:{trace}")
    assert ran.returncode == 125
    assert "line 1001, `0x40 REED 100000`: `REED` is neither READ nor WRITE" in ran.stderr
    assert "Partial" in ran.stdout, "what came before is told"


def test_an_address_beyond_the_device_is_told_with_the_mend(
    tierscope: Runner, tmp_path: Path
) -> None:
    (tmp_path / "far").write_text("0x40 READ 1\n0x300000000 READ 2\n", encoding="utf-8")
    ran = tierscope("run", "-s", DDR4, "-w", "dramsim3:far")
    assert ran.returncode == 125
    assert 'beyond the 8GiB of device/ddr4-2400; give it device.capacity = "16GiB"' in ran.stderr
    larger = ("--set", "device.capacity=16GiB")
    assert tierscope("run", "-s", DDR4, "-w", "dramsim3:far", *larger).returncode == 0


def test_an_unknown_format_and_a_file_that_is_not_there_are_told(tierscope: Runner) -> None:
    ran = tierscope("run", "-s", DDR4, "-w", "dramsim9:app.trc")
    assert "dramsim3:FILE, dramsys:FILE, ramulator:FILE" in ran.stderr
    assert "msr:FILE" in ran.stderr
    ran = tierscope("run", "-s", DDR4, "-w", "dramsim3:nowhere.trc")
    assert ran.returncode == 125
    assert "nowhere.trc cannot be read: no such file" in ran.stderr


def test_a_dry_run_tells_how_long_it_would_take(tierscope: Runner, trace: Path) -> None:
    ran = tierscope("run", "-s", DDR4, "-w", f"dramsim3:{trace}", "--dry-run")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "the trace" in ran.stdout


def test_machines_tell_the_energy_of_their_dram(tierscope: Runner) -> None:
    short = ("-w", "gups", "--set", "workload.updates=500")
    shown = tierscope("run", "-s", "hybrid/quick,storage/quick,oracle/quick", *short)
    lines = shown.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Energy "))
    assert [line[:24].rstrip() for line in lines[at + 1 : at + 7]] == [
        "  of DRAM",
        "  of the DRAM interface",
        "  of the link",
        "  of the processor",
        "  of the store",
        "  average power",
    ]
    assert [line.count("J") for line in lines[at : at + 6]] == [3, 3, 3, 2, 3, 2]
    data: ResultData = ts.compare(["hybrid/quick"], "gups").data
    told = data["systems"]["hybrid/quick"]["energy"]
    assert told["not_counted"] == {}
    assert told["total_j"] == pytest.approx(sum(told["parts_j"].values()))
    assert {"store.read", "link.idle", "processor.running_cores"} <= told["parts_j"].keys()


SLC = "device/slc"


def test_a_store_alone_tells_bandwidth_latencies_and_what_was_under_way(tierscope: Runner) -> None:
    some = ("--set", "workload.requests=2000", "--closed-loop", "8")
    shown = tierscope("run", "-s", SLC, "-w", "random", *some)
    assert (shown.returncode, shown.stderr) == (0, "")
    for label in ("Requests under way, mean", "Written to the store", "medium", "link"):
        assert label in shown.stdout
    assert "Rows found open" not in shown.stdout
    data = json.loads(tierscope("run", "-s", SLC, "-w", "random", *some, "--json").stdout)
    jsonschema.validate(data, _call.parsed(_core.schema("result")))
    device = data["systems"][SLC]["device"]
    assert device["in_flight_max"] == 8
    assert device["peak_bytes_per_s"] is None
    asked = device["requested_bytes"]
    assert asked["read"] + asked["written"] == 2000 * 4096


def test_a_memory_and_a_store_stand_side_by_side(tierscope: Runner) -> None:
    shown = tierscope("run", "-s", f"{SLC},{DDR4}", "-w", "zipf", "--set", "workload.requests=500")
    assert (shown.returncode, shown.stderr) == (0, "")
    rows = {line[:27].strip(): line for line in shown.stdout.splitlines()}
    assert rows["of its peak"].count("–") == 1
    assert rows["Read from the store"].count("–") == 1
    assert rows["Activates"].count("–") == 1


def test_a_block_trace_runs_however_it_is_packed(tmp_path: Path) -> None:
    text = "".join(
        f"{128166372003061629 + 10 * n},hm,1,{'Write' if n % 3 else 'Read'},{n * 7000},3000,100\n"
        for n in range(300)
    ).encode()
    packed = {"plain": text, "gz": gzip.compress(text), "xz": lzma.compress(text)}
    found = []
    for name, data in packed.items():
        file = tmp_path / f"hm.{name}"
        file.write_bytes(data)
        found.append(ts.run(SLC, f"msr:{file}", latencies=tmp_path / "all.csv")[SLC])
    assert [one["device"] for one in found] == [found[0]["device"]] * 3
    assert found[0]["accesses"] == 300
    with (tmp_path / "all.csv").open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    stages = [
        key for key in rows[0] if key.endswith("_ps") and key[:-3] not in ("arrival", "latency")
    ]
    for row in rows:
        assert int(row["latency_ps"]) == sum(int(row[stage]) for stage in stages)
        assert row["bytes"] == "3000"


def test_one_volume_of_a_trace_is_chosen(tierscope: Runner, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,R,0,4096,10\n7,W,0,4096,20\n", encoding="utf-8")
    both = tierscope("run", "-s", SLC, "-w", "alibaba:a.csv")
    assert "line 2, `7,W,0,4096,20`: it is of the volume 7" in both.stderr
    one = tierscope("run", "-s", SLC, "-w", "alibaba:a.csv", "--set", "workload.volume=7", "--json")
    device = json.loads(one.stdout)["systems"][SLC]["device"]
    assert (device["reads"], device["writes"]) == (0, 1)


def test_volumes_of_a_trace_are_laid_one_behind_the_other(
    tierscope: Runner, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("0,R,0,4096,10\n7,W,0,4096,20\n", encoding="utf-8")
    for volumes, second in (("1MiB", 1 << 20), ("measured", 1 << 20), ("7=1MiB;0=1MiB", 0)):
        ran = tierscope(
            *("run", "-s", SLC, "-w", "alibaba:a.csv", "--set", f"workload.volumes={volumes}"),
            *("--latencies", "each.csv"),
        )
        assert ran.returncode == 0, ran.stderr
        with (tmp_path / "each.csv").open(encoding="utf-8", newline="") as table:
            found = {row["kind"]: int(row["address"], 16) for row in csv.DictReader(table)}
        assert found["write"] == second
        (tmp_path / "each.csv").unlink()
    short = tierscope("run", "-s", SLC, "-w", "alibaba:a.csv", "--set", "workload.volumes=2KiB")
    assert "reaches to byte 4096 of the volume 0, which is given 2048 bytes" in short.stderr


def test_patterns_repeat_with_seeds_and_are_planned(tierscope: Runner) -> None:
    some = ("-s", SLC, "-w", "random", "--set", "workload.requests=300")
    assert tierscope("run", *some, "--repeat", "3").returncode == 0
    planned = tierscope("run", *some, "--dry-run")
    assert "the workload random, seed 0" in planned.stdout
    assert "300 requests" in planned.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-s", "hybrid/quick", "-w", "random"), "has a processor, which takes programs"),
        (("-s", SLC, "-w", "gups"), "give it random, sequential or zipf, or a trace"),
        (("-s", SLC, "-w", "rando"), "did you mean `random`?"),
        (("-s", SLC, "-w", "zipf", "--closed-loop", "0"), "a whole number from 1"),
        (("-s", "hybrid/quick", "-w", "gups", "--closed-loop", "4"), "a closed loop means nothing"),
        (("-s", SLC, "-w", "zipf", "--set", "workload.size=3KiB"), "whole number of requests"),
        (("-s", SLC, "-w", "zipf", "--by", "area"), "means nothing to requests"),
        (
            ("-s", SLC, "-w", "zipf", "--closed-loop", "4", "--set", "workload.outstanding=5"),
            "said twice",
        ),
        (("-s", SLC, "-w", "dramsim3:t.trc"), "--set workload.clock=1.2GHz"),
        (("-s", SLC, "-w", "mqsim:t.trc", "--set", "workload.unit=s"), "write ps, ns or us"),
        (
            ("-s", SLC, "-w", "mqsim:t.trc", "--set", "workload.clock=1GHz"),
            "says its times by itself",
        ),
    ],
)
def test_what_means_nothing_to_requests_is_told(
    tierscope: Runner, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "t.trc").write_text("0x40 READ 1\n", encoding="utf-8")
    ran = tierscope("run", *arguments)
    assert ran.returncode == 125, ran.stdout
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_repetitions_on_devices_alone_have_the_figures_of_devices(tierscope: Runner) -> None:
    random = ("-w", "random", "--set", "workload.requests=500", "--set", "workload.footprint=1MiB")
    shown = tierscope("run", "-s", f"{DDR4},device/slc", *random, "--repeat", "3")
    assert (shown.returncode, shown.stderr) == (0, "")
    for label in ("seeds 0 to 2", "Bandwidth", "of its peak", "Requests under way", "of writes"):
        assert label in shown.stdout
    assert "Instructions per cycle" not in shown.stdout
    printed = json.loads(tierscope("run", "-s", DDR4, *random, "--repeat", "3", "--json").stdout)
    schema = Path(__file__).parents[2] / "docs/reference/repetitions.schema.json"
    jsonschema.validate(printed, json.loads(schema.read_text(encoding="utf-8")))
    assert printed["seeds"] == [0, 1, 2]
    bandwidth = printed["systems"][DDR4]["bytes_per_s"]
    assert len(set(bandwidth["values"])) == 3, "each seed has its own requests"


def test_a_closed_loop_of_more_than_the_queue_waits_in_the_latency() -> None:
    def figures(outstanding: int) -> tuple[float, float, float]:
        work = ts.workload("random", requests=2000, reads=1.0, outstanding=outstanding)
        system = ts.run("device/slc", work).data["systems"]["device/slc"]
        device, latency = system["device"], system["latency_ns"]
        assert device is not None
        assert latency is not None
        return device["under_way_mean"], device["in_flight_mean"], latency["mean"]

    within, beyond = figures(32), figures(128)
    assert within[0] == pytest.approx(within[1])
    assert beyond[0] == pytest.approx(128, rel=0.05)
    assert beyond[1] <= 32
    assert beyond[2] == pytest.approx(4 * within[2], rel=0.1)


def test_a_trace_and_the_same_compressed_are_one_workload(trace: Path, tmp_path: Path) -> None:
    packed = tmp_path / "app.trc.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    for name in (trace.name, packed.name):
        ts.run(DDR4, f"dramsim3:{tmp_path / name}").save(tmp_path / name.replace(".", "-"))
    kept = {name: ts.load(tmp_path / name) for name in ("app-trc", "app-trc-gz")}
    assert Comparison(kept).differences == {}


def test_numbers_that_no_counter_holds_are_told_as_they_were_written() -> None:
    with pytest.raises(ts.SpecError, match="100000000000000000001"):
        ts.workload("random", requests=100000000000000000001)


DRIVE = "device/970-pro/quick"


def test_a_drive_alone_tells_what_flash_did(tierscope: Runner) -> None:
    some = ("--set", "workload.requests=40000", "--closed-loop", "8")
    shown = tierscope("run", "-s", DRIVE, "-w", "random", *some)
    assert (shown.returncode, shown.stderr) == (0, "")
    for label in ("Write amplification", "Flash dies busy", "Time until it rests, after that"):
        assert label in shown.stdout
    data = json.loads(tierscope("run", "-s", DRIVE, "-w", "random", *some, "--json").stdout)
    jsonschema.validate(data, _call.parsed(_core.schema("result")))
    drive, device = (data["systems"][DRIVE][key] for key in ("drive", "device"))
    assert drive["host_read_pages"] + drive["host_written_pages"] == 40000
    assert drive["write_amplification"] >= 1
    assert len(drive["dies_busy"]) == 16
    assert device["settling"]["time_s"] > 0
    # Nobody waits for what comes after the last answer: it is in no rate.
    seconds = data["systems"][DRIVE]["time_s"]
    assert device["requests_per_s"] == pytest.approx(40000 / seconds)
    assert device["in_flight_mean"] == pytest.approx(8, rel=0.01)


def test_a_drive_alone_takes_flushes_and_trims_of_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "app.log"
    lines = ["fio version 3 iolog", "0 app add", "0 app open"]
    lines += [f"{number} app write {number * 4096} 4096" for number in range(20)]
    lines += ["100 app sync 0 0", "20000 app trim 0 40960", "30000 app read 0 4096"]
    trace.write_text("\n".join([*lines, "40000 app close"]) + "\n", encoding="utf-8")
    result = ts.compare([DRIVE], f"fio:{trace}")
    system = result.data["systems"][DRIVE]
    device, drive = system["device"], system["drive"]
    assert device is not None
    assert drive is not None
    assert (device["writes"], device["reads"]) == (20, 1)
    assert (device["flushes"], device["trims"]) == (1, 1)
    assert (drive["flushes"], drive["trimmed_pages"]) == (1, 10)
    # What was given back reads as zeros: firmware and link, and 30 us of flash less.
    assert device["read_latency_ns"] is not None
    assert device["read_latency_ns"]["mean"] < 30e3
    row = result.to_polars().row(0, named=True)
    assert row["drive_trimmed_pages"] == 10
    assert row["settling_time_s"] is not None


def test_forced_writes_of_a_trace_are_answered_once_flash_has_them(tmp_path: Path) -> None:
    file = tmp_path / "queue.txt"
    file.write_text(
        "".join(
            f"8,0 3 {n} 0.{n:03}000000 697 Q {letters} {n * 64} + 8 [kjournald]\n"
            for n, letters in enumerate(["WS", "WFS", "W", "WS"], start=1)
        )
    )
    name = "device/970-pro/quick"
    device = ts.compare([name], f"blkparse:{file}").data["systems"][name]["device"]
    assert device is not None
    assert (device["writes"], device["forced_writes"]) == (4, 1)
    forced, writes = device["forced_write_latency_ns"], device["write_latency_ns"]
    assert forced is not None
    assert writes is not None
    # A program of 185 us, for which the others do not wait.
    assert forced["mean"] > 185e3
    assert writes["p50"] < 20e3


def test_a_last_line_cut_short_is_told_below_the_table(tierscope: Runner, tmp_path: Path) -> None:
    whole = "128166372003061629,usr,0,Read,8192,4096,41286\n"
    for text, told in [(whole, False), (whole + "128166372026382245,usr,0,Read,4096,4096,4", True)]:
        file = tmp_path / "cut.csv"
        file.write_text(text)
        done = tierscope("run", "-s", "device/z-ssd/quick", "-w", f"msr:{file}")
        assert done.returncode == 0, done.stderr
        assert ("has no end" in " ".join(done.stdout.split())) == told


def test_a_machine_tells_what_its_drive_did(tierscope: Runner) -> None:
    sets = ("workload.updates=20000", "workload.table=128MiB", "workload.random=1")
    some = [word for one in (*sets, "storage.dram_capacity=16MiB") for word in ("--set", one)]
    shown = tierscope("run", "-s", "storage/970-pro", "-w", "gups", *some, "--json")
    assert shown.returncode == 0, shown.stderr
    system = json.loads(shown.stdout)["systems"]["storage/970-pro"]
    assert system["drive"]["host_written_pages"] > 0
    assert system["drive"]["flash_programs"] > 0
    assert "flash.program" in system["energy"]["parts_j"]
    assert {"drive_dram.standby", "drive_dram.write", "link.idle"} <= system["energy"][
        "parts_j"
    ].keys()
    assert system["energy"]["not_counted"].keys() == {"drive_controller"}


def test_a_byte_addressable_memory_alone_tells_what_its_cells_did(tierscope: Runner) -> None:
    some = ("--set", "workload.requests=4000", "--set", "workload.size=64B", "--closed-loop", "8")
    memories = "device/pcm,device/optane-dimm"
    shown = tierscope("run", "-s", memories, "-w", "random", *some)
    assert (shown.returncode, shown.stderr) == (0, "")
    for label in (
        "Reads from the memory's buffer",
        "Lines written to cells",
        "Memory lasts, at this rate",
    ):
        assert label in shown.stdout
    data = json.loads(tierscope("run", "-s", memories, "-w", "random", *some, "--json").stdout)
    jsonschema.validate(data, _call.parsed(_core.schema("result")))
    pcm, optane = (data["systems"][name]["nvm"] for name in memories.split(","))
    assert pcm["buffer"] is None
    assert pcm["row_hits"] + pcm["row_reads"] + pcm["forwarded_lines"] == pcm["read_lines"]
    assert pcm["host_writes"] == pcm["written_lines"] > 0
    assert pcm["most_writes_of_a_line"] < 100
    assert pcm["worst_line_years"] is None, "so few writes are chance"
    assert pcm["levelled_years"] > 0
    assert optane["buffer"]["read_misses"] > optane["buffer"]["read_hits"]
    assert optane["write_amplification"] > 3
    energy = data["systems"]["device/pcm"]["energy"]
    assert energy["total_j"] == pytest.approx(sum(energy["parts_j"].values()))
    assert "nvm.array_write" in energy["parts_j"]
    assert "nvm" in data["systems"]["device/optane-dimm"]["energy"]["not_counted"]


def test_a_machine_whose_memory_is_the_store_tells_of_it_too() -> None:
    small = ts.system("direct").replace(nvm=ts.Nvm(capacity="256MiB"))
    result = ts.run(small, ts.workload("gups", updates=2000, table="64MiB"))
    system = result.data["systems"]["direct"]
    assert system["nvm"] is not None
    assert system["nvm"]["read_lines"] > 1000
    assert system["dram_bytes"] == {"read": 0, "written": 0}
    row = result.to_polars().row(0, named=True)
    assert row["nvm_read_lines"] == system["nvm"]["read_lines"]
