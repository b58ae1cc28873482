"""Recordings that are kept small, and what is told of their growth."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu
from rich.console import Console
from tierscope import format as fmt
from tierscope import table
from tierscope._compare import Comparison
from tierscope._why import lines as why_lines
from tierscope.cli.progress import GrowthLines
from tierscope.sweeps import show

_SOURCE = Path(__file__).parents[1] / "guest" / "loops.c"


@pytest.fixture(scope="session")
def loops(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program of loops over memory."""
    program = tmp_path_factory.mktemp("guest") / "loops"
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-o", program, _SOURCE], check=True)
    return str(program)


@needs_qemu
def test_a_recording_ends_at_its_largest_size_and_can_be_replayed(
    tierscope: Runner, tmp_path: Path, loops: str
) -> None:
    many = ("--", loops, "updates", "1000000000")
    made = tierscope("record", "-o", "app.tst", "--max-size", "1MiB", *many)
    assert made.returncode == 0, made.stderr
    first, reason = made.stderr.splitlines()
    assert first.startswith("tierscope: app.tst: ")
    assert reason == "tierscope: the largest size of 1MiB was reached"
    size = (tmp_path / "app.tst").stat().st_size
    assert 1 << 19 < size <= 1 << 20
    assert not (tmp_path / "app.tst.partial").exists()
    info = tierscope("trace", "info", "app.tst").stdout
    assert "Ended:                  the largest size of 1MiB was reached\n" in info
    replayed = tierscope("run", "-s", "oracle/quick", "-w", "trace:app.tst", "--json")
    assert replayed.returncode == 0, replayed.stderr
    accesses = json.loads(replayed.stdout)["systems"]["oracle/quick"]["accesses"]
    assert accesses > 100_000


@needs_qemu
def test_a_filtered_recording_says_so_wherever_it_is_used(
    tierscope: Runner, tmp_path: Path, loops: str
) -> None:
    stores = (loops, "stores", "2")
    whole = ts.record(stores, tmp_path / "whole.tst")
    made = tierscope("record", "-o", "small.tst", "--filter-l1", "32KiB", "--", *stores)
    assert made.returncode == 0, made.stderr
    assert " accesses, " in made.stderr
    assert " more are left out" in made.stderr
    assert (tmp_path / "small.tst").stat().st_size < whole.file_bytes / 2
    info = " ".join(tierscope("trace", "info", "small.tst").stdout.split())
    _, _, left_out = info.partition("Left out: ")
    told = " accesses that hit a cache of 32KiB, 8 ways, lines of 64 B Missing:"
    assert told in left_out
    assert "Left out:               nothing\n" in tierscope("trace", "info", "whole.tst").stdout
    smaller = ("--set", "processor.caches.L1D.capacity=16KiB")
    shown = tierscope("run", "-s", "oracle/quick", *smaller, "-w", "trace:small.tst", "-o", "kept")
    assert shown.returncode == 0, shown.stderr
    kept = ts.load(tmp_path / "kept")
    first, second = kept.data["remarks"]
    assert first.startswith("The recording was filtered: it leaves out the accesses that a first-")
    assert second.endswith("does not tell what: oracle/quick (16KiB).")
    assert kept.data["workload"]["parameters"]["filter_l1"] == "32KiB"
    assert "The recording was filtered" in tierscope("show", "kept").stdout
    again = ts.run("oracle/quick", f"trace:{tmp_path / 'small.tst'}")
    all_of_it = ts.run("oracle/quick", f"trace:{tmp_path / 'whole.tst'}")
    assert all_of_it.data["remarks"] == []
    # Two runs of one program: they have not the same variables.
    one, other = again["oracle/quick"], all_of_it["oracle/quick"]
    assert one["instructions"] == pytest.approx(other["instructions"], rel=0.001)
    assert one["time_ps"] == pytest.approx(other["time_ps"], rel=0.02)


