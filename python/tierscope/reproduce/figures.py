"""The numbers that items show: columns of a sweep's table, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tierscope import format as fmt
from tierscope.breakdown import GROUPS

Row = Mapping[str, Any]
"""A row of a sweep's table."""

_STORE_PATH = ("host_queue", "link", "store_queue", "device", "medium", "dma")
"""Stages that [HYB15] counts as hardware: host interface, controller, medium and DMA."""


_KERNEL_IO = ("block_layer", "driver", "context_switch", "interrupt", "wake_up")
"""Stages of the kernel's way to a device and back."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that an item shows.

    Attributes:
        title: what it is, on an axis.
        shown: how a reader sees it.
        of: it, of a row; nothing where the row has none.
        sampled: which interval of a sampled run is its; empty where none is.
    """

    title: str
    shown: Callable[[float | None], str]
    of: Callable[[Row], float | None]
    sampled: str = ""


def _column(name: str) -> Callable[[Row], float | None]:
    def of(row: Row) -> float | None:
        value = row.get(name)
        return None if value is None else float(value)

    return of


def _stages(row: Row, names: Iterable[str]) -> float:
    return sum(float(row.get(f"stage_{name}_ns") or 0.0) for name in names)


def _hardware_ns(row: Row) -> float | None:
    return None if row.get("latency_mean_ns") is None else _stages(row, _STORE_PATH)


def _software_ns(row: Row) -> float | None:
    mean, hardware = row.get("latency_mean_ns"), _hardware_ns(row)
    return None if mean is None or hardware is None else float(mean) - hardware


def _kernel_io_ns(row: Row) -> float | None:
    return None if row.get("latency_mean_ns") is None else _stages(row, _KERNEL_IO)


def _over(above: Callable[[Row], float | None], below: Callable[[Row], float | None]) -> Any:
    def of(row: Row) -> float | None:
        upper, lower = above(row), below(row)
        return None if upper is None or not lower else upper / lower

    return of


def _hit_rate(row: Row) -> float | None:
    rate = row.get("miss_rate")
    return None if rate is None else 1.0 - float(rate)


def _owned(*labels: str) -> Callable[[Row], float | None]:
    """The share of the threads' time that groups of owners have."""
    owners = {owner for group in GROUPS if group.label in labels for owner in group.owners}

    def of(row: Row) -> float | None:
        times = {key: row.get(f"time_{key}_ns") or 0.0 for group in GROUPS for key in group.owners}
        total = sum(times.values())
        return sum(times[owner] for owner in owners) / total if total else None

    return of


def _page_cache_miss_rate(row: Row) -> float | None:
    """Of the pages of 4 KiB that calls read, those that the page cache lacked."""
    pages = float(row.get("file_read_bytes") or 0.0) / 4096
    missed = float(row.get("major_faults") or 0.0) + float(row.get("buffer_cache_hits") or 0.0)
    return missed / pages if pages else None


def _file_bytes(row: Row) -> float | None:
    """Bytes that calls read and wrote."""
    read, written = row.get("file_read_bytes"), row.get("file_written_bytes")
    return None if read is None or written is None else float(read) + float(written)


def _time_of_4k_s(row: Row) -> float | None:
    """The run's time over the pages of 4 KiB that its calls moved."""
    rate = _over(_file_bytes, _column("time_s"))(row)
    return 4096 / rate if rate else None


def _units(row: Row, each: str) -> float | None:
    """Units of work that were done, each of as many instructions as that parameter says."""
    instructions, of_each = row.get("instructions"), row.get(each)
    return None if instructions is None or not of_each else float(instructions) / float(of_each)


def _copied_bytes_per_s(row: Row) -> float | None:
    """Whole pages of 4 KiB that a program copied, over the time."""
    pages, time_s = _units(row, "page_instructions"), _time_s(row)
    return None if pages is None or not time_s else 4096 * pages / time_s


def _transaction_s(row: Row) -> float | None:
    """The run's time over its transactions."""
    transactions, time_s = _units(row, "transaction_instructions"), _time_s(row)
    return None if not transactions or time_s is None else time_s / transactions


def _buffer_cache_miss_rate(row: Row) -> float | None:
    rate = _over(_column("buffer_cache_hits"), _column("buffer_cache_lookups"))(row)
    return None if rate is None else 1.0 - float(rate)


