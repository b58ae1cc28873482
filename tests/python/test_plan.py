"""`--dry-run`: what would run, how long, and with how much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu
from tierscope import _core, _plan, _trial
from tierscope.cli import progress

RECORDING = Path(__file__).parents[2] / "examples" / "data" / "sqlite.tst"


def planned(tierscope: Runner, *arguments: str) -> dict[str, object]:
    shown = tierscope("run", *arguments, "--dry-run", "--json")
    assert shown.returncode == 0, shown.stderr
    found: dict[str, object] = json.loads(shown.stdout)
    return found


def test_the_machines_that_it_prints_run(tierscope: Runner, tmp_path: Path) -> None:
    run = ("-s", "hybrid/quick", "-w", "gups", "--set", "hybrid.cache.ways=8")
    shown = tierscope("run", *run, "--dry-run", "-o", "kept")
    assert shown.returncode == 0, shown.stderr
    assert "# Would run: the workload gups, seed 0" in shown.stdout
    assert "# Wall time: " in shown.stdout
    assert "# Memory: " in shown.stdout
    machine, _, told = shown.stdout.rpartition("# ---")
    assert "[hybrid.cache]" in machine
    assert all(line.startswith("# ") for line in told.splitlines()[1:]), "it ends with estimates"
    assert "stands at the end" in shown.stdout.splitlines()[0]
    assert list(tmp_path.iterdir()) == [], "nothing is kept"
    (tmp_path / "mine.toml").write_text(shown.stdout, encoding="utf-8")
    assert ts.system(tmp_path / "mine.toml").to_dict()["hybrid"]["cache"]["ways"] == 8


def test_the_bounds_follow_from_accesses_and_the_speeds_of_the_trial() -> None:
    work = ts.workload("gups", updates=1_000_000_000, table="64MiB", random=0.2)
    assert isinstance(work, ts.Generated)
    data = _plan.plan([ts.system("oracle/quick")], work, runs=2).data
    wall, slowest = data["wall_s"], data["slowest_accesses_per_s"]
    assert data["accesses"] == 2_000_000_000
    assert 1e4 < slowest < 1e9
    assert wall["most"] == pytest.approx(2 * 3 * data["accesses"] / slowest)
    assert 0 < wall["least"] <= wall["most"] / 9, "three times either way"
    assert not wall["measured"]


def test_what_is_skipped_is_no_measure_of_what_is_simulated() -> None:
    work = ts.workload("gups", updates=1_000_000_000, table="64MiB", random=0.2)
    assert isinstance(work, ts.Generated)
    data = _plan.plan([ts.system("oracle/quick")], work, skip="500M", limit="500M").data
    wall, slowest = data["wall_s"], data["slowest_accesses_per_s"]
    assert data["wall_unknown"] is None, "the trial does not end in the warming"
    assert wall["most"] > 3 * 5e8 / slowest, "the region, and what comes before it"
    before_s = data["wall_before_region_s"]
    assert 0 < before_s < wall["likely"], "it is warmed, which is quicker than the region"
    ended = _plan.plan([ts.system("oracle/quick")], work, skip="500M", time_limit_s=1.0).data
    assert ended["wall_before_region_s"] <= ended["wall_s"]["likely"] <= 1.0
    assert 0 < wall["least"] <= wall["most"] / 9


def test_a_trial_gives_the_speeds_of_the_slowest_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.5, 1.0, 1.5, 2.0])
    monkeypatch.setattr("tierscope._trial.time.monotonic", lambda: next(now))
    trial = _trial.Trial()
    assert trial.pace() is None, "nothing was seen"
    for slow, fast in ((0, 100), (10, 300), (60, 500), (110, 700)):
        progress = [ts.Progress(slow, 0, 2 * slow), ts.Progress(fast, 0, fast)]
        trial(progress)
    # 110 accesses in 2 s; 100 in the last second.
    assert trial.pace() == (55.0, 100.0)
    assert trial.pace("time_ps") == (110.0, 200.0)
    assert trial.pace("instructions") is None, "none of them went on"


def test_what_other_work_takes_of_processors_is_no_part_of_what_a_run_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two threads that simulate for two seconds, and have one second of four."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    trial = _trial.Trial()
    wall, had = iter([0.0, 10.0, 12.0, 20.0]), iter([0.0, 5.0, 6.0, 9.0])
    clocks = SimpleNamespace(perf_counter=lambda: next(wall), process_time=lambda: next(had))
    monkeypatch.setattr("tierscope._trial.time", clocks)
    given = _trial._Given()
    with given.simulating(trial, 2):
        pass
    assert given.since() == 0.25, "what passes while nothing simulates does not count"
    monkeypatch.undo()
    begun = given.moment()
    assert given.since(begun) == 1.0, "nothing has simulated since then"


def test_what_a_run_does_itself_is_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four machines on two processors; then three that have ended, beside one that goes on."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    wall, had = iter([0.0, 0.0, 1.0, 3.0, 3.0]), iter([0.0, 0.0, 2.0, 4.0, 4.0])
    clocks = SimpleNamespace(
        perf_counter=lambda: next(wall), process_time=lambda: next(had), monotonic=lambda: 0.0
    )
    monkeypatch.setattr("tierscope._trial.time", clocks)
    given, trial = _trial._Given(), _trial.Trial()
    with given.simulating(trial, 4):
        assert trial.tell is not None
        trial.tell(1)
    assert given.since() == 1.0


def test_a_machine_that_has_ended_wants_no_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tierscope._trial.time", SimpleNamespace(monotonic=lambda: now[0]))
    trial = _trial.Trial()
    told: list[int] = []
    trial.tell = told.append
    for at in range(5):
        now[0] = at * 0.25
        trial([ts.Progress(at, at, at), ts.Progress(min(at, 1), 1, 1)])
    assert told == [2, 2, 2, 1, 1]


def test_of_calls_alone_what_passes_is_told_by_instructions() -> None:
    def seen(accesses: int, instructions: int) -> _trial.Trial:
        trial = _trial.Trial()
        trial._seen = [
            (float(at), [ts.Progress(at * accesses, at * instructions, at)]) for at in range(3)
        ]
        return trial

    detail = seen(0, 1000)
    assert _trial._passes("instructions", 1000.0, detail, seen(0, 8000)) == 8000.0
    assert _trial._passes("time_ps", 5.0, detail, seen(0, 8000)) == 40.0, "as many times as fast"
    assert _trial._passes("time_ps", 5.0, seen(100, 1000), seen(300, 8000)) == 15.0
    assert _trial._passes("accesses", 5.0, detail, seen(0, 0)) is None


def test_a_sampled_run_takes_its_units_in_detail_and_the_rest_as_warming_does() -> None:
    work = ts.workload("gups", updates=1_000_000_000, table="64MiB", random=0.2)
    assert isinstance(work, ts.Generated)
    machines = [ts.system("oracle/quick")]
    whole = _plan.plan(machines, work).data["wall_s"]
    sampled = _plan.plan(machines, work, sample=True).data["wall_s"]
    share = sampled["likely"] / whole["likely"]
    # One unit and a half in twenty is in detail: 0.075; the rest is two to eight times as fast.
    # They are tried one after the other, and the computer may be busier meanwhile.
    assert 0.02 < share < 0.8
    assert sampled["most"] / sampled["least"] >= 8.9, "three times either way"
    wanted = _plan.plan(machines, work, precision="3%").data["wall_s"]
    assert wanted["most"] / wanted["least"] >= 17.9, "a second run may have to measure more"


def test_a_workload_may_end_while_it_is_tried_how_fast_it_is_passed_over() -> None:
    """How many accesses it has is not known, and warming comes to its end within the trial."""
    work = ts.workload("gups", updates=3_000_000, table="64MiB", random=1.0)
    region = _trial.Region(None, "100M", False, None, 20)
    machines = [ts.system("oracle/quick")]
    found = _trial.outlook(machines, work, region, _trial.Known(), time_limit_s=None, runs=1)
    assert found.unknown is None
    assert found.wall_s is not None
    assert found.wall_s["likely"] > 0


def test_a_limit_in_simulated_time_is_as_long_as_time_goes_on_in_the_trial() -> None:
    work = ts.workload("gups", updates=1_000_000_000, table="64MiB", random=0.2)
    assert isinstance(work, ts.Generated)
    machines = [ts.system("oracle/quick")]
    short = _plan.plan(machines, work, limit="1s").data["wall_s"]
    long = _plan.plan(machines, work, limit="3s").data["wall_s"]
    assert 1.2 < long["likely"] / short["likely"] < 7.5, "three times, by trials of their own"
    ever = _plan.plan(machines, work, limit="100000s").data["wall_s"]
    whole = _plan.plan(machines, work).data["wall_s"]
    ratio = ever["likely"] / whole["likely"]
    assert 0.3 < ratio < 3, "the workload ends before"


def test_a_short_run_is_simply_tried(tierscope: Runner) -> None:
    run = ("-s", "oracle/quick", "-w", "gups", "--set", "workload.updates=100")
    shown = tierscope("run", *run, "--dry-run").stdout
    assert "the whole of it was run to see" in shown
    twice = planned(tierscope, *run, "--repeat", "2")
    assert twice["runs"] == 2
    limited = planned(tierscope, "-s", "oracle/quick", "-w", "gups", "--time-limit", "0.5")
    wall = limited["wall_s"]
    assert isinstance(wall, dict)
    assert wall["most"] <= 0.5


@needs_qemu
def test_of_a_program_nothing_runs_and_its_length_is_not_known(
    tierscope: Runner, tmp_path: Path
) -> None:
    shown = tierscope("run", "-s", "hybrid/quick", "--dry-run", "--", "touch", "it-ran")
    assert shown.returncode == 0, shown.stderr
    assert "# Would run: the program touch it-ran" in shown.stdout
    assert "# Wall time: not known: how long the program runs" in shown.stdout
    assert "for each GiB that the workload touches" in shown.stdout
    assert list(tmp_path.iterdir()) == []


def test_of_a_recording_the_accesses_are_known(tierscope: Runner) -> None:
    data = planned(tierscope, "-s", "oracle/quick", "-w", f"trace:{RECORDING}")
    assert isinstance(data["accesses"], int)
    assert data["accesses"] > 1000
    assert data["wall_s"] is not None
    limited = planned(tierscope, "-s", "oracle/quick", "-w", f"trace:{RECORDING}", "--limit", "5ms")
    wall = limited["wall_s"]
    assert isinstance(wall, dict), "simulated time goes on as in the trial"
    assert 0 < wall["least"] <= wall["likely"] <= wall["most"]


def test_scaled_machines_are_shown_as_they_would_run(tierscope: Runner) -> None:
    run = ("-s", "hybrid/quick", "-w", "gups", "--set", "workload.table=16MiB")
    whole = ("--set", "workload.touched=true", "--scale-to-footprint", "4", "--dry-run")
    shown = tierscope("run", *run, *whole).stdout
    assert 'capacity = "4MiB"' in shown
    assert "scaled to 1/4 of the workload's footprint of 16.0 MiB" in shown


@pytest.mark.parametrize("system", ["hybrid/quick", "storage/quick", "oracle/quick"])
def test_the_memory_that_a_run_takes_is_about_as_estimated(system: str) -> None:
    script = (
        "import re, pathlib, tierscope as ts\n"
        "status = pathlib.Path('/proc/self/status')\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1]) * 1024\n"
        f"name = {system!r}\n"
        "ts.run(name, ts.workload('gups', updates=100, table='1MiB'))\n"
        "before = peak()\n"
        "ts.run(name, ts.workload('gups', updates=100, table='512MiB', touched=True))\n"
        "print(peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    taken_bytes = int(done.stdout)
    work = ts.workload("gups", updates=100, table="512MiB", touched=True)
    assert isinstance(work, ts.Generated)
    bound = _plan.plan([ts.system(system)], work).data["memory"]["about_bytes"]
    slack_bytes = 8 << 20  # Of the allocator, and of what does not grow with the footprint.
    # Where the operating system pages, up to twice the estimate was measured.
    assert taken_bytes <= 2 * bound + slack_bytes, (taken_bytes, bound)
    assert taken_bytes >= bound / 8, "an estimate that is far off says nothing"


def test_of_a_memory_trace_the_trial_is_all_that_is_known(
    tierscope: Runner, tmp_path: Path
) -> None:
    lines = (f"{number * 7919 % 65536 * 64:#x} READ {number * 10}\n" for number in range(1000))
    (tmp_path / "short.trc").write_text("".join(lines), encoding="utf-8")
    run = ("run", "-s", "device/ddr4-2400", "--dry-run", "-w")
    shown = tierscope(*run, "dramsim3:short.trc")
    assert shown.returncode == 0, shown.stderr
    heads = ("# Would", "# Wall", "# Mem")
    told = [line for line in shown.stdout.splitlines() if line.startswith(heads)]
    assert told[0] == "# Would run: the trace short.trc, dramsim3"
    assert told[1].endswith("the whole of it was run to see")
    assert told[2] == (
        "# Memory: tierscope's own: neither the trace nor what is in the memory is held"
    )
    assert "program" not in shown.stdout


def test_a_memory_trace_that_the_trial_does_not_end_is_not_guessed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierscope._trial.PROBE_S", 0.3)
    file = tmp_path / "long.trc"
    text = "".join(f"{number * 7919 % 65536 * 64:#x} R\n" for number in range(65536))
    file.write_text(text * 60, encoding="utf-8")
    work = ts.workload(f"ramulator:{file}")
    planned = _plan.plan([ts.system("device/ddr4-2400")], work)
    (wall,) = (line for line in planned.lines() if line.startswith("Wall"))
    assert wall.startswith("Wall time: not known: the trial did not come to the end of the trace;")
    assert wall.endswith(" requests/s")
    bounded = _plan.plan([ts.system("device/ddr4-2400")], work, limit="3M").data
    assert bounded["wall_s"]["least"] == 0.3, "the trace may end before the limit"
    assert bounded["wall_s"]["most"] > 0.6
    assert not bounded["wall_s"]["measured"]


def test_what_is_skipped_and_the_limit_are_told_and_bound_the_time_of_detailed_warming() -> None:
    work = ts.workload("gups", updates=20_000_000)
    machines = [ts.system("hybrid/quick")]
    found = _plan.plan(machines, work, skip="10M", limit="1M", warming="detailed")
    assert found.data["wall_unknown"] is None
    assert found.data["wall_s"]["most"] > 1
    assert (found.data["skip"], found.data["limit"]) == ("10M", "1M")
    assert any(line.endswith("skip 10M, limit 1M") for line in found.lines())


@needs_qemu
def test_a_program_that_cannot_run_is_refused_as_a_run_would() -> None:
    machines = [ts.system("oracle/quick")]
    for work, code in (
        (ts.program("./nonexistent"), "no-program"),
        (ts.program("true", roi_start="no_such_function"), "bad-region"),
    ):
        with pytest.raises(ts.RunError) as raised:
            _plan.plan(machines, work)
        assert raised.value.code == code


def test_memory_that_is_written_first_for_days_is_told() -> None:
    """The trial ends before the region of interest begins."""
    work = ts.workload("chase", table="8GiB", steps=1000)
    planned = _plan.plan([ts.system("storage")], work)
    wall = planned.data["wall_s"]
    assert wall is not None
    assert wall["most"] > 9 * wall["least"] * 0.99
    assert wall["most"] > 10, "two million pages, each by a fault"
    limited = _plan.plan([ts.system("storage")], work, limit=100).data["wall_s"]
    assert limited is not None
    assert limited["most"] > 10, "a limit counts from the region's beginning"


def test_what_is_written_first_does_not_speak_for_the_region() -> None:
    """A trial does not come to it; a graph of 27 million nodes has some 600 M accesses."""
    work = ts.workload("rodinia/bfs", size="1GiB")
    data = _plan.plan([ts.system("storage")], work, limit="30M").data
    assert data["wall_unknown"] is None
    before_s, likely_s = data["wall_before_region_s"], data["wall_s"]["likely"]
    assert 0 <= before_s <= likely_s, "a quick computer does not see where it ends"
    assert 0 < likely_s < 300, "not all accesses at the speed of the first ones"


def test_a_workload_of_calls_alone_is_told_by_its_instructions() -> None:
    parameters: dict[str, Any] = dict.fromkeys(("read_block", "write_block"), "4KiB")
    work = ts.workload("postmark", files=2000, transactions=100_000, buffered=False, **parameters)
    for system in ("storage/quick", "oracle/quick"):
        data = _plan.plan([ts.system(system)], work).data
        assert data["wall_unknown"] is None, system
        assert data["wall_s"]["likely"] > 1


def test_a_piece_of_work_that_is_too_long_is_not_made_to_look_at(tierscope: Runner) -> None:
    sets = ("--set", "workload.scan=10000000", "--set", "workload.size=full")
    shown = tierscope("run", "-s", "oracle", "-w", "ptf", *sets, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    told = "Wall time: not known: how many accesses will be simulated is not known beforehand"
    assert told in shown.stdout


def test_of_a_trial_the_region_is_told_by_itself_and_time_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter([0.0, 1.0, 2.0, 3.0, 4.0, 9.0])
    monkeypatch.setattr("tierscope._trial.time.monotonic", lambda: next(now))
    trial = _trial.Trial()
    for accesses, time_ps in ((100, 1000), (300, 2000), (50, 3000), (90, 5000)):
        trial([ts.Progress(accesses, 4 * accesses, time_ps)])
    region = trial.of_region()
    assert (region.before_s, region.elapsed_s, region.lasts_s) == (2.0, 4.0, 2.0)
    assert region.pace() == (40.0, 45.0), "90 in two seconds, 40 in the last"
    assert region.pace("time_ps") == (1500.0, 2000.0), "it does not begin anew"


def test_of_pages_used_first_there_are_no_more_than_there_are() -> None:
    def share(system: str, mapped_bytes: int, footprint_bytes: int) -> float:
        region = _trial.Region(None, "1M", False, None, 20)
        work = ts.workload("sqlite/rnd-select")
        known = _trial.Known(10**9, None, None, mapped_bytes)
        tries = _trial._Tries([ts.system(system)], work, region, known)
        one = {"counters": {"footprint_bytes": footprint_bytes}, "accesses": 1000}
        tried = SimpleNamespace(data={"systems": {system: one}})
        return tries._cold(1e6, cast(Any, tried))

    # 4 KB in a thousand accesses are 4 MB in a million.
    assert share("oracle", 1 << 40, 4000) == pytest.approx(1.0, abs=1e-5)
    assert share("oracle", 400_000, 4000) == pytest.approx(0.1, rel=1e-3)
    assert share("oracle", 4_000_000, 4000) == pytest.approx(0.632, abs=1e-3)
    # Memory that does not hold them meets them again: mmap has 8 GiB.
    assert share("mmap", 16 << 30, 400_000_000) == pytest.approx(0.5)


def test_the_lengths_of_sampling_that_a_plan_goes_by_are_those_of_the_run() -> None:
    system = ts.system("storage/quick")
    work = ts.workload("gups", updates=400_000, table="512MiB", random=1.0)
    found = ts.run(system, work, sample=True)["storage/quick"]["sampling"]
    assert found is not None
    (plan,) = _core.sampling_plans(json.dumps([system.to_dict()]))
    assert plan == (found["unit_ps"], found["refill_ps"], found["period_ps"])


def test_a_denser_run_that_begins_anew_is_not_told_as_one_that_stands_still(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Quick(progress.WithOutlook):
        SAMPLED_S = 0.0

    shown = progress.display([], ts.workload("gups"), quiet=True)
    with Quick(shown, 1_000_000_000, sampled=True) as watch:
        for done in (900_000_000, 1000, 999_999_999):
            watch([ts.Progress(done, done, done)])
    assert capsys.readouterr().err == ""


def test_a_run_that_will_take_long_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    class Quick(progress.WithOutlook):
        LOOK_S = SAMPLED_S = 0.0

    for accesses, told in ((1_000_000_000_000, True), (2000, False), (None, False)):
        for sampled in (False, True):
            shown = progress.display([], ts.workload("gups"), quiet=True)
            with Quick(shown, accesses, sampled=sampled) as watch:
                for done in (1000, 1001):
                    watch([ts.Progress(done, done, done)])
            said = capsys.readouterr().err
            assert ("of 1.00 T accesses takes about" in said) == told
            assert ("--sample" in said) == (told and not sampled), "it is not told to who has it"
            assert said.count("\n") == told
            assert ("of the latest" in said) == (told and sampled), "its start is all in detail"
