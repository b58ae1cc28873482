"""Points that one warm-up serves share it, programs are recorded once: and no figure changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu
from tierscope._workload import Program
from tierscope.sweeps import execute, recordings
from tierscope.sweeps.points import points
from tierscope.sweeps.study import read

STUDY = """
systems = ["hybrid/quick", "storage/quick", "oracle/quick"]
workloads = ["gups"]
skip = "2k"

[set]
"workload.updates" = 3000
"hybrid.prefetch_pages" = 0

[parameters]
"store.read_latency" = ["1us", "10us", "50us"]
"dram.channels" = [1, 2]
"""


def together(tasks: list[dict[str, Any]]) -> list[int]:
    """How many points each task has."""
    return [len(one.get("together", [one])) for one in tasks]


def are_equal(shared: ts.Sweep, apart: ts.Sweep) -> None:
    """Tables byte for byte, and each result but for the wall clock."""
    tables = [one.directory / "sweep.parquet" for one in (shared, apart)]
    assert tables[0].read_bytes() == tables[1].read_bytes()
    for index in range(len(apart)):
        one, other = shared.result(index), apart.result(index)
        for name in one:
            for key in ("wall_s", "accesses_per_wall_s"):
                one[name].pop(key)  # type: ignore[misc]
                other[name].pop(key)  # type: ignore[misc]
        assert one.data == other.data
        assert one.intervals.equals(other.intervals)


def test_points_that_share_a_warm_up_give_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    study = read(file)
    found = {one.key: one for one in points(study)}
    asked = [(one, study.region) for one in found.values()]
    # Each hybrid and storage has six machines, and the oracle, which has no store, two.
    assert sorted(together(execute.shared(asked, 1))) == [2, 6, 6]
    assert sorted(together(execute.shared(asked, 2))) == [2, 6, 6]
    assert sorted(together(execute.shared(asked, 3))) == [2, 3, 3, 3, 3]
    warmed: list[int] = []
    from tierscope._run import each_alone

    def counted(machines: Any, *rest: Any, **named: Any) -> Any:
        warmed.append(len(machines))
        return each_alone(machines, *rest, **named)

    monkeypatch.setattr(execute, "each_alone", counted)
    shared = ts.sweep(study, tmp_path / "shared", workers=1)
    assert shared.complete
    assert sorted(warmed) == [2, 6, 6]
    monkeypatch.setattr(execute, "_may_share", lambda *_: False)
    apart = ts.sweep(file, tmp_path / "apart", workers=1)
    assert sorted(warmed) == [2, 6, 6], "none shares"
    are_equal(shared, apart)


BEGUN = """
systems = ["hybrid/quick", "storage/quick"]
workloads = ["gups", "chase"]
skip = "4k"

[set]
"hybrid.prefetch_pages" = 0
"workload.table" = "16MiB"
"workload.touched" = true

