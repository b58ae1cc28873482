"""What the tests share."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from commands import Server
from tierscope._shape import ResultData

DATA = Path(__file__).parent / "data"
Runner = Callable[..., subprocess.CompletedProcess[str]]
HAS_QEMU = bool(os.environ.get("TIERSCOPE_QEMU") or shutil.which("qemu-x86_64"))
WITHOUT_QEMU = "QEMU's user-mode emulation is not installed"
needs_qemu = pytest.mark.skipif(not HAS_QEMU, reason=WITHOUT_QEMU)
"""For what runs a program."""

# A shell without job control ignores SIGINT in what it runs in the background, nohup SIGHUP, and
# whatever they start inherits that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        _handler = signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        signal.signal(_number, _handler)


def wait_until(holds: Callable[[], object], every_s: float = 0.02) -> None:
    """Waits for something that comes soon, and looks every so often."""
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(every_s)


def threads_of(pid: int) -> set[str]:
    """Names of a process's threads: a run under way has one of its own."""
    names = set()
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            names.add(path.read_text().strip())
    return names


def wait_until_it_has_worked(pid: int, seconds: float) -> None:
    """Waits until a process has had a processor for so much longer, however busy both are."""

    def worked_s() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    until_s = worked_s() + seconds
    wait_until(lambda: worked_s() >= until_s)


_SAMPLE = json.loads((DATA / "three-systems.json").read_text(encoding="utf-8"))


@pytest.fixture
def sample() -> ResultData:
    """A result of three systems, made by hand."""
    return cast(ResultData, copy.deepcopy(_SAMPLE))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """What starts the command without loading it anew each time."""
    server = Server()
    yield server
    server.end()


@pytest.fixture
def tierscope(tmp_path: Path, server: Server) -> Runner:
    """Runs the command in an empty directory, without a terminal.

    Where the environment tells the interpreter something, an interpreter of its own does.
    """

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "COLUMNS": "80", "PYTHONUTF8": "1", **environment}
        if not any(name.startswith(("PYTHON", "LC_", "LANG")) for name in environment):
            return server.run(arguments, tmp_path, env, timeout_s=300)
        return subprocess.run(
            [sys.executable, "-m", "tierscope", *arguments],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
