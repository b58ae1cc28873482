"""Running points: in threads of this computer, or on a cluster's workers."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from tierscope import _core, _counts, _system, _workload
from tierscope._call import core_errors
from tierscope._interrupts import received
from tierscope._region import bound, options
from tierscope._result import Result
from tierscope._run import Progress, RunFailedError, compare, each_alone, warmed_alike
from tierscope._workload import Generated, MemoryTrace, Recorded, for_devices
from tierscope.errors import RunError, TierscopeError
from tierscope.sweeps.points import Point, build, passes
from tierscope.sweeps.study import region_on

THREADS = "threads"
"""Where points run unless it is said: in threads of this computer."""
_COUNTED = ("skip", "limit", "roi")
"""What a study may say of the region, where it asks for counts alone."""
_DASK = "dask://"
_POLL_S = 0.2
_AHEAD = 2
"""Points that are handed out for each worker at a time: one to run, one to follow."""
_MOST_TOGETHER = 8
"""Points that share a warm-up at most: all of them are kept when the last has ended."""
_MEND_ON = 'write "threads", or "dask://HOST:PORT" of a Dask scheduler'

Record = dict[str, Any]
"""What a point gave, as its file has it."""


class _Stopped(BaseException):
    """The sweep is to end: what this point has so far is dropped."""


def task(point: Point, region: dict[str, Any]) -> dict[str, Any]:
    """What a worker needs to run a point, as dictionaries and texts."""
    return {
        "key": point.key,
        "system": point.machine.name,
        "machine": point.machine.to_toml(),
        "work": point.work.to_dict(),
        "region": region,
        "version": _core.version(),
        "build": build(),
    }


def shared(points: Sequence[tuple[Point, dict[str, Any]]], workers: int) -> list[dict[str, Any]]:
    """What workers need to run points: those that one warm-up serves are one task.

    These run in the same region the same workload, or workloads that begin alike and have not
    gone on where it begins; and their machines differ in nothing that functional warming asks
    for: in what DRAM, store and link take. Where such are more than a worker's part of all
    points, they are divided, and each part is warmed by itself.
    """
    alike: dict[str, list[tuple[Point, dict[str, Any]]]] = {}
    begins = functools.cache(_begins)
    tasks = counted([one for one in points if one[1].get("counts_only")])
    for point, region in points:
        if region.get("counts_only"):
            continue
        work = json.dumps(point.work.to_dict(), sort_keys=True)
        said = json.dumps(region, sort_keys=True)
        own = f"{work} {point.key}"
        if _may_share(point, region):
            own = begins(work, said) if isinstance(point.work, Generated) else work
        alike.setdefault(f"{own} {said}", []).append((point, region))
    groups = [
        [some[index] for index in group]
        for some in alike.values()
        for group in (warmed_alike([point.machine for point, _ in some]) if some[1:] else [[0]])
    ]
    number = sum(map(len, groups))
    for group in groups:
        # As many workers as its part of all points has.
        parts = -(-workers * len(group) // number)
        each = max(1, min(_MOST_TOGETHER, -(-len(group) // parts)))
        for start in range(0, len(group), each):
            own_tasks = [task(*one) for one in group[start : start + each]]
            tasks.append(own_tasks[0] if len(own_tasks) == 1 else {"together": own_tasks})
    return tasks


def _begins(work: str, region: str) -> str:
    """What workloads that begin alike share if no more comes before the region, or the workload."""
    bounds = json.loads(region)
    start = options(bounds.get("skip"), None, bool(bounds.get("roi")), False, None)["start"]
    with core_errors():
        return _core.prelude(work, json.dumps(start)) or work


def counted(points: Sequence[tuple[Point, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What workers need to count points without times: those that one pass serves are one task."""
    regions: dict[str, list[tuple[Point, dict[str, Any]]]] = {}
    for point, region in points:
        regions.setdefault(json.dumps(region, sort_keys=True), []).append((point, region))
    return [
        {"counted": [task(*some[index]) for index in group]}
        for some in regions.values()
        for group in passes([point for point, _ in some])
    ]


def _may_share(point: Point, region: dict[str, Any]) -> bool:
    """Whether a warm-up of a point may serve others: it is functional, and no clock cuts it."""
    otherwise = ("sample", "precision", "time_limit_s")
    skipped = region.get("skip")
    return (
        (skipped is None or "time_ps" not in bound("skip", skipped))
        and region.get("warming") != "detailed"
        and not any(region.get(key) for key in otherwise)
        and not isinstance(point.work, MemoryTrace)
        and not for_devices(_workload.on(point.work, [point.machine]))
    )


