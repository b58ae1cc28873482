"""`tierscope record`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import tierscope
from tierscope import Recording
from tierscope import format as fmt
from tierscope._interrupts import received
from tierscope.cli import interrupted_status
from tierscope.cli.progress import GrowthLines
from tierscope.errors import TierscopeError

USAGE = "Usage: tierscope record -o FILE.tst -- PROGRAM [ARGS...]"
EXAMPLES = """\
Record once, replay on any machine:

  tierscope record -o app.tst -- ./my_program args
  tierscope run -s hybrid/quick,oracle/quick -w trace:app.tst

A long program, in a file that is a fraction as large, and not larger than there is room for:

  tierscope record -o app.tst --filter-l1 32KiB --max-size 20GiB -- ./simulate
"""


def record(
    *program: str,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    roi_start: str | None = None,
    roi_stop: str | None = None,
    by: Literal["function", "address"] | None = None,
    max_size: str | None = None,
    filter_l1: str | None = None,
    sample: str | None = None,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"))] = False,
) -> int:
    """Records the loads, stores and system calls of a program to a file.

    The program runs unmodified, and its exit status is the command's.

    Args:
        program: The program and its arguments, behind --.
        output: The recording, a .tst file. An earlier recording is replaced, any other file is left
            alone.
        roi_start: Marks calls of this function, of the program or of a library that it loads, as
            the beginning of the region of interest, for tierscope run --roi.
        roi_stop: The same for its end.
        by: Also records which function of the program, or which instruction (address), each access
            comes from, for tierscope run --by.
        max_size: Ends the recording, and the program, before the file is larger than this, such as
            2GiB. What is recorded until then is complete and can be replayed.
        filter_l1: Leaves out the accesses that a first-level cache of this size, such as 32KiB,
            serves. For machines whose first-level cache is as large; replays say so.
        sample: Records windows of the program, such as 1M/100M: the first 100 million accesses
            whole, of each later 100 million the middle 1 million, and all calls. Replays are marked
            as sampled.
        quiet: Shows no progress, and says nothing about a recording that is as it should be.
    """
    if not program:
        raise TierscopeError("usage", "no program is given", "give -- PROGRAM ARGS")
    replaced = output.is_file() and output.stat().st_size > 0
    kept = tierscope.record(
        program,
        output,
        roi_start=roi_start,
        roi_stop=roi_stop,
        by=by or (),
        max_size=max_size,
        filter_l1=filter_l1,
        sample=sample,
        watch=GrowthLines(output, quiet=quiet or not sys.stderr.isatty(), may_grow=not max_size),
    )
    lines = [*kept.reasons, *kept.notices]
    if lines or not quiet:
        for line in [*came_to(output, kept, replaced=replaced), *lines]:
            print(f"tierscope: {line}", file=sys.stderr)
    if received or (kept.exit_status is None and not kept.full):
        return interrupted_status()
    return kept.exit_status or 0


def came_to(output: Path, kept: Recording, *, replaced: bool = False) -> list[str]:
    """What there is of a recording, and how to use what is there of an incomplete one."""
    size = fmt.size(kept.file_bytes)
    if kept.partial is not None:
        operations = fmt.count(int(kept.totals["operations"]))
        threads = int(kept.totals["threads"])
        plural = "" if threads == 1 else "s"
        return [
            f"{output}: not completed; {kept.partial} holds the first {operations} operations of "
            f"{threads} thread{plural}, {size}",
            f"it can be replayed: tierscope run -s SYSTEM -w {shlex.quote(f'trace:{kept.partial}')}"
            " --allow-truncated",
        ]
    if not kept.file_bytes:
        return [f"{output}: not written: nothing was recorded"]
    accesses = sum(int(kept.totals.get(kind, 0)) for kind in ("loads", "stores"))
    instead = ", in place of an earlier recording" if replaced else ""
    left_out = sum(int(kept.totals.get(f"left_out_{kind}", 0)) for kind in ("loads", "stores"))
    filtered = f"; {fmt.count(left_out)} more are left out" if left_out else ""
    sampled = _sampled(kept.totals.get("skipped"))
    return [f"{output}: {fmt.count(accesses)} accesses, {size}{instead}{filtered}{sampled}"]


def _sampled(skipped: dict[str, int] | None) -> str:
    """How many windows there are, and what lies between them."""
    if skipped is None:
        return ""
    windows, between = skipped["windows"], skipped["loads"] + skipped["stores"]
    if not between:
        return ", all that the program made"
    plural = "" if windows == 1 else "s"
    return f", in {windows} window{plural} of a program of {fmt.count(between)} more"
