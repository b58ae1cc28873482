"""What the scripts of this folder share: needs, scratch space, recordings, their cost, replays."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import pwd
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

SOURCES = Path(__file__).resolve().parent / "src"
MISSING = 77
"""Exit status where something that a script needs is not there, as of automake's tests."""
SYSTEMS = "hybrid/quick,storage/quick,oracle/quick"
REAPING_S = 10
"""How long we wait for processes that outlive their parents."""
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
PATIENCE_S = 120
"""How long something that is asked to begin or end may take."""

NEEDS = {
    # What is needed: the programs, or the header, that show that it is there; Debian's packages.
    "qemu": (["qemu-x86_64"], ["qemu-user"]),
    "cc": (["cc"], ["gcc", "libc6-dev"]),
    "sqlite": (["sqlite3"], ["sqlite3"]),
    "berkeley-db": (["/usr/include/db.h"], ["libdb5.3-dev"]),
    "postmark": (["postmark"], ["postmark"]),
    "fio": (["fio"], ["fio"]),
    "redis": (["redis-server", "redis-benchmark", "redis-cli"], ["redis-server", "redis-tools"]),
    "postgresql": (["initdb", "postgres", "pg_ctl", "pgbench"], ["postgresql"]),
    "numpy": (["/usr/lib/python3/dist-packages/numpy"], ["python3-numpy"]),
}


class RealError(Exception):
    """Something that a user can mend; it ends the script with its text."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


def find_program(name: str) -> str | None:
    """Where a program is: on the path, or where Debian keeps PostgreSQL's."""
    newest_first = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, newest_first)])
    return shutil.which(name, path=path)


def is_there(what: str) -> bool:
    """Whether a program, or what has this path, is there."""
    return Path(what).exists() if what.startswith("/") else find_program(what) is not None


def meet(needs: Sequence[str], install: bool) -> None:
    """Sees to it that all needs are met; as root on Debian, what is missing is installed."""

    def missing() -> list[str]:
        return [need for need in needs if not all(map(is_there, NEEDS[need][0]))]

    packages = [package for need in missing() for package in NEEDS[need][1]]
    if packages and install and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {' '.join(packages)}", file=sys.stderr)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", *packages]):
            subprocess.run(
                ["apt-get", *command], env=environment, stdout=subprocess.DEVNULL, check=False
            )
    if left := missing():
        names = [name for need in left for name in NEEDS[need][0] if not is_there(name)]
        packages = [package for need in left for package in NEEDS[need][1]]
        raise RealError(
            f"missing: {', '.join(names)}; on Debian or Ubuntu: "
            f"sudo apt-get install {' '.join(packages)}",
            MISSING,
        )


@contextlib.contextmanager
def ending(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Ends a process, first politely, where what follows fails or is interrupted."""
    try:
        yield
    except BaseException:
        for end in (process.terminate, process.kill):
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S / 4)
                break
        raise


def _adopt() -> None:
    """Has processes whose parents have ended come to us, so that what they took is known."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap() -> None:
    """Waits for what has come to us: the process that wrote a recording outlives the program."""
    last = time.monotonic() + REAPING_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < last:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)


class Stopwatch:
    """How long what stands under it takes, and which time of processors its processes take."""

    def __enter__(self) -> Self:
        self._begun = time.monotonic(), self._processor_s()
        return self

    def __exit__(self, *_: object) -> None:
        begun_s, processor_s = self._begun
        self.wall_s = time.monotonic() - begun_s
        _reap()
        self.processor_s = self._processor_s() - processor_s

    @staticmethod
    def _processor_s() -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime


@dataclasses.dataclass(frozen=True)
class Server:
    """How a server is run."""

    command: Sequence[str]
    """The server with its arguments, in the foreground."""
    ready: Sequence[str]
    """A command that succeeds once it answers."""
    stop: Sequence[str]
    """A command that has it end."""
    user: str | None = None
    """The user that it takes itself for, in a name space of its own; ours unless it is said."""