@needs_qemu
def test_a_recording_of_windows_is_sampled_wherever_it_is_used(
    tierscope: Runner, tmp_path: Path, loops: str
) -> None:
    updates = (loops, "updates", "1000000")
    whole = ts.record(updates, tmp_path / "whole.tst")
    made = tierscope("record", "-o", "windows.tst", "--sample", "10k/100k", "--", *updates)
    assert made.returncode == 0, made.stderr
    assert " accesses, " in made.stderr
    assert " windows of a program of " in made.stderr
    # The worst case: between windows most random accesses are to lines of their own.
    assert (tmp_path / "windows.tst").stat().st_size < whole.file_bytes * 0.6
    said = json.loads(tierscope("trace", "info", "windows.tst", "--json").stdout)["recording"]
    skipped = said["skipped"]
    accesses = said["loads"] + said["stores"]
    in_all = accesses + skipped["loads"] + skipped["stores"]
    assert in_all == pytest.approx(whole.totals["loads"] + whole.totals["stores"], rel=0.001)
    assert skipped["windows"] == pytest.approx(in_all / 100_000 - 1, abs=1)
    assert accesses == pytest.approx(100_000 + skipped["windows"] * 10_000, abs=10_000)
    instructions = said["instructions"] + skipped["instructions"]
    assert instructions == pytest.approx(whole.totals["instructions"], rel=0.001)
    assert said["calls"] > whole.totals["calls"], "each is there, and what is skipped beside"
    info = tierscope("trace", "info", "windows.tst").stdout
    assert "Sample:                 10000 of each 100000 accesses: " in info
    shown = tierscope(
        "run", "-s", "oracle/quick", "-w", "trace:windows.tst", "-o", "kept", "--json"
    )
    assert shown.returncode == 0, shown.stderr
    kept = ts.load(tmp_path / "kept")
    assert kept.data["completeness"] == "sampled"
    assert kept.sampled
    assert kept.data["partial_reason"] is None
    assert kept.data["remarks"][0].startswith("The recording is a sample of its program: 10000 of ")
    assert kept.data["workload"]["parameters"]["sample"] == "10000/100000"
    assert kept["oracle/quick"]["instructions"] == said["instructions"]
    assert "The recording is a sample of its program" in tierscope("show", "kept").stdout
    told = kept["oracle/quick"]["recorded_windows"]
    assert "calls" not in kept["oracle/quick"], "in one others may be warmed"
    assert told is not None
    assert told["windows"] == pytest.approx(skipped["windows"], abs=1)
    assert told["program_instructions"] == instructions
    assert told["half_widths"]["thread_time"] is not None
    assert told["first_halves"] is not None
    assert "whole windows" in kept.report(width=200)
    assert "Thread time of the whole program" in kept.report(width=200)
    assert told["mean_latency_ns"] is not None
    mean = next(cells for label, cells in table.rows(kept.data) if label == "Access latency, mean")
    whole_mean = fmt.nanoseconds(told["mean_latency_ns"])
    assert mean["oracle/quick"].startswith(f"{whole_mean} ±"), "not that of the windows"
    both = ts.compare(["oracle/quick", "storage/quick"], f"trace:{tmp_path / 'windows.tst'}")
    of_program = [both[name]["recorded_windows"] for name in ("storage/quick", "oracle/quick")]
    slow, fast = [one["thread_time_s"] for one in of_program if one is not None]
    assert slow is not None
    assert fast is not None
    assert both["storage/quick"]["slowdown"] == pytest.approx(slow / fast)
    for again in (
        lambda: ts.run("oracle/quick", f"trace:{tmp_path / 'windows.tst'}", sample=True),
        lambda: ts.crash("hams-le/quick", f"trace:{tmp_path / 'windows.tst'}", points=1),
    ):
        with pytest.raises(ts.TierscopeError, match="the recording is"):
            again()
    complete = ts.run("oracle/quick", f"trace:{tmp_path / 'whole.tst'}")["oracle/quick"]
    assert complete["recorded_windows"] is None
    times = complete["time_breakdown_ns"]
    elsewhere = ("file_lock", "blocked", "idle")
    waited_ns = sum(ns for owner, ns in times.items() if owner not in elsewhere)
    estimate, half = told["thread_time_s"], told["half_widths"]["thread_time"]
    assert estimate is not None
    # The program is alike from its beginning to its end, but for its start, which is there whole.
    assert abs(estimate / (waited_ns * 1e-9) - 1) < max(1.5 * half, 0.02)
    short = ts.record(["true"], tmp_path / "short.tst", sample="1M/100M")
    assert short.totals["skipped"]["windows"] == short.totals["skipped"]["loads"] == 0
    assert any("is recorded whole" in notice for notice in short.notices)
    replayed = ts.run("oracle/quick", f"trace:{tmp_path / 'short.tst'}")
    assert not replayed.sampled
    assert replayed["oracle/quick"]["recorded_windows"] is None
    accesses = whole.totals["loads"] + whole.totals["stores"]
    period = accesses * 3 // 4
    nothing = ts.record(updates, tmp_path / "none.tst", sample=f"1000/{period}")
    assert nothing.totals["skipped"]["windows"] == 0
    assert any("no window began" in notice for notice in nothing.notices)


