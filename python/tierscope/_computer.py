"""What this computer has of what tierscope can use."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tierscope import _core
from tierscope import format as fmt
from tierscope._call import parsed
from tierscope._run import RECORDER, record
from tierscope.errors import TierscopeError

_LEAST_MEMORY_BYTES = 1 << 30
_LEAST_SCRATCH_BYTES = 1 << 30
_LEAST_COLUMNS = 80


@dataclass(frozen=True, slots=True)
class Need:
    """Something that tierscope uses.

    Attributes:
        name: what it is.
        essential: whether the main job, a program on a machine, cannot be done without it.
        present: whether it is there, and enough of it.
        found: what there is: path, version, amount; or what is wrong.
        needed_for: what it is for.
        without: what happens without it.
        get: how to get it.
    """

    name: str
    essential: bool
    present: bool
    found: str
    needed_for: str
    without: str
    get: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def needs(*, columns: int, unicode: bool) -> list[Need]:
    """Everything, in the order of importance, for a terminal of so many columns."""
    qemu = _qemu()
    return [
        _platform(),
        qemu,
        _recorder(tried=qemu.present),
        _memory(),
        _scratch(),
        _cores(),
        _command("sqlite3", "SQLite's command line", "the demonstration, make run", "sqlite3"),
        _compiler(),
        _terminal(columns, unicode),
    ]


def _platform() -> Need:
    system, machine = platform.system(), platform.machine()
    return Need(
        name="Linux on x86-64",
        essential=True,
        present=(system, machine) == ("Linux", "x86_64"),
        found=f"{system} {platform.release()} on {machine}",
        needed_for="running programs: those of x86-64 Linux are followed",
        without="built-in workloads and recordings run; programs do not",
        get="record on an x86-64 Linux computer, and replay here",
    )


def _qemu() -> Need:
    found = parsed(_core.qemu())
    present = "missing" not in found
    return Need(
        name="QEMU with plugins",
        essential=True,
        present=present,
        found=f"{found['path']}, {found['version']}" if present else found["missing"],
        needed_for="running and recording programs",
        without="built-in workloads and recordings run; programs do not",
        get="apt-get install qemu-user (Debian, Ubuntu; not qemu-user-static), or set "
        "TIERSCOPE_QEMU to the path of a qemu-x86_64",
    )


def _recorder(*, tried: bool) -> Need:
    """The recorder's library, tried on a program where there is what it is loaded into."""
    present, found = RECORDER.is_file(), str(RECORDER)
    if not present:
        found = f"{RECORDER} is not there"
    elif tried:
        present, found = _trial()
    return Need(
        name="Recorder",
        essential=True,
        present=present,
        found=found,
        needed_for="running and recording programs",
        without="built-in workloads and recordings run; programs do not",
        get="it comes with the package: pip install --force-reinstall tierscope, or make build "
        "in its repository",
    )


def _trial() -> tuple[bool, str]:
    """Whether a small program can be recorded, and what was seen of it or went wrong."""
    try:
        with tempfile.TemporaryDirectory(prefix="tierscope-doctor-") as directory:
            kept = record(["true"], Path(directory) / "trial.tst", output_to_stderr=True)
    except (TierscopeError, OSError) as error:
        return False, f"recording `true` failed: {error}"
    accesses = sum(int(kept.totals.get(kind, 0)) for kind in ("loads", "stores"))
    if kept.partial is not None or not accesses:
        return False, f"recording `true` failed: {'; '.join(kept.reasons) or 'nothing was seen'}"
    return True, f"works: recorded {fmt.count(accesses)} accesses of `true`"


def _memory() -> Need:
    available = _available_memory_bytes()
    return Need(
        name="Memory",
        essential=True,
        present=available is None or available >= _LEAST_MEMORY_BYTES,
        found="not known" if available is None else f"{fmt.size(available)} available",
        needed_for="machines: what a workload touches of them is held in memory",
        without="large workloads on large machines are ended by the system",
        get="close other programs, or run /quick machines and smaller workloads; "
        "run --dry-run estimates",
    )


def _available_memory_bytes() -> int | None:
    """What is free or can be freed, within the limit of this process's group."""
    bounds = []
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            bounds.append(int(line.split()[1]) * 1024)
    group = Path("/sys/fs/cgroup")
    limit, used = (next(_lines(group / f"memory.{what}"), "") for what in ("max", "current"))
    if limit.isdigit() and used.isdigit():
        bounds.append(max(0, int(limit) - int(used)))
    return min(bounds, default=None)


def _lines(path: Path) -> Iterator[str]:
    try:
        yield from path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return


def _scratch() -> Need:
    directory = Path(os.environ.get("TMPDIR") or "/tmp")
    free: int | None = None
    try:
        with tempfile.TemporaryFile(dir=directory):
            free = shutil.disk_usage(directory).free
        found = f"{directory}: {fmt.size(free)} free"
    except OSError as error:
        found = f"{directory} cannot be written to: {error.strerror}"
    return Need(
        name="Space in TMPDIR",
        essential=True,
        present=free is not None and free >= _LEAST_SCRATCH_BYTES,
        found=found,
        needed_for="programs on several machines: what a slow machine has yet to take goes there",
        without="programs cannot be run, or a run ends when the space does",
        get="export TMPDIR=DIRECTORY on a file system with room",
    )


def _cores() -> Need:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Need(
        name="Cores",
        essential=False,
        present=(cores or 1) > 1,
        found=str(cores or "not known"),
        needed_for="several machines at once: each runs on a core of its own",
        without="machines take turns, and a comparison takes as long as all of them together",
        get="a computer with as many cores as machines, and one for the program",
    )


def _compiler() -> Need:
    name = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), "cc")
    return _command(
        name,
        "C compiler",
        "building tierscope from source; programs of your own with its header",
        "gcc libc6-dev",
    )


def _command(name: str, what: str, needed_for: str, package: str) -> Need:
    path = shutil.which(name)
    found = f"no {name} in PATH" if path is None else f"{path}{_version(path)}"
    return Need(
        name=what,
        essential=False,
        present=path is not None,
        found=found,
        needed_for=needed_for,
        without="all else works",
        get=f"apt-get install {package} (Debian, Ubuntu)",
    )


def _version(path: str) -> str:
    """Behind a comma, the first word of its answer that is a version, if it gives one."""
    try:
        said = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    words = (word.strip("(),") for word in said.split())
    version = next((word for word in words if word[:1].isdigit() and "." in word), None)
    return "" if version is None else f", {version}"


def _terminal(columns: int, unicode: bool) -> Need:
    return Need(
        name="Terminal",
        essential=False,
        present=columns >= _LEAST_COLUMNS and unicode,
        found=f"{columns} columns, {'Unicode' if unicode else 'no Unicode'}",
        needed_for="reports: three machines side by side, columns of shades",
        without="machines stand below each other, and columns are drawn in ASCII",
        get=f"widen it to {_LEAST_COLUMNS} columns; export LC_ALL=C.UTF-8",
    )
