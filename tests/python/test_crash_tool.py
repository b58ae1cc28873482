"""`tools/crash`: runs on every kind of machine, kept one by one, and what they have shown."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "crash"
KINDS = 51

# Stands for the command: a report of as many points as asked for, and a line for each call.
COMMAND = """\
#!{python}
import json, os, sys, time
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
with open({calls!r}, "a") as calls:
    calls.write(words[1] + " " + value("--seed") + "\\n")
if words[1] == os.environ.get("REFUSED"):
    sys.exit("no such machine")
if words[1] == os.environ.get("SLOW"):
    time.sleep(60)
broken = words[1] == os.environ.get("BROKEN")
report = dict(seed=int(value("--seed")), points=int(value("--points")), second_cuts=1, lines=10)
report |= dict(promised_lines=5, failing_points=int(broken), points_per_wall_s=1000.0)
report["failing"] = [dict(point="12+3")] if broken else []
file = [word for word in words if word.startswith("--json=")][0][7:]
open(file, "w").write(json.dumps(report))
sys.exit(int(broken))
"""


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """Something in the command's place, which keeps its calls in `calls` beside it."""
    file = tmp_path / "tierscope"
    calls = str(tmp_path / "calls")
    file.write_text(COMMAND.format(python=sys.executable, calls=calls), encoding="utf-8")
    file.chmod(0o755)
    return file


def call(command: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The tool, with reports beside the command."""
    words = [sys.executable, str(TOOL), str(command), *arguments, str(command.parent / "kept")]
    everything = {**os.environ, **environment}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=everything)


def calls(command: Path) -> list[str]:
    """How the command was called."""
    return (command.parent / "calls").read_text(encoding="utf-8").splitlines()


def summary(command: Path) -> dict[str, object]:
    """What the tool has written."""
    told = json.loads((command.parent / "kept" / "summary.json").read_text(encoding="utf-8"))
    assert isinstance(told, dict)
    return told


def test_every_kind_gets_its_share_and_what_is_there_is_not_run_again(command: Path) -> None:
    done = call(command, str(2 * KINDS))
    assert (done.returncode, len(calls(command))) == (0, KINDS), done.stderr
    assert summary(command)["points"] == 2 * KINDS
    assert "hams-lp " in done.stdout
    assert f"{2 * KINDS} points of {2 * KINDS} over {KINDS} kinds" in done.stdout
    again = call(command, str(2 * KINDS))
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert len(calls(command)) == KINDS, "nothing was left to be done"
    # More than a run's are several, with seeds of their own.
    call(command, str(KINDS * 25_001))
    seeds = [line.split()[1] for line in calls(command)[KINDS:]]
    assert seeds == ["1"] * KINDS + ["2"] * KINDS


def test_a_broken_promise_and_a_run_that_cannot_be_made_are_told(command: Path) -> None:
    broken = call(command, str(KINDS), BROKEN="mmap/quick")
    assert broken.returncode == 1
    assert "--replay 12+3" in broken.stdout.splitlines()[-1]
    assert summary(command)["failing_points"] == 1
    refused = call(command, str(3 * KINDS), REFUSED="oracle/quick")
    assert refused.returncode == 2
    assert "could not be run: oracle, seed 1: no such machine" in refused.stdout
    assert summary(command)["points"] == 3 * (KINDS - 1)


def test_interrupted_it_says_what_there_is_and_goes_on_behind_it(command: Path) -> None:
    words = [sys.executable, str(TOOL), str(command), str(KINDS), str(command.parent / "kept")]
    environment = {**os.environ, "SLOW": "oracle/quick"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as tool:
        kept = command.parent / "calls"
        until = time.monotonic() + 60
        while not (kept.exists() and "oracle" in kept.read_text(encoding="utf-8")):
            assert time.monotonic() < until
            time.sleep(0.02)
        tool.send_signal(signal.SIGTERM)
        told, _ = tool.communicate(timeout=60)
    assert tool.returncode == 130
    assert f"5 points of {KINDS}" in told
    assert call(command, str(KINDS)).returncode == 0
    assert len(calls(command)) == KINDS + 1, "oracle was begun twice"


def test_without_points_it_says_how_it_is_called(command: Path) -> None:
    for wrong in ("", "none", "0"):
        done = call(command, wrong)
        assert done.returncode == 2
        assert "tools/crash TIERSCOPE POINTS" in done.stderr
