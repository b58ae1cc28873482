"""Counts without times: one pass gives what each point's own would."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import tierscope as ts
from conftest import Runner
from tierscope import _counts
from tierscope.sweeps.points import points

STUDY = """
name = "counts"
systems = ["hybrid/quick", "storage/quick"]
workloads = [{ name = "gups", parameters = { updates = 3000, table = "8MiB" } }]
counts_only = true
skip = 500

[set]
"hybrid.prefetch_pages" = 0
"processor.caches.L3.capacity" = "320KiB"

[parameters]
"hybrid.cache.ways" = [1, 4]
"hybrid.cache.replacement" = ["lru", "random"]

[parameters.dram]
paths = ["hybrid.cache.capacity", "storage.dram_capacity"]
values = ["1MiB", "32MiB"]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The file of a small study."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace('"1MiB"', '"4MiB"'))
    return path


def test_each_points_counts_are_those_of_its_own_pass(study: Path, tmp_path: Path) -> None:
    done = ts.sweep(study, tmp_path / "out")
    table = done.table()
    assert done.complete
    assert done.counts_only
    for row, point in zip(table.iter_rows(named=True), points(ts.load_study(study)), strict=True):
        (own,), failed = _counts.count([point.machine], point.work, skip=500)
        assert failed is None
        told = {key: row[key] for key in own if key != "partial_reason"}
        assert told == {key: value for key, value in own.items() if key != "partial_reason"}
        assert row["hits"] + row["misses"] == row["lookups"] > 0
    hybrids = table.filter(pl.col("system") == "hybrid/quick")
    assert hybrids["pass"].unique().to_list() == [0]
    assert hybrids["pass_points"].unique().to_list() == [8]
    # What pages by itself has a pass of its own for each machine that differs.
    paged = table.filter(pl.col("system") == "storage/quick")
    assert paged["pass"].n_unique() == 2
    assert hybrids["misses"].n_unique() > 2


def test_a_sweep_of_counts_that_lost_points_gets_the_same_table(
    study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ts.sweep(study, out)
    whole = (out / "sweep.parquet").read_bytes()
    files = sorted((out / "points").glob("*.json"))
    for path in files[::2]:
        path.unlink()
    damaged = files[1]
    damaged.write_text(damaged.read_text().replace('"lookups"', '"look"'))
    ts.sweep(study, out, workers=1)
    assert (out / "sweep.parquet").read_bytes() == whole


def test_counts_are_shown_in_tables_pages_and_plots(
    study: Path, tmp_path: Path, tierscope: Runner
) -> None:
    out = tmp_path / "out"
    shown = tierscope("sweep", str(study), "-o", str(out)).stdout
    assert "Counts without times, from 3 functional passes" in shown
    assert "(number)" in shown
    assert max(map(len, shown.splitlines())) <= 80
    page = tmp_path / "page.html"
    assert tierscope("report", str(out), "-o", str(page)).returncode == 0
    assert "counts without times" in page.read_text()
    done = ts.load_sweep(out)
    figure = done.plot_lines("dram", ["misses", "write_back_pages"])
    assert "counts without times" in figure.get_suptitle()
    assert "look-ups" in done._repr_html_()
    with pytest.raises(ts.TierscopeError, match="has counts alone") as error:
        done.result(0)
    assert error.value.hint is not None
    assert json.loads(done.to_json())["region"]["counts_only"] is True
    told = tierscope("sweep", str(study), "-o", str(tmp_path / "new"), "--dry-run").stdout
    assert "of 3 functional passes" in told


def test_what_cannot_be_counted_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'systems = ["hybrid/quick"]\nworkloads = ["gups"]\ncounts_only = true\n'
        'limit = "5ms"\nsample = true\n'
    )
    with pytest.raises(ts.SpecError) as error:
        ts.load_study(path)
    found = {problem.path: problem for problem in error.value.problems}
    assert found["limit"].place == f"{path}:4:9"
    assert found["sample"].code == "contradiction"
    path.write_text('systems = ["hybrid/quick"]\nworkloads = ["gups"]\ncounts_only = true\n')
    with pytest.raises(ts.SpecError) as error:
        ts.sweep(path, tmp_path / "out")
    (problem,) = error.value.problems
    assert problem.place == f"{path}:3:15"
    assert "set hybrid.prefetch_pages = 0" in problem.reason
    path.write_text('systems = ["oracle/quick"]\nworkloads = ["gups"]\ncounts_only = 1\n')
    with pytest.raises(ts.SpecError, match="neither true nor false"):
        ts.load_study(path)
