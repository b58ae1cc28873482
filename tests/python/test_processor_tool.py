"""`tools/processor`: a processor's caches, TLB and queues by a clock, and a machine's beside."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import needs_qemu

TOOL = Path(__file__).parents[2] / "tools" / "processor"
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def run(*arguments: str) -> str:
    """What it prints."""
    command = [sys.executable, str(TOOL), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick measurement of the processor that the tests run on."""
    path = tmp_path_factory.mktemp("processor") / "measured.txt"
    path.write_text(run("measure", "--quick"))
    return path


@needs_gcc
def test_latencies_grow_with_the_footprint_and_fall_with_loads_at_once(measured: Path) -> None:
    lines = [json.loads(line) for line in measured.read_text().splitlines()]
    assert all(0 < line["least_ns"] <= line["median_ns"] <= line["ninth_ns"] for line in lines)
    least = {(line["pattern"], line["bytes"], line["at_once"]): line["least_ns"] for line in lines}
    chases = [time for (pattern, _, _), time in sorted(least.items()) if pattern == "chase"]
    assert len(chases) == 3
    # What no first level holds takes longer than twice what the first level has, on any processor.
    assert chases[-1] > 2 * chases[0]
    assert least["loads", 512 << 10, 8] < least["loads", 512 << 10, 1]


def test_a_file_that_is_no_measurement_is_told_with_its_line(tmp_path: Path) -> None:
    row = '{"pattern": "dance", "bytes": 0, "at_once": 1, "steps": 1, "turns": 1, "pages": "small"}'
    for text, told in [("", "has no rows"), ('# a\n{"a"', ":2: no row"), (row, ":1: no row")]:
        (tmp_path / "wrong").write_text(text)
        command = [sys.executable, str(TOOL), "compare", str(tmp_path / "wrong")]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        assert ended.returncode == 1
        assert told in ended.stderr
        assert "tools/processor measure >" in ended.stderr


@needs_gcc
@needs_qemu
def test_every_row_is_compared_with_the_machine(measured: Path) -> None:
    rows = [json.loads(line) for line in measured.read_text().splitlines()]
    heading, *table = run("compare", str(measured)).splitlines()
    assert heading.split() == ["operation", "least", "median", "ninth", "model", "error"]
    assert len(table) == len(rows)
    for row, line in zip(rows, table, strict=True):
        *_, least, median, ninth, model, error, percent = line.split()
        assert percent == "%"
        assert [float(least), float(median), float(ninth)] == pytest.approx(
            [row["least_ns"], row["median_ns"], row["ninth_ns"]], abs=0.006
        )
        assert float(error) == pytest.approx((float(model) / row["least_ns"] - 1) * 100, abs=6)
    # A hit of the second level takes what the description says: 14 cycles of 4.4 GHz.
    (second_level,) = [line for line in table if line.startswith("chase, 512 KiB")]
    assert 3.18 < float(second_level.split()[-3]) < 4
