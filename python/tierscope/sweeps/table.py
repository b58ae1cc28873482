"""One table of all points of a sweep: what was varied, what it ran on, and what came out."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tierscope import _core
from tierscope._result import flat
from tierscope.sweeps.execute import Record

if TYPE_CHECKING:
    import polars as pl

_OF_THIS_COMPUTER = ("wall_s", "accesses_per_wall_s")
"""Figures that differ from run to run: points keep them, the table does not."""
SUFFIXES = {
    "size": "bytes",
    "duration": "ps",
    "frequency": "hz",
    "transfer-rate": "transfers_per_s",
    "bandwidth": "bytes_per_s",
    "voltage": "uv",
    "current": "na",
    "energy": "fj",
    "power": "nw",
}
"""What stands behind the name of a column that has a parameter's value as a number."""


def columns_of(name: str, values: Sequence[object]) -> dict[str, list[object]]:
    """A parameter's columns: values as written; and as numbers, where they are quantities."""
    kinds = {type(value) for value in values}
    mixed = kinds == {int, float}
    plain = len(kinds) == 1 or mixed
    written = [float(v) if mixed and isinstance(v, int) else v for v in values]
    found: dict[str, list[object]] = {name: written if plain else [str(v) for v in values]}
    quantities = [_core.quantity(value) if isinstance(value, str) else None for value in values]
    named = {None if one is None else one[0] for one in quantities}
    if len(named) == 1 and (kind := named.pop()) is not None:
        numbers: list[object] = [one[1] for one in quantities if one is not None]
        found[f"{name}_{SUFFIXES[kind]}"] = numbers
    return found


def table(
    rows: Sequence[Mapping[str, Any]],
    records: Mapping[str, Record],
    parameters: Sequence[str],
    machine_text: Callable[[str, str], str | None],
) -> pl.DataFrame:
    """One row for each point.

    Args:
        rows: the points of the plan.
        records: what each key gave, of those that have run.
        parameters: names of what varies.
        machine_text: gives a machine's description by digest and name.
    """
    import polars as pl

    texts: dict[tuple[str, str], str | None] = {}
    for row in rows:
        where = (row["machine_digest"], row["system"])
        if where not in texts:
            texts[where] = machine_text(*where)
    head = [_head(index, row, records.get(row["key"])) for index, row in enumerate(rows)]
    varied: dict[str, list[object]] = {}
    for name in parameters:
        varied |= columns_of(name, [row["choice"][name] for row in rows])
    figures = [_figures(records.get(row["key"])) for row in rows]
    if any("pass" in row for row in rows):
        shared = Counter(row["pass"] for row in rows)
        figures = [
            {"pass": row["pass"], "pass_points": shared[row["pass"]], **one}
            for row, one in zip(rows, figures, strict=True)
        ]
    # In one order, whichever points there are.
    keys = dict.fromkeys(key for one in figures for key in one)
    told = {_apart(key, varied): [one.get(key) for one in figures] for key in keys}
    provenance = {
        "version": [_of(records.get(row["key"]), "version") for row in rows],
        "build": [_of(records.get(row["key"]), "build") for row in rows],
        "machine_digest": [row["machine_digest"] for row in rows],
        "machine": [texts[(row["machine_digest"], row["system"])] for row in rows],
    }
    columns = {key: [one[key] for one in head] for key in _HEAD} | varied | told | provenance
    series = [
        pl.Series(name, values, dtype=_dtype(values), strict=False)
        for name, values in columns.items()
    ]
    return pl.DataFrame(series)


_HEAD = ("point", "system", "workload", "repetition", "seed", "status", "error")


def _head(index: int, row: Mapping[str, Any], record: Record | None) -> dict[str, Any]:
    error = None if record is None else record["error"]
    return {
        "point": index,
        "system": row["system"],
        "workload": row["workload"],
        "repetition": row["repetition"],
        "seed": row["seed"],
        "status": "missing" if record is None else record["status"],
        "error": None if error is None else f"{error['code']}: {error['message']}",
    }


def _of(record: Record | None, key: str) -> str | None:
    return None if record is None else str(record[key])


def _figures(record: Record | None) -> dict[str, object]:
    """The figures of a point's one system."""
    if record is not None and "counts" in record:
        return dict(record["counts"])
    if record is None or record["result"] is None:
        return {}
    ((name, system),) = record["result"]["systems"].items()
    row = flat(name, system)
    left_out = ("system", *_OF_THIS_COMPUTER)
    return {key: _plain(value) for key, value in row.items() if key not in left_out}


def _plain(value: object) -> object:
    """A value that a column can have: what has parts is told as JSON."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _apart(key: str, taken: Mapping[str, object]) -> str:
    """A figure's column, told apart from a parameter of that name."""
    return f"figure_{key}" if key in taken or key in (*_HEAD, "version", "build") else key


def _dtype(values: Sequence[object]) -> Any:
    """One type for a column, whatever its first values are."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} and kinds:
        return pl.Boolean
    if kinds <= {int} and kinds:
        return pl.UInt64 if all(v is None or v >= 0 for v in values) else pl.Int64  # type: ignore[operator]
    if kinds <= {int, float} and kinds:
        return pl.Float64
    return pl.String if kinds else pl.Null


def packed(frame: pl.DataFrame) -> bytes:
    """The table as a Parquet file: equal tables give equal bytes."""
    into = io.BytesIO()
    frame.write_parquet(into, compression="zstd", statistics=True)
    return into.getvalue()
