"""What a trace asks for, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from tierscope import format as fmt
from tierscope._trace import TraceInfo

_WIDTH = 80
"""Columns of what is told."""
_LABEL = 24
_WIDEST = 54
_BAR = 20
_SPARKS = "▁▂▃▄▅▆▇█"
_WINDOWS = 48
"""Windows of the working set that a line has room for."""
_CODE = {
    None: "not told",
    "function": "told by function",
    "address": "told by function and address",
}
"""How finely a recording tells where in the program's code accesses come from."""

_OF_CACHES = "Caches that keep what was touched last: misses in %, by sets of so many blocks"
_OF_PAGES = "Page caches that keep what was touched last: misses of these touches in %"


def lines(info: TraceInfo) -> Iterator[str]:
    """All that is known of a trace, a line each."""
    if info.recording is not None:
        yield from map(_row, recording_facts(info.recording))
    if info.profile is not None:
        if info.recording is not None:
            yield ""
        yield from map(_row, _facts(info.profile))
        if info.threads is not None:
            yield from map(_row, _of_threads(info.threads))
        if info.profile["touches"]:
            yield ""
            yield from _caches(info.profile, _OF_CACHES)
    if info.files is not None:
        yield ""
        yield from map(_row, _of_files(info.files))
        if info.files["touches"]:
            yield ""
            yield from _caches(pages(info.files), _OF_PAGES)
    for remark in info.remarks:
        yield ""
        yield from textwrap.wrap(
            fmt.visible(remark), _WIDTH, break_long_words=False, break_on_hyphens=False
        )


def _row(fact: tuple[str, str]) -> str:
    label, value = fact
    head = f"{label}:" if label else ""
    lines = textwrap.wrap(
        fmt.visible(value), _WIDTH - _LABEL, break_long_words=False, break_on_hyphens=False
    )
    return f"{head:<{_LABEL}}" + f"\n{'':{_LABEL}}".join(lines)


def recording_facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What a recording says of itself."""
    return [
        ("Program", _in_short(found["command"])),
        ("Recorded by", f"{found['recorder']}, tierscope {found['version']}"),
        ("Ended", found["ended"] or "unknown: the recording is truncated"),
        ("Size", fmt.size(found["file_bytes"])),
        ("Threads", fmt.count(found["threads"])),
        ("Loads", fmt.count(found["loads"])),
        ("Stores", fmt.count(found["stores"])),
        ("System calls and marks", fmt.count(found["calls"])),
        ("Marks", _marks(found["marks"])),
        ("Instructions", fmt.count(found["instructions"])),
        ("Left out", _left_out(found)),
        *_sample(found),
        *_missing(found),
        ("Code", _CODE[found["sites"]]),
        ("Damage", found["damage"] or "none"),
    ]


def _marks(marks: list[int] | None) -> str:
    """The numbers of the program's marks: 1 and 2 bound the region of interest."""
    if marks is None:
        return "not told"
    return ", ".join(map(str, marks)) or "none"


def _left_out(found: dict[str, Any]) -> str:
    """What a recording leaves out of what its program did."""
    left_out = []
    if found["filter"] is not None:
        hits = fmt.count(found["left_out"])
        left_out.append(f"{hits} accesses that hit a cache of {found['filter']}")
    skipped = found["skipped"]
    if found["windows"] is not None and (skipped is None or skipped["instructions"]):
        left_out.append("what lies between windows")
    return "; ".join(left_out) or "nothing"


def _sample(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Of a recording of windows, what there is of its program."""
    if found["windows"] is None:
        return []
    skipped = found["skipped"]
    if skipped is None:
        return [("Sample", found["windows"])]
    accesses = fmt.count(skipped["loads"] + skipped["stores"])
    passed = f"{accesses} accesses, {fmt.count(skipped['instructions'])} instructions"
    plural = "" if skipped["windows"] == 1 else "s"
    return [
        ("Sample", f"{found['windows']}: {skipped['windows']} window{plural}"),
        ("Between windows", passed),
    ]


def _missing(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What of its program is not in a recording, a row each."""
    if found["missing"]:
        return [("Missing", what) for what in found["missing"]]
    if found["tells_missing"]:
        return [("Missing", "nothing")]
    format_ = found["format"]
    cut = found["ended"] is None
    why = "the recording is truncated" if cut else f"version {format_} of the format does not tell"
    return [("Missing", f"unknown: {why}")]


def _in_short(command: list[str]) -> str:
    text = " ".join(" ".join(command).split())
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]} …"


