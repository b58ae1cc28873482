"""Counts without times: what caches hit and miss, of several machines from one functional pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tierscope import _check, _core, _run, _workload
from tierscope._call import core_errors, parsed
from tierscope._region import Extent
from tierscope._system import System
from tierscope._workload import Generated, MemoryTrace, Program, Recorded

Counts = dict[str, Any]
"""What one machine counted: figures by name, and ``partial_reason``."""


def groups(machines: Sequence[System]) -> list[list[int]]:
    """Which machines one pass counts: their places, group by group."""
    told = json.dumps([one.to_dict() for one in machines])
    with core_errors():
        found: list[list[int]] = parsed(_core.counted_together(told))
    return found


def check_machines(machines: Sequence[System]) -> None:
    """Refuses machines that cannot be counted without times.

    Raises:
        RunError: with the first of them, and why.
    """
    with core_errors():
        _core.check_counts(json.dumps([one.to_dict() for one in machines]))


def count(
    machines: Sequence[System],
    work: Generated | Recorded | MemoryTrace,
    *,
    skip: Extent | None = None,
    limit: Extent | None = None,
    roi: bool = False,
    watch: _run.Watcher | None = None,
) -> tuple[list[Counts], str | None]:
    """Counts what machines of one group do with a workload; and why the pass failed, if it did.

    Raises:
        RunError: where it could not begin.
    """
    what = _workload.on(work, machines)
    assert not isinstance(what, Program), "no name stands for a program"
    job = {
        "workload": what.to_dict(),
        "systems": [one.to_dict() for one in machines],
        "options": _run.region_of(what, skip, limit, roi, None),
        "apart": True,
    }
    with core_errors():
        under_way = _core.Run.count(_check.written(job, "the workload"))
        _run.attend(under_way, watch)
        ended = parsed(under_way.result())["finished"]
    if ended["failed"]:
        return [], str(ended["partial_reason"])
    common = {"threads": ended["threads"], "partial_reason": ended["partial_reason"]}
    return [_flat(one) | common for one in ended["counts"]], None


def _flat(counts: dict[str, Any]) -> Counts:
    """Figures of one machine, as columns."""
    own = {key: value for key, value in counts.items() if key not in ("counters", "skipped")}
    skipped = {f"skipped_{key}": value for key, value in (counts["skipped"] or {}).items()}
    times = ("skipped_time_ps", "skipped_warming")
    return {
        **own,
        **{key: value for key, value in skipped.items() if key not in times},
        **counts["counters"],
    }