@pytest.fixture(scope="session")
def windows(tmp_path_factory: pytest.TempPathFactory, loops: str) -> Path:
    """A recording of windows."""
    path = tmp_path_factory.mktemp("windows") / "windows.tst"
    ts.record((loops, "updates", "500000"), path, sample="10k/100k")
    return path


@needs_qemu
def test_a_region_of_a_recording_of_windows_promises_no_estimate(windows: Path) -> None:
    pair = ["oracle/quick", "storage/quick"]
    region = ts.compare(pair, f"trace:{windows}", skip="110k")
    (remark, *_) = region.data["remarks"]
    assert "where --skip and --limit count what is there. Nothing is extrapolated" in remark
    assert "±" not in remark
    assert region.sampled
    for system in region.data["systems"].values():
        assert system["recorded_windows"] is None
        assert system["slowdown"] is None, "times of windows are no times of programs"
    assert "±" not in region.report(width=200)
    alone = [ts.run(one, f"trace:{windows}", skip="110k") for one in pair]
    together = Comparison({"a": alone[0], "b": alone[1]}).together()
    assert all(system["slowdown"] is None for system in together["systems"].values())


@needs_qemu
def test_a_limited_replay_of_windows_tells_of_the_program_so_far(windows: Path) -> None:
    part = ts.run("oracle/quick", f"trace:{windows}", limit="150k")
    told = part["oracle/quick"]["recorded_windows"]
    whole = ts.run("oracle/quick", f"trace:{windows}")["oracle/quick"]["recorded_windows"]
    assert told is not None
    assert whole is not None
    assert told["program_instructions"] < whole["program_instructions"] * 0.8
    (remark, *_) = part.data["remarks"]
    assert "what is told of the whole program is extrapolated, as far as the run came" in remark
    report = part.report(width=200)
    assert "Thread time of the program so far" in report
    assert "estimates of the program until the run ended" in report
    assert "whole program:" not in report


@needs_qemu
def test_what_windows_leave_out_is_told_wherever_requests_are_made_of_them(
    tierscope: Runner, tmp_path: Path, windows: Path
) -> None:
    info = tierscope("trace", "info", str(windows)).stdout
    assert "Left out:               what lies between windows\n" in info
    assert "Left out:               nothing" not in info
    warning = "What lies between windows is not among these requests."
    assert warning in " ".join(info.split())
    told = json.loads(tierscope("trace", "info", str(windows), "--json").stdout)
    assert warning in told["remarks"][0]
    made = tierscope("convert", str(windows), "ramulator:x.trc")
    assert made.returncode == 0, made.stderr
    told = [line for line in made.stderr.splitlines() if "is a sample of its program" in line]
    assert [line.endswith(warning) for line in told] == [True]
    done = ts.convert(str(windows), f"ramulator:{tmp_path / 'y.trc'}", limit=1000)
    assert any(notice.endswith(warning) for notice in done.notices)


@needs_qemu
def test_advice_on_windows_is_of_the_whole_program(
    tierscope: Runner, tmp_path: Path, windows: Path
) -> None:
    machines = ("-s", "storage/quick", "--dram", "16MiB")
    made = tierscope("advise", *machines, "-w", f"trace:{windows}", "--json=advice.json")
    assert made.returncode == 0, made.stderr
    assert "The workload is a recording of windows: slowdowns are of the whole" in " ".join(
        made.stdout.split()
    )
    advice = json.loads((tmp_path / "advice.json").read_text(encoding="utf-8"))
    assert advice["of_windows"]
    assert "What is recorded runs once: nothing is said of how sure" in " ".join(
        made.stdout.split()
    )
    assert "--seeds" not in made.stdout
    small = ts.system("storage/quick").replace(dram_capacity="16MiB", name="small")
    both = ts.compare([small, advice["reference"]], f"trace:{windows}")
    (candidate,) = advice["candidates"]
    assert candidate["slowdown"] == pytest.approx(both["small"]["slowdown"], rel=1e-6)