def _facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a trace asks for in all."""
    kinds = ("reads", "writes", "flushes", "trims")
    total = sum(found[kind] for kind in kinds)
    mix = ", ".join(f"{fmt.percent(found[k] / total)} {k}" for k in kinds if found[k])
    part = "" if found["complete"] else ", of a part of the trace"
    yield "Requests", f"{fmt.count(total)}: {mix}{part}" if total else "none"
    moved = (found["read_bytes"], found["written_bytes"])
    yield "Bytes", f"{fmt.size(moved[0])} read, {fmt.size(moved[1])} written"
    yield "Sizes", _sizes(found["sizes"])
    if found["first_byte"] is not None:
        yield "Addresses", f"{found['first_byte']:#x} to {found['last_byte']:#x}"
    yield "Duration", _duration(found)
    block = fmt.size(found["block_bytes"])
    about = "about " if found["sample"] else ""
    yield (
        "Footprint",
        f"{about}{fmt.size(found['blocks'] * found['block_bytes'])}: "
        f"{fmt.count(found['blocks'])} blocks of {block}, "
        f"{fmt.percent(found['written_blocks'] / max(found['blocks'], 1))} of them written",
    )
    yield "Touches of blocks", fmt.count(found["touches"])
    if found["working_set"]:
        yield "Working set", _working_set(found)
        yield "  of windows in turn", _sparks(found)
    if found["sample"]:
        yield "Sample", _followed(found["sample"], "blocks")


def _followed(sample: dict[str, Any], what: str) -> str:
    """How many were followed, and how far that tells."""
    return (
        f"{fmt.percent(sample['rate'])} of the {what}; miss ratios are within "
        f"{fmt.digits(100 * sample['error'])} of a hundred"
    )


def _of_threads(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What threads do beside their loads and stores."""
    if found["threads"] > 1:
        yield "Threads", fmt.count(found["threads"])
    yield "Instructions", fmt.count(found["instructions"])
    flushes = found["line_flushes"]
    untold = "none told: recordings have those whose address is known"
    yield "Stores past the caches", fmt.count(found["non_temporal_stores"])
    yield "Flushes of lines", untold if flushes is None else fmt.count(flushes)
    yield "Fences", fmt.count(found["fences"])


_CALLS = {
    "reads": "reads",
    "writes": "writes",
    "direct_reads": "direct reads",
    "direct_writes": "direct writes",
    "opens": "opens",
    "closes": "closes",
    "syncs": "syncs",
    "copies": "copies in the kernel",
    "splices": "to and from pipes and sockets",
    "allocates": "allocations",
    "holes": "holes and moves",
    "truncates": "sizes set",
    "deletes": "deletions",
    "renames": "renames",
    "links": "names more and fewer",
    "directories": "directories made and removed",
    "lists": "listings",
    "advices": "advice",
    "maps": "mappings",
}


def pages(files: dict[str, Any]) -> dict[str, Any]:
    """Pages of files as blocks of a trace."""
    own = {"block_bytes": files["page_bytes"], "blocks": files["pages"], "set_associative": []}
    return {**files, **own}


def _moved(found: dict[str, Any]) -> str:
    """Bytes that are read and written."""
    return f"{fmt.size(found['read_bytes'])} read, {fmt.size(found['written_bytes'])} written"


