"""`--scale-to-footprint`, and what is said where everything fits into DRAM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu
from tierscope import _scale

RECORDING = Path(__file__).parents[2] / "examples" / "data" / "sqlite.tst"
# A table of 16 MiB, walked whole: what it touches is known.
WALKED = ts.workload("gups", table="16MiB", updates=20_000, touched=True)
SYSTEMS = ["hybrid/quick", "storage/quick", "oracle/quick"]


def test_dram_is_sized_to_a_part_of_the_footprint() -> None:
    result = ts.compare(SYSTEMS, WALKED, scale_to_footprint=2)
    assert 'capacity = "8MiB"' in result.descriptions["hybrid/quick"]
    assert 'dram_capacity = "8MiB"' in result.descriptions["storage/quick"]
    assert 'capacity = "4GiB"' in result.descriptions["oracle/quick"]
    (note,) = result["hybrid/quick"]["notes"]
    assert note.startswith("scaled to 1/2 of the workload's footprint of 16.0 MiB: hybrid.cache.")
    assert "processor.caches.L3.capacity is 1" in note, "32 MiB at 1/32, in whole sets"
    assert f"hybrid/quick: {note}" in " ".join(result.report(width=1000).split("\n"))
    # What does not fit any more goes to and fro.
    assert result["storage/quick"]["counters"]["swap_out_pages"] > 0
    assert result.data["remarks"] == []


def test_a_recording_is_gone_through_for_its_footprint() -> None:
    result = ts.compare(SYSTEMS[:2], f"trace:{RECORDING}", scale_to_footprint=2)
    (note,) = result["storage/quick"]["notes"]
    told = note.removeprefix("scaled to 1/2 of the workload's footprint of ").partition(" MiB")[0]
    whole = ts.run("oracle/quick", f"trace:{RECORDING}")
    used_mib = whole["oracle/quick"]["counters"]["footprint_bytes"] / (1 << 20)
    # The machine also counts page tables and pages read ahead, and not what was given back.
    assert used_mib * 0.6 < float(told) < used_mib * 1.2, (told, used_mib)


@needs_qemu
def test_processes_that_follow_each_other_are_not_added_up(tmp_path: Path) -> None:
    footprints = []
    for count in (1, 8):
        file = tmp_path / f"{count}.tst"
        ts.record(["sh", "-c", "/bin/true;" * count + ":"], file)
        footprints.append(_scale.footprint_bytes(ts.workload(f"trace:{file}")))
    one, eight = footprints
    assert one <= eight < 1.2 * one, "at a time there are the shell and one other"


def test_where_all_fits_the_result_and_the_report_say_so_first() -> None:
    result = ts.compare(SYSTEMS, ts.workload("gups", table="8MiB", updates=500))
    (remark,) = result.data["remarks"]
    assert remark.startswith("All ")
    assert "fit into the DRAM of every system: it cannot tell them apart" in remark
    lines = result.report(width=200).splitlines()
    assert lines[2] == remark, "it stands between the title and the table"
    assert remark in result._repr_html_()


def test_one_system_of_which_nothing_leaves_the_dram_says_so() -> None:
    result = ts.run("hybrid/quick", ts.workload("gups", table="8MiB", updates=500))
    (remark,) = result.data["remarks"]
    assert "fit into the DRAM of hybrid/quick: nothing had to leave it" in remark
    small = ts.system("storage/quick").replace(dram_capacity="8MiB")
    assert ts.run(small, WALKED).data["remarks"] == []


def test_where_nothing_could_be_told_apart_nothing_is_said() -> None:
    systems = ["oracle/quick", "oracle"]
    result = ts.compare(systems, ts.workload("gups", table="8MiB", updates=500))
    assert result.data["remarks"] == []


@needs_qemu
def test_where_pages_were_written_back_nothing_is_said(tmp_path: Path) -> None:
    file = tmp_path / "written"
    write = ts.program("dd", "if=/dev/zero", f"of={file}", "bs=64k", "count=16", "conv=fsync")
    result = ts.compare(SYSTEMS[1:], write)
    assert result["storage/quick"]["counters"]["file_write_back_pages"] > 0
    assert result.data["remarks"] == []


def test_where_not_all_fits_nothing_is_said() -> None:
    small = ts.system("storage/quick").replace(dram_capacity="8MiB", name="small")
    result = ts.compare([small, "oracle/quick"], WALKED)
    assert result.data["remarks"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("-s", "hybrid/quick", "--", "true"), "unknown-footprint", "tierscope record -o app.tst"),
        (("-s", "oracle/quick", "-w", "gups"), "contradiction", "DRAM before a store"),
        (("-s", "hybrid/quick", "-w", "trace:no.tst"), "unreadable-recording", "no.tst"),
        (
            ("-s", "hybrid/quick,storage/quick", "-w", "gups", "--set", "workload.updates=1"),
            "contradiction",
            "has less DRAM than it must",
        ),
        (
            ("-s", "hybrid/quick", "-w", "gups", "--set", "workload.updates=0"),
            "no-footprint",
            "touches no memory",
        ),
    ],
)
def test_what_cannot_be_scaled_is_refused(
    tierscope: Runner, arguments: tuple[str, ...], code: str, said: str
) -> None:
    refused = tierscope("run", "--scale-to-footprint", "2", *arguments)
    assert (refused.returncode, refused.stdout) == (125, "")
    assert refused.stderr.startswith(f"error[{code}]: "), refused.stderr
    assert said in refused.stderr


@pytest.mark.parametrize("factor", ["0", "-1", "nan", "inf"])
def test_a_factor_that_is_none_is_refused(tierscope: Runner, factor: str) -> None:
    run = ("run", "-s", "hybrid/quick", "-w", "gups", f"--scale-to-footprint={factor}")
    refused = tierscope(*run)
    assert refused.returncode == 125
    assert refused.stderr.startswith("error[impossible-value]: the scale is "), refused.stderr


def test_a_scaled_run_that_is_kept_runs_again(tierscope: Runner, tmp_path: Path) -> None:
    gups = ("-w", "gups", "--set", "workload.table=4MiB", "--set", "workload.touched=true")
    run = ("run", "-s", "hybrid/quick", *gups)
    assert tierscope(*run, "--scale-to-footprint", "2", "-o", "kept").returncode == 0
    again = tierscope("run", "-s", "kept/system-hybrid-quick.toml", *gups, "--json")
    kept = ts.load(tmp_path / "kept")["hybrid/quick"]["time_ps"]
    assert json.loads(again.stdout)["systems"]["hybrid/quick"]["time_ps"] == kept