@needs_qemu
def test_a_sweep_of_windows_tells_of_the_whole_program(
    tierscope: Runner, tmp_path: Path, windows: Path
) -> None:
    study = (
        f'name = "w"\nsystems = ["storage/quick"]\nworkloads = ["trace:{windows}"]\n'
        '[parameters]\n"storage.dram_capacity" = ["16MiB", "64MiB"]\n'
    )
    (tmp_path / "study.toml").write_text(study, encoding="utf-8")
    made = tierscope("sweep", "study.toml", "-o", "out")
    assert made.returncode == 0, made.stderr
    done = ts.load_sweep(tmp_path / "out")
    told = done.result(0)["storage/quick"]["recorded_windows"]
    assert told is not None
    half = told["half_widths"]["thread_time"]
    assert told["thread_time_s"] is not None
    assert half is not None
    whole = f"{fmt.seconds(told['thread_time_s'])} ± {fmt.percent(half)}"
    note = "thread time and latency are estimates of the whole program; all else is of the windows"
    wide = Console(width=200, file=io.StringIO())
    wide.print(show.render(done, wide))
    for text in (wide.file.getvalue(), write_and_read(done, tmp_path)):  # type: ignore[attr-defined]
        assert whole in text
        assert note in text
    page = write_and_read(done, tmp_path)
    assert "thread time of the program" in page
    assert "execution time, of windows" in page
    plot = done.plot_lines()
    assert plot.axes[0].get_ylabel() == "thread time of the program"
    assert "recordings of windows" in plot.get_suptitle()


@needs_qemu
def test_what_is_of_windows_alone_says_so(tmp_path: Path, windows: Path) -> None:
    found = ts.why(["storage/quick"], f"trace:{windows}", points=1)
    (told, *_) = why_lines(found.reasons[0])
    assert told.startswith("Why storage/quick, of the recorded windows and calls alone: ")
    assert found.to_dict()[0]["of_windows"]
    assert "; of the recorded windows alone" in write_and_read(found.result, tmp_path)
    for plot in (found.result.plot_breakdown(), found.result.plot_latency()):
        assert plot.get_suptitle().endswith(", of its windows alone (sampled)")


