"""`tierscope convert` and `tierscope trace info`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.live import Live
from rich.text import Text

from tierscope import _files, _trace
from tierscope import format as fmt
from tierscope._trace import Conversion, Passed, Source
from tierscope.cli import interrupted_status, names
from tierscope.cli.options import assignments, check_json, whole, workload_value
from tierscope.errors import TierscopeError

CONVERT_USAGE = "Usage: tierscope convert SOURCE FORMAT:FILE [OPTIONS]"
CONVERT_EXAMPLES = """\
Formats are named; files are compressed as their names end:

  tierscope convert msr:hm_1.csv.gz fio:hm_1.log
  tierscope convert dramsim3:app.trc mqsim:app.mq.xz --clock 1.2GHz

A trace of a program, or a workload of threads, as a recording:

  tierscope convert champsim:app.champsimtrace.xz app.tst
  tierscope convert gups gups.tst --set workload.updates=1000000

What a program loaded and stored, for a simulator of memories:

  tierscope convert app.tst ramulator:app.trc.gz

Places of Ramulator's own organization:

  tierscope convert app.tst ramulator2-vector:app.trc --set target.levels=1:2:4:4:65536:128

A pattern, or a built-in workload, as a trace:

  tierscope convert zipf dramsim3:zipf.trc --set workload.requests=1000000 --interval 5ns
"""
INFO_USAGE = "Usage: tierscope trace info SOURCE [OPTIONS]"
INFO_EXAMPLES = """\
Who recorded what, how it ended, how much there is, and what caches would miss:

  tierscope trace info app.tst

A trace of another simulator or tracer, with a plot; pages as blocks; numbers for a script:

  tierscope trace info dramsim3:app.trc --plot app.png
  tierscope trace info msr:hm_1.csv.gz --block 4KiB --json
