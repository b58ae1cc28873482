"""What the tests share."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
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
            return server.run(arguments, tmp_path, env, timeout_s=120)
        return subprocess.run(
            [sys.executable, "-m", "tierscope", *arguments],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
