"""`tierscope run`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tierscope._files import write_text
from tierscope._interrupts import received
from tierscope._plan import accesses_of, plan
from tierscope._region import Warming
from tierscope._repeat import Repetitions, check_count, check_repetitions_target, works_of
from tierscope._repeat import repeat as repeat_run
from tierscope._result import INTERRUPTED, WHY_FILE, Result, check_target
from tierscope._run import RunFailedError, compare, sites_of
from tierscope._system import systems
from tierscope._why import POINTS, Why, explain
from tierscope._why import check as check_why
from tierscope._workload import (
    Program,
    Workload,
    in_closed_loop,
    named,
    on,
    with_hints,
    without_effect,
)
from tierscope.causes import By, kinds, tells
from tierscope.cli import interrupted_status, names
from tierscope.cli.options import check_json, divided, whole
from tierscope.cli.plan import show_plan
from tierscope.cli.progress import Display, WithOutlook, display
from tierscope.cli.repeat import show_repetitions
from tierscope.cli.results import ByOption, show_result
from tierscope.cli.sweep import Display as Bar
from tierscope.cli.told import fail
from tierscope.errors import TierscopeError, told_together
from tierscope.table import devices_alone

USAGE = "Usage: tierscope run -s SYSTEM... [OPTIONS] (-w WORKLOAD | -- PROGRAM [ARGS...])"
EXAMPLES = """\
A real program on three machines; a change of one of them; the result kept:

  tierscope run -s hybrid,storage,oracle -- sqlite3 test.db "select 1"
  tierscope run -s hybrid --set hybrid.cache.ways=64 -w gups -o results/

A long program, a part of it, on warm machines:

  tierscope run -s hybrid,storage --skip "2G instructions" --limit 100M -- ./simulate

A run that is too long for all of it, estimated from parts, its time within 3 %:

  tierscope run -s storage,oracle --precision 3% -w gups --set workload.updates=1000000000

Which functions of a program wait for memory:

  tierscope run -s hybrid,storage --by function -- ./simulate

Which parameters of either machine its time depends on:

  tierscope run -s hybrid/quick,storage/quick -w gups --set workload.updates=2000 --why

A workload with five seeds, means with their confidence; DRAM for half of what is touched:

  tierscope run -s hybrid/quick,oracle/quick -w gups --repeat 5
  tierscope run -s hybrid,storage -w trace:app.tst --scale-to-footprint 2

A memory alone or a store alone, given a pattern, a block trace, or a memory trace of another
simulator; and the latency of each request:

  tierscope run -s device/ddr4-2400,device/ddr5-4800 -w zipf --closed-loop 16
  tierscope run -s device/slc -w msr:hm_1.csv.gz
  tierscope run -s device/ddr4-2400 -w dramsim3:app.trc --latencies requests.csv

A workload, and hints of what it will need, such as "1000 0x10000000 2MiB" (after 1000 accesses):

  tierscope run -s hybrid/quick -w trace:app.tst --hints app.hints

What would run, how long, and with how much memory:

  tierscope run -s hybrid -w gups --dry-run

For a script:

  tierscope run -s hybrid/quick -w gups --json | jq '.systems[].time_s'
