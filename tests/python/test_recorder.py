"""Real programs under the recorder. They need QEMU's user-mode emulation with plugins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu

pytestmark = needs_qemu


def test_a_program_runs_on_three_machines(tierscope: Runner, tmp_path: Path) -> None:
    systems = ("-s", "hybrid/quick,storage/quick,oracle/quick")
    shown = tierscope("run", *systems, "--native", "-o", "kept", "--", "echo", "hello there")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("hello there\n"), "its output comes through"
    assert "Program: seen from its first instruction to its exit" in shown.stdout
    kept = ts.load(tmp_path / "kept")
    program = kept.data["program"]
    assert program is not None
    assert program["exit_status"] == 0
    assert program["slowdown_against_native"] is not None
    assert kept.data["workload"]["kind"] == "live"
    assert kept.data["workload"]["command"] == ["echo", "hello there"]
    assert {system["instructions"] for system in kept.data["systems"].values()} == {
        program["instructions"]
    }


def test_json_has_stdout_for_itself(tierscope: Runner) -> None:
    shown = tierscope("run", "-s", "oracle/quick", "--json", "--", "echo", "hello")
    assert shown.stderr == "hello\n"
    assert json.loads(shown.stdout)["completeness"] == "complete"


@pytest.mark.parametrize("status", [0, 3, 126])
def test_the_exit_status_is_the_programs(tierscope: Runner, status: int) -> None:
    assert tierscope(
        "run", "-s", "oracle/quick", "--", "sh", "-c", f"exit {status}"
    ).returncode == (status)


def test_a_programs_input_is_its_own(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tierscope", "run", "-s", "oracle/quick", "--json", "--", "cat"],
        cwd=tmp_path,
        input="from the terminal\n",
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert shown.stderr == "from the terminal\n"


def test_an_end_that_was_asked_for_ends_the_program_too(tierscope: Runner) -> None:
    begun = time.monotonic()
    loop = "while :; do :; done"
    shown = tierscope("run", "-s", "oracle/quick", "--time-limit", "2", "--", "sh", "-c", loop)
    assert shown.returncode == 0
    assert "Partial: the time limit of 2 s was reached." in shown.stdout
    assert time.monotonic() - begun < 30


def test_a_recording_replays_as_the_program_ran(tierscope: Runner, tmp_path: Path) -> None:
    program = ("sh", "-c", "echo recorded; exit 4")
    made = tierscope("record", "-o", "app.tst", "--", *program)
    assert (made.returncode, made.stdout) == (4, "recorded\n")
    assert made.stderr.startswith("tierscope: app.tst: ")
    info = tierscope("trace", "info", "app.tst").stdout
    assert "Program:                sh -c echo recorded; exit 4" in info
    assert "QEMU" in info
    systems = ["hybrid/quick", "oracle/quick"]
    first = ts.compare(systems, f"trace:{tmp_path / 'app.tst'}")
    again = ts.compare(systems, f"trace:{tmp_path / 'app.tst'}")
    assert first.complete
    assert first.data["workload"]["command"] == list(program)
    assert [first[name]["time_ps"] for name in systems] == [
        again[name]["time_ps"] for name in systems
    ]


def test_an_earlier_recording_is_replaced_and_other_files_are_not(
    tierscope: Runner, tmp_path: Path
) -> None:
    (tmp_path / "app.tst").touch()
    first = tierscope("record", "-o", "app.tst", "--", "true")
    assert first.returncode == 0, first.stderr
    assert "in place of" not in first.stderr, "the file was empty"
    again = tierscope("record", "-o", "app.tst", "--", "sh", "-c", ":")
    assert again.stderr.endswith(", in place of an earlier recording\n")
    assert "sh -c :" in tierscope("trace", "info", "app.tst").stdout
    text = b"\x89TST is how it begins"
    (tmp_path / "mine.tst").write_bytes(text)
    with pytest.raises(ts.RunError, match="is no recording, and is left alone"):
        ts.record(["true"], tmp_path / "mine.tst")
    assert (tmp_path / "mine.tst").read_bytes() == text


def test_a_recording_tells_what_becomes_of_files(tierscope: Runner, tmp_path: Path) -> None:
    """In several processes, of a name that is no text, of a file with a deleted one's inode."""
    name = b"a\xff\\b"
    program = f"""
import os
os.chdir({str(tmp_path)!r})
for text in (b"first", b"second"):
    with open({name!r}, "wb", 0) as made:
        made.write(text * 200000)
    os.system("rm ./a*")
with open("x", "wb", 0) as made:
    made.write(b"x" * 1000000)
with open("x", "rb") as source, open("y", "wb") as target:
    assert os.sendfile(target.fileno(), source.fileno(), 0, 1000000) == 1000000
open("x", "wb").close()
os.rename("y", "x")
with open("x", "rb+", 0) as vectors:
    assert os.writev(vectors.fileno(), [b"1", b"22", b"333"]) == 6
"""
    ts.record([sys.executable, "-c", program], tmp_path / "made.tst")
    info = ts.trace_info(f"trace:{tmp_path / 'made.tst'}")
    assert info.files is not None
    calls = info.files["calls"]
    assert (calls["deletes"], calls["copies"], calls["holes"]) == (3, 1, 0)
    assert calls["truncates"] == 1, "opening empties what is there alone"
    path = tmp_path / "made.tst"
    assert info.remarks == []
    assert info.files["mapped_touches"] > 0, "libraries are mapped"
    written = [one for one in info.files["most_used"] if one["name"].startswith(str(tmp_path))]
    mine = sorted((Path(one["name"]).name, one["writes"], one["written_bytes"]) for one in written)
    assert mine == [
        ("a\\xff\\\\b", 1, 1000000),
        ("a\\xff\\\\b", 1, 1200000),
        ("x", 1, 1000000),
        ("y", 2, 1000006),
    ]
    ran = tierscope("run", "-s", "storage/quick,storage/ext4", "-w", f"trace:{path}", "--json")
    assert ran.returncode == 0, ran.stderr
    for system in json.loads(ran.stdout)["systems"].values():
        assert system["calls"]["copy_file_range"]["bytes"] == 1000000