[parameters.work]
paths = ["workload.instructions"]
values = [4, 5, 6]
"""


def test_workloads_that_begin_alike_share_a_warm_up_and_no_figure_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is walked first: what follows is another matter, where no more is skipped."""
    file = tmp_path / "study.toml"

    def tasks(text: str) -> list[int]:
        file.write_text(text)
        study = read(file)
        found = {one.key: one for one in points(study)}
        asked = [(one, study.region) for one in found.values()]
        return sorted(together(execute.shared(asked, 1)))

    # They begin differently: chase with a mark.
    assert tasks(BEGUN) == [3, 3, 3, 3]
    # What devices alone have a pattern of, too.
    assert tasks(BEGUN.replace("chase", "zipf")) == [3, 3, 3, 3]
    assert set(tasks(BEGUN.replace('"4k"', '"4097"'))) == {1}, "an access more is their own"
    file.write_text(BEGUN)
    shared = ts.sweep(file, tmp_path / "shared", workers=1)
    assert shared.complete
    times = {
        tuple(one["time_s"] for one in shared.result(index).data["systems"].values())
        for index in range(len(shared))
    }
    assert len(times) == len(shared), "each has gone on by itself"
    monkeypatch.setattr(execute, "_begins", lambda work, _: work)
    assert set(tasks(BEGUN)) == {1}
    apart = ts.sweep(file, tmp_path / "apart", workers=1)
    are_equal(shared, apart)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('warming = "detailed"', "in detail, devices are asked"),
        ("time_limit_s = 100", "a clock cuts each by itself"),
        ("sample = true", "samples go on warming"),
    ],
)
def test_what_is_not_warmed_alike_shares_nothing(tmp_path: Path, lines: str, why: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(f"{lines}\n{STUDY}")
    study = read(file)
    found = {one.key: one for one in points(study)}
    tasks = execute.shared([(one, study.region) for one in found.values()], 1)
    assert set(together(tasks)) == {1}, why


def test_a_point_that_fails_does_not_fail_those_that_it_is_warmed_with(tmp_path: Path) -> None:
    study = ts.study(
        ["hybrid/quick"],
        [ts.workload("gups", updates=60000)],
        {"store.read_latency": ["1us", "1000s"]},
        set={"hybrid.prefetch_pages": 0, "store.units": 1, "hybrid.cache.capacity": "16MiB"},
        skip="1k",
    )
    done = ts.sweep(study, tmp_path / "out", workers=1)
    assert [done.state(0), done.state(1)] == ["complete", "failed"]
    assert "6.6 days" in next(done.failures())[1]


@needs_qemu
def test_a_program_is_recorded_once_and_each_point_replays_it(
    tierscope: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    counter = tmp_path / "runs"
    script = tmp_path / "app.sh"
    script.write_text(f'#!/bin/sh\necho run >> {counter}\necho "of $1"\n')
    script.chmod(0o755)
    (tmp_path / "study.toml").write_text(
        'systems = ["oracle/quick"]\n'
        f'workloads = [{{ program = ["{script}", "a"] }}, "gups"]\n'
        "[set]\n"
        '"workload.updates" = 300\n'
        "[parameters]\n"
        '"dram.channels" = [1, 2]\n'
    )
    assert tierscope("check", "study.toml").returncode == 0
    early = tierscope("sweep", "study.toml", "-o", "out", "--dry-run")
    assert early.returncode == 125
    assert "is known once it is recorded" in early.stderr
    assert not counter.exists()
    done = tierscope("sweep", "study.toml", "-o", "out", "--json", "-q")
    assert done.returncode == 0, done.stderr
    kept = ts.load_sweep(tmp_path / "out")
    assert kept.complete
    assert set(kept.table()["workload"].to_list()) == {f"{script} a", "gups"}
    assert kept.result(0).data["workload"]["kind"] == "recorded"
    table = (tmp_path / "out" / "sweep.parquet").read_bytes()
    again = tierscope("sweep", "study.toml", "-o", "out", "-q")
    assert again.returncode == 0, again.stderr
    assert counter.read_text() == "run\n", "recorded once"
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == table
    assert tierscope("sweep", "study.toml", "-o", "out", "--dry-run").returncode == 0
    # A further program, behind --, is another workload; another argument is another recording.
    more = tierscope("sweep", "study.toml", "-o", "out", "-q", "--", str(script), "b")
    assert more.returncode == 0, more.stderr
    assert counter.read_text() == "run\nrun\n"
    assert f"{script} b" in ts.load_sweep(tmp_path / "out").table()["workload"].to_list()
    assert len(list((tmp_path / "out" / recordings.FOLDER).glob("*.tst"))) == 2


@needs_qemu
def test_a_program_is_recorded_again_where_what_it_read_has_changed(
    tierscope: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, runs, script = tmp_path / "data.txt", tmp_path / "runs", tmp_path / "app.sh"
    data.write_text("first\n")
    script.write_text(f"#!/bin/sh\nread line < data.txt\necho $line >> {runs}\n")
    script.chmod(0o755)
    (tmp_path / "study.toml").write_text(
        f'systems = ["oracle/quick"]\nworkloads = [{{ program = ["{script}"] }}]\n'
    )

    def swept() -> str:
        done = tierscope("sweep", "study.toml", "-o", "out", "-q")
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert swept() == ""
    # Another time of the same content is no change; what the program writes is not what it reads.
    os.utime(data, ns=(1, 1))
    runs.write_text("first\n")
    assert swept() == ""
    assert runs.read_text() == "first\n"
    data.write_text("other\n")
    early = tierscope("sweep", "study.toml", "-o", "out", "--dry-run")
    assert early.returncode == 125
    assert "is known once it is recorded" in early.stderr
    assert f"recorded again: {data}, which it read, has changed" in swept()
    assert runs.read_text() == "first\nother\n"
    for recording in (tmp_path / "out" / recordings.FOLDER).glob("*.tst"):
        recording.write_bytes(recording.read_bytes()[:-9])
    assert "recorded again: its recording of this sweep is damaged" in swept()
    for recording in (tmp_path / "out" / recordings.FOLDER).glob("*.tst"):
        # Blocks have checksums of their own, which nothing reads before they are replayed.
        whole = recording.read_bytes()
        middle = len(whole) // 2
        recording.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    assert "recorded again: its recording of this sweep is damaged" in swept()
    for left in (tmp_path / "out" / recordings.FOLDER).glob("*.json"):
        left.write_text("[]")
    assert "which files it read is not known any more" in swept()
    assert swept() == ""


@needs_qemu
def test_what_cannot_run_is_told_with_its_place_before_anything_runs(
    tierscope: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(
        'systems = ["device/slc"]\n'
        'workloads = [\n  "gups",\n  { program = ["true"] },\n'
        '  { program = ["./nope", "a"] },\n  "random",\n]\n'
    )
    for command in (("check", "study.toml"), ("sweep", "study.toml", "-o", "out", "-q")):
        told = tierscope(*command)
        assert told.returncode == 125
        assert "study.toml:3:3" in told.stderr
        assert "study.toml:4:15" in told.stderr
        assert "./nope a: no such program" in told.stderr
        assert "study.toml:5:15" in told.stderr
        assert told.stderr.count("device/slc is a device alone") == 2
        assert "random" not in told.stderr.replace("random, sequential", "")
    assert not (tmp_path / "out").exists()
    (tmp_path / "study.toml").write_text(
        'systems = ["oracle/quick", "device/slc"]\nworkloads = ["random"]\n'
    )
    told = tierscope("sweep", "study.toml", "-o", "out", "-q")
    assert "oracle/quick has a processor" in told.stderr
    assert "study.toml:2:" in told.stderr


@needs_qemu
def test_a_program_that_fails_or_is_none_is_told(
    tierscope: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def study(command: str) -> None:
        (tmp_path / "study.toml").write_text(
            f'systems = ["oracle/quick"]\nworkloads = [{{ program = {command} }}]\n'
        )

    study('["sh", "-c", "exit 3"]')
    failed = tierscope("sweep", "study.toml", "-o", "out", "-q")
    assert failed.returncode == 125
    assert "was not recorded wholly: it ended with exit status 3" in failed.stderr
    assert list((tmp_path / "out" / recordings.FOLDER).iterdir()) == []
    study('["./no-such-program"]')
    none = tierscope("sweep", "study.toml", "-o", "out", "-q")
    assert none.returncode == 125
    assert "./no-such-program: no such program" in none.stderr
    study('["true"], arguments = "x"')
    unknown = tierscope("sweep", "study.toml", "-o", "out", "-q")
    assert "a program of a study has no key `arguments`" in unknown.stderr
    study('"true"')
    wrong = tierscope("sweep", "study.toml", "-o", "out", "-q")
    assert wrong.returncode == 125
    assert "study.toml:2" in wrong.stderr


def test_several_files_of_a_trace_lie_where_the_study_does(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.lackey").write_text(" L 1000,8\n" * 50, encoding="utf-8")
    (tmp_path / "study.toml").write_text(
        'systems = ["oracle/quick"]\nworkloads = ["lackey:a.lackey,b.lackey"]\n'
        '[parameters]\n"dram.channels" = [1]\n',
        encoding="utf-8",
    )
    done = ts.sweep(tmp_path / "study.toml", tmp_path / "out")
    assert done.result(0).data["workload"]["threads"] == 2


def test_what_stands_where_a_recording_is_to_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "recordings").write_text("mine", encoding="utf-8")
    program = Program(["/bin/true"])
    with pytest.raises(ts.TierscopeError, match="stands where a recording") as raised:
        recordings._record(program, tmp_path / "recordings" / "key.tst")
    assert raised.value.code == "unwritable"
