"""Sweeps: nothing is lost or done twice, and equal studies give equal tables."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import tierscope as ts
from conftest import Runner
from tierscope import _interrupts
from tierscope.sweeps import estimate
from tierscope.sweeps.points import points
from tierscope.sweeps.show import closing_lines

STUDY = """
name = "two machines"
systems = ["hybrid/quick", "storage/quick"]
workloads = ["gups"]
repetitions = 2

[set]
"workload.updates" = 400

[parameters.dram]
paths = ["hybrid.cache.capacity", "storage.dram_capacity"]
values = ["16MiB", "64MiB"]

[parameters]
"workload.random" = [0.1, 0.5, 1.0]
"""
POINTS = 2 * 2 * 2 * 3
OTHERWISE = ("sampled", "partial", "failed", "missing")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The file of a small study."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def started(study: Path, directory: Path) -> subprocess.Popen[bytes]:
    """A sweep of the command line, under way; what it complains of is beside its directory."""
    with directory.with_suffix(".stderr").open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "tierscope", "sweep", str(study), "-o", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )


def kept(directory: Path) -> dict[str, tuple[int, int]]:
    """Each point that there is, with what tells whether its file was written again."""
    files = (directory / "points").glob("[0-9a-f]*.json")
    stats = {path.name: path.stat() for path in files}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


def test_a_sweep_killed_at_twenty_random_moments_gives_the_same_table(
    study: Path, tmp_path: Path
) -> None:
    begun = time.monotonic()
    whole = started(study, tmp_path / "whole")
    assert whole.wait(300) == 0
    spent_s = time.monotonic() - begun
    expected = (tmp_path / "whole" / "sweep.parquet").read_bytes()
    source, kills, finished = random.Random(1), 0, 0
    while kills < 20:
        directory = tmp_path / f"killed-{finished}"
        while True:
            before = kept(directory)
            run = started(study, directory)
            try:
                status = run.wait(source.uniform(0.2, 1.2) * spent_s)
            except subprocess.TimeoutExpired:
                os.kill(run.pid, signal.SIGKILL)
                run.wait()
                kills += 1
                status = None
            after = kept(directory)
            assert {name: after[name] for name in before} == before, "nothing is done twice"
            if status is not None:
                assert status == 0, directory.with_suffix(".stderr").read_text()
                break
        finished += 1
        assert len(kept(directory)) == POINTS
        assert (directory / "sweep.parquet").read_bytes() == expected
        hidden = [path.name for path in directory.rglob(".*") if path.name != ".lock"]
        assert hidden == [], "nothing half written stays"


@pytest.mark.parametrize(
    "held",
    [
        ["points"],
        ["machines", "points"],
        [".lock", "machines", "points"],
        [".lock", ".study.toml-a1_b2c3d", "machines", "points"],
        [".lock", "machines", "points", "recordings", "study.toml"],
        [".lock", ".sweep.json-a1_b2c3d", "machines", "points", "study.toml"],
        [".lock", ".sweep.json-a1_b2c3d", "machines", "study.toml"],
    ],
    ids=" ".join,
)
def test_a_sweep_killed_before_its_plan_was_whole_is_gone_on_with(
    held: list[str], study: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "killed"
    for name in held:
        path = directory / name
        if "." in name:
            path.parent.mkdir(exist_ok=True)
            path.write_text("half")
        else:
            path.mkdir(parents=True)
    assert ts.sweep(study, directory).complete
    assert list(directory.glob(".*-*")) == []


@pytest.mark.parametrize(
    "held",
    [
        ["thesis.tex"],
        ["study.toml"],
        [".study.toml-a1_b2c3d"],
        [".lock", "machines", ".thesis.tex-a1_b2c3d"],
    ],
    ids=" ".join,
)
def test_a_directory_of_something_else_is_left_alone(
    held: list[str], study: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "mine"
    directory.mkdir()
    for name in held:
        (directory / name).write_text("years of work")
    with pytest.raises(ts.TierscopeError) as raised:
        ts.sweep(study, directory)
    assert raised.value.code == "foreign-directory"
    assert {path.name for path in directory.iterdir()} == set(held)


def test_the_table_tells_what_each_point_was(study: Path, tmp_path: Path) -> None:
    heard: list[ts.SweepProgress] = []
    found = ts.sweep(study, tmp_path / "out", watch=heard.append)
    assert [one.done for one in heard] == list(range(POINTS + 1))
    assert found.complete
    assert {state for state, number in found.counts().items() if number} == {"complete"}
    assert found.completeness == "complete"
    frame = found.table()
    assert frame.height == POINTS
    assert frame["status"].unique().to_list() == ["complete"]
    assert set(frame["dram_bytes"].to_list()) == {16 << 20, 64 << 20}
    assert frame["version"].unique().to_list() == [ts.__version__]
    assert frame.equals(pl.read_parquet(tmp_path / "out" / "sweep.parquet"))
    for row in frame.head(3).iter_rows(named=True):
        work = ts.workload("gups", seed=row["seed"], updates=400, random=row["workload.random"])
        (tmp_path / "machine.toml").write_text(row["machine"])
        alone = ts.run(ts.system(tmp_path / "machine.toml"), work)
        assert alone[row["system"]]["time_s"] == row["time_s"]
        one = found.result(row["point"])
        assert one[row["system"]]["latency_ns"] == alone[row["system"]]["latency_ns"]
        assert one.intervals.equals(alone.intervals)


def test_points_that_are_equal_in_all_that_matters_run_once(tmp_path: Path) -> None:
    study = ts.study(
        ["hybrid/quick", "oracle/quick"],
        [ts.workload("gups", updates=200)],
        {"hybrid.cache.ways": [1, 4, 16]},
    )
    found = ts.sweep(study, tmp_path / "out")
    assert len(found) == 6
    assert len(kept(tmp_path / "out")) == 4, "three hybrids, and the oracle once"
    frame = found.table().filter(pl.col("system") == "oracle/quick")
    assert frame["time_s"].n_unique() == 1
    assert frame["hybrid.cache.ways"].to_list() == [1, 4, 16]


def test_what_has_no_effect_on_a_machine_runs_nothing_again(tmp_path: Path) -> None:
    """Of an extended buffer cache without capacity nothing is read; each row says its machine."""
    study = ts.study(
        ["buffer-cache/quick"],
        [ts.workload("gups", updates=200)],
        {
            "storage.buffer_cache.read_slowdown": [1.0, 400.0],
            "storage.dram_capacity": ["16MiB", "24MiB"],
        },
        set={"storage.buffer_cache.capacity": "0B"},
    )
    found = ts.sweep(study, tmp_path / "out")
    assert len(found) == 4
    assert len(kept(tmp_path / "out")) == 2, "one a size of DRAM"
    column = found.table()["storage.buffer_cache.read_slowdown"]
    assert column.to_list() == [1.0, 1.0, 400.0, 400.0]


def test_a_study_that_grows_runs_what_is_new_only(study: Path, tmp_path: Path) -> None:
    ts.sweep(study, tmp_path / "out")
    before = kept(tmp_path / "out")
    study.write_text(STUDY.replace("[0.1, 0.5, 1.0]", "[0.1, 0.5, 0.75, 1.0]"))
    found = ts.sweep(study, tmp_path / "out")
    after = kept(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert len(after) == POINTS * 4 // 3 == len(found)


def test_a_point_that_fails_is_recorded_and_told(tierscope: Runner, tmp_path: Path) -> None:
    text = STUDY.replace('"workload.updates" = 400', "").replace(
        "[parameters]", '[parameters]\n"workload.updates" = [50, 400]'
    )
    (tmp_path / "study.toml").write_text(f'skip = "300"\n{text}')
    done = tierscope("sweep", "study.toml")
    assert done.returncode == 125, done.stderr
    assert f"Partial: of {2 * POINTS} points {POINTS} complete, {POINTS} failed." in done.stdout
    assert "after 300 accesses, and the workload has about 100" in " ".join(done.stdout.split())
    before = kept(tmp_path / "study")
    again = tierscope("sweep", "study.toml")
    assert again.returncode == 125
    assert kept(tmp_path / "study") == before, "failures are kept, too"
    assert tierscope("sweep", "study.toml", "--retry-failed").returncode == 125
    after = kept(tmp_path / "study")
    assert sum(after[name] != before[name] for name in before) == POINTS
    frame = ts.load_sweep(tmp_path / "study").table()
    failed = frame.filter(pl.col("status") == "failed")
    assert failed["time_s"].null_count() == failed.height == POINTS


def test_a_request_to_end_that_waits_breaks_off_no_point(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_interrupts, "_held_from", len(_interrupts.received))
    monkeypatch.setattr(_interrupts, "received", [*_interrupts.received, signal.SIGTERM])
    done = ts.sweep(study, tmp_path / "out", workers=2)
    assert done.counts() == {"complete": POINTS, **dict.fromkeys(OTHERWISE, 0)}
    with pytest.raises(KeyboardInterrupt):
        _interrupts.release()


def test_an_interrupt_keeps_what_there_is(tmp_path: Path) -> None:
    text = STUDY.replace("400", "4000")
    (tmp_path / "study.toml").write_text(text)
    run = started(tmp_path / "study.toml", tmp_path / "out")
    while len(kept(tmp_path / "out")) < 2:
        assert run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    assert run.wait(300) == 130
    found = ts.load_sweep(tmp_path / "out")
    counts = found.counts()
    assert 2 <= counts["complete"] < POINTS
    assert counts["complete"] + counts["missing"] == POINTS
    frame = pl.read_parquet(tmp_path / "out" / "sweep.parquet")
    assert frame["status"].value_counts().height == 2
    assert not found.complete


def test_a_damaged_point_runs_again(study: Path, tmp_path: Path) -> None:
    expected = ts.sweep(study, tmp_path / "out").table()
    first, second, *_ = sorted((tmp_path / "out" / "points").iterdir())
    first.write_text("{")
    second.write_text("{}")
    assert ts.load_sweep(tmp_path / "out").counts()["missing"] == 2
    assert ts.sweep(study, tmp_path / "out").table().equals(expected)


def test_a_sweep_of_samples_says_so(study: Path, tmp_path: Path) -> None:
    ts.sweep(study, tmp_path / "out")
    for path in (tmp_path / "out" / "points").iterdir():
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "status": "sampled"}))
    found = ts.load_sweep(tmp_path / "out")
    assert (found.complete, found.completeness) == (False, "sampled")
    assert found.counts()["sampled"] == POINTS


def test_two_sweeps_do_not_share_a_directory(study: Path, tmp_path: Path) -> None:
    def nested(progress: ts.SweepProgress) -> None:
        if progress.done == 1:
            with pytest.raises(ts.TierscopeError, match="another sweep is under way") as raised:
                ts.sweep(study, tmp_path / "out")
            assert raised.value.code == "in-use"

    assert ts.sweep(study, tmp_path / "out", watch=nested).complete


def test_show_and_json_tell_a_sweep(study: Path, tierscope: Runner) -> None:
    done = tierscope("sweep", str(study), "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["completeness"] == "complete"
    assert len(data["points"]) == POINTS
    assert all("machine" not in one for one in data["points"])
    shown = tierscope("show", "study")
    assert shown.returncode == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert f"Complete: all {POINTS} points were simulated wholly." in shown.stdout
    assert shown.stdout.count("hybrid/quick") == POINTS // 4, "seeds are together"
    plain = tierscope("show", "study", PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert plain.stdout.isascii()
    assert "?" not in plain.stdout
    assert json.loads(tierscope("show", "study", "--json").stdout) == data
    refused = tierscope("show", "study", "--by", "area")
    assert refused.returncode == 125
    assert "--by is for one run" in refused.stderr


def test_a_dry_run_lists_points_and_runs_none(study: Path, tierscope: Runner) -> None:
    done = tierscope("sweep", str(study), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"Would run: {POINTS} of {POINTS} distinct points; 0 are there already" in done.stdout
    assert "hybrid/quick, gups, dram = 16MiB, workload.random = 0.1, seed 0" in done.stdout
    assert "Wall time: " in done.stdout
    assert not (study.parent / "study").exists()
    data = json.loads(tierscope("sweep", str(study), "--dry-run", "--json").stdout)
    assert len(data["points"]) == POINTS
    assert data["wall_s"]["most"] >= data["wall_s"]["least"] > 0


def test_a_recording_is_known_by_what_it_holds(tmp_path: Path) -> None:
    recording = Path(__file__).parents[2] / "examples" / "data" / "sqlite.tst"
    copy = tmp_path / "app.tst"
    copy.write_bytes(recording.read_bytes())
    (tmp_path / "study.toml").write_text(
        'systems = ["oracle/quick"]\nworkloads = ["trace:app.tst"]\nlimit = 1000\n'
    )
    found = ts.sweep(tmp_path / "study.toml", tmp_path / "out")
    assert found.counts()["partial"] == 1, "a limit ends it early"
    assert found.table()["accesses"].to_list() == [1000]
    before = kept(tmp_path / "out")
    copy.rename(tmp_path / "moved.tst")
    study = (tmp_path / "study.toml").read_text().replace("app.tst", "moved.tst")
    (tmp_path / "study.toml").write_text(study)
    ts.sweep(tmp_path / "study.toml", tmp_path / "out")
    assert kept(tmp_path / "out") == before


def test_what_is_no_sweep_is_left_alone(study: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    for directory in (tmp_path / "mine", study):
        with pytest.raises(ts.TierscopeError, match=r"left alone|is a file"):
            ts.sweep(study, directory)
    with pytest.raises(ts.TierscopeError):
        ts.load_sweep(tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"on": "moon"}, "cannot run on `moon`"),
        ({"on": "dask://"}, "cannot run on `dask://`"),
        ({"workers": 0}, "the workers are 0"),
        ({"workers": 2, "on": "dask://localhost:1"}, "workers are for threads"),
        ({"watch": 3}, "the watcher is 3"),
    ],
)
def test_what_python_asks_wrongly_is_refused(
    asked: dict[str, object], told: str, study: Path, tmp_path: Path
) -> None:
    with pytest.raises(ts.TierscopeError, match=told):
        ts.sweep(study, tmp_path / "out", **asked)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "damage",
    [
        {"result": {}},
        {"status": "wonderful"},
        {"status": "failed", "error": {}},
        {"result": {"systems": 3}},
        {"intervals": None},
    ],
)
def test_a_point_that_cannot_be_read_is_missing_and_runs_again(
    study: Path, tmp_path: Path, damage: dict[str, object]
) -> None:
    whole = ts.sweep(study, tmp_path / "kept").table()
    path = next((tmp_path / "kept" / "points").glob("[0-9a-f]*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    assert ts.load_sweep(tmp_path / "kept").counts()["missing"] == 1
    assert ts.sweep(study, tmp_path / "kept").table().equals(whole)


def test_files_of_others_are_left_alone(study: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "study.toml").write_text("# mine")
    with pytest.raises(ts.TierscopeError, match="left alone"):
        ts.sweep(study, mine)
    assert [path.read_text() for path in mine.iterdir()] == ["# mine"]
    ts.sweep(study, tmp_path / "kept")
    others = [tmp_path / "kept" / ".gitignore", tmp_path / "kept" / "points" / ".keep"]
    half = tmp_path / "kept" / "points" / ".0123.json-abcd_012"
    for path in (*others, half):
        path.write_text("precious")
    ts.sweep(study, tmp_path / "kept")
    assert [path.exists() for path in (*others, half)] == [True, True, False]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("seed = " + "9" * 5000, "more digits than can be read"),
        ('workloads = ["trace:/dev/zero"]', "/dev/zero is no regular file"),
        (
            '[parameters.time_s]\npaths = ["workload.threads"]\nvalues = [1]',
            "a column of the table",
        ),
        (
            '[parameters]\n"workload.updates" = {from = 1, to = 1' + "0" * 400 + ", steps = 3}",
            "number",
        ),
        (
            '[parameters]\n"workload.random" = {from=0.1, to=1, steps=3, multiple_of=1e-320}',
            "no multiple of it",
        ),
        ("workloads = []", "there is no workload in it"),
        ('[parameters]\n"hybrid.cache.ways" = []', "there is no value in it"),
        (
            '[parameters."a\\nb"]\npaths = ["workload.threads"]\nvalues = [1]',
            "a name has no line breaks",
        ),
    ],
)
def test_what_no_study_can_mean_is_refused(tmp_path: Path, lines: str, said: str) -> None:
    works = "" if lines.startswith("workloads") else 'workloads = ["gups"]\n'
    path = tmp_path / "study.toml"
    path.write_text(f'systems = ["oracle/quick"]\n{works}{lines}\n')
    with pytest.raises(ts.TierscopeError) as refused:
        ts.sweep(path, tmp_path / "kept")
    assert said in str(refused.value)
    assert not (tmp_path / "kept").exists()


def test_points_can_be_sampled(tmp_path: Path) -> None:
    work = ts.workload("gups", updates=60_000, table="16MiB")
    small = {
        "hybrid.cache.capacity": "4MiB",
        "hybrid.prefetch_pages": "0",
        "processor.caches.L3.capacity": "320KiB",
        "store.read_latency": "10us",
    }
    study = ts.study(["hybrid/quick"], [work], set=small, precision="20%")
    table = ts.sweep(study, tmp_path / "out").table()
    assert table["status"].to_list() == ["sampled"]
    assert 0 < table["time_half_width"][0] <= 0.2


def test_points_warmed_without_times_are_as_run_alone(tmp_path: Path) -> None:
    work = ts.workload("gups", updates=3_000, table="48MiB", touched=True)
    latency = {"store.read_latency": ["1us", "25us"]}
    study = ts.study(["hybrid/quick"], [work], latency, skip=12_288, warming="untimed")
    table = ts.sweep(study, tmp_path / "out").table()
    for given, found in zip(["1us", "25us"], table["time_s"].to_list(), strict=True):
        machine = ts.system("hybrid/quick").replace(store=ts.Store(read_latency=given))
        alone = ts.run(machine, work, skip=12_288, warming="untimed")["hybrid/quick"]
        assert found == alone["time_s"]


@pytest.mark.parametrize(
    ("system", "region", "said"),
    [
        ("hybrid/quick", {}, "nothing comes before the region"),
        ("hybrid/quick", {"skip": "5ms"}, "only warming in detail takes any"),
        ("cxl-tiering/quick", {"skip": 100}, "cannot be warmed without times"),
    ],
)
def test_a_warming_that_cannot_be_is_told_with_its_place(
    system: str, region: dict[str, Any], said: str
) -> None:
    with pytest.raises(ts.SpecError, match=said) as caught:
        ts.sweep(ts.study([system], ["gups"], warming="untimed", **region), "nowhere")
    assert [problem.path for problem in caught.value.problems] == ["warming"]


def test_points_are_passed_over_without_times_where_they_prefetch(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'systems = ["hybrid/quick"]\nsample = true\nwarming = "untimed"\n'
        'workloads = [{name = "gups", parameters = {updates = 30000, table = "16MiB"}}]\n'
        '[set]\n"hybrid.cache.capacity" = "4MiB"\n"store.read_latency" = "10us"\n'
        '"processor.caches.L3.capacity" = "320KiB"\n'
        '[parameters]\n"hybrid.prefetch_pages" = [0, 4]\n'
    )
    kept = ts.sweep(path, tmp_path / "out")
    table = kept.table()
    assert table["status"].to_list() == ["sampled", "sampled"]
    assert table["sampling_warming"].to_list() == ["functional", "untimed"]
    assert any("were warmed without times" in line for line in closing_lines(kept))
    assert table["time_half_width"].is_not_null().all()


def test_a_sample_without_times_needs_a_machine_that_prefetches() -> None:
    study = ts.study(["storage/quick"], ["gups"], sample=True, warming="untimed")
    with pytest.raises(ts.SpecError, match="nothing comes before the region") as caught:
        ts.sweep(study, "nowhere")
    assert [problem.path for problem in caught.value.problems] == ["warming"]
    study = ts.study(["hybrid/quick"], ["gups"], sample=True)
    with pytest.raises(ts.SpecError, match="say --warming untimed") as caught:
        ts.sweep(study, "nowhere")
    assert [problem.path for problem in caught.value.problems] == ["sample"]


def test_a_machine_that_cannot_be_sampled_is_told_with_its_place() -> None:
    study = ts.study(["cxl-tiering/quick"], ["gups"], sample=True)
    with pytest.raises(ts.SpecError, match="cannot be sampled") as caught:
        ts.sweep(study, "nowhere")
    assert [problem.path for problem in caught.value.problems] == ["sample"]
    with pytest.raises(ts.SpecError, match="would be 700 %"):
        ts.study(["storage/quick"], ["gups"], precision=7.0)


def test_an_estimate_counts_a_shared_warm_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores whose latencies alone differ are warmed together; other ways of the cache are not."""
    told = {"wall_s": {"likely": 10.0}, "wall_before_region_s": 8.0, "wall_unknown": None}
    monkeypatch.setattr(estimate, "plan", lambda *_, **__: SimpleNamespace(data=told))
    likely = {}
    for path, values in (
        ("store.read_latency", ["1us", "2us", "3us", "4us"]),
        ("hybrid.cache.ways", [1, 2, 4, 8]),
    ):
        study = ts.study(
            ["hybrid/quick"],
            ["gups"],
            {"x": {"paths": [path], "values": values}},
            set={"hybrid.prefetch_pages": 0},
            skip=1000,
        )
        found = points(study)
        wall, unknown = estimate.wall([(study, found)], 1)
        assert wall is not None, unknown
        likely[path] = wall["likely"]
    assert likely == {"store.read_latency": 8.0 + 4 * 2.0, "hybrid.cache.ways": 40.0}


