"""Where the time goes: the owners of time, gathered into groups that fit a chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tierscope._shape import SystemResult


@dataclass(frozen=True, slots=True)
class Group:
    """Owners of time that one colour and one fill stand for.

    Attributes:
        label: its name in legends.
        owners: keys of ``time_breakdown_ns`` or ``stages_ns``.
        fill: the character that fills it in a terminal.
        ascii_fill: the same where the terminal knows only ASCII.
        colour: hexadecimal, for plots (Okabe and Ito's palette).
        style: the colour in a terminal, as rich names it.
    """

    label: str
    owners: tuple[str, ...]
    fill: str
    ascii_fill: str
    colour: str
    style: str

    @property
    def order(self) -> int:
        """Place in the stack, from the bottom."""
        for groups in (GROUPS, DEVICE_GROUPS):
            if self in groups:
                return groups.index(self)
        return len(GROUPS)


GROUPS: tuple[Group, ...] = (
    Group("busy", ("busy",), "█", "#", "#4d4d4d", "white"),
    Group("core and on-chip caches", ("core", "cache", "tlb"), "▒", "%", "#56b4e9", "bright_blue"),
    Group(
        "operating system",
        (
            "fault",
            "system_call",
            "page_cache",
            "file_system",
            "block_layer",
            "driver",
            "context_switch",
            "interrupt",
            "wake_up",
            "migration",
        ),
        "▚",
        "S",
        "#e69f00",
        "yellow",
    ),
    Group("controller", ("controller", "controller_queue"), "+", "+", "#cc79a7", "magenta"),
    Group("DRAM", ("dram_queue", "dram"), "▓", "D", "#0072b2", "blue"),
    Group("links and DMA", ("link", "dma"), "=", "=", "#009e73", "green"),
    Group(
        "store",
        ("host_queue", "store_queue", "device", "medium", "buffer_cache"),
        "░",
        "o",
        "#d55e00",
        "red",
    ),
    Group("ready, no free core", ("ready",), "~", "~", "#f0e442", "bright_yellow"),
    Group("another call has the file", ("file_lock",), "≡", "L", "#882255", "bright_red"),
    Group("blocked", ("blocked",), ":", ":", "#b3b3b3", "bright_black"),
    Group("idle", ("idle",), "·", ".", "#e6e6e6", "bright_black"),
)

DEVICE_GROUPS: tuple[Group, ...] = (
    Group("DRAM", ("dram",), "▓", "D", "#0072b2", "blue"),
    Group("controller", ("controller",), "+", "+", "#cc79a7", "magenta"),
    Group("controller's queue", ("dram_queue",), "▒", "%", "#56b4e9", "bright_blue"),
    Group("medium", ("medium",), "░", "o", "#d55e00", "red"),
    Group("store's controller and buses", ("device",), ":", ":", "#b3b3b3", "bright_black"),
    Group(
        "store's queue", ("store_queue", "controller_queue"), "~", "~", "#f0e442", "bright_yellow"
    ),
    Group("link", ("link",), "=", "=", "#009e73", "green"),
    Group("waiting at the door", ("host_queue",), "▚", "S", "#e69f00", "yellow"),
    Group("block layer", ("block_layer",), "×", "x", "#f0e442", "bright_green"),
)
"""Stages of the requests to a device alone."""
_OTHER = Group("other", (), "?", "?", "#000000", "white")


def groups_of(system: SystemResult) -> tuple[Group, ...]:
    """The groups of a machine, or of a device alone, bottom of the stack first."""
    return GROUPS if system["device"] is None else DEVICE_GROUPS


def times_of(system: SystemResult) -> dict[str, float]:
    """The time of a machine's threads by owner, or of the requests to a device alone, in ns."""
    return system["time_breakdown_ns"] if system["device"] is None else system["stages_ns"]


def where(system: SystemResult) -> list[tuple[Group, float]]:
    """Where the time of a system's threads goes, or of the requests to a device alone, in ns."""
    return grouped(times_of(system), groups_of(system))


def grouped(
    times: Mapping[str, float], groups: tuple[Group, ...] = GROUPS
) -> list[tuple[Group, float]]:
    """The time of each group, bottom of the stack first, without groups that have none.

    An owner that no group knows is shown as "other" and never dropped, so that the parts keep
    their sum.
    """
    parts = [(group, sum(times.get(owner, 0.0) for owner in group.owners)) for group in groups]
    known = {owner for group in groups for owner in group.owners}
    other = sum(time for owner, time in times.items() if owner not in known)
    parts.append((_OTHER, other))
    return [(group, time) for group, time in parts if time > 0]


def apportion(parts: list[float], rows: int) -> list[int]:
    """Shares ``rows`` among parts in proportion, by largest remainder: the rows are all given out.

    Raises:
        ValueError: where the parts have no positive sum.
    """
    total = sum(parts)
    if total <= 0:
        raise ValueError("the parts have no positive sum")
    exact = [part / total * rows for part in parts]
    given = [int(value) for value in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: (given[i] - exact[i], i))
    for i in by_remainder[: rows - sum(given)]:
        given[i] += 1
    return given
