"""The scripts that record real programs, at their quickest."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from conftest import needs_qemu

REAL = Path(__file__).parents[2] / "examples" / "real"
SCRIPTS = sorted(path.stem for path in REAL.glob("*.py") if path.stem != "common")
MISSING = 77
THREADS = {
    "bfs": (4, 4),
    "gups": (4, 4),
    "kmeans": (4, 4),
    "mmap_benchmark": (4, 4),
    "nas": (4, 4),
    "nn": (4, 4),
    "berkeley_db": (1, 1),
    "postmark": (1, 1),
    "sqlite": (1, 1),
    # Jobs and threads of its own; the server's; processes, of which some come and go; BLAS's.
    "fio": (2, 4),
    "redis": (5, 6),
    "postgresql": (8, 20),
    "numpy_matmul": (1, 256),
}
"""The fewest and the most threads that a program of each script has."""


def command(script: str, *options: str) -> list[str]:
    return [sys.executable, str(REAL / f"{script}.py"), "--no-install", *options]


def environment(scratch: Path) -> dict[str, str]:
    tierscope = f"{sys.executable} -m tierscope"
    return {**os.environ, "TMPDIR": str(scratch), "TIERSCOPE": tierscope, "PYTHONUTF8": "1"}


def test_each_script_parses_says_what_it_does_and_is_listed() -> None:
    assert {"sqlite", "gups", "postgresql", "numpy_matmul"} <= set(SCRIPTS)
    listed = (REAL / "README.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        tree = ast.parse((REAL / f"{script}.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), script
        assert f"`{script}.py`" in listed


def test_programs_of_ours_compile_without_a_remark(tmp_path: Path) -> None:
    import tierscope

    include = f"-I{tierscope.include_dir()}"
    sources = [path for path in (REAL / "src").glob("*.c") if path.stem != "berkeley_db"]
    assert len(sources) >= 9
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-fsyntax-only", include]
    subprocess.run(["cc", *flags, *map(str, sources)], cwd=tmp_path, check=True)


@needs_qemu
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_real_program_is_recorded_and_replayed(script: str, tmp_path: Path) -> None:
    # Sockets have short names, which those of pytest's directories are not.
    scratch = Path(tempfile.mkdtemp(prefix="real-"))
    # One replay does: all take the same way.
    systems = "hybrid/quick" if script == "gups" else ""
    options = ("-s", systems, "--costs", str(tmp_path / "costs.json"), "--keep", str(tmp_path))
    shown = subprocess.run(
        command(script, *options),
        env=environment(scratch),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if shown.returncode == MISSING:
        assert "sudo apt-get install" in shown.stderr
        pytest.skip(shown.stderr)
    assert shown.returncode == 0, shown.stderr
    lines = (tmp_path / "costs.json").read_text(encoding="utf-8").splitlines()
    costs = [json.loads(line) for line in lines]
    assert costs
    for cost in costs:
        fewest, most = THREADS[script]
        assert fewest <= cost["threads"] <= most
        assert cost["accesses"] > 10_000
        # Processes of some share System V memory, which is told not to be recorded.
        assert (cost["missing"] == []) == (script not in {"fio", "postgresql"})
        assert cost["file_bytes"] == (tmp_path / f"{cost['name']}.tst").stat().st_size
    if systems:
        assert "hybrid/quick" in shown.stdout
    scratch.rmdir()  # It has left nothing behind.


@needs_qemu
def test_a_script_that_is_asked_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    shown = subprocess.Popen(
        command("gups", "-s", ""),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(tmp_path.glob("*/recordings/gups.tst.partial")):
        assert shown.poll() is None, "it ended before it recorded"
        time.sleep(0.01)
    # A second request, as by a supervisor that signals a whole group, changes nothing.
    shown.send_signal(signal.SIGTERM)
    shown.send_signal(signal.SIGTERM)
    _, errors = shown.communicate(timeout=60)
    assert shown.returncode == 128 + signal.SIGTERM, errors
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_named_with_its_package() -> None:
    with tempfile.TemporaryDirectory() as empty:
        shown = subprocess.run(
            command("postmark"),
            env={**os.environ, "PATH": empty},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert shown.returncode == MISSING
    assert shown.stderr.startswith("postmark.py: missing: qemu-x86_64, postmark; ")
    assert shown.stderr.endswith("sudo apt-get install qemu-user postmark\n")
