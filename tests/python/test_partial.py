"""A recording knows what of its program is not in it, and its replays say so."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, needs_qemu

_GUESTS = Path(__file__).parents[1] / "guest"
_EXAMPLE = Path(__file__).parents[2] / "examples" / "data"


@pytest.fixture(scope="session")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of programs to record."""
    folder = tmp_path_factory.mktemp("guests")
    for name in ("execs", "ends", "marked"):
        include = Path(ts.include_dir())
        command = [os.environ.get("CC", "cc"), "-O1", "-pthread", f"-I{include}"]
        subprocess.run([*command, "-o", folder / name, _GUESTS / f"{name}.c"], check=True)
    return folder


@needs_qemu
def test_what_a_recording_lacks_makes_its_replay_partial(
    tierscope: Runner, tmp_path: Path, guests: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    other = tmp_path / "other"
    shutil.copy(guests / "execs", other)
    os.chown(other, 65534, 65534)
    other.chmod(0o4755)
    made = tierscope("record", "-o", "app.tst", "--", "sh", "-c", "./other work 1; exit 4")
    assert made.returncode == 4, made.stderr
    why = "programs that its processes ran are not recorded: ./other (it runs as another user)"
    assert why in made.stderr
    info = tierscope("trace", "info", "app.tst").stdout
    assert f"Missing: {why} " in " ".join(info.split())
    assert "Ended:                  exit status 4\n" in info
    replayed = tierscope("run", "-s", "oracle/quick", "-w", "trace:app.tst")
    assert replayed.returncode == 0, replayed.stderr
    assert f"Partial: {why}." in " ".join(replayed.stdout.split())
    limited = ts.run("oracle/quick", f"trace:{tmp_path / 'app.tst'}", limit=1000)
    reason = limited.data["partial_reason"] or ""
    assert reason == f"{why}; the limit of 1000 accesses was reached"


@needs_qemu
@pytest.mark.parametrize(("how", "name"), [("crash", "11 (SIGSEGV)"), ("kill", "9 (SIGKILL)")])
def test_a_replay_of_a_program_that_was_killed_is_partial(
    tierscope: Runner, tmp_path: Path, guests: Path, how: str, name: str
) -> None:
    made = tierscope("record", "-o", "app.tst", "--", str(guests / "ends"), how)
    assert made.returncode > 128, made.stderr
    replayed = ts.run("oracle/quick", f"trace:{tmp_path / 'app.tst'}")
    assert not replayed.complete
    reason = replayed.data["partial_reason"]
    cut = "the recording ends before its program came to an end of its own"
    assert reason == f"{cut}: signal {name}"
    limited = ts.run("oracle/quick", f"trace:{tmp_path / 'app.tst'}", limit=1000)
    assert limited.data["partial_reason"] == "the limit of 1000 accesses was reached"


@needs_qemu
def test_a_whole_recording_says_that_nothing_is_missing(tierscope: Runner) -> None:
    assert tierscope("record", "-q", "-o", "app.tst", "--", "true").returncode == 0
    assert "Missing:                nothing\n" in tierscope("trace", "info", "app.tst").stdout
    replayed = tierscope("run", "-s", "oracle/quick", "-w", "trace:app.tst", "--json")
    assert json.loads(replayed.stdout)["completeness"] == "complete"


def test_a_recording_of_an_earlier_version_does_not_tell_what_is_missing(
    tierscope: Runner,
) -> None:
    earlier = Path(__file__).parent / "data" / "sqlite-version-1.tst"
    told = tierscope("trace", "info", str(earlier)).stdout
    assert "Missing:                unknown: version 1 of the format does not tell\n" in told
    assert ts.run("oracle/quick", f"trace:{earlier}", limit="10k").data["partial_reason"]


def test_what_a_recording_says_of_itself_does_not_reach_the_terminal_raw(
    tierscope: Runner, tmp_path: Path
) -> None:
    [example] = _EXAMPLE.glob("*.tst")
    whole = example.read_bytes()
    (length,) = struct.unpack_from("<I", whole, 12)
    metadata = json.loads(whole[16 : 16 + length])
    metadata["recorder"], metadata["command"] = "\x1b[31mred\r\x07", ["\x1b]0;title\x07", "\x9b1m"]
    text = json.dumps(metadata).encode()
    head = whole[:12] + struct.pack("<I", len(text)) + text
    forged = head + struct.pack("<I", zlib.crc32(head)) + whole[20 + length :]
    (tmp_path / "forged.tst").write_bytes(forged)
    shown = tierscope("trace", "info", "forged.tst", "--allow-truncated")
    assert shown.returncode == 0, shown.stderr
    assert "Recorded by:            \\x1b[31mred\\r\\x07, tierscope" in shown.stdout
    assert "Program:                \\x1b]0;title\\x07 \\x9b1m\n" in shown.stdout
    assert shown.stdout.replace("\n", "").isprintable()


@needs_qemu
def test_a_region_whose_end_never_comes_makes_the_result_partial(
    tierscope: Runner, guests: Path
) -> None:
    run = ("run", "-s", "oracle/quick", "--roi-start", "main", "--roi-stop", "abort")
    shown = tierscope(*run, "--json", "--", str(guests / "execs"), "work", "1")
    assert shown.returncode == 7, shown.stderr
    result = json.loads(shown.stdout)
    assert result["completeness"] == "partial"
    assert result["partial_reason"].startswith("the mark that ends the region of interest did not")


@needs_qemu
def test_a_recording_without_marks_is_refused_before_it_is_replayed(
    tierscope: Runner, tmp_path: Path, guests: Path
) -> None:
    program = (str(guests / "execs"), "work", "1")
    for name, marks in (("plain.tst", ()), ("begins.tst", ("--roi-start", "main"))):
        made = tierscope("record", "-q", "-o", name, *marks, "--", *program)
        assert made.returncode == 7, made.stderr
    refused = tierscope("run", "-s", "oracle/quick", "-w", "trace:plain.tst", "--roi")
    assert refused.returncode == 125
    why = "error[bad-region]: the workload has no mark that begins a region of interest"
    assert why in refused.stderr
    # Where it is known that no mark ends the region, it ends with the workload.
    shown = tierscope("run", "-s", "oracle/quick", "-w", "trace:begins.tst", "--roi", "--json")
    assert shown.returncode == 0, shown.stderr
    region = json.loads(shown.stdout)
    assert region["completeness"] == "complete"
    whole = ts.run("oracle/quick", f"trace:{tmp_path / 'plain.tst'}")
    accesses = whole["oracle/quick"]["accesses"]
    assert 0 < region["systems"]["oracle/quick"]["accesses"] < accesses
    with pytest.raises(ts.RunError, match="and the workload has about"):
        ts.run("oracle/quick", f"trace:{tmp_path / 'plain.tst'}", skip=3 * accesses)
    with pytest.raises(ts.RunFailedError, match=r"the workload ended before .*; skip fewer"):
        ts.run("oracle/quick", f"trace:{tmp_path / 'plain.tst'}", skip=accesses + 1)