class Real:
    """A script under way."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        self.arguments = arguments
        self.scratch = scratch
        self.tierscope = shlex.split(os.environ.get("TIERSCOPE", "")) or _tierscope()
        # Threads wait in the kernel, where the recorder sees their order, and not in a loop.
        self.environment = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "4"}

    def size(self, quick: int, full: int) -> int:
        """What is taken at each size."""
        return full if self.arguments.full else quick

    def compile(self, source: str, *flags: str) -> str:
        """Compiles a program of ours, and says where it is."""
        program = self.scratch / Path(source).stem
        include = subprocess.run(
            [sys.executable, "-c", "import tierscope; print(tierscope.include_dir())"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if include.returncode != 0:
            raise RealError(f"{sys.executable} has no tierscope; run make build, and its Python")
        options = ["-O2", "-std=gnu11", "-Wall", "-fopenmp", f"-I{include.stdout.strip()}"]
        self.run(["cc", *options, "-o", str(program), str(SOURCES / source), *flags, "-lm"])
        return str(program)

    def run(
        self, command: Sequence[str], user: str | None = None, *, text: str = "", **options: Any
    ) -> None:
        """Runs a command, which reads a text, to its end.

        Raises:
            RealError: It cannot be run, or fails.
        """
        with tempfile.TemporaryFile("w+", dir=self.scratch) as given:
            given.write(text)
            given.seek(0)
            with self._started(command, user, stdin=given, **options) as process:
                self._await(process, command)

    @contextlib.contextmanager
    def _started(
        self, command: Sequence[str], user: str | None = None, **options: Any
    ) -> Iterator[subprocess.Popen[Any]]:
        variables = options.pop("environment", {})
        shown = [f"{name}={value}" for name, value in variables.items()]
        print("$", shlex.join([*shown, *command]), file=sys.stderr, flush=True)
        if user is not None:
            entry = pwd.getpwnam(user)
            names = [f"--map-user={entry.pw_uid}", f"--map-group={entry.pw_gid}"]
            command = ["unshare", "--user", *names, "--", *command]
        try:
            process = subprocess.Popen(command, env={**os.environ, **variables}, **options)
        except OSError as why:
            raise RealError(f"{command[0]} cannot be run: {why.strerror}") from None
        with ending(process):
            yield process

    @staticmethod
    def _await(process: subprocess.Popen[Any], command: Sequence[str]) -> None:
        status = process.wait()
        if status != 0:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            raise RealError(f"{shlex.join(command)[:200]} ended with {how}")

    def record(
        self,
        name: str,
        command: Sequence[str],
        *,
        prepare: Callable[[], None] | None = None,
        text: str = "",
        roi: bool = False,
        user: str | None = None,
        silent: bool = False,
    ) -> None:
        """Runs a program alone, records it, and replays the recording.

        Args:
            name: Of the recording.
            command: The program with its arguments.
            prepare: Makes what the program needs anew, before each of its runs.
            text: What the program reads.
            roi: Whether the program marks its region of interest, which replays then show.
            user: The user that it takes itself for, as of a server.
            silent: Whether what it prints is of no interest.
        """
        to = subprocess.DEVNULL if silent else sys.stderr
        recording = self._recording(name)
        times = []
        for command_run in (list(command), [*self._record(recording), *command]):
            if prepare is not None:
                prepare()
            with Stopwatch() as watch:
                self.run(command_run, user, text=text, environment=self.environment, stdout=to)
            times.append(watch)
        self._tell(name, recording, *times)
        self._replay(recording, roi)

    def record_server(
        self,
        name: str,
        server: Server,
        drive: Callable[[], None],
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """The same of a server, of which what it does is recorded, and what its clients do is not.

        Args:
            name: Of the recording.
            server: How it is run.
            drive: Runs clients to their end.
            prepare: Makes what the server needs anew, before each of its runs.
        """
        recording = self._recording(name)
        times = []
        for before in ([], self._record(recording)):
            if prepare is not None:
                prepare()
            with Stopwatch() as watch, self.serving(server, before):
                drive()
            times.append(watch)
        self._tell(name, recording, *times)
        self._replay(recording, roi=False)

    @contextlib.contextmanager
    def serving(self, server: Server, before: Sequence[str] = ()) -> Iterator[None]:
        """Runs a server, behind a command of ours where one is given, until it is no longer needed.

        Raises:
            RealError: It does not answer, or does not end well.
        """
        command = [*before, *server.command]
        with self._started(command, server.user, stdout=subprocess.DEVNULL) as process:
            last = time.monotonic() + PATIENCE_S
            while subprocess.run(server.ready, capture_output=True, check=False).returncode != 0:
                if process.poll() is not None or time.monotonic() > last:
                    raise RealError(f"{shlex.join(command)[:200]} does not answer")
                time.sleep(0.05)
            yield
            self.run(server.stop, server.user, stdout=subprocess.DEVNULL)
            self._await(process, command)

    def _recording(self, name: str) -> Path:
        folder = self.scratch / "recordings"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.tst"

    def _record(self, recording: Path) -> list[str]:
        return [*self.tierscope, "record", "-q", "-o", str(recording), "--"]

    def _tell(self, name: str, recording: Path, alone: Stopwatch, recorded: Stopwatch) -> None:
        """Says what recording has cost."""
        told = subprocess.run(
            [*self.tierscope, "trace", "info", "--brief", "--json", str(recording)],
            stdout=subprocess.PIPE,
            check=True,
        )
        info = json.loads(told.stdout)["recording"]
        accesses = info["loads"] + info["stores"]
        cost = {
            "name": name,
            "size": "full" if self.arguments.full else "quick",
            "threads": info["threads"],
            "accesses": accesses,
            "calls": info["calls"],
            "alone_s": round(alone.wall_s, 3),
            "alone_processor_s": round(alone.processor_s, 3),
            "recorded_s": round(recorded.wall_s, 3),
            "recorded_processor_s": round(recorded.processor_s, 3),
            "file_bytes": recording.stat().st_size,
            "missing": info["missing"],
        }
        print(
            f"{name}: {accesses:,} accesses and {info['calls']:,} calls "
            f"of {info['threads']} threads; "
            f"recorded {recorded.wall_s:.2f} s, {recorded.processor_s:.2f} s of processors; "
            f"alone {alone.wall_s:.2f} s, {alone.processor_s:.2f} s; "
            f"{recording.stat().st_size / max(accesses, 1):.3f} bytes an access",
            flush=True,
        )
        for what in info["missing"]:
            print(f"{name}: missing: {what}", flush=True)
        if self.arguments.costs is not None:
            with self.arguments.costs.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cost) + "\n")
        if self.arguments.keep is not None:
            self.arguments.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(recording, self.arguments.keep / recording.name)

    def _replay(self, recording: Path, roi: bool) -> None:
        if not self.arguments.systems:
            return
        region = ["--roi"] if roi else []
        # What programs touch at the quick size is less than twice the least DRAM of a machine.
        scale = ["--scale-to-footprint", "2"] if self.arguments.full else []
        self.run(
            [
                *(*self.tierscope, "run", "-q", "-s", self.arguments.systems),
                *(*scale, *region, "-w", f"trace:{recording}"),
            ]
        )


def _tierscope() -> list[str]:
    beside = Path(sys.executable).with_name("tierscope")
    found = str(beside) if beside.exists() else shutil.which("tierscope")
    if found is None:
        raise RealError(
            "there is no command tierscope; run make build, and .venv/bin/python SCRIPT"
        )
    return [found]


def main(run: Callable[[Real], None], *needs: str) -> None:
    """Runs a script, and removes what it has left, however it ends."""
    script = sys.modules["__main__"]
    parser = argparse.ArgumentParser(description=script.__doc__, allow_abbrev=False)
    parser.add_argument("--full", action="store_true", help="the full size: minutes, not seconds")
    parser.add_argument(
        "-s",
        "--systems",
        default=SYSTEMS,
        help=f"replay on these, or on none where empty ({SYSTEMS})",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep recordings in this directory"
    )
    parser.add_argument(
        "--costs",
        type=Path,
        metavar="FILE",
        help="append what recording costs, a JSON object a line",
    )
    parser.add_argument(
        "--no-install", action="store_true", help="install nothing, also as root on Debian"
    )
    arguments = parser.parse_args()

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def asked(number: int, _frame: FrameType | None) -> None:
        # A second request would break off what the first one cleans up.
        for end in ends:
            signal.signal(end, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in ends:
        signal.signal(number, asked)
    try:
        _adopt()
        meet(["qemu", *needs], install=not arguments.no_install)
        with tempfile.TemporaryDirectory(prefix="tierscope-real-") as scratch:
            run(Real(arguments, Path(scratch)))
    except RealError as why:
        print(f"{Path(sys.argv[0]).name}: {why}", file=sys.stderr)
        sys.exit(why.status)
