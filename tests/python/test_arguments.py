"""Whatever callers give that is of the wrong kind is an error of ours, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
import tierscope as ts

_SURROGATE = "\ud800"
_gups = ts.workload("gups", updates=10)


class _Unclear:
    """What compares to something that is neither true nor false, as arrays do."""

    class _Neither:
        def __bool__(self) -> bool:
            raise ValueError("the truth value is ambiguous")

    def __eq__(self, other: object) -> Any:
        return self._Neither()

    def __bool__(self) -> bool:
        raise ValueError("the truth value is ambiguous")

    def __hash__(self) -> int:
        return 0


_unclear: Any = _Unclear()
_column: Any = pl.Series([1, 2])
_any: Any = ts


@pytest.mark.parametrize(
    "call",
    [
        lambda: _any.Recorded(5),
        lambda: _any.Recorded(b"app.tst"),
        lambda: _any.Recorded(_SURROGATE),
        lambda: _any.Recorded("app.tst", 5),
        lambda: _any.MemoryTrace(5, "app.trc"),
        lambda: _any.MemoryTrace("dramsim3", 5),
        lambda: _any.MemoryTrace("dramsim3", "app.trc", 5),
        lambda: _any.Generated(5),
        lambda: _any.Generated("gups", 5),
        lambda: _any.Generated("gups", {5: 5}),
        lambda: _any.workload(_SURROGATE),
        lambda: _any.workload("gups", **{_SURROGATE: 1}),
        lambda: _any.workload("gups", table=_SURROGATE),
        lambda: _any.program("true", native="no"),
        lambda: _any.program("true", "\0"),
        lambda: _any.program(_SURROGATE),
        lambda: _any.program("true", roi_start=b""),
        lambda: _any.program("true", roi_stop=5),
        lambda: _any.record(["true"], "app.tst", roi_start=b""),
        lambda: _any.record(["true"], "app.tst", roi_stop=_SURROGATE),
        lambda: _any.record(["true"], "app.tst", watch=5),
        lambda: _any.record(["true"], "app.tst", output_to_stderr=5),
        lambda: _any.record(["true"], "app.tst", by=[["function", "address"]]),
        lambda: _any.record(["true"], "app.tst", by=[_unclear]),
        lambda: _any.record(["true"], "app.tst", by=[_column]),
        lambda: _any.record(["true"], "app.tst", max_size=_SURROGATE),
        lambda: _any.record(["true"], "app.tst", max_size=_column),
        lambda: _any.record(["true"], "\0.tst"),
        lambda: _any.record(["true"], f"{_SURROGATE}.tst"),
        lambda: _any.record([b"true"], "app.tst"),
        lambda: _any.system(_SURROGATE),
        lambda: _any.system("\0"),
        lambda: _any.system("hybrid").replace(name=_SURROGATE),
        lambda: _any.system("hybrid").with_sets(5),
        lambda: _any.system("hybrid").with_sets(["ab"]),
        lambda: _any.system("hybrid").with_sets([("hybrid.cache.ways", 64)]),
        lambda: _any.run("oracle/quick", _gups, roi=_unclear),
        lambda: _any.run("oracle/quick", _gups, roi=_column),
        lambda: _any.run("oracle/quick", _gups, roi=""),
        lambda: _any.run("oracle/quick", _gups, roi=1),
        lambda: _any.run("oracle/quick", _gups, warming=_unclear),
        lambda: _any.run("oracle/quick", _gups, skip=_unclear),
        lambda: _any.run("oracle/quick", _gups, watch=5),
        lambda: _any.load(_SURROGATE),
        lambda: _any.load("\0"),
        lambda: _any.run("oracle/quick", _gups).save(_SURROGATE),
        lambda: _any.run("oracle/quick", _gups).save("\0"),
    ],
)
def test_what_is_of_the_wrong_kind_is_an_argument_error_with_a_mend(
    call: Callable[[], object],
) -> None:
    with pytest.raises(ts.ArgumentError) as raised:
        call()
    assert raised.value.hint
    assert "\n" not in str(raised.value)
    str(raised.value).encode()
