"""Programs that time themselves see the time of this computer, end, and are recorded whole."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu

pytestmark = needs_qemu

_SOURCE = Path(__file__).parents[1] / "guest" / "timed.c"
#: What the program stores in a round of its work.
_WORDS = 1024
_WAYS = (
    ("clock_gettime", "0.2"),
    ("cputime", "0.2"),
    ("gettimeofday", "0.2"),
    ("times", "0.2"),
    ("getrusage", "0.2"),
    ("rdtsc", "0.2"),
    ("setitimer", "0.2"),
    ("virtual", "0.2"),
    ("alarm", "1"),
)


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that works until a clock, or a signal, says that so many seconds have passed."""
    program = tmp_path_factory.mktemp("guest") / "timed"
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-o", program, _SOURCE], check=True)
    return str(program)


@pytest.mark.parametrize(("way", "seconds"), _WAYS)
def test_a_program_that_times_itself_is_recorded_whole(
    tierscope: Runner, tmp_path: Path, timed: str, way: str, seconds: str
) -> None:
    shown = tierscope("record", "-o", "app.tst", "--", timed, way, seconds)
    assert shown.returncode == 0, shown.stderr
    rounds = int(shown.stdout)
    said = ts.trace_info(f"trace:{tmp_path / 'app.tst'}", brief=True).recording
    assert said is not None
    assert said["ended"] == "exit status 0"
    assert said["missing"] == []
    # Each round is in it, however few the time was enough for.
    assert rounds * _WORDS <= said["stores"] < rounds * (_WORDS + 100) + 100_000


def test_a_program_that_times_itself_does_less_while_machines_hold_it_up(
    tierscope: Runner, tmp_path: Path, timed: str
) -> None:
    shown = tierscope(
        "run", "-s", "hybrid/quick,oracle/quick", "-o", "kept", "--", timed, "clock_gettime", "0.2"
    )
    assert shown.returncode == 0, shown.stderr
    kept = ts.load(tmp_path / "kept")
    assert kept.complete
    program = kept.data["program"]
    assert program is not None
    assert program["exit_status"] == 0
    # Alone it ran as long, by its own clock; what it did in that time is another matter.
    for system in kept.data["systems"].values():
        assert system["instructions"] == program["instructions"]


def test_what_a_timed_program_sees_is_told_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs/explanation/recorder.md").read_text(encoding="utf-8")
    (section,) = [part for part in text.split("\n## ") if part.startswith("Programs that time")]
    for named in ("clock_gettime", "gettimeofday", "times", "rdtsc", "alarm", "setitimer"):
        assert f"`{named}`" in section, named
