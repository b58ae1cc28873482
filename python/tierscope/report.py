"""A result as a terminal shows it: table, stacked columns, and what else a reader must know.

Table, columns and legend share one grid: a system keeps its place from the top to the bottom.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from tierscope import causes
from tierscope import format as fmt
from tierscope._shape import (
    ProgramInfo,
    RecordedWindows,
    ResultData,
)
from tierscope.breakdown import Group, apportion, where
from tierscope.causes import By
from tierscope.table import devices_alone, rows

COMPLETE = "Complete: the whole workload was simulated on every system."
"""What stands below a result that is complete."""
COMPLETE_REGION = "Complete: the whole region of interest was simulated on every system."
"""The same where a part of the workload was not counted."""

_BAR_ROWS = 16
_NAME_WIDTH = range(8, 22)
_GAP = "  "
_IN_ASCII = str.maketrans({"µ": "u", "×": "x", "–": "-", "…": ".", "±": "~"})
# An interval wider than that tells hardly more than an order of magnitude.
_VAGUE = 0.5
_TICKS = {_BAR_ROWS: "100 %", _BAR_ROWS // 2: "50 %", 1: "0 %"}


def render(
    data: ResultData,
    console: Console,
    *,
    unicode: bool | None = None,
    heading: str | None = None,
    closing: Sequence[str] | None = None,
    by: Sequence[By] = (),
) -> Text:
    """The whole report, for ``console``'s width, and its character set unless that is given.

    Heading and closing lines are those of the result unless others are given. ``by`` adds what
    threads stood still for, by each of these.
    """
    if unicode is None:
        unicode = console.encoding.startswith("utf")
    lines = [Text(title(data) if heading is None else heading, style="bold"), Text()]
    if heading is None:
        for remark in data["remarks"]:
            lines += [*map(Text, _wrapped(remark, console.width)), Text()]
    for page in _pages(data, console.width, by):
        lines += [*table(data, page), Text()]
        lines += [*columns(data, page, unicode=unicode), Text()]
        for kind in by:
            lines += [*cause_lines(data, page, kind), Text()]
    for line in closing_lines(data) if closing is None else closing:
        lines += map(Text, _wrapped(line, console.width))
    report = Text("\n").join(lines)
    if not unicode:
        report.plain = report.plain.translate(_IN_ASCII)
    return report


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_on_hyphens=False)


@dataclass(frozen=True, slots=True)
class Page:
    """The systems that stand side by side, and the widths of label and columns."""

    names: Sequence[str]
    label_width: int
    column_width: int

    @classmethod
    def wide(cls, data: ResultData) -> Page:
        """All systems side by side, however wide."""
        return next(_pages(data, width=sys.maxsize))

    def line(self, label: str, cells: Sequence[Text | str]) -> Text:
        """One line of the grid, cells to the right of their columns."""
        line = Text(label.ljust(self.label_width))
        for cell in cells:
            text = Text(cell) if isinstance(cell, str) else cell.copy()
            text.truncate(self.column_width, overflow="ellipsis")
            line.append(_GAP)
            line.append(" " * (self.column_width - text.cell_len))
            line.append_text(text)
        return line


def _pages(data: ResultData, width: int, by: Sequence[By] = ()) -> Iterator[Page]:
    """As many systems at a time as fit ``width`` side by side; no figure is cut.

    Labels of what threads stood still for are given room where there is some left.
    """
    names = list(data["systems"])
    labels = [label for label, _ in rows(data)]
    for system in data["systems"].values():
        labels += [f"   {group.label}" for group, _ in where(system)]
    label_width = max(map(len, labels))
    longest = max(map(len, names), default=0)
    widest = _NAME_WIDTH.stop - 1
    if len({name[: widest - 1] for name in names if len(name) > widest}) < sum(
        len(name) > widest for name in names
    ):
        widest = longest  # Names are cut, unless they would then be the same.
    column_width = max(min(max(longest, _NAME_WIDTH.start), widest), _longest_cell(data, by))
    further = causes.labels_of(data, by)
    room = max(1, (width - label_width) // (column_width + len(_GAP)))
    for start in range(0, len(names), room):
        shown = names[start : start + room]
        left = width - len(shown) * (column_width + len(_GAP))
        wanted = max(map(len, further), default=0)
        yield Page(shown, max(label_width, min(wanted, left)), column_width)


def _longest_cell(data: ResultData, by: Sequence[By]) -> int:
    """Columns that the longest figure takes, of the table and of what threads stood still for."""
    told = [rows(data), *(block for kind in by for _, block in causes.blocks(data, kind))]
    cells = (cell for block in told for _, row in block for cell in row.values())
    return max((Text(cell).cell_len for cell in cells), default=0)


def table(data: ResultData, page: Page) -> Iterator[Text]:
    """The table's lines, headed by the systems' names."""
    heading = page.line("", page.names)
    heading.stylize("bold")
    yield heading
    for label, cells in rows(data):
        yield page.line(label, [cells[name] for name in page.names])


def cause_lines(data: ResultData, page: Page, kind: By) -> Iterator[Text]:
    """Misses and stalls by who causes them."""
    for heading, block in causes.blocks(data, kind):
        yield Text(heading, style="bold")
        for label, cells in block:
            short = causes.shortened(label, page.label_width, kind)
            yield page.line(short, [cells.get(name, "") for name in page.names])


def columns(data: ResultData, page: Page, *, unicode: bool) -> Iterator[Text]:
    """Where the threads' time goes: one stacked column a system, and the legend.

    Told apart by fill characters, so that it reads without colour too.
    """
    stacks = [where(data["systems"][name]) for name in page.names]
    levels = [_levels(stack) for stack in stacks]
    corner = "┤" if unicode else "+"
    edge = "│" if unicode else "|"
    whose = "requests" if devices_alone(data) else "threads"
    yield Text(f"Where the {whose}' time goes", style="bold")
    for level in range(_BAR_ROWS, 0, -1):
        tick = _TICKS.get(level, "")
        axis = f"{tick} {corner if tick else edge}".rjust(page.label_width)
        bars = [_fill(column[level - 1], page.column_width, unicode=unicode) for column in levels]
        yield page.line(axis, bars)
    yield Text()
    present = {group for stack in stacks for group, _ in stack}
    for group in sorted(present, key=lambda group: -group.order):
        shares = [_share(stack, group) for stack in stacks]
        mark = _fill(group, 2, unicode=unicode)
        yield Text.assemble(mark, page.line(f"   {group.label}", shares)[2:])


def closing_lines(data: ResultData) -> list[str]:
    """What stands below table and columns: the program, how complete the result is, remarks."""
    lines = list(_program_lines(data["program"])) if data["program"] is not None else []
    sampled = any(system.get("sampling") is not None for system in data["systems"].values())
    if data["completeness"] == "complete":
        regions = any(system["skipped"] is not None for system in data["systems"].values())
        lines.append(COMPLETE_REGION if regions else COMPLETE)
    elif data["completeness"] == "partial":
        reason = data["partial_reason"] or "the reason is not known"
        lines.append(f"{data['completeness'].capitalize()}: {reason}.")
    elif not sampled:
        lines.append("Sampled: the workload is a recording of windows of its program.")
    lines += _sampled_lines(data) if sampled else []
    windows = {n: one for n, s in data["systems"].items() if (one := s.get("recorded_windows"))}
    lines += _window_lines(windows, data["completeness"] == "partial") if windows else []
    lines += _skipped_lines(data)
    lines += _left_out_lines(data)
    for name, system in data["systems"].items():
        lines += [f"{name}: {note}" for note in system["notes"]]
    return [fmt.visible(line) for line in lines]


def _sampled_lines(data: ResultData) -> Iterator[str]:
    """How a sampled result is to be read, and how much of it was measured."""
    parts = []
    for name, system in data["systems"].items():
        sampling = system.get("sampling")
        if sampling is None:
            parts.append(f"{name}: complete")
            continue
        number = sampling["units"]
        if number > 0:
            each = fmt.seconds(sampling["unit_ps"] / 1e12)
            units = f"{number} unit{'' if number == 1 else 's'} of {each}"
        else:
            units = f"by the first {fmt.seconds(sampling['period_ps'] / 1e12)} alone"
        parts.append(f"{name}: {units}, {fmt.percent(sampling['detailed_share'])} in detail")
    told = [one for system in data["systems"].values() if (one := system.get("sampling"))]
    yield f"Sampled: {'; '.join(parts)}."
    if any(share is not None for one in told for share in one["half_widths"].values()):
        yield (
            "Figures with ± are estimates: 95 in 100 of such intervals hold what the complete run "
            "gives, by sampling's error and what passing over was off by where it was measured."
        )
    vague = {
        name: half
        for name, system in data["systems"].items()
        if (one := system.get("sampling"))
        and (half := one["half_widths"]["time"]) is not None
        and half > _VAGUE
    }
    if vague:
        halves = ", ".join(f"±{half:.0%} on {name}" for name, half in vague.items())
        yield (
            f"What time it takes is hardly known ({halves}): units differ too much. A longer run, "
            "more units (--precision), or the whole of it in detail (without --sample) tell more."
        )
    where = "units" if all(one["units"] > 0 for one in told) else "units, or of the first part,"
    yield (
        f"Percentiles, maximum and shares of the time are of the {where} alone; bytes moved, and "
        "what flash and non-volatile memory did, are counted throughout."
    )


def _window_lines(systems: Mapping[str, RecordedWindows], is_part: bool) -> Iterator[str]:
    """How the replay of a recording of windows is to be read, and how cold its windows begin."""
    told = (f"{name}: {one['windows']} whole windows" for name, one in systems.items())
    yield f"Windows: {'; '.join(told)}."
    program = "program until the run ended" if is_part else "whole program"
    yield (
        f"Figures with ± are estimates of the {program}: 95 in 100 of such intervals hold what "
        "it gives, by sampling's error and what warming was off by where it was measured. All "
        "others, shares of the time included, are of the windows and of all calls."
    )
    halves = {name: one["first_halves"] for name, one in systems.items()}
    cold = [f"{fmt.factor(each)} on {name}" for name, each in halves.items() if each is not None]
    if cold:
        yield (
            "The time of an instruction in first halves of windows, against second ones: "
            f"{', '.join(cold)}; where it is far above 1×, windows begin colder than the program "
            "would: longer ones, or a whole recording, tell."
        )


def _left_out_lines(data: ResultData) -> Iterator[str]:
    """What the energies do not hold: a total that lacks a part is no total of another's parts."""
    systems = data["systems"]
    if all(system["energy"]["total_j"] is None for system in systems.values()):
        return
    without: dict[str, list[str]] = {}
    for name, system in systems.items():
        for component in system["energy"]["not_counted"]:
            without.setdefault(component.replace("_", " "), []).append(name)
    told = [
        component if len(names) == len(systems) else f"{component} of {' and '.join(names)}"
        for component, names in without.items()
    ]
    if told:
        yield f"Not in the energy, for want of numbers: {', '.join(told)}."