_os_share = _owned("operating system")
_store_share = _owned("store", "links and DMA")
_mean_ns = _column("latency_mean_ns")
_time_s = _column("time_s")
FIGURES: dict[str, Figure] = {
    "time_s": Figure("execution time", fmt.seconds, _time_s, "time"),
    "ipc": Figure("instructions per cycle", fmt.plain, _column("ipc"), "time"),
    "miss_rate": Figure("misses", fmt.percent, _column("miss_rate"), "miss_rate"),
    "hit_rate": Figure("hits of the DRAM cache", fmt.percent, _hit_rate),
    "latency_mean_ns": Figure("mean latency", fmt.nanoseconds, _mean_ns, "mean_latency"),
    "latency_stddev_ns": Figure(
        "standard deviation of latency", fmt.nanoseconds, _column("latency_stddev_ns")
    ),
    "latency_p50_ns": Figure("median latency", fmt.nanoseconds, _column("latency_p50_ns")),
    "latency_p99_ns": Figure("99th percentile", fmt.nanoseconds, _column("latency_p99_ns")),
    "hardware_ns": Figure("hardware, of an access", fmt.nanoseconds, _hardware_ns),
    "software_ns": Figure("software, of an access", fmt.nanoseconds, _software_ns),
    "kernel_io_ns": Figure("the kernel's I/O, of an access", fmt.nanoseconds, _kernel_io_ns),
    "software_share": Figure("software's share", fmt.percent, _over(_software_ns, _mean_ns)),
    "busy_share": Figure("executing", fmt.percent, _owned("busy", "core and on-chip caches")),
    "os_share": Figure("operating system", fmt.percent, _os_share),
    "store_share": Figure("store and links", fmt.percent, _store_share),
    "os_over_store": Figure("system over store", fmt.factor, _over(_os_share, _store_share)),
    "device_bytes_per_s": Figure("bandwidth", fmt.bandwidth, _column("device_bytes_per_s")),
    "accesses_per_s": Figure(
        "accesses a second", fmt.rate, _over(_column("accesses"), _time_s), "time"
    ),
    "instructions_per_s": Figure(
        "instructions a second",
        fmt.rate,
        _over(_column("instructions"), _time_s),
        "time",
    ),
    "energy_j": Figure("energy", fmt.joules, _column("energy_j"), "energy"),
    "system_calls_per_s": Figure(
        "calls a second", fmt.rate, _over(_column("system_calls"), _time_s), "time"
    ),
    "store_read_bytes": Figure("read from the store", fmt.size, _column("store_read_bytes")),
    "store_written_bytes": Figure("written to the store", fmt.size, _column("store_written_bytes")),
    "file_read_bytes_per_s": Figure(
        "read rate", fmt.bandwidth, _over(_column("file_read_bytes"), _time_s), "time"
    ),
    "file_written_bytes_per_s": Figure(
        "write rate", fmt.bandwidth, _over(_column("file_written_bytes"), _time_s), "time"
    ),
    "file_bytes_per_s": Figure("bandwidth", fmt.bandwidth, _over(_file_bytes, _time_s), "time"),
    "time_of_4k_s": Figure("time of 4 KiB", fmt.seconds, _time_of_4k_s, "time"),
    "copied_bytes_per_s": Figure(
        "bandwidth of pages copied", fmt.bandwidth, _copied_bytes_per_s, "time"
    ),
    "transaction_s": Figure("time of a transaction", fmt.seconds, _transaction_s, "time"),
    "page_cache_miss_rate": Figure("misses of the page cache", fmt.percent, _page_cache_miss_rate),
    "buffer_cache_miss_rate": Figure(
        "misses of the extended cache", fmt.percent, _buffer_cache_miss_rate
    ),
    "tag_store_bytes": Figure("tag store", fmt.size, _column("tag_store_bytes")),
}


def figure(name: str) -> Figure:
    """The figure of that name, which an item's file has."""
    return FIGURES[name]


def half_width(row: Row, name: str) -> float:
    """Half the interval of a figure of a sampled run, as a share of it; 0 where none is told."""
    which = figure(name).sampled
    share = row.get(f"{which}_half_width") if which else None
    return 0.0 if share is None or math.isnan(float(share)) else float(share)
