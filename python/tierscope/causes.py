"""Who causes it: misses and stalls by memory, by function and by address of the program's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, get_args

from rich.text import Text

from tierscope import _check
from tierscope import format as fmt
from tierscope._shape import CodeCost, Cost, ResultData, SystemResult
from tierscope.errors import ArgumentError, RunError

By = Literal["area", "function", "address"]
"""What misses and stalls are told by: what of its memory the program accesses, or its code."""
KINDS: tuple[By, ...] = get_args(By)

Block = tuple[str, list[tuple[str, dict[str, str]]]]
"""A heading, and rows: a label and a cell for each system."""

_MOST = 12
_TOTAL = "  all together"
OTHERS = "[others]"
"""The function of what a result does not tell apart."""

Key = tuple[str, str, int]
"""What a row is of: file, function and address; of an area its name alone."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What a system's accesses of one key have cost.

    Attributes:
        hits: those that are not in the cost: the core's own caches served them at once.
        cost: what the others have cost.
    """

    hits: int
    cost: Cost


def kinds(by: object) -> list[By]:
    """What to tell misses and stalls by: one of :data:`KINDS`, or several.

    Raises:
        ArgumentError: where it is none of them.
    """
    given = [by] if isinstance(by, str) else by
    if given is None:
        return []
    if not isinstance(given, Sequence):
        mend = f"give one of {', '.join(KINDS)}, or a list of them"
        raise ArgumentError("wrong-type", f"`by` is {_check.shown(by)}", mend)
    for one in given:
        if not isinstance(one, str) or one not in KINDS:
            mend = f"choose from {', '.join(KINDS)}"
            raise ArgumentError("unknown-value", f"`by` is {_check.shown(one)}", mend)
    return [kind for kind in KINDS if kind in given]


def grain(by: Iterable[By]) -> str | None:
    """How finely the sites of the program's code have to be told, as the simulator takes it."""
    return next((kind for kind in ("address", "function") if kind in by), None)


def tells(data: ResultData, kind: By) -> bool:
    """Whether a result tells misses and stalls by this, of any of its systems."""
    return any(_tells(one, kind) for one in data["systems"].values())


def check_told(data: ResultData, by: Iterable[By]) -> None:
    """Refuses what a result does not tell.

    Raises:
        RunError: where it was run without.
    """
    for kind in by:
        if not tells(data, kind):
            raise RunError(
                "no-code",
                f"the result does not tell misses and stalls by {kind}",
                None if kind == "area" else f"run it again with --by {kind}",
            )


def blocks(data: ResultData, kind: By) -> Iterator[Block]:
    """Rows of one kind, the one for which threads stood still longest first.

    The time that threads stood still is given with its share of all threads' time.
    """
    systems = {name: _rows(system, kind) for name, system in data["systems"].items()}
    longest: dict[Key, float] = {}
    for found in systems.values():
        for key, row in found.items():
            longest[key] = max(longest.get(key, 0.0), row.cost["stall_ns"])
    keys = sorted(longest, key=lambda key: (key[1] == OTHERS, -longest[key], key))
    labels = area_labels(keys) if kind == "area" else code_labels(keys, kind)
    times = {
        name: sum(system["time_breakdown_ns"].values()) for name, system in data["systems"].items()
    }

    def block(
        of: Callable[[_Row], float], cell: Callable[[float, str], str]
    ) -> list[tuple[str, dict[str, str]]]:
        def cells(key: Key) -> dict[str, str]:
            return {
                name: cell(of(found[key]), name) if key in found else fmt.ABSENT
                for name, found in systems.items()
            }

        kept = [(labels[key], cells(key)) for key in keys[:_MOST]]
        left_out = len(keys) - _MOST
        if left_out > 0:
            kept.append((f"  and {left_out} more: --json", {}))
        totals = {name: cell(sum(map(of, found.values())), name) for name, found in systems.items()}
        return [*kept, (_TOTAL, totals)]

    def stall(stall_ns: float, system: str) -> str:
        percent = 100 * stall_ns / (times[system] or 1)
        share = "<1%" if percent < 1 else f"{percent:.0f}%"
        return f"{fmt.nanoseconds(stall_ns)} {share:>4}"

    def number(count: float, _: str) -> str:
        return fmt.count(count)

    yield f"Threads stood still for{_HEADINGS[kind]}", block(lambda r: r.cost["stall_ns"], stall)
    yield (
        "Accesses and calls that waited for the store",
        block(lambda r: r.cost["store_accesses"] + r.cost["call_waits"], number),
    )
    yield "Lines read from main memory", block(lambda r: r.cost["memory_reads"], number)
    if kind != "area":
        yield "Accesses", block(lambda r: r.hits + r.cost["accesses"], number)


_HEADINGS: Mapping[By, str] = {
    "area": "",
    "function": " accesses of the function",
    "address": " accesses of the instruction at",
}


def _tells(system: SystemResult, kind: By) -> bool:
    code = system["code"]
    if kind == "area":
        return system["device"] is None
    if code is None:
        return False
    return kind == "function" or code["addresses"] is not None


def _rows(system: SystemResult, kind: By) -> dict[Key, _Row]:
    if kind == "area":
        return {("", name, 0): _Row(0, cost) for name, cost in system["areas"].items()}
    code = system["code"]
    if code is None:
        return {}
    found: list[CodeCost] = code["functions"] if kind == "function" else code["addresses"] or []
    return {
        (row["file"], row["function"], row["address"]): _Row(row["hits"], row["cost"])
        for row in found
    }


def labels_of(data: ResultData, by: Iterable[By]) -> list[str]:
    """The labels of all rows that :func:`blocks` gives, for the width of their column."""
    shown = [rows for kind in by if kind != "area" for _, rows in blocks(data, kind)]
    return [label for rows in shown for label, _ in rows]


def area_labels(keys: Iterable[Key]) -> dict[Key, str]:
    """Files by the last part of their path, unless two would then be called alike."""
    last = {key: PurePath(key[1]).name or key[1] for key in keys}
    called = Counter(last.values())
    return {
        key: f"  {fmt.visible(short if called[short] == 1 else key[1])}"
        for key, short in last.items()
    }


def shortened(label: str, width: int, kind: By) -> str:
    """A label in so many columns: of a file its end stays, of a function its beginning."""
    text = Text(label)
    if text.cell_len <= width:
        return label
    if kind != "area":
        text.truncate(width, overflow="ellipsis")
        return text.plain
    name = label.lstrip()
    indent = " " * (len(label) - len(name))
    while name and Text(f"{indent}…{name}").cell_len > width:
        name = name[1:]
    return f"{indent}…{name}"


def code_labels(keys: Iterable[Key], kind: By) -> dict[Key, str]:
    """Functions with their file; where they have no name, or one name is several, their address."""
    wanted = list(keys)
    names = Counter((file, function) for file, function, _ in wanted)

    def label(key: Key) -> str:
        file, function, address = key
        short = PurePath(file).name or file
        if not file:
            return function
        if file.startswith("["):
            return f"{file} at {address:#x}"
        if not function:
            return f"{short}+{address:#x}"
        if kind == "address":
            return f"{address:#x} {function} ({short})"
        if names[file, function] > 1:
            return f"{function} at {address:#x} ({short})"
        return f"{function} ({short})"

    return {key: f"  {fmt.visible(label(key))}" for key in wanted}