def simulate(task: dict[str, Any], stop: threading.Event | None = None) -> list[Record]:
    """Runs a point, or several that share a warm-up, wherever it is called.

    A point that fails is a record, too.

    Raises:
        TierscopeError: where this is another simulator than the one that asks.
    """
    if "together" in task:
        return _together(task["together"], stop)
    if "counted" in task:
        return _counted(task["counted"], stop)
    return [_simulate(task, stop)]


def _counted(tasks: Sequence[dict[str, Any]], stop: threading.Event | None) -> list[Record]:
    """Counts points in one pass: their workload and region are the same."""
    first = tasks[0]
    _check_build(first)
    try:
        machines = [_system.from_toml(one["system"], one["machine"]) for one in tasks]
        watch = None if stop is None else _ending(stop)
        region = {key: first["region"][key] for key in _COUNTED if key in first["region"]}
        found, why = _counts.count(machines, _work(first["work"]), watch=watch, **region)
    except TierscopeError as error:
        return [{**_head(one), **failed(error.code, str(error))} for one in tasks]
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return [{**_head(one), **failed("internal", told)} for one in tasks]
    if why is not None:
        return [{**_head(one), **failed("run-failed", why)} for one in tasks]
    return [
        {
            **_head(one),
            "status": "partial" if counts["partial_reason"] else "complete",
            "error": None,
            "result": None,
            "intervals": None,
            "counts": counts,
        }
        for one, counts in zip(tasks, found, strict=True)
    ]


def _together(tasks: Sequence[dict[str, Any]], stop: threading.Event | None) -> list[Record]:
    """Runs points that share a warm-up: their region is the same, and workloads begin alike."""
    first = tasks[0]
    _check_build(first)
    try:
        machines = [_system.from_toml(one["system"], one["machine"]) for one in tasks]
        works = [_work(one["work"]) for one in tasks]
        watch = None if stop is None else _ending(stop)
        found = each_alone(machines, works, watch=watch, **_bounds(first["region"]))
    except TierscopeError as error:
        return [{**_head(one), **failed(error.code, str(error))} for one in tasks]
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return [{**_head(one), **failed("internal", why)} for one in tasks]
    return [{**_head(one), **_told(what)} for one, what in zip(tasks, found, strict=True)]


def _bounds(region: dict[str, Any]) -> dict[str, Any]:
    return {key: region[key] for key in ("skip", "limit", "roi", "warming") if key in region}


def _told(found: Result | RunError) -> Record:
    """What a record says of a run's end."""
    if isinstance(found, RunFailedError):
        return failed(found.code, "; ".join(why for _, why in found.failures))
    if isinstance(found, RunError):
        return failed(found.code, str(found))
    return {
        "status": found.data["completeness"],
        "error": None,
        "result": found.data,
        "intervals": found.intervals.to_dict(as_series=False),
    }


def _head(task: dict[str, Any]) -> Record:
    return {"schema": 1, "key": task["key"], "version": task["version"], "build": task["build"]}


def _check_build(task: dict[str, Any]) -> None:
    """Refuses a task of another simulator.

    Raises:
        TierscopeError: where it is one.
    """
    if (task["version"], task["build"]) != (_core.version(), build()):
        raise TierscopeError(
            "other-version",
            f"a worker has build {build()} of version {_core.version()}, "
            f"and the sweep is of build {task['build']} of version {task['version']}",
            "install the same wheel on all workers",
        )


def _simulate(task: dict[str, Any], stop: threading.Event | None) -> Record:
    _check_build(task)
    head = _head(task)
    try:
        machine = _system.from_toml(task["system"], task["machine"])
        watch = None if stop is None else _ending(stop)
        region = region_on(machine, task["region"])
        result = compare([machine], _work(task["work"]), watch=watch, **region)
    except RunError as error:
        return {**head, **_told(error)}
    except TierscopeError as error:
        return {**head, **failed(error.code, str(error))}
    except Exception as error:
        return {**head, **failed("internal", f"{type(error).__name__}: {error}")}
    return {**head, **_told(result)}


def failed(code: str, why: str) -> Record:
    """What a record says of a point that failed."""
    error = {"code": code, "message": " ".join(why.split())}
    return {"status": "failed", "error": error, "result": None, "intervals": None}


def _ending(stop: threading.Event) -> Any:
    def watch(_: Sequence[Progress]) -> None:
        if stop.is_set():
            raise _Stopped

    return watch


