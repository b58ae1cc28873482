"""Programs that a recorded program runs, and what programs and disks have no room for."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu

pytestmark = needs_qemu

_GUESTS = Path(__file__).parents[1] / "guest"
_SYSTEMS = ("-s", "hybrid/quick,oracle/quick")


@pytest.fixture(scope="session")
def execs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that runs programs in the way that its arguments say."""
    program = tmp_path_factory.mktemp("guest") / "execs"
    compiler = os.environ.get("CC", "cc")
    source = _GUESTS / "execs.c"
    subprocess.run([compiler, "-O1", "-pthread", "-o", program, source], check=True)
    return str(program)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a quarter of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_mount_point_for_a_result_is_refused_before_the_run(
    tierscope: Runner, small_disk: Path
) -> None:
    shown = tierscope("run", "-s", "oracle/quick", "-w", "gups", "-o", str(small_disk))
    assert (shown.returncode, shown.stdout) == (125, "")
    assert shown.stderr.startswith(f"error[unwritable]: {small_disk} is a mount point")
    assert "a directory within it" in shown.stderr


def test_a_result_goes_where_links_lead(tierscope: Runner, tmp_path: Path) -> None:
    run = ("run", "-s", "oracle/quick", "-w", "gups", "--set", "workload.updates=1000", "-q")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for _ in ("a new one", "one in place of that"):
        assert tierscope(*run, "-o", "link").returncode == 0
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "kept" / "result.json").is_file()
        assert {one.name for one in tmp_path.iterdir()} == {"link", "kept"}
    (tmp_path / "round").symlink_to("round")
    shown = tierscope(*run, "-o", "round")
    assert (shown.returncode, shown.stdout) == (125, "")
    assert "is a link to itself" in shown.stderr


@pytest.mark.parametrize(
    ("command", "status", "stores"),
    [
        ("{0} work 20; {0} work 30; exit 3", 3, 50),
        ("exec {0} work 40", 7, 40),
        ("env X=1 nice {0} work 40", 7, 40),
        ("{0} work 20 & {0} work 20 & wait", 0, 40),
        ("{0} shell popen {0}", 5, 3),
    ],
)
def test_machines_take_all_programs_that_a_shell_runs(
    tierscope: Runner, tmp_path: Path, execs: str, command: str, status: int, stores: int
) -> None:
    line = command.format(execs)
    shown = tierscope("run", *_SYSTEMS, "-o", "kept", "--", "sh", "-c", line)
    assert shown.returncode == status, shown.stderr
    assert "Program: seen from its first instruction to its exit" in shown.stdout
    assert "not recorded" not in shown.stdout
    kept = ts.load(tmp_path / "kept")
    assert kept.complete
    program = kept.data["program"]
    assert program is not None
    assert program["exit_status"] == status
    assert program["accesses"] > stores * 4096
    assert {system["instructions"] for system in kept.data["systems"].values()} == {
        program["instructions"]
    }


def test_a_make_with_two_recipes_under_way(tierscope: Runner, tmp_path: Path, execs: str) -> None:
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    (tmp_path / "Makefile").write_text(f"all: a b\na b:\n\t-@{execs} work 20\n")
    shown = tierscope("run", *_SYSTEMS, "--json", "--", "make", "-s", "-j2")
    assert shown.returncode == 0, shown.stderr
    assert '"completeness": "complete"' in shown.stdout


def test_what_cannot_be_recorded_is_named(tierscope: Runner, tmp_path: Path, execs: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    other = tmp_path / "other"
    shutil.copy(execs, other)
    os.chown(other, 65534, 65534)
    other.chmod(0o4755)
    shown = tierscope("run", *_SYSTEMS, "--", "sh", "-c", "./other work 1; exit 4")
    assert shown.returncode == 4
    told = " ".join(shown.stdout.split())
    assert "Partial: programs that its processes ran are not recorded: ./other (it runs" in told
    replaced = tierscope("run", *_SYSTEMS, "--", "sh", "-c", "exec ./other work 1")
    assert replaced.returncode == 7
    assert "the program ran ./other in its place" in " ".join(replaced.stdout.split())


def test_a_program_that_would_run_as_another_user_is_refused(
    tierscope: Runner, tmp_path: Path, execs: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    other = tmp_path / "other"
    shutil.copy(execs, other)
    os.chown(other, 65534, 65534)
    other.chmod(0o4755)
    for command in (("run", *_SYSTEMS), ("record", "-o", "app.tst")):
        refused = tierscope(*command, "--", "./other", "work", "1")
        assert refused.returncode == 125
        told = " ".join(refused.stderr.split())
        assert "error[unfit-program]: ./other: it runs as another user, and cannot be given" in told
        assert "a copy of the program that runs as its caller" in told
    assert not (tmp_path / "app.tst.partial").exists()
    other.chmod(0o755)
    assert tierscope("run", *_SYSTEMS, "--", "./other", "work", "1").returncode == 7


def test_a_program_without_memory_ends_as_it_would(tierscope: Runner, execs: str) -> None:
    shown = tierscope("run", *_SYSTEMS, "--", "sh", "-c", f"{execs} no-memory; exit $?")
    assert shown.returncode == 1
    assert "Program: seen from its first instruction to its exit" in shown.stdout
    assert "not recorded" not in shown.stdout


def test_a_program_that_fills_a_disk_ends_as_it_would(
    tierscope: Runner, tmp_path: Path, small_disk: Path, execs: str
) -> None:
    no_room = 28
    shown = tierscope("run", *_SYSTEMS, "-o", "kept", "--", execs, "fills", str(small_disk / "x"))
    assert shown.returncode == no_room, shown.stderr
    kept = ts.load(tmp_path / "kept")
    assert kept.complete
    assert kept["hybrid/quick"]["instructions"] == kept["oracle/quick"]["instructions"]


def test_a_disk_that_is_full_keeps_nothing_by_halves(
    tierscope: Runner, small_disk: Path, execs: str
) -> None:
    (small_disk / "filler").write_bytes(bytes(240 << 10))
    shown = tierscope("run", *_SYSTEMS, "-o", str(small_disk / "kept"), "--", execs, "work", "9")
    assert shown.returncode == 125
    assert "Traceback" not in shown.stderr
    assert "No space left on device" in " ".join(shown.stderr.split())
    made = tierscope(
        "record", "-o", str(small_disk / "x.tst"), "--", execs, "shell", "system", "ls"
    )
    assert made.returncode == 125
    assert "no space left on device" in " ".join(made.stderr.split()).lower()
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