def _skipped_lines(data: ResultData) -> Iterator[str]:
    """What came before the region of interest."""
    skipped = {name: system["skipped"] for name, system in data["systems"].items()}
    warm, simulated = [], []
    for name, part in skipped.items():
        if part is None:
            continue
        told = f"{name}: {fmt.count(part['accesses'])} accesses"
        if part["warming"] != "detailed":
            untimed = part["warming"] == "untimed"
            warm.append(f"{told}, all prefetches finding room" if untimed else told)
        else:
            simulated.append(f"{told} in {fmt.seconds(part['time_ps'] / 1e12)}")
    for what, parts in (("Warmed functionally", warm), ("Simulated", simulated)):
        if parts:
            yield f"{what} before the region of interest and not counted: {'; '.join(parts)}."


def title(data: ResultData) -> str:
    """What ran, in a line."""
    workload = data["workload"]
    name, threads = fmt.visible(workload["name"]), workload["threads"]
    accesses = max((s["accesses"] for s in data["systems"].values()), default=0)
    if workload["kind"] == "requests":
        kind = workload["parameters"]["format"]
        suffix = "" if kind == "pattern" else f", {kind}"
        return f"{name}: {fmt.count(accesses)} requests{suffix}"
    plural = "" if threads == 1 else "s"
    return f"{name}: {threads} thread{plural}, {fmt.count(accesses)} accesses"


