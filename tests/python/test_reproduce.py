"""Published tables and figures: what is listed, what runs, and what is said of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner, threads_of
from tierscope.reproduce import figures, plots, tables
from tierscope.reproduce.catalog import Item, chosen, papers
from tierscope.reproduce.claims import AGREES
from tierscope.reproduce.estimate import estimate
from tierscope.reproduce.plots import bar_looks
from tierscope.reproduce.run import Done, reproduce
from tierscope.sweeps.points import points

PAPER = 'key = "OWN"\ntitle = "Our own"\ncitation = "us"\nitems = ["first", "second"]\n'
FIRST = """
where = "Fig. 1"
shows = "time over ways"
view = "lines"
over = "ways"
columns = ["time_s", "miss_rate"]

[at.quick]
systems = ["hybrid/quick", "storage/quick"]
set = { "workload.updates" = 300 }

[at.full]
systems = ["hybrid/quick", "storage/quick"]
set = { "workload.updates" = 600 }

[[studies]]
panel = "GUPS"
workloads = ["gups"]
repetitions = 2
[studies.parameters.ways]
paths = ["hybrid.cache.ways"]
values = [1, 16]

[[claims]]
says = "storage takes longer than it should"
where = "Fig. 1"
kind = "predicted"
ratio = ["storage", "hybrid"]
above = 0.0

[[claims]]
says = "nothing takes any time"
where = "Fig. 1"
kind = "predicted"
system = "hybrid"
published = 1e-9
below = 1e-9

[[claims]]
says = "storage takes a second more"
where = "Fig. 1"
kind = "predicted"
difference = ["storage", "hybrid"]
published = 1.0
"""
SECOND = """
where = "Fig. 2"
shows = "who owns the time of the same runs"
view = "stacks"
runs_of = "first"
"""
ALL = [item for paper in papers() for item in paper.items]
ABLE = [item for item in ALL if item.runs]
DISTINCT = 2 * 3
"""Runs of the first item: seeds, times hybrid with either ways, and storage."""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a paper of two small items."""
    folder = tmp_path / "papers"
    (folder / "own").mkdir(parents=True)
    for name, text in (("paper", PAPER), ("first", FIRST), ("second", SECOND)):
        (folder / "own" / f"{name}.toml").write_text(text)
    return folder


