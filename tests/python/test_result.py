"""Results: tables, plots and files."""

from __future__ import annotations

import itertools
import json
import os
import typing
from pathlib import Path

import jsonschema
import polars as pl
import pytest
import tierscope as ts
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from tierscope import _call, _core, _result, _shape
from tierscope._shape import ResultData


@pytest.fixture
def result(sample: ResultData) -> ts.Result:
    """A result of three systems, with descriptions and intervals."""
    descriptions = {name: f'name = "{name}"\n' for name in sample["systems"]}
    columns = {column: [5, 10] for column in _result.INTERVAL_COLUMNS}
    intervals = _result.interval_table({"hybrid/quick": columns})
    return ts.Result(sample, descriptions, intervals)


def test_a_saved_result_loads_as_it_was(result: ts.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    loaded = ts.load(tmp_path / "kept")
    assert loaded.data == result.data
    assert list(loaded) == list(result), "systems keep their order"
    assert loaded.descriptions == result.descriptions
    assert loaded.intervals.equals(result.intervals)


def test_a_result_replaces_an_earlier_one_and_leaves_nothing_else(
    result: ts.Result, tmp_path: Path
) -> None:
    result.save(tmp_path / "kept")
    del result.descriptions["oracle/quick"]
    result.save(tmp_path / "kept")
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == [
        "intervals.parquet",
        "result.json",
        "system-hybrid-quick.toml",
        "system-storage-quick.toml",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("held", ["notes.txt", "intervals.parquet"])
def test_a_directory_that_is_no_result_is_left_alone(
    result: ts.Result, tmp_path: Path, held: str
) -> None:
    (tmp_path / held).write_text("precious", encoding="utf-8")
    with pytest.raises(ts.TierscopeError) as raised:
        result.save(tmp_path)
    assert raised.value.code == "foreign-directory"
    assert [path.name for path in tmp_path.iterdir()] == [held]


def test_a_file_is_no_place_for_a_result(result: ts.Result, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("precious", encoding="utf-8")
    with pytest.raises(ts.TierscopeError) as raised:
        result.save(tmp_path / "kept")
    assert raised.value.code == "not-a-directory"


def test_a_save_that_fails_leaves_the_earlier_result(
    result: ts.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.save(tmp_path / "kept")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(ts.TierscopeError, match="No space left"):
        result.save(tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert ts.load(tmp_path / "kept").data == result.data


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "unreadable"),
        ("[]", "other-schema"),
        ('{"schema": 99}', "other-schema"),
        ('{"schema": 1, "systems": {}}', "unreadable"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "result.json").write_text(text, encoding="utf-8")
    with pytest.raises(ts.TierscopeError) as raised:
        ts.load(tmp_path)
    assert raised.value.code == code


def test_a_missing_result_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ts.TierscopeError, match=r"result\.json cannot be read"):
        ts.load(tmp_path / "nowhere")


def test_names_that_make_the_same_file_name_get_files_of_their_own() -> None:
    files = _result._description_files(["a/b", "a-b", "../a"])
    assert list(files.values()) == ["system-a-b.toml", "system-a-b-2.toml", "system-..-a.toml"]


def test_the_table_has_a_row_a_system_and_units_last(result: ts.Result) -> None:
    table = result.to_polars()
    assert table["system"].to_list() == list(result)
    assert {"time_s", "latency_p999_ns", "stage_medium_ns", "store_read_bytes"} <= set(
        table.columns
    )


@pytest.mark.parametrize("by", ["group", "owner"])
def test_the_breakdown_plot_has_title_units_and_a_column_a_system(
    result: ts.Result, by: typing.Literal["group", "owner"]
) -> None:
    figure = result.plot_breakdown(by)
    seconds, shares = figure.axes
    assert seconds.get_ylabel() == "thread time (s)"
    assert shares.get_ylabel() == "share of thread time (%)"
    assert "sqlite3" in str(figure.get_suptitle())
    tops: dict[float, float] = {}
    for bar in shares.patches:
        assert isinstance(bar, Rectangle)
        tops[bar.get_x()] = max(tops.get(bar.get_x(), 0), bar.get_y() + bar.get_height())
    assert list(tops.values()) == pytest.approx([100.0] * 3)


def test_the_latency_plot_has_a_logarithmic_axis_with_its_unit(result: ts.Result) -> None:
    figure = result.plot_latency()
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "access latency (ns)")


def test_no_mark_of_the_latency_plot_hides_another(sample: ResultData) -> None:
    for system in sample["systems"].values():
        system["latency_ns"] = {
            "mean": 5.0,
            "stddev": 0.0,
            "p50": 5.0,
            "p99": 5.0,
            "p999": 5.0,
            "max": 5.0,
        }
    figure = ts.Result(sample).plot_latency()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_marker() != "None"]
    assert [line.get_label() for line in marks] == ["mean", "median", "99 %", "99.9 %", "max"]
    pixels = sorted(x for line in marks for x, _ in axes.transData.transform(line.get_xydata()))
    assert len(pixels) == 5 * len(sample["systems"])
    size_px = max(line.get_markersize() for line in marks) / 72 * figure.dpi
    assert min(right - left for left, right in itertools.pairwise(pixels)) > size_px


def test_a_notebook_shows_names_as_text(sample: ResultData) -> None:
    sample["systems"]["<b>"] = sample["systems"].pop("hybrid/quick")
    shown = ts.Result(sample)._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_the_sample_and_the_types_follow_the_schema(sample: ResultData) -> None:
    schema = _call.parsed(_core.schema("result"))
    jsonschema.validate(sample, schema)
    definitions = schema["$defs"]
    shapes: dict[str, type] = {
        "WorkloadInfo": _shape.WorkloadInfo,
        "ProgramInfo": _shape.ProgramInfo,
        "CallResult": _shape.CallResult,
        "FaultResult": _shape.FaultResult,
        "SystemResult": _shape.SystemResult,
        "LatencySummary": _shape.Latency,
        "Bytes": _shape.ReadWritten,
        "Cost": _shape.Cost,
        "CodeCost": _shape.CodeCost,
        "CodeResult": _shape.CodeResult,
        "EnergyResult": _shape.EnergyResult,
        "DeviceResult": _shape.DeviceResult,
        "DriveResult": _shape.DriveResult,
        "SettlingResult": _shape.SettlingResult,
        "DiskResult": _shape.DiskResult,
        "NvmBufferResult": _shape.NvmBufferResult,
        "NvmResult": _shape.NvmResult,
        "NvdimmResult": _shape.NvdimmResult,
        "Skipped": _shape.Skipped,
        "SamplingResult": _shape.SamplingResult,
        "HalfWidths": _shape.HalfWidths,
        "RecordedWindows": _shape.RecordedWindows,
        "WindowHalfWidths": _shape.WindowHalfWidths,
        "Distribution": _shape.Distribution,
        "HeatMapResult": _shape.HeatMap,
        "QueueResult": _shape.Queue,
        "QueuesResult": _shape.Queues,
        "WearClass": _shape.WearClass,
    }
    assert set(shapes) == {name for name in definitions if "properties" in definitions[name]}
    for name, shape in shapes.items():
        assert set(definitions[name]["properties"]) == set(shape.__annotations__), name
    assert set(schema["properties"]) == set(ResultData.__annotations__)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("systems", "hybrid/quick", "store_bytes", "written"), None),
        (("systems", "hybrid/quick", "time_breakdown_ns", "busy"), {}),
        (("systems", "oracle/quick", "ipc"), ""),
        (("systems", "storage/quick", "skipped"), "x"),
        (("systems", "hybrid/quick", "areas"), None),
        (("workload", "threads"), -1),
    ],
)
def test_a_damaged_result_is_refused_with_the_place(
    result: ts.Result, tmp_path: Path, place: tuple[str, ...], value: object
) -> None:
    result.save(tmp_path / "kept")
    data = json.loads((tmp_path / "kept" / "result.json").read_text(encoding="utf-8"))
    part = data
    for key in place[:-1]:
        part = part[key]
    if value is None:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    (tmp_path / "kept" / "result.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ts.TierscopeError, match=place[-1]) as raised:
        ts.load(tmp_path / "kept")
    assert raised.value.code == "unreadable"
    assert "of another version" in str(raised.value)


def test_what_may_never_end_or_is_nested_without_end_is_no_result(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "result.json")
    with pytest.raises(ts.TierscopeError, match="is no regular file"):
        ts.load(tmp_path)
    (tmp_path / "result.json").unlink()
    (tmp_path / "result.json").write_text("[" * 200_000, encoding="utf-8")
    with pytest.raises(ts.TierscopeError, match="is not a result"):
        ts.load(tmp_path)


def test_the_table_of_systems_has_plain_columns(result: ts.Result) -> None:
    table = result.to_polars()
    assert not any(column.is_nested() for column in table.dtypes)


@pytest.mark.parametrize("junk", [b"junk", b"PAR1", None])
def test_intervals_that_are_none_are_told_with_what_to_do(
    tmp_path: Path, junk: bytes | None
) -> None:
    ts.run("oracle/quick", ts.workload("gups", updates=1000)).save(tmp_path / "kept")
    file = tmp_path / "kept" / "intervals.parquet"
    if junk is None:
        pl.DataFrame({"other": [1]}).write_parquet(file)
    else:
        file.write_bytes(junk)
    with pytest.raises(ts.TierscopeError) as raised:
        ts.load(tmp_path / "kept")
    assert raised.value.code == "unreadable"
    assert f"{file} holds no intervals: " in str(raised.value)
    assert raised.value.hint
    file.unlink()
    assert len(ts.load(tmp_path / "kept")) == 1