"""


def run(
    *program: str,
    system: Annotated[
        list[str],
        Parameter(name=("--system", "-s"), consume_multiple=False, completer=names.systems),
    ],
    workload: Annotated[
        str | None, Parameter(name=("--workload", "-w"), completer=names.workloads)
    ] = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", consume_multiple=False)] = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    json_: Annotated[str | None, Parameter(name="--json")] = None,
    by: ByOption = None,
    seed: Annotated[int | None, Parameter(converter=whole)] = None,
    skip: str | None = None,
    limit: str | None = None,
    roi: bool = False,
    roi_start: str | None = None,
    roi_stop: str | None = None,
    warming: Warming | None = None,
    time_limit: float | None = None,
    repeat: Annotated[int | None, Parameter(converter=whole)] = None,
    scale_to_footprint: float | None = None,
    dry_run: bool = False,
    native: bool = False,
    allow_truncated: bool = False,
    latencies: Path | None = None,
    timeline: Path | None = None,
    closed_loop: Annotated[int | None, Parameter(converter=whole)] = None,
    hints: Path | None = None,
    sample: bool = False,
    precision: str | None = None,
    why: bool = False,
    why_runs: Annotated[int, Parameter(converter=whole)] = POINTS,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"))] = False,
) -> int:
    """Runs a workload or a program on one or more systems and compares them.

    The systems run over the same workload, each at its own pace. The table that is printed has one
    column a system; the stacked columns below it show where the threads' time goes.

    Args:
        program: A program and its arguments, behind --. It runs under the recorder, unmodified.
        system: Preset or TOML file; repeated, or several with commas between.
        workload: Built-in workload, a recording as trace:FILE, or a trace of another tool as
            FORMAT:FILE, most for devices alone; tierscope show workloads lists them.
        set_: PATH=VALUE sets one value, such as hybrid.cache.ways=64 or workload.updates=2M.
        output: Directory that keeps the result: result.json, the resolved systems, and intervals.
        json_: Prints one JSON object instead of the report, and the program's own output goes to
            stderr; or writes it to a file: --json=FILE.
        by: Also tells for what threads stood still, by area (files, heap, other anonymous memory,
            and the program's image, stack and kernel), or by function or address of the program's
            code; repeated for several. Code is told of programs, and of recordings made with --by.
        seed: Seed of a built-in workload's random choices; 0 unless given.
        skip: Warms the systems with so much before anything is counted: accesses (1000000 or 1M),
            "2G instructions", or simulated time (5ms).
        limit: Ends the run, marked partial, after so much, as for --skip, of what is counted.
        roi: Counts only what the program, or the recording, marks as its region of interest.
        roi_start: Counts only what follows the first call of this function, of the program or of
            a library that it loads.
        roi_stop: Ends the run at the first call of this function.
        warming: What comes before the region changes what caches, tables and DRAM hold, at
            several times the speed (functional, the default where a system allows it); is
            simulated as the region is (detailed); or is functional where a DRAM cache
            prefetches, too, all of whose prefetches find room (untimed). Untimed is also how
            --sample passes over what such a cache does.
        time_limit: Ends the run, marked partial, after so many seconds.
        repeat: Runs so many times, a built-in workload with the seeds from --seed on, and prints
            means with their 95 % confidence intervals; -o keeps each result.
        scale_to_footprint: Sizes DRAM before a store to one part in so many of what the workload
            touches, and on-chip caches in proportion where DRAM shrinks; not for programs.
        dry_run: Runs nothing but a short trial; prints the systems as they would run, and how
            long and how much memory that would take.
        native: Runs the program alone first as well, to measure its time: it then runs twice,
            with all that it does.
        allow_truncated: Replays what precedes the damage of a damaged recording.
        latencies: Writes a row for each request to this file: number, kind, address, arrival,
            latency, and what of it was spent where; comma-separated, in picoseconds. Of a device
            alone all requests; of a machine the accesses that a core's own caches did not serve at
            once, and the pages that move between memory and store.
        timeline: Writes the first 100,000 of these requests through their stages to this file, for
            Perfetto (https://ui.perfetto.dev).
        closed_loop: Leaves the times of requests to a device alone out: so many are under way, and
            one that ends lets the next one come. Requests without times come so anyway, 64.
        hints: Replays hints of what will be needed from this file, one a line, as ACCESSES ADDRESS
            BYTES [THREAD]: as if the program had called madvise(MADV_WILLNEED) behind so many
            loads and stores of its thread. Of a built-in workload or a recording.
        sample: Simulates parts of the run in detail and passes over the rest, several times as
            fast: figures are estimates, and the report tells how sure each is.
        precision: Samples, and a second time with more parts if it takes them, until the time of
            each system is known within this, such as 3%. Not for programs.
        why: Also tells which parameters weigh most: raises each number of each system by a tenth,
            it alone, and runs again, those of the parts first that most of the time goes to. Not
            for programs, which are recorded first.
        why_runs: How many parameters of each system --why tries, at most; --time-limit counts too.
        quiet: Shows no progress.
    """
    check_json(json_)
    of_systems, of_workload = divided(set_ or [])
    machines, work = told_together(
        lambda: systems(_names(system), of_systems),
        lambda: _workload(workload, program, of_workload, seed, allow_truncated),
    )
    if isinstance(work, Program):
        work = replace(
            work,
            native=native,
            output_to_stderr=json_ == "-",
            roi_start=roi_start,
            roi_stop=roi_stop,
        )
    elif native:
        raise TierscopeError("usage", "--native needs a program", "give -- PROGRAM ARGS")
    elif roi_start is not None or roi_stop is not None:
        option = "--roi-start" if roi_start is not None else "--roi-stop"
        mend = "give -- PROGRAM ARGS; what a recording has marked is --roi"
        raise TierscopeError("usage", f"{option} needs a program", mend)
    if closed_loop is not None:
        work = in_closed_loop(work, closed_loop)
    if hints is not None:
        work = with_hints(work, hints)
    if repeat is not None:
        works_of(work, check_count(repeat))
        if by:
            mend = "leave it out; tierscope show DIR/repetition-1 --by area shows one of those kept"
            raise TierscopeError("usage", "--by is for one run, not for several", mend)
        if sample or precision is not None:
            option = "--sample" if sample else "--precision"
            mend = "leave one out: both tell intervals, of different causes"
            raise TierscopeError("usage", f"{option} is for one run, not for several", mend)
    for name, file in (("--latencies", latencies), ("--timeline", timeline)):
        if file is not None and (repeat is not None or dry_run):
            option = "--dry-run" if dry_run else "--repeat"
            raise without_effect(name, f"{option}: it is for one run")
    if output is not None:
        (check_target if repeat is None else check_repetitions_target)(output)
    told = kinds(by)
    sites_of(work, told)
    if why:
        others = {"--repeat": repeat, "--sample": sample, "--precision": precision}
        _check_why(work, limit, why_runs, {**others, "--scale-to-footprint": scale_to_footprint})
    how: dict[str, Any] = {
        "skip": skip,
        "limit": limit,
        "roi": roi,
        "warming": warming,
        "time_limit_s": time_limit,
        "scale_to_footprint": scale_to_footprint,
    }
    sampling: dict[str, Any] = {"sample": sample, "precision": precision}
    if dry_run:
        return show_plan(plan(machines, work, runs=repeat or 1, **how, **sampling), json_)
    shown: Display = display([one.name for one in machines], work, quiet=quiet)
    if not quiet and limit is None and time_limit is None and not isinstance(work, Program):
        is_sampled = sample or precision is not None
        shown = WithOutlook(shown, accesses_of(on(work, machines)), sampled=is_sampled)
    if repeat is not None:
        with shown as watch:
            kept = repeat_run(machines, work, repeat, watch=watch, **how)
        return _deliver_repetitions(kept, output, json_)
    failure: RunFailedError | None = None
    begun_s = time.monotonic()
    with shown as watch:
        try:
            result = compare(
                machines,
                work,
                by=told,
                watch=watch,
                latencies=latencies,
                timeline=timeline,
                **how,
                **sampling,
            )
        except RunFailedError as error:
            failure, result = error, error.result
    if not why or failure is not None:
        return _deliver(result, failure, output, json_, told)
    asked = {key: how[key] for key in ("skip", "limit", "roi", "warming")}
    left_s = None if time_limit is None else time_limit - (time.monotonic() - begun_s)
    with Bar("Why", "runs", quiet=quiet or not sys.stderr.isatty()) as hears:
        reasons = explain(result, machines, work, asked, why_runs, left_s, None, hears)
    return _deliver(result, failure, output, json_, told, reasons)


def _check_why(work: Workload, limit: str | None, runs: int, others: dict[str, object]) -> None:
    """Refuses what --why cannot explain, before anything runs."""
    for option, value in others.items():
        if value:
            mend = "leave one of them out"
            raise TierscopeError("usage", f"--why is for one whole run, without {option}", mend)
    check_why(work, limit, runs)


def _deliver_repetitions(kept: Repetitions, output: Path | None, json_: str | None) -> int:
    """Prints and keeps repetitions; the exit status is that of the first that was not 0."""
    show_repetitions(kept, json_)
    if output is not None:
        kept.save(output)
    return next(filter(None, map(exit_status, kept.results)), 0)


def _deliver(
    result: Result,
    failure: RunFailedError | None,
    output: Path | None,
    json_: str | None,
    by: Sequence[By],
    reasons: Why | None = None,
) -> int:
    """Prints and keeps a result, and gives the exit status."""
    if result.simulated_anything:
        if _worth_showing(result, failure) or json_ is not None:
            shown = result if json_ is not None else _told_once(result, failure)
            show_result(shown, json_, _told(result, by), reasons)
        if output is not None:
            result.save(output)
            if reasons is not None:
                write_text(output / WHY_FILE, reasons.to_json() + "\n")
    if failure is not None:
        sys.stdout.flush()
        return fail(failure.lines())
    return exit_status(result)


_FEW_ACCESSES = 1000
"""Figures of a run that failed before so many accesses are of its start alone."""


def _worth_showing(result: Result, failure: RunFailedError | None) -> bool:
    """Whether there are figures to look at: not of machines that failed as they began.

    Of a device alone each request counts: what came before a wrong line is told.
    """
    if failure is None or devices_alone(result.data):
        return True
    accesses = (one["accesses"] for one in result.data["systems"].values())
    return max(accesses, default=0) >= _FEW_ACCESSES


def _told_once(result: Result, failure: RunFailedError | None) -> Result:
    """The result to be shown, which leaves to standard error why machines failed."""
    reason = result.data["partial_reason"]
    if failure is None or reason is None:
        return result
    for name, why in failure.failures:
        reason = reason.replace(f"{name}: {why}", f"{name} failed, and why is told below")
    data: Any = {**result.data, "partial_reason": reason}
    return Result(data, result.descriptions, result.intervals)


def _told(result: Result, by: Sequence[By]) -> list[By]:
    """What a result tells of what was asked for: one that ended early may lack some."""
    return [kind for kind in by if tells(result.data, kind)]


def exit_status(result: Result) -> int:
    """The program's, if one ran and ended by itself; of an interrupt, as a shell gives it."""
    reason = result.data["partial_reason"] or ""
    if received or reason.startswith(INTERRUPTED):
        return interrupted_status()
    program = result.data["program"]
    if program is None or program["exit_status"] is None:
        return 0
    return program["exit_status"]


def _names(given: list[str]) -> list[str]:
    names = [name for part in given for name in part.split(",") if name]
    if not names:
        raise TierscopeError(
            "usage", "no system is given", "name one: tierscope show systems lists them"
        )
    return names


def _workload(
    name: str | None,
    program: tuple[str, ...],
    parameters: dict[str, Any],
    seed: int | None,
    allow_truncated: bool,
) -> Workload:
    if name is not None and program:
        raise TierscopeError(
            "usage", "both a workload and a program are given", "give -w NAME or -- PROGRAM"
        )
    if program:
        if parameters:
            raise without_effect(f"--set workload.{next(iter(parameters))}", "a program")
        if seed is not None:
            raise without_effect("--seed", "a program: it makes its own random choices")
        if allow_truncated:
            raise without_effect("--allow-truncated", "a program: there is no recording")
        return Program(program)
    if name is None:
        raise TierscopeError(
            "usage",
            "nothing to run is given",
            "give -w NAME (tierscope show workloads lists them) or -- PROGRAM ARGS",
        )
    return named(name, parameters, seed, allow_truncated=allow_truncated)