def _work(said: dict[str, Any]) -> Generated | Recorded | MemoryTrace:
    given = {key: value for key, value in said.items() if key != "kind"}
    if said["kind"] == "generated":
        return Generated(**given)
    return Recorded(**given) if said["kind"] == "recorded" else MemoryTrace(**given)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def check_on(on: object, workers: int | None) -> str:
    """Refuses what is no place to run at.

    Raises:
        TierscopeError: with what to write.
    """
    text = on if isinstance(on, str) else ""
    if text != THREADS and not (text.startswith(_DASK) and text.removeprefix(_DASK)):
        raise TierscopeError("unknown-value", f"points cannot run on `{on}`", _MEND_ON)
    if workers is not None:
        if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 4096:
            mend = "write a whole number from 1 to 4096"
            raise TierscopeError("impossible-value", f"the workers are {workers!r}", mend)
        if text != THREADS:
            mend = "leave it out: all workers of the scheduler are used"
            raise TierscopeError("no-effect", "workers are for threads", mend)
    return text


def run_all(
    tasks: Sequence[dict[str, Any]], on: str, workers: int | None, until: float | None = None
) -> Generator[Record]:
    """Runs tasks, and gives each record as it comes.

    Whoever stops listening ends the sweep: what runs is ended, what waits is dropped. In threads it
    ends by itself when ``time.monotonic()`` is past ``until``.
    """
    if on == THREADS:
        yield from _in_threads(tasks, workers or processors(), until)
    else:
        yield from _on_dask(tasks, on.removeprefix(_DASK))


def _in_threads(
    tasks: Sequence[dict[str, Any]], workers: int, until: float | None
) -> Generator[Record]:
    stop = threading.Event()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="tierscope-sweep")
    try:
        for future in _completed(pool, tasks, workers * _AHEAD, until, stop):
            yield from future.result()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _completed(
    pool: Executor,
    tasks: Sequence[dict[str, Any]],
    ahead: int,
    until: float | None,
    *further: Any,
) -> Iterator[Future[list[Record]]]:
    """Futures as they are done; few are handed out at a time, so that an end is soon."""
    rest, heard = iter(tasks), len(received)
    under_way: set[Future[list[Record]]] = set()
    while True:
        for one in rest:
            under_way.add(pool.submit(simulate, one, *further))
            if len(under_way) >= ahead:
                break
        if not under_way:
            return
        done, under_way = wait(under_way, timeout=_POLL_S, return_when=FIRST_COMPLETED)
        yield from done
        _heed(heard)
        if until is not None and time.monotonic() >= until:
            return


def _heed(heard: int) -> None:
    """Ends the sweep where a request to end came that a point that had just ended held back.

    Raises:
        KeyboardInterrupt: where there are more requests than were heard before.
    """
    if len(received) > heard:
        raise KeyboardInterrupt


def _on_dask(tasks: Sequence[dict[str, Any]], address: str) -> Generator[Record]:
    with _client(address) as client:
        ahead = _AHEAD * max(1, sum(client.nthreads().values()))
        with client.get_executor(pure=False, retries=0) as pool:
            named = {}
            rest = iter(tasks)
            while True:
                for one in rest:
                    named[pool.submit(simulate, one)] = one
                    if len(named) >= ahead:
                        break
                if not named:
                    return
                done, _ = wait(named, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from _of_worker(future, named.pop(future))


def _of_worker(future: Future[list[Record]], task: dict[str, Any]) -> list[Record]:
    """A worker's records; of points that their worker did not survive, such that say so."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        lost = failed("worker-lost", f"its worker died: {error}")
        return [{**_head(one), **lost} for one in task.get("together", task.get("counted", [task]))]


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A connection to a Dask scheduler.

    Raises:
        TierscopeError: where Dask is not installed, or there is no scheduler.
    """
    try:
        from distributed import Client
    except ImportError:
        raise TierscopeError(
            "no-dask",
            "points cannot run on a Dask cluster: the package `distributed` is not installed",
            "install it: pip install tierscope[dask]",
        ) from None
    try:
        client: Any = Client(  # type: ignore[no-untyped-call]
            f"tcp://{address}", timeout=10, set_as_default=False
        )
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise TierscopeError(
            "no-scheduler",
            f"no Dask scheduler answers at {address}: {why}",
            "start one with `dask scheduler`, and workers with `dask worker HOST:PORT`",
        ) from None
    try:
        yield client
    finally:
        client.close()
