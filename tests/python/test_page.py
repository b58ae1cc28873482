"""Pages need no network, tell what the result tells, and are drawn by what they hold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
import vl_convert
from conftest import Runner
from tierscope import report, table
from tierscope._shape import ResultData
from tierscope.pages import charts, sweep_charts
from tierscope.pages.chart import labels_of_times, spread_by_ratio
from tierscope.pages.page import VEGA_LITE
from tierscope.pages.report import of_repetitions, of_result, of_sweep

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")


class Read(HTMLParser):
    """What a page holds: its texts, its figures' descriptions, and what it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.specs: list[dict[str, Any]] = []
        self.loads: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes what an element would load."""
        said = dict(attrs)
        self._inside = tag if tag != "script" else str(said.get("type"))
        own = tag in ("link", "img", "iframe", "object", "embed", "image", "use")
        self.loads += [
            f"{tag} {name}={value}"
            for name, value in said.items()
            if name == "src" or (own and name in ("href", "xlink:href", "data"))
        ]

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - as the parser calls it
        """Leaves an element."""
        self._inside = ""

    def handle_data(self, data: str) -> None:
        """Notes descriptions and texts."""
        if self._inside == "application/json":
            self.specs.append(json.loads(data))
        elif self._inside not in ("style", "None"):
            self.text += data


@pytest.fixture(scope="module")
def result() -> ts.Result:
    """A result of three machines."""
    systems = ["hybrid/quick", "storage/quick", "oracle/quick"]
    return ts.compare(systems, ts.workload("gups", updates=2000))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> ts.Sweep:
    """A sweep over two parameters."""
    study = ts.study(
        ["hybrid/quick", "storage/quick"],
        [ts.workload("gups", updates=300)],
        {
            "dram": {
                "paths": ["hybrid.cache.capacity", "storage.dram_capacity"],
                "values": ["16MiB", "64MiB"],
            },
            "workload.random": [0.1, 1.0],
        },
        name="a <b> & c",
        repetitions=2,
    )
    return ts.sweep(study, tmp_path_factory.mktemp("sweep") / "out")


def test_a_page_loads_nothing(result: ts.Result, sweep: ts.Sweep) -> None:
    for page in (of_result(result).html(), of_sweep(sweep).html()):
        read = Read(page)
        assert read.loads == []
        assert "default-src 'none'" in page
        assert read.specs
        assert not re.search(r"@import|url\(['\"]?http", page.partition("<script>")[0])


def test_a_page_tells_what_the_report_tells(result: ts.Result) -> None:
    text = Read(of_result(result).html()).text
    for label, cells in table.rows(result.data):
        assert label in text
        assert all(cell in text for cell in cells.values())
    assert all(line in text for line in report.closing_lines(result.data))
    assert all(description in text for description in result.descriptions.values())


def test_a_page_of_repetitions_has_every_run_and_how_sure_their_mean_is(
    tierscope: Runner, tmp_path: Path
) -> None:
    kept = ts.repeat(["hybrid/quick", "oracle/quick"], ts.workload("gups", updates=300, seed=5), 3)
    kept.save(tmp_path / "three")
    done = tierscope("report", "three")
    assert done.returncode == 0, done.stderr
    read = Read((tmp_path / "report.html").read_text())
    assert "gups: 3 runs, seeds 5 to 7" in read.text
    assert all(cell in read.text for _, cells in kept.cells() for cell in cells)
    assert all(line in read.text for line in kept.closing_lines())
    (spec,) = read.specs
    assert spec["title"]["subtitle"].endswith("; complete; 3 runs")
    rows = [row for row in spec["data"]["values"] if row["figure"] == "time_s"]
    for name in kept.data["systems"]:
        own = [row for row in rows if row["system"] == name]
        values = {row["run"]: row["value"] for row in own if "value" in row}
        figure = kept[name]["time_s"]
        assert values == dict(zip(("seed 5", "seed 6", "seed 7"), figure["values"], strict=True))
        (mean,) = [row for row in own if "mean" in row]
        assert mean["mean"] == figure["mean"]
        assert mean["most"] - mean["mean"] == pytest.approx(figure["half_width"])
    drawn = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VEGA_LITE)
    assert "NaN" not in drawn
    known = sum(
        figure["mean"] is not None
        for name in ("hybrid/quick", "oracle/quick")
        for figure in kept[name].values()
    )
    runs = sum(
        value is not None
        for name in ("hybrid/quick", "oracle/quick")
        for figure in kept[name].values()
        for value in figure["values"]
    )
    assert drawn.count("<path aria-label") >= runs + known
    assert kept.charts()[0].to_dict()["title"] == spec["title"]


def test_repetitions_that_are_partial_say_so_on_their_page() -> None:
    work = ts.workload("gups", updates=300, seed=5)
    whole, cut = ts.run("oracle/quick", work), ts.run("oracle/quick", work)
    cut.data["completeness"], cut.data["partial_reason"] = "partial", "the run was interrupted"
    page = of_repetitions(ts.Repetitions([whole, cut], 4))
    assert page.state == "partial"
    assert "1 of 4 repetitions were run to their end" in page.charts[0]["title"]["subtitle"]
    vl_convert.vegalite_to_svg(json.dumps(page.charts[0]), vl_version=VEGA_LITE)


def test_every_figure_says_how_complete_it_is(sample: ResultData) -> None:
    result = ts.Result(sample)
    sample["completeness"], sample["partial_reason"] = "partial", "the power went off"
    specs = charts.all_of(result.data, result.intervals)
    assert len(specs) >= 4
    for spec in specs:
        assert "partial: the power went off" in spec["title"]["subtitle"]
        assert spec["title"]["text"]


def test_every_figure_is_one_that_vega_lite_draws(result: ts.Result, sweep: ts.Sweep) -> None:
    specs = [*charts.all_of(result.data, result.intervals), *sweep_charts.all_of(sweep)]
    titles = [spec["title"]["text"] for spec in specs]
    assert "Over simulated time" in titles
    assert "Over dram" in titles
    assert "Execution time over dram and workload.random" in titles
    for spec in specs:
        drawn = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VEGA_LITE)
        assert "<path" in drawn or "<rect" in drawn
        assert "NaN" not in drawn


def test_the_parts_of_the_breakdown_are_the_threads_time(result: ts.Result) -> None:
    rows = charts.breakdown(result.data)["data"]["values"]
    for name in result:
        total = sum(row["time_s"] for row in rows if row["system"] == name)
        assert total == pytest.approx(sum(result[name]["time_breakdown_ns"].values()) * 1e-9)


def test_intervals_keep_their_sums_when_they_are_joined(result: ts.Result) -> None:
    rows = charts.series_rows(result.intervals)
    for name in result:
        own = [row for row in rows if row["system"] == name]
        begun, accesses = 0.0, 0.0
        for row in own:
            accesses += row["accesses_per_s"] * (row["time_s"] - begun)
            begun = row["time_s"]
        assert accesses == pytest.approx(result[name]["accesses"])
        assert len(own) <= charts._MOST_POINTS


def test_what_comes_from_outside_is_no_markup(sweep: ts.Sweep, sample: ResultData) -> None:
    page = of_sweep(sweep).html()
    assert "<h1>a &lt;b&gt; &amp; c</h1>" in page
    sample["workload"]["name"] = "</script><script>alert(1)</script>"
    system = next(iter(sample["systems"].values()))
    system["areas"] = (
        {"</script><!--": next(iter(system["areas"].values()))} if system["areas"] else {}
    )
    page = of_result(ts.Result(sample)).html()
    assert "<script>alert(1)" not in page
    assert len(Read(page).specs) == page.count('type="application/json"')


def test_the_command_writes_pages_of_what_was_kept(
    result: ts.Result, sweep: ts.Sweep, tierscope: Runner, tmp_path: Path
) -> None:
    result.save(tmp_path / "one")
    result.save(tmp_path / "two")
    assert tierscope("report", "one").returncode == 0
    assert "gups: 1 thread" in Read((tmp_path / "report.html").read_text()).text
    done = tierscope("report", "one", "two", "-o", "both.html")
    assert done.returncode == 0, done.stderr
    text = Read((tmp_path / "both.html").read_text()).text
    assert "one:hybrid/quick" in text
    assert "hybrid/quick is the same machine in one, two." in text
    again = tierscope("report", str(sweep.directory), "-o", "both.html")
    assert again.returncode == 0, "an earlier page is replaced"
    assert "Complete: all 16 points" in Read((tmp_path / "both.html").read_text()).text
    (tmp_path / "notes").write_text("mine")
    refused = tierscope("report", "one", "-o", "notes")
    assert refused.returncode == 125
    assert "no page, and is left alone" in refused.stderr
    assert (tmp_path / "notes").read_text() == "mine"


def test_without_what_draws_that_is_said(
    result: ts.Result, tierscope: Runner, tmp_path: Path
) -> None:
    result.save(tmp_path / "one")
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "vl_convert.py").write_text("raise ImportError('none')\n")
    done = tierscope("report", "one", PYTHONPATH=str(tmp_path / "without"))
    assert done.returncode == 125
    assert "error[no-vega]: " in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_notebooks_have_charts_and_tables(
    result: ts.Result, sweep: ts.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what in (result, sweep):
        assert all(chart.to_dict()["title"] for chart in what.charts())
        assert what._repr_html_().count("<tr>") > 4
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    with pytest.raises(ts.TierscopeError) as raised:
        result.charts()
    assert raised.value.code == "no-altair"


def test_plots_of_sweeps_have_titles_units_and_every_line(sweep: ts.Sweep) -> None:
    figure = sweep.plot_lines("dram", ["time_s", "miss_rate"])
    assert figure.get_suptitle() == "a <b> & c (complete: 16 points)"
    time, misses = figure.axes
    assert [time.get_xlabel(), time.get_ylabel(), misses.get_ylabel()] == [
        "dram",
        "execution time",
        "misses",
    ]
    _, labels = time.get_legend_handles_labels()
    assert labels == [
        f"{system}, workload.random {share}"
        for share in (0.1, 1.0)
        for system in ("hybrid/quick", "storage/quick")
    ]
    figure.draw_without_rendering()
    heat = sweep.plot_heat_map("time_s")
    assert [axes.get_title() for axes in heat.axes] == ["hybrid/quick, gups", "storage/quick, gups"]
    assert [len(axes.texts) for axes in heat.axes] == [4, 4]
    heat.draw_without_rendering()


@pytest.mark.parametrize(
    ("method", "asked", "told"),
    [
        ("plot_lines", {"over": "drm"}, "`drm` was not varied"),
        ("plot_lines", {"figures": ["time"]}, "there is no figure `time`"),
        ("plot_heat_map", {"down": "ways"}, "`ways` was not varied"),
        ("result", {"index": 99}, "there is no point 99"),
    ],
)
def test_what_a_sweep_has_not_is_refused(
    method: str, asked: dict[str, Any], told: str, sweep: ts.Sweep
) -> None:
    with pytest.raises(ts.ArgumentError, match=told):
        getattr(sweep, method)(**asked)


def test_labels_of_axes_have_units() -> None:
    assert "'ms'" not in labels_of_times()
    assert "' ms'" in labels_of_times()
    assert spread_by_ratio([1, 100])
    assert not spread_by_ratio([0, 100])


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_a_browser_draws_every_figure(result: ts.Result, sweep: ts.Sweep, tmp_path: Path) -> None:
    for name, what in (("result", result), ("sweep", sweep)):
        page = tmp_path / f"{name}.html"
        what.save_report(page)
        done = subprocess.run(
            [
                str(BROWSER),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--virtual-time-budget=10000",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--dump-dom",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        figures = len(Read(page.read_text()).specs)
        assert done.stdout.count('class="vega-embed') == figures, done.stderr
