"""However a recorded program, or tierscope itself, comes to its end, what is told is right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu, wait_until, wait_until_it_has_worked

pytestmark = needs_qemu

_GUESTS = Path(__file__).parents[1] / "guest"
_DEAD_AT_ONCE = 'void _start(void) { __asm__ volatile("ud2"); }'
_SYSTEMS = ("-s", "hybrid/quick,storage/quick,oracle/quick")


def _compile(source: Path, program: Path, *options: str) -> Path:
    subprocess.run([os.environ.get("CC", "cc"), "-O1", *options, "-o", program, source], check=True)
    return program


@pytest.fixture(scope="session")
def ends(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that ends in the way that its argument says."""
    return str(_compile(_GUESTS / "ends.c", tmp_path_factory.mktemp("guest") / "ends", "-pthread"))


@contextmanager
def _running(*arguments: str, cwd: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a session, and so a process group, of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tierscope", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "PYTHONUTF8": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in listed for child in one.read_text().split()]


def _qemu_of(process: subprocess.Popen[str]) -> int:
    """The program's process, once it is QEMU."""

    def found() -> list[int]:
        return [
            child
            for child in _children(process.pid)
            if b"-plugin" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]

    wait_until(found)
    return found()[0]


def _host_of(process: subprocess.Popen[str]) -> int:
    """The process that has the machines, or writes the recording."""

    def is_host(pid: Path) -> bool:
        try:
            name = (pid / "comm").read_text().strip()
            command = (pid / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return name == "tierscope-host" and f"/tierscope-{process.pid}-".encode() in command

    def found() -> list[int]:
        return [int(pid.name) for pid in Path("/proc").glob("[0-9]*") if is_host(pid)]

    wait_until(found)
    return found()[0]


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _has_all_figures(kept: ts.Result) -> None:
    assert len(kept) == 3
    for system in kept.data["systems"].values():
        assert system["accesses"] > 100_000
        assert system["time_ps"] > 0
        assert system["latency_ns"] is not None
        assert system["latency_ns"]["p999"] > 0
        mean = system["latency_ns"]["mean"]
        assert sum(system["stages_ns"].values()) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "2 (SIGINT)"), (signal.SIGTERM, "15 (SIGTERM)")]
)
def test_a_signal_to_the_whole_group_ends_the_run_with_what_was_simulated(
    tmp_path: Path, ends: str, number: int, name: str
) -> None:
    with _running("run", *_SYSTEMS, "-o", "kept", "--", ends, "forever", cwd=tmp_path) as process:
        _qemu_of(process)
        wait_until_it_has_worked(_host_of(process), 2)
        os.killpg(process.pid, number)
        asked = time.monotonic()
        output, errors = process.communicate(timeout=300)
        assert time.monotonic() - asked < 30
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    # Machines may have come to their end before tierscope heard of the signal itself.
    told = f"Partial: (the run was interrupted; )?signal {re.escape(name)} killed the program\\."
    assert re.search(told, output)
    _has_all_figures(ts.load(tmp_path / "kept"))


@pytest.mark.parametrize(
    ("how", "status", "name"),
    [("crash", 139, "11 (SIGSEGV)"), ("abort", 134, "6 (SIGABRT)"), ("kill", 137, "9 (SIGKILL)")],
)
def test_a_program_that_crashes_gives_a_result(
    tierscope: Runner, tmp_path: Path, ends: str, how: str, status: int, name: str
) -> None:
    shown = tierscope("run", *_SYSTEMS, "-o", "kept", "--", ends, how)
    assert shown.returncode == status, shown.stderr
    assert f"Partial: signal {name} killed the program." in shown.stdout
    kept = ts.load(tmp_path / "kept")
    _has_all_figures(kept)
    program = kept.data["program"]
    assert program is not None
    assert {one["instructions"] for one in kept.data["systems"].values()} == {
        program["instructions"]
    }, "the machines took all that it did"