def test_calls_of_which_nothing_is_recorded_are_counted_and_told(tmp_path: Path) -> None:
    program = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, 4096, 0o1600)
for number in range(2):
    ctypes.memset(libc.shmat(segment, None, 0), number, 4096)
libc.shmctl(segment, 0, None)
# There is no segment of that number.
libc.shmat(-1, None, 0)
"""
    ts.record([sys.executable, "-c", program], tmp_path / "made.tst")
    remarks = " ".join(ts.trace_info(f"trace:{tmp_path / 'made.tst'}", brief=False).remarks)
    assert "2 attached segments of shared memory (shmat)" in remarks


def test_what_is_left_of_a_recording_is_not_written_over(tierscope: Runner, tmp_path: Path) -> None:
    """Nor what a link in its place points to, nor a recording that is under way."""
    other = tmp_path / "thesis.txt"
    other.write_text("mine", encoding="utf-8")
    partial = tmp_path / "a.tst.partial"
    for leave in (lambda: partial.symlink_to(other), lambda: partial.write_bytes(b"left")):
        leave()
        refused = tierscope("record", "-o", "a.tst", "--", "true")
        assert refused.returncode == 125
        assert "a.tst.partial is there, of a recording that is under way" in refused.stderr
        assert other.read_text(encoding="utf-8") == "mine"
        assert not (tmp_path / "a.tst").exists()
        partial.unlink()
    assert tierscope("record", "-o", "a.tst", "--", "true").returncode == 0


def test_a_damaged_recording_is_an_error_that_names_the_block(
    tierscope: Runner, tmp_path: Path
) -> None:
    tierscope("record", "-o", "app.tst", "--", "ls", "/")
    whole = (tmp_path / "app.tst").read_bytes()
    (tmp_path / "cut.tst").write_bytes(whole[: len(whole) * 2 // 3])
    refused = tierscope("run", "-s", "oracle/quick", "-w", "trace:cut.tst")
    assert refused.returncode == 125
    assert "block" in refused.stderr
    assert "--allow-truncated" in refused.stderr
    taken = tierscope("run", "-s", "oracle/quick", "-w", "trace:cut.tst", "--allow-truncated")
    assert taken.returncode == 0, taken.stderr
    assert "Partial: the recording is cut short: block" in taken.stdout


_REGION = """
import sys, tierscope
assert {"rich", "polars"}.isdisjoint(sys.modules)
with tierscope.roi():
    sum(range(1000))
