"""`tierscope init`: a description to start from is the machine that it was made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner
from tierscope import _core
from tierscope._call import parsed

PRESETS = [name for name, _ in parsed(_core.list_systems())]
GUPS = ts.workload("gups", updates=400, table="8MiB", random=0.5)


def work_for(preset: str, folder: Path) -> ts.Generated | ts.Recorded | ts.MemoryTrace:
    """What such a system can run."""
    if not preset.startswith("device/"):
        return GUPS
    file = folder / "some.trc"
    lines = [f"{number * 997 % 4096 * 64:#x} R" for number in range(400)]
    file.write_text("\n".join(lines), encoding="utf-8")
    return ts.MemoryTrace("ramulator", file)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_description_to_start_from_gives_the_presets_result(
    tierscope: Runner, tmp_path: Path, preset: str
) -> None:
    written = tierscope("init", preset, "-o", "mine.toml")
    assert (written.returncode, written.stderr) == (0, "")
    checked = tierscope("check", "mine.toml")
    assert (checked.returncode, checked.stdout) == (0, "mine.toml: no mistake\n")
    mine = ts.system(tmp_path / "mine.toml")
    assert mine == ts.system(preset)
    work = work_for(preset, tmp_path)
    figures, expected = (ts.run(one, work).data["systems"][preset] for one in (mine, preset))
    for changing in ("wall_s", "accesses_per_wall_s"):
        del figures[changing], expected[changing]
    assert figures == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_each_value_has_its_meaning_and_its_source(tierscope: Runner, preset: str) -> None:
    lines = tierscope("init", preset).stdout.splitlines()
    assert max(len(line) for line in lines if line.startswith("#")) <= 100
    if preset.startswith("device/") and "[store]" in lines:
        place = lines.index("# Bytes read or written as one: a power of two.")
        assert lines[place + 1].startswith('page = "4KiB"  # ')
    elif "[ssd]" in lines:
        place = lines.index("# What it offers to the host.")
        assert lines[place + 1].startswith("capacity = ")
    elif "[disk]" in lines and preset.startswith("device/"):
        place = lines.index("# Revolutions a minute.")
        assert lines[place + 1].startswith("rpm = 7200  # ")
    elif preset.startswith("device/") and "[nvm]" in lines:
        place = lines.index("# Channels, each with its own bus and queues.")
        assert lines[place + 1].startswith("channels = 1  # ")
    elif preset.startswith("device/") and "[haste]" in lines:
        place = next(n for n, line in enumerate(lines) if line.startswith("buffers = "))
        assert lines[place].startswith("buffers = 4  # ")
        assert lines[place - 1].startswith("# ")
    elif preset.startswith("device/"):
        place = lines.index("# Channels, each with its own data bus and controller.")
        assert lines[place + 1].startswith("channels = 1  # ")
    else:
        assert "# Number of cores." in lines
        place = lines.index("# Associativity of the first level.")
        assert re.match(r"ways = \d+  # \S", lines[place + 1])
    values = [line for line in lines if " = " in line and not line.startswith("#")]
    without = [line for line in values if "  # " not in line]
    assert [line.partition(" ")[0] for line in without] == ["name", "description"]
    assert "  # preset" not in "\n".join(values), "a place in a preset is nobody's source"


def test_a_file_that_is_there_is_left_alone(tierscope: Runner, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("precious", encoding="utf-8")
    refused = tierscope("init", "hybrid", "-o", "mine.toml")
    assert (refused.returncode, refused.stdout) == (125, "")
    assert refused.stderr == (
        "error[exists]: mine.toml is there already, and is left alone\n"
        "  = name another file, or remove it first\n"
    )
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == "precious"


def test_init_alone_lists_what_can_be_begun_from(tierscope: Runner) -> None:
    listed = tierscope("init")
    assert listed.returncode == 0
    for preset in PRESETS:
        assert preset in listed.stdout.split()


def test_a_machine_of_ones_own_can_be_begun_from(tierscope: Runner, tmp_path: Path) -> None:
    text = 'base = "hybrid/quick"\nname = "wide"\n[hybrid.cache]\nways = 8  # my choice\n'
    (tmp_path / "wide.toml").write_text(text, encoding="utf-8")
    shown = tierscope("init", "wide.toml").stdout
    assert "\n# Associativity, 1 to 64.\nways = 8  # my choice\n" in shown


def test_an_unknown_system_is_told_and_nothing_written(tierscope: Runner, tmp_path: Path) -> None:
    refused = tierscope("init", "hybird", "-o", "mine.toml")
    assert refused.returncode == 125
    assert 'did you mean "hybrid"?' in refused.stderr
    assert list(tmp_path.iterdir()) == []
    assert "name one" in tierscope("init", "-o", "mine.toml").stderr