def _levels(stack: list[tuple[Group, float]]) -> list[Group | None]:
    """The group of each row, bottom first; a column without time stays empty."""
    if not stack:
        return [None] * _BAR_ROWS
    heights = apportion([time for _, time in stack], _BAR_ROWS)
    filled = zip(stack, heights, strict=True)
    return [group for (group, _), height in filled for _ in range(height)]


def _fill(group: Group | None, width: int, *, unicode: bool) -> Text:
    if group is None:
        return Text(" " * width)
    return Text((group.fill if unicode else group.ascii_fill) * width, style=group.style)


def _share(stack: list[tuple[Group, float]], group: Group) -> str:
    part = sum(time for other, time in stack if other == group)
    return fmt.share(part, sum(time for _, time in stack))


def _program_lines(program: ProgramInfo) -> Iterator[str]:
    accesses = f"{fmt.count(program['accesses'])} accesses"
    yield (
        f"Program: {program['seen']}; {accesses}, "
        f"{fmt.count(program['instructions'])} instructions."
    )
    speed = f"Recorded and simulated in {fmt.seconds(program['recorded_s'])}"
    if program["slowdown_against_native"] is not None:
        native = fmt.seconds(program["native_s"])
        speed += f", {fmt.factor(program['slowdown_against_native'])} its {native} alone"
    delivered = fmt.rate(program["delivered_accesses_per_s"], "accesses")
    yield f"{speed}; until its end it delivered {delivered}."
    if program["exit_status"] not in (0, None):
        yield f"The program's exit status was {program['exit_status']}."
