"""Whole distributions tell what a result's figures tell, and are drawn on pages and for papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
import vl_convert
from tierscope import distribution_plots, distributions
from tierscope._shape import ResultData
from tierscope.pages import charts, distribution_charts
from tierscope.pages.page import VEGA_LITE


@pytest.fixture(scope="module")
def result() -> ts.Result:
    """Two machines."""
    return ts.compare(["hybrid/quick", "storage/quick"], ts.workload("gups", updates=3000))


@pytest.fixture(scope="module")
def worn() -> ts.Result:
    """Memory that wears, of which a few lines are written often."""
    return ts.run("device/pcm", ts.workload("random", footprint="4KiB", reads=0.2), limit=3000)


@pytest.fixture(scope="module")
def alone() -> ts.Result:
    """A drive alone."""
    return ts.run("device/z-ssd", ts.workload("random"), limit=3000)


def test_a_histogram_is_of_all_accesses_and_has_their_mean(
    result: ts.Result, alone: ts.Result
) -> None:
    for one in (result, alone):
        for name in one:
            system = one[name]
            found = system["latency_distribution"]
            assert found is not None
            assert sum(found["counts"]) == system["accesses"]
            middles = [
                (a + b) / 2 * n
                for a, b, n in zip(found["from_ps"], found["to_ps"], found["counts"], strict=True)
            ]
            latency = system["latency_ns"]
            assert latency is not None
            assert sum(middles) / system["accesses"] == pytest.approx(
                latency["mean"] * 1e3, rel=1 / 32
            )
            points = distributions.at_least(found)
            assert points[0][1] == 1.0
            shares = [share for _, share in points]
            assert shares == sorted(shares, reverse=True)
            longer = next(share for at, share in points if at >= latency["p99"])
            assert longer <= 0.0101
            assert sum(share for _, _, share in distributions.bins(found)) == pytest.approx(1.0)


def test_a_map_of_addresses_counts_what_areas_count(result: ts.Result, alone: ts.Result) -> None:
    for name in result:
        found = result[name]["heat_map"]
        assert found is not None
        counted = sum(cost["accesses"] for cost in result[name]["areas"].values())
        assert sum(map(sum, found["counts"])) == counted
        for rows, columns in ((128, 128), (40, 50), (3, 2), (1, 1)):
            joined = distributions.heat_map(found, rows, columns)
            assert sum(map(sum, joined.counts)) == counted
            assert len(joined.counts) <= rows
            assert max(map(len, joined.counts)) <= columns
            assert all(address % joined.row_bytes == 0 for address in joined.addresses)
    (drive,) = (alone[name] for name in alone)
    found = drive["heat_map"]
    assert found is not None
    device = drive["device"]
    assert device is not None
    assert sum(map(sum, found["counts"])) == drive["accesses"] - device["flushes"]


def test_rows_that_are_joined_stay_where_they_were_and_gaps_are_told() -> None:
    found: Any = {
        "row_bytes": 4096,
        "column_ps": 1024,
        "addresses": [0x3000, 0x4000, 0x5000, 0x9000],
        "counts": [[1, 0, 0], [2, 1, 0], [4, 0, 0], [8, 0, 1]],
    }
    whole = distributions.heat_map(found, 4, 3)
    assert (whole.addresses, whole.gaps) == ([0x3000, 0x4000, 0x5000, 0x9000], [3])
    joined = distributions.heat_map(found, 3, 2)
    assert (joined.row_bytes, joined.addresses) == (0x2000, [0x2000, 0x4000, 0x8000])
    assert joined.counts == [[1, 0], [7, 0], [8, 1]]
    assert joined.gaps == [2]
    assert joined.column_s == pytest.approx(2 * 1024e-12)


def test_queues_of_each_part_are_told_over_time(result: ts.Result, alone: ts.Result) -> None:
    held = result["hybrid/quick"]["queues"]
    assert held is not None
    assert {"core.misses", "controller.fills", "dram.requests", "store.pages"} <= set(
        held["queues"]
    )
    for queue in held["queues"].values():
        known = [one for one in queue["most"] if one is not None]
        assert max(known) == queue["max"] >= queue["p99"] >= queue["p50"]
        assert all(
            mean is None or most is None or mean <= most
            for mean, most in zip(queue["means"], queue["most"], strict=True)
        )
    (drive,) = (alone[name] for name in alone)
    device = drive["device"]
    assert device is not None
    assert drive["queues"] is not None
    sampled = drive["queues"]["queues"]["host.requests"]["mean"]
    assert sampled == pytest.approx(device["in_flight_mean"], rel=0.05)
    table = result.to_polars()
    assert "queue_controller_fills_mean" in table.columns
    assert not {"heat_map", "queues", "latency_distribution", "nvm_wear"} & set(table.columns)


def test_wear_is_of_every_line_that_was_written(result: ts.Result, worn: ts.Result) -> None:
    nvm = worn["device/pcm"]["nvm"]
    assert nvm is not None
    assert sum(one["count"] for one in nvm["wear"]) == nvm["worn_lines"] > 0
    assert nvm["wear"][-1]["from"] <= nvm["most_writes_of_a_line"] <= nvm["wear"][-1]["to"]
    assert list(distributions.wears(worn.data)) == ["device/pcm"]
    assert distributions.wears(result.data) == {}


def test_every_distribution_is_drawn_on_a_page_and_for_papers(
    result: ts.Result, alone: ts.Result, worn: ts.Result
) -> None:
    specs = charts.all_of(result.data, result.intervals)
    specs += charts.all_of(worn.data, worn.intervals)
    titles = [spec["title"]["text"] for spec in specs]
    for title in (
        "Distribution of latencies",
        "What queues held",
        "Accesses over address and time",
        "Wear",
    ):
        spec = specs[titles.index(title)]
        drawn = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VEGA_LITE)
        assert "NaN" not in drawn
        assert "<path" in drawn
    cells = specs[titles.index("Accesses over address and time")]["data"]["values"]
    assert len(cells) <= distribution_charts._MOST_CELLS
    for name in result:
        counted = sum(cost["accesses"] for cost in result[name]["areas"].values())
        assert sum(cell["n"] for cell in cells if cell["s"] == name) == counted
    for figure in (
        result.plot_latency_distribution(),
        result.plot_heat_map(),
        result.plot_queues(),
        worn.plot_wear(),
        alone.plot_heat_map(),
    ):
        figure.draw_without_rendering()
        assert "gups" in figure.get_suptitle() or "random" in figure.get_suptitle()
        assert all(axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes[-1:])


def test_a_result_of_before_has_none_and_says_so(sample: ResultData) -> None:
    for system in sample["systems"].values():
        for key in ("latency_distribution", "heat_map", "queues"):
            system.pop(key, None)  # type: ignore[misc]
    assert distribution_charts.queues(sample, "complete") is None
    assert distribution_charts.heat_map(sample, "complete", "accesses") is None
    assert distribution_charts.latency_distribution(sample, "complete", "accesses") is None
    for plot in (
        distribution_plots.latency_distribution,
        distribution_plots.heat_map,
        distribution_plots.queues,
        distribution_plots.wear,
    ):
        with pytest.raises(ts.RunError) as raised:
            plot(sample)
        assert raised.value.code == "not-told"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("latency_distribution", "to_ps"), []),
        (("latency_distribution", "counts"), [0]),
        (("heat_map", "addresses"), []),
        (("heat_map", "row_bytes"), 0),
        (("heat_map", "column_ps"), 1 << 63),
        (("heat_map", "counts", 0), []),
        (("queues", "column_ps"), 0),
        (("queues", "queues", "dram.requests", "means"), []),
    ],
)
def test_distributions_that_cannot_be_are_damage(
    result: ts.Result, tmp_path: Path, place: tuple[str | int, ...], value: object
) -> None:
    result.save(tmp_path / "kept")
    file = tmp_path / "kept" / "result.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    part = data["systems"]["storage/quick"]
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    file.write_text(json.dumps(data), encoding="utf-8")
    told = f"is damaged: systems.storage/quick.{place[0]}: "
    with pytest.raises(ts.TierscopeError, match=told) as raised:
        ts.load(tmp_path / "kept")
    assert raised.value.code == "unreadable"