def test_a_program_that_dies_before_it_did_anything(tierscope: Runner, tmp_path: Path) -> None:
    source = tmp_path / "dead.c"
    source.write_text(_DEAD_AT_ONCE)
    program = str(_compile(source, tmp_path / "dead", "-static", "-nostdlib"))
    shown = tierscope("run", "-s", "oracle/quick", "--", program)
    assert shown.returncode == 128 + signal.SIGILL
    assert "error[no-result]: nothing was simulated: signal 4 (SIGILL) killed" in shown.stderr


def test_machines_take_what_a_program_did_that_is_killed_from_outside(
    tmp_path: Path, ends: str
) -> None:
    with _running("run", *_SYSTEMS, "-o", "kept", "--", ends, "forever", cwd=tmp_path) as process:
        qemu = _qemu_of(process)
        wait_until_it_has_worked(_host_of(process), 1)
        os.kill(qemu, signal.SIGKILL)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGKILL, errors
    assert "Partial: signal 9 (SIGKILL) killed the program." in output
    kept = ts.load(tmp_path / "kept")
    _has_all_figures(kept)
    program = kept.data["program"]
    assert program is not None
    assert {one["instructions"] for one in kept.data["systems"].values()} == {
        program["instructions"]
    }


_HOST_KILLED = "for want of memory; the program was killed with it"


def test_machines_that_are_killed_leave_what_they_last_reported(tmp_path: Path, ends: str) -> None:
    with _running("run", *_SYSTEMS, "-o", "kept", "--", ends, "forever", cwd=tmp_path) as process:
        host = _host_of(process)
        wait_until_it_has_worked(host, 1)
        time.sleep(2)  # It reports now and then.
        os.kill(host, signal.SIGKILL)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGKILL, errors
    assert _HOST_KILLED in " ".join(output.split())
    kept = ts.load(tmp_path / "kept")
    _has_all_figures(kept)
    oracle = kept["oracle/quick"]["instructions"]
    for name, system in kept.data["systems"].items():
        as_far = abs(system["instructions"] - oracle) <= 0.01 * oracle
        assert (system["slowdown"] is not None) == as_far
        assert any("last reported" in note for note in system["notes"])
        intervals = kept.intervals.filter(kept.intervals["system"] == name)
        assert 0 < intervals["accesses"].sum() <= system["accesses"]


def test_a_machine_that_reported_nothing_is_left_out(tmp_path: Path, ends: str) -> None:
    # A machine first reports after 200 ms. It is stopped within a few from its start, unless this
    # process gets no processor for so long, and then once more.
    for _ in range(100):
        scratch = Path(tempfile.mkdtemp(dir=tmp_path))
        run = ("run", "-s", "oracle/quick", "--", ends, "forever")
        with _running(*run, cwd=tmp_path, TMPDIR=str(scratch)) as process:
            host = _host_of(process)
            wait_until(partial(_has_published, scratch, b"started"), every_s=0.001)
            os.kill(host, signal.SIGSTOP)
            reported = _has_published(scratch, b"outcome")
            os.kill(host, signal.SIGKILL)
            output, errors = process.communicate(timeout=300)
        assert process.returncode == 128 + signal.SIGKILL, errors
        if not reported:
            assert output == ""
            assert _HOST_KILLED in " ".join(errors.split())
            assert "oracle/quick is left out" in errors
            return
    pytest.fail("the machine had reported each time")