@needs_qemu
def test_what_precedes_the_damage_is_replayed_wherever_that_is_allowed(
    tierscope: Runner, tmp_path: Path, loops: str
) -> None:
    ts.record((loops, "updates", "300000"), tmp_path / "whole.tst")
    whole = (tmp_path / "whole.tst").read_bytes()
    (tmp_path / "cut.tst").write_bytes(whole[: len(whole) * 3 // 4])
    study = 'systems = ["oracle/quick"]\nworkloads = ["trace:cut.tst"]\n'
    (tmp_path / "study.toml").write_text(study, encoding="utf-8")
    allowed = f"{study}allow_truncated = true\n"
    (tmp_path / "allowed.toml").write_text(allowed, encoding="utf-8")
    advise = ("advise", "-s", "storage/quick", "--dram", "16MiB", "-w", "trace:cut.tst")
    crash = ("crash", "hams-le/quick", "-w", "trace:cut.tst", "--points", "2")
    for refused in (advise, crash):
        told = tierscope(*refused)
        assert told.returncode == 125
        assert "--allow-truncated replays what precedes it" in told.stderr
        done = tierscope(*refused, "--allow-truncated")
        assert done.returncode == 0, done.stderr
    for command in ("check", "sweep"):
        told = tierscope(command, "study.toml")
        assert told.returncode == 125
        assert "allow_truncated = true replays what precedes it" in told.stderr
        assert "--allow-truncated" not in told.stderr
        done = tierscope(command, "allowed.toml")
        assert done.returncode == 0, done.stderr


def write_and_read(what: ts.Result | ts.Sweep, directory: Path) -> str:
    """The page of a result or a sweep."""
    ts.write_report(what, directory / "page.html")
    return (directory / "page.html").read_text(encoding="utf-8")


@needs_qemu
def test_a_recording_of_windows_is_not_sampled_again_whatever_asks(
    tierscope: Runner, tmp_path: Path, windows: Path
) -> None:
    why = "the recording is a sample already, of windows of its program"
    work = ("-w", f"trace:{windows}")
    for more in (("--sample",), ("--precision", "3%"), ("--sample", "--dry-run")):
        refused = tierscope("run", "-s", "oracle/quick", *work, *more)
        assert refused.returncode == 125
        assert f"error[usage]: {why}" in refused.stderr
        assert "leave the sampling of the run out" in refused.stderr
    study = f'systems = ["oracle/quick"]\nworkloads = ["trace:{windows}"]\nsample = true\n'
    (tmp_path / "study.toml").write_text(study, encoding="utf-8")
    for command in (("check",), ("sweep",), ("sweep", "--dry-run")):
        refused = tierscope(*command, "study.toml")
        assert refused.returncode == 125, command
        assert why in refused.stderr
        assert "leave the sampling of the run out" in refused.stderr
        assert "study.toml:2:" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.toml"]


@needs_qemu
def test_python_records_with_sizes_and_hears_of_the_growth(tmp_path: Path, loops: str) -> None:
    heard: list[ts.Growth] = []
    path = tmp_path / "app.tst"
    many = (loops, "updates", "1000000000")
    kept = ts.record(many, path, max_size=32 << 20, filter_l1="512B", watch=heard.append)
    assert kept.full
    assert kept.exit_status is None, "tierscope ended the program"
    assert kept.reasons == ["the largest size of 32MiB was reached"]
    assert int(kept.totals["left_out_stores"]) > 0
    assert heard
    assert heard[-1].accesses > 0
    assert 0 < heard[-1].file_bytes <= 32 << 20
    assert heard[-1].elapsed_s > 0


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"max_size": 1000}, "the largest size is 1000B, and a recording takes 1MiB"),
        ({"max_size": -1}, "the largest size is -1"),
        ({"filter_l1": 1 << 64}, "the filter's size is 18446744073709551616"),
        ({"max_size": "2 apples"}, "the largest size is `2 apples`: "),
        ({"filter_l1": "32"}, "the filter's size is `32`: a size needs its unit"),
        ({"filter_l1": "1000B"}, "a multiple of 512 B, at most 1 MiB"),
        ({"filter_l1": 0}, "a multiple of 512 B, at most 1 MiB"),
        ({"max_size": 2.5}, "the largest size is 2.5 (float)"),
    ],
)
def test_sizes_that_are_none_are_refused(
    tmp_path: Path, sizes: dict[str, int | str], message: str
) -> None:
    with pytest.raises(ts.TierscopeError) as caught:
        ts.record(["true"], tmp_path / "app.tst", **sizes)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing has begun"


def _growing(mib_per_s: float, until_s: float) -> list[ts.Growth]:
    seconds = [tenths / 5 for tenths in range(1, int(5 * until_s) + 1)]
    return [
        ts.Growth(accesses=int(at * 5e7), file_bytes=int(at * mib_per_s * (1 << 20)), elapsed_s=at)
        for at in seconds
    ]


def _lines(
    capsys: pytest.CaptureFixture[str], growths: list[ts.Growth], *, quiet: bool, may_grow: bool
) -> list[str]:
    lines = GrowthLines(Path("app.tst"), quiet=quiet, may_grow=may_grow)
    for growth in growths:
        lines(growth)
    return capsys.readouterr().err.splitlines()


def test_growth_is_told_after_five_seconds_and_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=80 << 30))
    assert _lines(capsys, _growing(20, 4.8), quiet=False, may_grow=True) == []
    lines = _lines(capsys, _growing(20, 30), quiet=False, may_grow=True)
    assert lines[0] == (
        "tierscope: 5 s: 250 M accesses, 100 MiB, 0.419 bytes an access; 1.17 GiB a minute; the "
        "disk has room for 68 min"
    )
    assert [line.split()[1] for line in lines] == ["5", "8", "11", "17", "26"]
    assert _lines(capsys, _growing(20, 30), quiet=True, may_grow=True) == []
    (line, *_) = _lines(capsys, _growing(0, 6), quiet=False, may_grow=True)
    assert line.endswith("; it does not grow now")


def test_a_disk_that_is_soon_full_is_told_of_once_even_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10 << 30))
    (line,) = _lines(capsys, _growing(20, 30), quiet=True, may_grow=True)
    assert line == (
        "tierscope: the disk of app.tst is full in 9 min at this rate; --max-size ends a recording "
        "in time, --filter-l1 32KiB makes it smaller"
    )
    bounded = _lines(capsys, _growing(20, 30), quiet=True, may_grow=False)
    assert bounded == [], "it ends before"