def kept(directory: Path) -> dict[str, tuple[int, int]]:
    """Each run that there is, with what tells whether it was made again."""
    found = {path.name: path.stat() for path in (directory / "points").glob("[0-9a-f]*.json")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def test_all_tables_and_figures_of_the_four_papers_are_listed(tierscope: Runner) -> None:
    names = {item.full_name for item in ALL}
    hyb15 = {"table1", "table2", "table3", *(f"fig{n}" for n in range(4, 10))}
    assert names >= {f"hybrid-against-ssd/{one}" for one in hyb15}
    assert names >= {f"nvm/{one}" for one in ("table1", *(f"fig{n}" for n in range(4, 11)))}
    assert names >= {"ebc/read-rate", "ebc/write-rate", "ebc/miss-rate"}
    shown = tierscope("reproduce", COLUMNS="200")
    assert shown.returncode == 0
    assert shown.stderr == ""
    for item in ALL:
        assert item.name in shown.stdout
        assert item.shows[:40] in shown.stdout
        assert all(one[:30] in shown.stdout for one in item.missing)
    listed = json.loads(tierscope("reproduce", "--json").stdout)
    told = {one["name"]: one for paper in listed["papers"] for one in paper["items"]}
    assert {name for name, one in told.items() if not one["can_run"]} == {
        item.full_name for item in ALL if item.missing
    }


@pytest.mark.parametrize("item", ABLE, ids=lambda item: item.full_name)
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_all_that_can_run_is_described_without_a_mistake(item: Item, quick: bool) -> None:
    panels = item.panels(quick)
    assert panels or item.values
    labels = {panel.label for panel in panels}
    systems = {
        point.machine.name.removesuffix("/quick")
        for panel in panels
        for point in points(panel.study)
    }
    for panel in panels:
        names = {parameter.name for parameter in panel.study.parameters}
        assert not item.over or item.over in names
    for name in (item.figure, *item.also, *item.columns):
        assert figures.figure(name)
    for claim in item.claims:
        assert figures.figure(claim.figure)
        assert set(claim.panels) <= labels
        assert {claim.system, *claim.ratio, *claim.difference} - {""} <= systems
    assert not item.relative_to or item.relative_to in systems


def test_an_item_runs_from_end_to_end(own: Path, tmp_path: Path, tierscope: Runner) -> None:
    run = tierscope(
        "reproduce", "own", "--quick", "-o", "out", "--experiments", str(own), "--json=all.json"
    )
    assert run.returncode == 0, run.stderr
    assert "Fig. 1 (predicted): storage takes longer than it should" in run.stdout
    assert "agrees" in run.stdout
    assert "disagrees" in run.stdout
    out = tmp_path / "out"
    assert len(kept(out)) == DISTINCT, "what two items need is run once"
    first, second = json.loads((tmp_path / "all.json").read_text())["items"]
    assert first["state"] == "complete"
    assert first["failed"] == []
    for item in ("first", "second"):
        files = {path.name for path in (out / "own" / item).iterdir() if path.is_file()}
        assert files == {"figure.png", "figure.svg", "report.html", "item.json", "numbers.csv"}
        assert (out / "own" / item / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((out / "own/first/item.json").read_text()) == first
    assert second["numbers"], "the second shows the runs of the first"
    cell = next(n for n in first["numbers"] if n["system"] == "hybrid" and n["over"] == 1)
    alone = [
        ts.run(
            ts.system("hybrid/quick").with_sets([("hybrid.cache.ways", "1")]),
            ts.workload("gups", updates=300, seed=seed),
        )["hybrid/quick"]["time_s"]
        for seed in (0, 1)
    ]
    assert cell["time_s"] == pytest.approx(sum(alone) / 2, rel=1e-12)
    assert cell["bounds"]["time_s"] == [min(alone), max(alone)]
    page = (out / "own/first/report.html").read_text()
    assert "storage takes longer than it should" in page
    assert "own/first" in page
    for figure in ("Distribution of latencies", "What queues held", "Accesses over address"):
        assert figure in page
    ratio, value, difference = first["published"]
    assert ratio["verdict"] == AGREES
    assert ratio["holding"] == len(ratio["found"]) == 2
    assert value["verdict"] == "disagrees"
    assert value["ratio"] == pytest.approx(value["found_mean"] / 1e-9)
    times = {(n["system"], n["over"]): n["time_s"] for n in first["numbers"]}
    assert [one["value"] for one in difference["found"]] == [
        times["storage", ways] - times["hybrid", ways] for ways in (1, 16)
    ]
    assert difference["verdict"] is None
    panel = next((out / "own/first").glob("00-*"))
    again = ts.load_sweep(panel)
    assert again.complete, "a panel is a sweep, whose points lie beside the others'"


def test_studies_of_one_label_stand_in_one_panel(own: Path, tmp_path: Path) -> None:
    begin, end = FIRST.index("[[studies]]"), FIRST.index("[[claims]]")
    studies = [
        FIRST[begin:end].replace("[1, 16]", f"[{ways}]").replace("repetitions = 2\n", "")
        for ways in (1, 16)
    ]
    first = own / "own" / "first.toml"
    first.write_text(FIRST[:begin] + "".join(studies) + FIRST[end:], encoding="utf-8")
    (done,) = reproduce(["own/first"], tmp_path / "out", quick=True, experiments=own)
    assert [panel.label for panel in done.panels] == ["GUPS", "GUPS"]
    (grid,) = tables.compact(done)
    assert [row[0] for row in grid.rows] == ["GUPS", "  1", "  16"]
    assert len(done.findings[0].values) == 2, "a claim is of both"
    figure = plots.draw(done)
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes] == ["GUPS"]


def test_machines_called_alike_share_a_colour_where_colours_are_few() -> None:
    few = bar_looks(["a", "a/x", "b"])
    assert len({colour for colour, _ in few}) == 3
    assert {hatch for _, hatch in few} == {""}
    systems = [f"{kind}{end}" for kind in "abcdefg" for end in ("", "/x", "/y")]
    looks = bar_looks([*systems, "h"])
    assert len(set(looks)) == len(systems) + 1, "no two look alike"
    for number in range(0, len(systems), 3):
        assert len({colour for colour, _ in looks[number : number + 3]}) == 1


def test_what_was_killed_goes_on_and_nothing_runs_twice(own: Path, tmp_path: Path) -> None:
    text = FIRST.replace('"workload.updates" = 300', '"workload.updates" = 20000')
    (own / "own" / "first.toml").write_text(text)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tierscope", "reproduce", "own/first", "--quick"]
    command += ["-o", str(out), "--experiments", str(own), "--workers", "1"]
    begun = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while len(kept(out)) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    before = kept(out)
    assert 2 <= len(before) < DISTINCT
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    after = kept(out)
    assert len(after) == DISTINCT
    assert {name: after[name] for name in before} == before


def test_what_was_interrupted_tells_what_there_is_and_goes_on(own: Path, tmp_path: Path) -> None:
    text = FIRST.replace('"workload.updates" = 300', '"workload.updates" = 20000')
    (own / "own" / "first.toml").write_text(text)
    third = text.replace('"workload.updates" = 20000', '"workload.updates" = 30000')
    (own / "own" / "third.toml").write_text(third)
    (own / "own" / "paper.toml").write_text(PAPER.replace('"second"', '"third"'))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tierscope", "reproduce", "own", "--quick"]
    command += ["-o", str(out), "--experiments", str(own), "--workers", "1"]
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while len(kept(out)) < 1 and time.monotonic() < until:
        time.sleep(0.01)
    begun.send_signal(signal.SIGTERM)
    said, told = begun.communicate(timeout=300)
    before = kept(out)
    assert begun.returncode == 128 + signal.SIGTERM, told
    assert 1 <= len(before) < DISTINCT
    assert "Partial, at quick scale." in said
    assert "Not begun: own/third" in said
    assert not (out / "own/third/item.json").exists()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Not begun" not in done.stdout
    after = kept(out)
    assert len(after) == 2 * DISTINCT
    assert {name: after[name] for name in before} == before


def test_an_estimate_counts_what_is_left(own: Path, tmp_path: Path, tierscope: Runner) -> None:
    arguments = ("reproduce", "own", "--quick", "-o", "out", "--experiments", str(own))
    whole = json.loads(tierscope(*arguments, "--dry-run", "--json").stdout)
    assert [one["runs"] for one in whole["items"]] == [DISTINCT, 0]
    assert whole["items"][0]["wall_s"]["most"] > 0
    assert tierscope(*arguments).returncode == 0
    rest = tierscope(*arguments, "--dry-run")
    assert "own/first: 0 runs of 6" in rest.stdout
    assert not list(tmp_path.glob("out/*/*/.*-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_end_ends_the_trials_of_an_estimate(
    number: signal.Signals, own: Path, tmp_path: Path
) -> None:
    """Forty trials of most of a second each: it does not wait for those that are left."""
    text = FIRST.replace('"workload.updates" = 600', '"workload.updates" = 1000000000')
    text += "".join(
        f'[[studies]]\npanel = "{n}"\nworkloads = ["gups"]\nset = {{ "os.time_slice" = "{n}ms" }}\n'
        for n in range(1, 20)
    )
    (own / "own" / "first.toml").write_text(text)
    command = [sys.executable, "-m", "tierscope", "reproduce", "own/first"]
    command += ["-o", str(tmp_path / "out"), "--experiments", str(own), "--dry-run"]
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while "tierscope-run" not in threads_of(begun.pid) and time.monotonic() < until:
        time.sleep(0.01)
    begun.send_signal(number)
    said, told = begun.communicate(timeout=30)
    assert begun.returncode == 128 + number
    assert said == ""
    assert told == "interrupted: nothing more is printed or kept\n"


def test_an_estimate_tells_of_its_trials(own: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def watch(progress: ts.SweepProgress) -> None:
        seen.append((progress.done, progress.total))

    items = chosen(["own"], own)
    found = estimate(items, tmp_path, quick=True, on="threads", workers=2, watch=watch)
    assert seen == [(done, 4) for done in range(5)], "the first and last point of either machine"
    first, second = found.data["items"]
    assert first["by"] == "trials"
    wall = first["wall_s"]
    assert 0 < wall["least"] < wall["likely"] < wall["most"] < 10 * wall["least"]
    assert second["runs"] == 0
    assert "own/second: 0 runs of 6, nothing to run" in found.lines()


def test_a_directory_of_something_else_is_left_alone(
    own: Path, tmp_path: Path, tierscope: Runner
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    arguments = ("reproduce", "own", "--quick", "--experiments", str(own))
    for further in ((), ("--dry-run",)):
        refused = tierscope(*arguments, "-o", str(foreign), *further)
        assert refused.returncode == 125
        assert "it holds thesis.tex) and is left alone" in refused.stderr
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]
    refused = tierscope(*arguments, "-o", str(foreign / "thesis.tex"))
    assert refused.returncode == 125
    assert "is a file" in refused.stderr


def test_tables_alone_are_gone_on_with(tmp_path: Path) -> None:
    """They run nothing, and their directory is known all the same."""
    for _ in range(2):
        (done,) = reproduce(["hybrid-against-ssd/table2"], tmp_path / "out", quick=True)
        assert not done.sweeps


@pytest.fixture(scope="module")
def hyb15(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """The tables of [HYB15], which are cheap."""
    names = [f"hybrid-against-ssd/{name}" for name in ("table1", "table2", "table3", "tags")]
    done = reproduce(names, tmp_path_factory.mktemp("hyb15"), quick=True)
    return {one.item.name: one for one in done}


def test_the_kernel_is_in_the_path_of_storage_alone(hyb15: dict[str, Done]) -> None:
    assert [one.verdict for one in hyb15["table1"].findings] == [AGREES, AGREES]


def test_tags_take_what_the_formula_says(hyb15: dict[str, Done]) -> None:
    """B - c + a + s bits, with s = 2 + a: 4 + 2 + 2 a for each of 65,536 pages, in bytes."""
    for cell in hyb15["tags"].cells:
        ways_bits = int(cell.over).bit_length() - 1
        assert cell.mean("tag_store_bytes") == 65536 * (4 + 2 + 2 * ways_bits) / 8


def test_an_access_of_storage_is_half_software(hyb15: dict[str, Done]) -> None:
    """[HYB15] Table 3, 54.43 %: within 25 points, which DEVIATIONS.md tells of."""
    found = {one.claim.says: one for one in hyb15["table3"].findings}
    total = found["mean time of an access, SLC at 25 us"].ratio
    assert total is not None
    assert abs(total - 1) < 0.15
    hardware = found["mean time of hardware"].ratio
    assert hardware is not None
    assert 1.3 < hardware < 1.6, "readahead of 128 KiB waits for more than one page"
    share = found["software's share"].mean
    assert share is not None
    assert abs(share - 0.5443) < 0.25
    by_panel = {cell.panel: cell for cell in hyb15["table3"].cells}
    alone = by_panel["no readahead"].mean("hardware_ns")
    assert alone == pytest.approx(38900.67, rel=0.15)
