"""The command in a process of its own, without the second that Python takes to load it.

A server has the command's modules loaded and forks: what the fork runs is what `python -m
tierscope` runs, with the arguments, folder, environment and streams that it is given. The server
has one thread, and has run nothing.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MOST_BYTES = 1 << 17


class Server:
    """Forks commands, one at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(600)
        number = str(theirs.fileno())
        self._process = subprocess.Popen(
            [sys.executable, __file__, number], pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self._one_at_a_time = threading.Lock()

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_s: float,
    ) -> subprocess.CompletedProcess[str]:
        """What a command ends with and says; its standard input is empty.

        Raises:
            TimeoutExpired: where it takes too long. It is killed then.
        """
        asked = json.dumps({"arguments": arguments, "cwd": str(folder), "env": dict(environment)})
        with self._one_at_a_time, open(os.devnull, "rb") as nothing:  # noqa: PTH123 - no path
            streams = [os.pipe(), os.pipe()]
            theirs = [nothing.fileno(), *(end for _, end in streams)]
            socket.send_fds(self._socket, [asked.encode()], theirs)
            said = [_Reader(end) for end, _ in streams]
            for _, end in streams:
                os.close(end)
            pid = int(self._socket.recv(_MOST_BYTES))
            until = time.monotonic() + timeout_s
            if any(reader.lasts(until) for reader in said):
                os.kill(pid, signal.SIGKILL)
            status = int(self._socket.recv(_MOST_BYTES))
        output, errors = (reader.text for reader in said)
        if time.monotonic() >= until:
            raise subprocess.TimeoutExpired(list(arguments), timeout_s, output, errors)
        return subprocess.CompletedProcess(list(arguments), status, output, errors)

    def end(self) -> None:
        """Ends the server."""
        self._socket.close()
        self._process.wait(300)


class _Reader(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, end: int) -> None:
        super().__init__(daemon=True)
        self._end = end
        self._bytes = b""
        self.start()

    def run(self) -> None:
        """Reads."""
        with os.fdopen(self._end, "rb") as pipe:
            self._bytes = pipe.read()

    def lasts(self, until: float) -> bool:
        """Whether the end has not come by a time of the monotonic clock."""
        self.join(max(0, until - time.monotonic()))
        return self.is_alive()

    @property
    def text(self) -> str:
        """What was read, its lines ended as Python ends them."""
        return self._bytes.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _serve(asking: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Forks for each request; returns in the forks alone, with their request and streams."""
    while True:
        asked, streams, _, _ = socket.recv_fds(asking, _MOST_BYTES, 3)
        if not asked:
            os._exit(0)
        alone = len(list(Path("/proc/self/task").iterdir())) == 1
        assert alone, "a fork has the thread that forks, and not what others hold"
        pid = os.fork()
        if pid == 0:
            asking.close()
            return json.loads(asked), streams
        for stream in streams:
            os.close(stream)
        asking.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        asking.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(asked: dict[str, Any], streams: list[int]) -> None:
    """Makes this process one that was started with this request."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - streams
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[0] = asked["cwd"]
    import tierscope

    sys.argv = [str(Path(tierscope.__path__[0]) / "__main__.py"), *asked["arguments"]]


if __name__ == "__main__":
    # What commands load.
    from tierscope.cli import app, main

    app.of()
    gc.freeze()
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
    sys.exit(main())