def _has_published(scratch: Path, kind: bytes) -> bool:
    """Whether a run's recorder has published a record of a kind."""
    head_bytes = 1 << 16  # Of 64 MiB, of which the first records are the head.
    for log in scratch.glob("tierscope-*/log"):
        with log.open("rb") as file:
            return b'"type":"' + kind in file.read(head_bytes)
    return False


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "2 (SIGINT)"), (signal.SIGTERM, "15 (SIGTERM)")]
)
def test_a_recording_is_complete_up_to_a_signal(
    tmp_path: Path, ends: str, number: int, name: str
) -> None:
    with _running("record", "-o", "app.tst", "--", ends, "forever", cwd=tmp_path) as process:
        wait_until_it_has_worked(_qemu_of(process), 0.2)
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + number, errors
    assert not (tmp_path / "app.tst.partial").exists()
    info = subprocess.run(
        [sys.executable, "-m", "tierscope", "trace", "info", tmp_path / "app.tst"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"Ended:                  signal {name}" in info
    replayed = ts.run("oracle/quick", f"trace:{tmp_path / 'app.tst'}", limit=300_000)
    assert replayed["oracle/quick"]["accesses"] >= 300_000


def test_what_a_killed_recording_left_is_told_and_can_be_replayed(
    tmp_path: Path, tierscope: Runner, ends: str
) -> None:
    with _running("record", "-o", "app.tst", "--", ends, "waits", cwd=tmp_path) as process:
        host = _host_of(process)
        time.sleep(3)
        os.kill(host, signal.SIGKILL)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGKILL
    assert "app.tst: not completed; app.tst.partial holds the first" in errors
    assert "-w trace:app.tst.partial --allow-truncated" in errors
    assert _HOST_KILLED in " ".join(errors.split())
    replayed = tierscope(
        "run", "-s", "oracle/quick", "-w", "trace:app.tst.partial", "--allow-truncated"
    )
    assert replayed.returncode == 0, replayed.stderr
    assert "Partial: the recording is cut short" in replayed.stdout


def test_a_quiet_recording_says_nothing(tierscope: Runner) -> None:
    made = tierscope("record", "-q", "-o", "app.tst", "--", "true")
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    killed = tierscope("record", "--quiet", "-o", "app.tst", "--", "sh", "-c", "kill $$")
    assert killed.returncode == 128 + signal.SIGTERM
    assert "signal 15 (SIGTERM) killed the program" in killed.stderr, "but for what went wrong"


def test_nothing_is_left_of_a_tierscope_that_is_killed(
    tmp_path: Path, tierscope: Runner, ends: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    system = ("run", "-s", "oracle/quick")
    with _running(*system, "--", ends, "forever", cwd=tmp_path, TMPDIR=str(scratch)) as process:
        qemu, host = _qemu_of(process), _host_of(process)
        wait_until(lambda: list(scratch.glob("tierscope-*/log")))
        process.kill()
        process.wait()
    wait_until(lambda: not _is_alive(qemu) and not _is_alive(host))
    assert list(scratch.glob("tierscope-*")), "nobody was left to remove it"
    assert tierscope(*system, "--", "true", TMPDIR=str(scratch)).returncode == 0
    assert not list(scratch.iterdir()), "the next run does"


@pytest.fixture(scope="session")
def stays(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program whose processes ignore that they are asked to end."""
    return str(_compile(_GUESTS / "stays.c", tmp_path_factory.mktemp("guest") / "stays"))


def _told_of(errors: str) -> list[int]:
    """The processes that the program says that it has started."""
    return [int(pid) for pid in re.findall(r"^process (\d+)$", errors, re.MULTILINE)]


@pytest.mark.parametrize("leave", [(), ("leave",)])
@pytest.mark.parametrize("how", ["limit", "size"])
def test_processes_that_ignore_that_they_are_asked_to_end_are_killed(
    tierscope: Runner, stays: str, how: str, leave: tuple[str, ...]
) -> None:
    what = {
        "limit": ("run", "-s", "oracle/quick", "--limit", "100k"),
        "size": ("record", "-o", "app.tst", "--max-size", "1MiB"),
    }[how]
    begun = time.monotonic()
    # A process that lived on would keep standard error open, and this from returning.
    ended = tierscope(*what, "--", stays, "2", *leave)
    assert time.monotonic() - begun < 60
    assert ended.returncode == 0, ended.stderr
    others = _told_of(ended.stderr)
    assert len(others) == 2
    assert not any(map(_is_alive, others))


@pytest.mark.parametrize("leave", [(), ("leave",)])
def test_processes_that_are_left_when_the_first_is_killed_are_ended(
    tierscope: Runner, stays: str, leave: tuple[str, ...]
) -> None:
    shown = tierscope("run", "-s", "oracle/quick", "--", stays, "2", *leave, "exit")
    assert shown.returncode == 128 + signal.SIGKILL, shown.stderr
    others = _told_of(shown.stderr)
    assert len(others) == 2
    assert not any(map(_is_alive, others))
    told = " ".join(shown.stdout.split())
    assert "2 other processes of the program still ran when it was over, and were ended" in told


def test_no_process_of_the_program_is_left_of_a_tierscope_that_is_killed(
    tmp_path: Path, stays: str
) -> None:
    run = ("run", "-s", "oracle/quick", "--", stays, "2", "leave")
    with _running(*run, cwd=tmp_path) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        others = _told_of("".join(lines))
        assert len(others) == 2
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(_is_alive, others)))


def test_a_preloaded_library_of_the_users_reaches_the_program(
    tierscope: Runner, tmp_path: Path
) -> None:
    source = tmp_path / "mine.c"
    source.write_text("int mine(void) { return 1; }")
    library = str(_compile(source, tmp_path / "mine one.so".replace(" ", ","), "-shared", "-fPIC"))
    show = "echo $LD_PRELOAD; grep -c mine,one.so /proc/self/maps; kill -SEGV $$"
    shown = tierscope("run", "-s", "oracle/quick", "--", "sh", "-c", show, LD_PRELOAD=library)
    assert shown.stdout.startswith(f"{library}\n"), "and nothing of the recorder's"
    assert shown.returncode == 128 + signal.SIGSEGV
    assert "Partial: signal 11 (SIGSEGV) killed the program." in shown.stdout


_INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

from tierscope.cli import main

sys.meta_path.insert(0, Interrupting())
sys.exit(main(["--help"]))
"""


@pytest.mark.parametrize("module", ["tierscope.cli.app", "tierscope._core", "rich.console"])
def test_an_interrupt_while_the_command_loads_is_answered(module: str) -> None:
    """What comes before is the interpreter's own start."""
    ended = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_IMPORT.format(module=module)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + signal.SIGINT, "", "")


_LATE = """
import os, signal, sys

import tierscope._run as run
from tierscope.cli import main

times = int(sys.argv.pop(1))
made = run._result

def late(*arguments):
    for _ in range(times):
        os.kill(os.getpid(), signal.{name})
    return made(*arguments)

run._result = late
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_request_to_end_that_comes_after_the_run_loses_nothing(
    tmp_path: Path, name: str, times: int
) -> None:
    """The second one breaks off what is under way, and says so."""
    work = ("-w", "gups", "--set", "workload.updates=500")
    command = ["run", "-s", "oracle/quick", *work, "-o", "kept", "-q"]
    ended = subprocess.run(
        [sys.executable, "-c", _LATE.format(name=name), str(times), *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 128 + signal.Signals[name]
    if times == 1:
        assert (ended.stderr, "accesses" in ended.stdout) == ("", True)
        assert ts.load(tmp_path / "kept").data["completeness"] == "complete"
    else:
        assert ended.stderr == "interrupted: nothing more is printed or kept\n"
        assert (ended.stdout, (tmp_path / "kept").exists()) == ("", False)


_LAZY = """
import sys
import tierscope
import tierscope.cli
assert not {"rich", "tierscope._core", "tierscope._spec"} & set(sys.modules)
with tierscope.roi():
    tierscope.roi_end()
assert tierscope.include_dir().joinpath("tierscope.h").is_file()
assert "rich" not in sys.modules, "a program that is recorded loads nothing that takes long"
assert "compare" in dir(tierscope) and "DramCache" in dir(tierscope)
assert tierscope.run is not None and "rich" in sys.modules
names = {}
exec("from tierscope import *", names)
assert set(tierscope.__all__) <= set(names), "a star brings everything"
try:
    tierscope.nothing_of_that_name
except AttributeError as error:
    assert str(error) == "module 'tierscope' has no attribute 'nothing_of_that_name'"
"""


def test_the_package_loads_when_it_is_first_used() -> None:
    subprocess.run([sys.executable, "-c", _LAZY], check=True, timeout=300)
