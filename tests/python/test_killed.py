"""Whenever it is killed, or its disk is full: earlier results are whole, partial ones marked."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest
import tierscope as ts
from conftest import needs_qemu

LONG = ("-w", "gups", "--set", "workload.updates=1000000000000")
SHORT = ("-w", "gups", "--set", "workload.updates=500")
Kept = dict[str, bytes]


def contents(folder: Path) -> Kept:
    """Every file below a folder that is not hidden."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    seen = (path for path in found if not any(part.startswith(".") for part in path.parts))
    return {str(path): (folder / path).read_bytes() for path in seen}


def command(*arguments: str) -> list[str]:
    """The command with these arguments."""
    return [sys.executable, "-m", "tierscope", *arguments]


_KILLED_AT = """
import os, signal, sys

import tierscope as ts

result, count, seen = ts.load("other"), int(sys.argv[1]), 0

def hook(event, arguments):
    global seen
    if event.startswith(("os.", "shutil.", "tempfile.", "ctypes.")) or event == "open":
        seen += 1
        if seen == count:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
result.save("kept")
print(seen)
"""


def test_a_save_that_is_killed_at_any_step_leaves_the_earlier_or_the_new_result(
    tmp_path: Path,
) -> None:
    """A step is whatever is done with files: made, opened, renamed, removed."""
    first, second = (
        ts.run("oracle/quick", ts.workload("gups", updates=updates)) for updates in (300, 400)
    )
    second.save(tmp_path / "other")
    whole, step, both = {300: 0, 400: 0}, 1, 0
    while both < 2:
        first.save(tmp_path / "kept")
        done = subprocess.run(
            [sys.executable, "-c", _KILLED_AT, str(step)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        found = ts.load(tmp_path / "kept")
        updates = found.data["workload"]["parameters"]["updates"]
        assert found.data == (first if updates == 300 else second).data
        assert isinstance(found.intervals, pl.DataFrame)
        whole[updates] += 1
        # In steps of three, since each takes a second, then once to the end.
        step += 3
        both += done.returncode == 0
        if done.returncode == 0:
            assert updates == 400
            assert step - 3 > int(done.stdout)
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert whole[300] >= 3
    assert whole[400] >= 1


def killed_soon(arguments: tuple[str, ...], cwd: Path, until: Callable[[], bool]) -> None:
    """Runs the command until something is there, and kills it without a warning."""
    with subprocess.Popen(
        command(*arguments), cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        deadline = time.monotonic() + 300
        while not until():
            assert running.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)
        running.kill()
        assert running.wait() == -signal.SIGKILL


def a_temporary(folder: Path, name: str) -> bool:
    """Whether a file or directory of that beginning is there, and holds something."""
    return any(path.is_dir() or path.stat().st_size for path in folder.glob(name))


def test_a_run_that_is_killed_leaves_the_earlier_result_and_marks_its_own(tmp_path: Path) -> None:
    ts.run("oracle/quick", ts.workload("gups", updates=300)).save(tmp_path / "kept")
    before = contents(tmp_path)
    run = ("run", "-s", "storage/quick", *LONG, "-o", "kept", "--latencies", "rows.csv")
    killed_soon(run, tmp_path, partial(a_temporary, tmp_path, "rows.csv.partial"))
    after = contents(tmp_path)
    rows = after.pop("rows.csv.partial")
    assert rows.startswith(b"request,kind,")
    assert after == before
    again = subprocess.run(
        command(*run), cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert again.returncode == 125
    assert "rows.csv.partial is there" in again.stderr
    assert contents(tmp_path) == {**before, "rows.csv.partial": rows}


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_conversion_that_is_killed_leaves_the_earlier_file(tmp_path: Path, packed: str) -> None:
    target = f"x.trc{packed}"
    (tmp_path / target).write_bytes(b"precious")
    source = ("zipf", f"ramulator:{target}", "--set", "workload.requests=2000000000")
    converted = ("convert", *source, "--replace", "-q")

    def has_begun() -> bool:
        others = [path for path in tmp_path.iterdir() if path.name != target]
        return any(path.stat().st_size > 0 for path in others)

    killed_soon(converted, tmp_path, has_begun)
    assert set(contents(tmp_path)) == {target, f"{target}.partial"}, "what is left is marked"
    assert (tmp_path / target).read_bytes() == b"precious"


@needs_qemu
def test_a_recording_that_is_killed_leaves_the_earlier_one_and_marks_its_own(
    tmp_path: Path,
) -> None:
    assert subprocess.run(command("record", "-q", "-o", "a.tst", "--", "true"), cwd=tmp_path)
    before = contents(tmp_path)
    assert set(before) == {"a.tst"}
    endless = ("sh", "-c", "while :; do :; done")
    killed_soon(
        ("record", "-o", "a.tst", "--", *endless),
        tmp_path,
        partial(a_temporary, tmp_path, "a.tst.partial"),
    )
    after = contents(tmp_path)
    assert after.pop("a.tst.partial")
    assert after == before
    told = subprocess.run(
        command("trace", "info", "a.tst.partial", "--brief"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told.returncode == 125, "it is not taken for a whole one"
    assert "--allow-truncated" in told.stderr


FULL: list[tuple[str, tuple[str, ...], int]] = [
    ("run", ("run", "-s", "oracle/quick", *SHORT, "-o", "kept"), 2048),
    ("json", ("run", "-s", "oracle/quick", *SHORT, "--json=kept.json"), 1024),
    ("latencies", ("run", "-s", "oracle/quick", *SHORT, "--latencies", "rows.csv"), 8192),
    ("timeline", ("run", "-s", "oracle/quick", *SHORT, "--timeline", "line.json"), 8192),
    ("repeat", ("run", "-s", "oracle/quick", *SHORT, "--repeat", "2", "-o", "kept"), 2048),
    (
        "convert",
        ("convert", "random", "ramulator:x.trc", "--set", "workload.requests=9000", "--replace"),
        8192,
    ),
    ("plot", ("trace", "info", "random", "--plot", "kept.png"), 4096),
    ("sweep", ("sweep", "study.toml", "-o", "swept", "-q"), 2048),
    ("init", ("init", "hybrid/quick", "-o", "mine.toml"), 1024),
    ("report", ("report", "earlier", "-o", "page.html"), 65536),
]
"""Commands that write, and how large a file may be to each."""

STUDY = 'systems = ["oracle/quick"]\nworkloads = ["gups"]\n[set]\n"workload.updates" = 300\n'


@pytest.mark.parametrize(("name", "arguments", "room"), FULL, ids=[one[0] for one in FULL])
def test_where_no_more_can_be_written_the_earlier_is_whole_and_nothing_is_there_by_halves(
    tmp_path: Path, name: str, arguments: tuple[str, ...], room: int
) -> None:
    """As on a full disk: a file may not grow beyond a few KiB (EFBIG in the place of ENOSPC)."""
    ts.run("oracle/quick", ts.workload("gups", updates=300)).save(tmp_path / "earlier")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "x.trc").write_text("precious", encoding="utf-8")
    if name == "run":
        ts.load(tmp_path / "earlier").save(tmp_path / "kept")
    before = contents(tmp_path)
    ended = subprocess.run(
        command(*arguments),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (room, room)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ended.returncode == 125, (ended.returncode, ended.stdout, ended.stderr)
    assert "file too large" in " ".join(ended.stderr.split()).lower()
    assert "Traceback" not in ended.stderr
    after = contents(tmp_path)
    assert {path: after.get(path) for path in before} == before
    new = {path for path in after if path not in before}
    if name == "sweep":
        # What a sweep keeps goes on: each file is whole.
        assert all(path.startswith("swept/") for path in new)
        assert not [path for path in tmp_path.rglob(".*") if path.name != ".lock"]
    else:
        assert new <= {"rows.csv.partial", "line.json.partial"}
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