tierscope.roi_begin()
"""


def test_a_python_program_marks_its_region(tierscope: Runner, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_REGION, encoding="utf-8")
    options = ("run", "-s", "oracle/quick", "--roi", "--json", "--")
    shown = tierscope(*options, sys.executable, "program.py")
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    assert result["completeness"] == "complete"
    system = result["systems"]["oracle/quick"]
    assert 5_000 < system["instructions"] < 1_000_000, "the sum alone"
    assert system["skipped"]["instructions"] > 10_000_000, "the interpreter's start"


def marked(tmp_path: Path) -> Path:
    """A program that marks the second of its four stores to `words`, and the third, as a region."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "marked"
    source = Path(__file__).parents[1] / "guest" / "marked.c"
    command = [compiler, "-O1", f"-I{ts.include_dir()}", "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    return program


def test_a_region_that_a_program_marks_is_all_that_is_counted(
    tierscope: Runner, tmp_path: Path
) -> None:
    program = marked(tmp_path)
    result = ts.run("oracle/quick", ts.program(str(program)), roi=True)
    assert result.data["completeness"] == "complete"
    assert result["oracle/quick"]["accesses"] == 2
    assert "the whole region of interest" in result.report()
    recorded = tierscope("record", "-q", "-o", "m.tst", "--", str(program))
    assert recorded.returncode == 0, recorded.stderr
    replayed = ts.run("oracle/quick", f"trace:{tmp_path / 'm.tst'}", roi=True)
    assert replayed["oracle/quick"]["accesses"] == 2


@pytest.mark.parametrize("kept", [False, True])
def test_a_pointer_chase_takes_a_latency_a_step(
    tierscope: Runner, tmp_path: Path, kept: bool
) -> None:
    source = Path(__file__).parents[1] / "guest" / "depend.c"
    program = str(tmp_path / "depend")
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O1", f"-I{ts.include_dir()}", "-o", program, str(source)]
    subprocess.run(command, check=True)
    nodes, steps = 1 << 16, 20_000

    def step_ps(way: str) -> float:
        work: ts.Program | str = ts.program(program, way, str(nodes), str(steps))
        if kept:
            name = f"{way}.tst"
            made = tierscope("record", "-q", "-o", name, "--", program, way, str(nodes), str(steps))
            assert made.returncode == 0, made.stderr
            work = f"trace:{tmp_path / name}"
        return ts.run("oracle/quick", work, roi=True)["oracle/quick"]["time_ps"] / steps

    table, chase = f"{nodes * 64}B", step_ps("chase")
    built_in = ts.workload("chase", table=table, steps=steps, instructions=3, touched=True)
    alone = ts.run("oracle/quick", built_in)["oracle/quick"]["time_ps"] / steps
    assert chase == pytest.approx(alone, rel=0.1)
    assert step_ps("list") == pytest.approx(chase, rel=0.1), "the second load is of the same line"
    assert step_ps("gather") < chase / 2, "elements wait for their numbers, and not for each other"


def test_functions_begin_and_end_a_region_by_name(tierscope: Runner, tmp_path: Path) -> None:
    program = str(marked(tmp_path))
    whole = ts.run("oracle/quick", ts.program(program))["oracle/quick"]
    part = ts.run("oracle/quick", ts.program(program, roi_start="main"))["oracle/quick"]
    assert part["skipped"] is not None
    assert part["skipped"]["accesses"] + part["accesses"] == whole["accesses"]
    assert 4 <= part["accesses"] < whole["accesses"]
    unknown = tierscope("run", "-s", "oracle/quick", "--roi-start", "mian", "--", program)
    assert unknown.returncode == 125
    assert "did you mean main?" in unknown.stderr
    needless = tierscope("run", "-s", "oracle/quick", "--roi-stop", "main", "-w", "gups")
    assert needless.returncode == 125
    assert "--roi-stop needs a program" in needless.stderr
