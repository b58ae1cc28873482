"""What stacks are made of: time by owner, delay by place, energy by component."""

from __future__ import annotations

from collections.abc import Mapping

from tierscope.breakdown import GROUPS
from tierscope.pages.chart import PALETTE
from tierscope.reproduce.run import Cell

Part = tuple[str, str, float]
"""Label, colour and size of a part, bottom of the stack first."""

_DELAYS = {
    "core and caches": ("core", "cache", "tlb"),
    "DRAM or NVDIMM": ("dram", "dram_queue", "controller", "controller_queue"),
    "DMA and interface": ("link", "dma", "host_queue"),
    "SSD": ("store_queue", "device", "medium"),
}
_ENERGIES = {
    "processor": ("energy_processor_",),
    "system memory": ("energy_dram_", "energy_nvm_"),
    "SSD DRAM": ("energy_drive_dram_",),
    "flash": ("energy_flash_",),
    "SSD controller": ("energy_drive_controller_",),
    "other stores": ("energy_store_", "energy_disk_"),
    "links": ("energy_link_",),
}
AXES = {
    "stacks": "execution time",
    "owners": "time of threads",
    "delays": "delay of an access",
    "energies": "energy",
}
"""What the parts of a stack share, by the form of the item."""


def parts_of(cell: Cell, view: str) -> list[Part]:
    """The parts of a machine's stack, seeds together, without those that are nothing."""
    if view == "delays":
        return _named({label: _stages(cell, names) for label, names in _DELAYS.items()})
    if view == "energies":
        return _named({label: _energy(cell, names) for label, names in _ENERGIES.items()})
    found = []
    for group in GROUPS:
        size = sum(_sum(cell, f"time_{owner}_ns") for owner in group.owners)
        found.append((group.label, group.colour, size))
    return [part for part in found if part[2] > 0]


def _named(sizes: Mapping[str, float]) -> list[Part]:
    return [
        (label, PALETTE[number % len(PALETTE)], size)
        for number, (label, size) in enumerate(sizes.items())
        if size > 0
    ]


def _sum(cell: Cell, column: str) -> float:
    return sum(float(row.get(column) or 0.0) for row in cell.rows)


def _stages(cell: Cell, names: tuple[str, ...]) -> float:
    return sum(_sum(cell, f"stage_{name}_ns") for name in names)


def _energy(cell: Cell, prefixes: tuple[str, ...]) -> float:
    return sum(
        float(value or 0.0)
        for row in cell.rows
        for name, value in row.items()
        if name.startswith(prefixes) and name.endswith("_j")
    )