def _of_files(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What calls ask of files in all."""
    calls = [
        f"{name} {fmt.count(found['calls'][key])}"
        for key, name in _CALLS.items()
        if found["calls"][key]
    ]
    yield "Calls on files", ", ".join(calls)
    # A copy reads and writes; recordings of earlier versions do not tell of any.
    moving = ("reads", "writes", "direct_reads", "direct_writes", "copies", "copies", "splices")
    moved = sum(found["calls"][key] or 0 for key in moving)
    if moved:
        yield "Bytes of files", _moved(found)
        if found["sizes"]:
            yield "Sizes of calls", _sizes(found["sizes"])
        share = fmt.percent(found["sequential"] / moved)
        yield "In sequence", f"{share} of reads and writes begin where the file's last ended"
        yield "Files", fmt.count(found["files"])
    if not found["touches"]:
        return
    for number, one in enumerate(found["most_used"][:3]):
        label = "  most used" if number == 0 else ""
        yield label, f"{_in_short([one['name']])}: {_moved(one)}"
    about = "about " if found["sample"] else ""
    size, page = found["pages"] * found["page_bytes"], fmt.size(found["page_bytes"])
    written = fmt.percent(found["written_pages"] / max(found["pages"], 1))
    count = f"{fmt.count(found['pages'])} pages of {page}"
    yield "Footprint of files", f"{about}{fmt.size(size)}: {count}, {written} of them written"
    if found["most_pages"] < found["pages"]:
        yield "  at a time at most", fmt.size(found["most_pages"] * found["page_bytes"])
    mapped = found["mapped_touches"]
    through = f", {fmt.count(mapped)} of them through mappings" if mapped else ""
    yield "Touches of pages", f"{fmt.count(found['touches'])}{through}"
    if found["working_set"]:
        as_blocks = pages(found)
        yield "Working set of files", _working_set(as_blocks)
        yield "  of windows in turn", _sparks(as_blocks)
    if found["sample"]:
        yield "Sample of pages", _followed(found["sample"], "pages")


def _sizes(sizes: list[tuple[int, int]]) -> str:
    """The three most frequent sizes, each as a power of two that requests have at least."""
    total = sum(count for _, count in sizes)
    often = sorted(sizes, key=lambda one: -one[1])[:3]
    told = [f"{fmt.percent(count / total)} from {fmt.size(size)}" for size, count in often]
    more = len(sizes) - len(often)
    return "; ".join(told) + (f"; {more} more" if more > 0 else "") if told else "none"


def _duration(found: dict[str, Any]) -> str:
    if found["duration_ps"] is not None:
        return long_time(found["duration_ps"] * 1e-12)
    if found["duration_cycles"] is not None:
        return f"{fmt.count(found['duration_cycles'])} cycles"
    return "requests have no times"


def long_time(time_s: float) -> str:
    """A time, in hours or days where it has many."""
    for unit_s, unit in ((86400.0, "days"), (3600.0, "hours")):
        if time_s >= 2 * unit_s:
            return f"{fmt.digits(time_s / unit_s)} {unit}"
    return fmt.seconds(time_s)


def _windows(found: dict[str, Any]) -> list[float]:
    """Different bytes touched in each window of a trace."""
    return [window["blocks"] * found["block_bytes"] for window in found["working_set"]]


def _working_set(found: dict[str, Any]) -> str:
    windows = _windows(found)
    touches = fmt.count(found["working_set"][0]["end_touches"])
    mean = fmt.size(sum(windows) / len(windows))
    return f"{mean} in {touches} touches on average, {fmt.size(max(windows))} at most"


def _sparks(found: dict[str, Any]) -> str:
    """A column for each window, or for several."""
    windows = _windows(found)
    most = max(windows)
    step = -(-len(windows) // _WINDOWS)
    shown = [max(windows[at : at + step]) for at in range(0, len(windows), step)]
    top = len(_SPARKS) - 1
    return "".join(_SPARKS[round(top * one / most)] for one in shown) if most else ""


def miss_ratio(found: dict[str, Any], cache_bytes: int) -> float:
    """That of a cache of that size, which keeps the blocks touched last."""
    ratio = 1.0
    for row in found["miss_ratio"]:
        if row["cache_bytes"] > cache_bytes:
            break
        ratio = row["miss_ratio"]
    return ratio


_MOST_WAYS = 16
"""Ways that the table has a column for; the object tells more."""


def _caches(found: dict[str, Any], title: str) -> Iterator[str]:
    """How soon blocks come again, and what caches of powers of two miss."""
    every = {row["ways"] for row in found["set_associative"]}
    ways = [way for way in sorted(every) if way <= _MOST_WAYS]
    by_ways = {
        (row["ways"], row["cache_bytes"]): row["miss_ratio"] for row in found["set_associative"]
    }
    yield title
    heading = "".join(f"{way:>7}" for way in ways)
    yield f"{'size':>9}  {'one set':>8}{heading}  first hit from here"
    size, before = found["block_bytes"], 1.0
    while True:
        ratio = miss_ratio(found, size)
        told = [by_ways.get((way, size)) for way in ways]
        cells = "".join(f"{_cell(one):>7}" for one in told)
        hit = before - ratio
        bar = "█" * round(_BAR * hit)
        row = f"{fmt.size(size):>9}  {_cell(ratio):>8}{cells}  {bar or '▏' if hit else ''}"
        yield row.rstrip()
        if size >= found["blocks"] * found["block_bytes"]:
            return
        size, before = 2 * size, ratio


def _cell(ratio: float | None) -> str:
    return fmt.ABSENT if ratio is None else f"{100 * ratio:.1f}"