"""

_PLOTS = (".pdf", ".png", ".svg")
SetOption = Annotated[list[str] | None, Parameter(name="--set", consume_multiple=False)]
Quiet = Annotated[bool, Parameter(name=("--quiet", "-q"))]
Limit = str | None
Seed = Annotated[int | None, Parameter(converter=whole)]


def convert(
    source: Annotated[str, Parameter(completer=names.workloads)],
    target: Annotated[str, Parameter(completer=names.formats)],
    /,
    *,
    set_: SetOption = None,
    clock: str | None = None,
    interval: str | None = None,
    line: str | None = None,
    limit: Limit = None,
    seed: Seed = None,
    replace: bool = False,
    allow_truncated: bool = False,
    quiet: Quiet = False,
) -> int:
    """Writes a trace in another format.

    What the other format has no place for is said. The file appears whole or not at all.

    Args:
        source: A trace of requests as FORMAT:FILE, a recording as FILE.tst or trace:FILE, or a
            built-in workload; tierscope show workloads lists them.
        target: FORMAT:FILE, or FILE.tst for a recording of what threads do; names that end in .gz,
            .xz or .zst are compressed so.
        set_: workload.PARAMETER=VALUE sets how the source is read or made, as for tierscope run;
            target.levels=1:1:4:4:65536:128 how many there are of each level that ramulator2-vector
            names.
        clock: The clock that cycles are of, such as 1.2GHz, where one side has cycles and the other
            times.
        interval: Time from one request to the next, such as 10ns, where only the target has times.
        line: Bytes of a line, 64B unless given: what a request without a size moves, and what
            requests are divided into for a format whose requests have none.
        limit: Takes so many requests at most, the first ones, for a recording accesses: 100000, or
            20k.
        seed: Seed of a built-in workload's random choices; 0 unless given.
        replace: Replaces the file if it is there.
        allow_truncated: Takes what precedes the damage of a damaged recording.
        quiet: Shows no progress, and says nothing about what was lost.
    """
    sets, of_target = _of_target(set_ or [])
    work = _source(source, sets, seed, allow_truncated)
    with _Display(quiet=quiet) as watch:
        done = _trace.convert(
            work,
            target,
            clock=clock,
            interval=interval,
            line=line,
            limit=limit,
            replace=replace,
            parameters=of_target,
            watch=watch,
        )
    if not quiet:
        for told in came_to(target, done):
            print(f"tierscope: {fmt.visible(told)}", file=sys.stderr)
    return 0


def came_to(target: str, done: Conversion) -> list[str]:
    """What was written, and what was lost."""
    kind, _, file = target.partition(":")
    if not file:
        kind, file = "trace", target
    size = "" if done.file_bytes is None else f", {fmt.size(done.file_bytes)}"
    read = "" if done.read == done.written else f", of {fmt.count(done.read)} read"
    what = "accesses" if kind == "trace" else "requests"
    first = f"{file}: {fmt.count(done.written)} {what}{read}{size}"
    return [first, *done.lost, *done.notices]


def info(
    source: Annotated[str, Parameter(completer=names.workloads)],
    /,
    *,
    set_: SetOption = None,
    block: str | None = None,
    limit: Limit = None,
    seed: Seed = None,
    brief: bool = False,
    json_: Annotated[str | None, Parameter(name="--json")] = None,
    plot: Path | None = None,
    allow_truncated: bool = False,
    quiet: Quiet = False,
) -> int:
    """Says what a trace or a recording asks for: how much, how soon again, what caches would miss.

    It is gone through once. Reuse distances and miss ratios are exact for up to 2^20 different
    blocks; of more, a sample of blocks is followed, and the error is said.

    Args:
        source: A recording as FILE.tst or trace:FILE, a trace of requests as FORMAT:FILE, or a
            built-in workload.
        set_: workload.PARAMETER=VALUE sets how the source is read or made, as for tierscope run.
        block: What is counted in, such as 4KiB: a power of two; 64B unless given, and 4KiB of
            traces of stores.
        limit: Takes so many requests at most, the first ones, of threads accesses and reads and
            writes of files: 100000, or 20k.
        seed: Seed of a built-in workload's random choices; 0 unless given.
        brief: Says only what a recording says of itself, at once.
        json_: Prints one JSON object instead; or writes it to a file: --json=FILE.
        plot: Writes miss ratios, reuse distances, working sets and sizes as a picture, and of files
            which bytes are read and written when: a file whose name ends in .png, .svg or .pdf.
        allow_truncated: Takes what precedes the damage of a damaged recording.
        quiet: Shows no progress.
    """
    check_json(json_)
    _check_plot(plot, brief=brief)
    if plot is not None and json_ is not None and Path(json_).absolute() == plot.absolute():
        what = f"--json and --plot are both to write {plot}"
        raise TierscopeError("usage", what, "name two files")
    work = _source(source, set_, seed, allow_truncated)
    with _Display(quiet=quiet) as watch:
        found = _trace.trace_info(work, block=block, limit=limit, brief=brief, watch=watch)
    picture = None if plot is None else found.plot()
    if json_ == "-":
        print(found.to_json())
    else:
        print(_encodable(found.table()))
    if json_ not in (None, "-"):
        _files.write_text(Path(str(json_)), found.to_json() + "\n")
    if plot is not None and picture is not None:
        _files.write_with(plot, lambda fresh: picture.savefig(fresh, format=plot.suffix[1:]))
    interrupted = found.profile is not None and found.profile["interrupted"]
    return interrupted_status() if interrupted else 0


def _encodable(text: str) -> str:
    """Without what a terminal cannot show."""
    if (sys.stdout.encoding or "").lower().startswith("utf"):
        return text
    return text.translate(str.maketrans("█▏▁▂▃▄▅▆▇–…", "#.1234567-."))


def _check_plot(plot: Path | None, *, brief: bool) -> None:
    if plot is None:
        return
    if brief:
        raise TierscopeError(
            "usage", "--plot draws what --brief leaves out", "leave one of them out"
        )
    if plot.suffix not in _PLOTS:
        raise TierscopeError(
            "usage",
            f"--plot {plot} names no kind of picture",
            "write a name that ends in .png, .svg or .pdf",
        )
    if not plot.absolute().parent.is_dir():
        what = f"there is no directory {plot.parent} for --plot {plot}"
        raise TierscopeError("unwritable", what, "make it, or name another")
    if plot.exists() and not plot.is_file():
        raise TierscopeError("unwritable", f"{plot} is no regular file, and is left alone")


def _of_target(sets: list[str]) -> tuple[list[str], dict[str, Any]]:
    """What is set of the source, and what of the target."""
    of_target = [one for one in sets if one.startswith("target.")]
    parameters = {
        path.removeprefix("target."): workload_value(value)
        for path, value in assignments(of_target)
    }
    return [one for one in sets if one not in of_target], parameters


def _source(source: str, sets: list[str] | None, seed: int | None, allow_truncated: bool) -> Source:
    parameters: dict[str, Any] = {}
    for path, value in assignments(sets or []):
        name = path.removeprefix("workload.")
        if name == path:
            raise TierscopeError(
                "usage",
                f"--set {path} is of a system, and none runs here",
                "write --set workload.PARAMETER=VALUE",
            )
        parameters[name] = workload_value(value)
    work = _trace.source_of(source, parameters, seed, allow_truncated=allow_truncated)
    assert isinstance(work, Source)
    return work


class _Display:
    """A line on stderr that redraws itself and goes away, where somebody watches."""

    def __init__(self, *, quiet: bool) -> None:
        shown = not quiet and sys.stderr.isatty()
        console = Console(stderr=True)
        self._live = Live(console=console, transient=True, refresh_per_second=4) if shown else None
        self._begun = time.monotonic()

    def __enter__(self) -> Callable[[Passed], None]:
        if self._live is not None:
            self._live.__enter__()
        return self._show

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _show(self, passed: Passed) -> None:
        if self._live is None:
            return
        passed_s = max(time.monotonic() - self._begun, 1e-9)
        share = "" if passed.share is None else f", {fmt.percent(min(passed.share, 1.0))}"
        speed = fmt.rate(passed.requests / passed_s, "requests")
        self._live.update(
            Text(f"{passed_s:.0f} s: {fmt.count(passed.requests)} requests{share}, {speed}")
        )