def test_as_many_points_are_tried_at_a_time_as_run_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = threading.Barrier(2)

    def plan(*_: object, **__: object) -> SimpleNamespace:
        together.wait(timeout=60)
        told = {"wall_s": {"likely": 10.0}, "wall_before_region_s": 0.0, "wall_unknown": None}
        return SimpleNamespace(data=told)

    monkeypatch.setattr(estimate, "plan", plan)
    study = ts.study(["oracle/quick", "hybrid/quick"], ["gups"])
    ended: list[None] = []
    wall, _ = estimate.wall([(study, points(study))], 2, lambda: ended.append(None))
    assert wall is not None
    assert (wall["likely"], len(ended)) == (10.0, 2)


def test_an_estimate_says_which_runs_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"wall_s": {"likely": 10.0}, "wall_before_region_s": 0.0, "wall_unknown": None}
    none = {"wall_s": None, "wall_before_region_s": 0.0, "wall_unknown": "it is long"}
    monkeypatch.setattr(
        estimate,
        "plan",
        lambda _, work, **__: SimpleNamespace(data=none if work.name == "mmap" else known),
    )
    study = ts.study(["oracle/quick", "hybrid/quick"], ["gups", "mmap"])
    wall, unknown = estimate.wall([(study, points(study))], 1)
    assert wall is not None
    assert wall["likely"] == 20.0
    assert unknown == "2 runs, such as mmap on oracle/quick: it is long"
    alone = ts.study(["oracle/quick"], ["mmap"])
    assert estimate.wall([(alone, points(alone))], 1) == (
        None,
        "mmap on oracle/quick: it is long",
    )
