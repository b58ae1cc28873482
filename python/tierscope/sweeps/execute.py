"""Running points: in threads of this computer, or on a cluster's workers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from tierscope import _core, _system
from tierscope._interrupts import received
from tierscope._run import Progress, RunFailedError, compare
from tierscope._workload import Generated, MemoryTrace, Recorded
from tierscope.errors import TierscopeError
from tierscope.sweeps.points import Point, build

THREADS = "threads"
"""Where points run unless it is said: in threads of this computer."""
_DASK = "dask://"
_POLL_S = 0.2
_AHEAD = 2
"""Points that are handed out for each worker at a time: one to run, one to follow."""
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


def simulate(task: dict[str, Any], stop: threading.Event | None = None) -> Record:
    """Runs a point, wherever it is called. A point that fails is a record, too.

    Raises:
        TierscopeError: where this is another simulator than the one that asks.
    """
    if (task["version"], task["build"]) != (_core.version(), build()):
        raise TierscopeError(
            "other-version",
            f"a worker has build {build()} of version {_core.version()}, "
            f"and the sweep is of build {task['build']} of version {task['version']}",
            "install the same wheel on all workers",
        )
    head = {"schema": 1, "key": task["key"], "version": task["version"], "build": task["build"]}
    try:
        machine = _system.from_toml(task["system"], task["machine"])
        watch = None if stop is None else _ending(stop)
        result = compare([machine], _work(task["work"]), watch=watch, **task["region"])
    except RunFailedError as error:
        return {**head, **failed(error.code, "; ".join(why for _, why in error.failures))}
    except TierscopeError as error:
        return {**head, **failed(error.code, str(error))}
    except Exception as error:
        return {**head, **failed("internal", f"{type(error).__name__}: {error}")}
    return {
        **head,
        "status": result.data["completeness"],
        "error": None,
        "result": result.data,
        "intervals": result.intervals.to_dict(as_series=False),
    }


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
            yield future.result()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _completed(
    pool: Executor,
    tasks: Sequence[dict[str, Any]],
    ahead: int,
    until: float | None,
    *further: Any,
) -> Iterator[Future[Record]]:
    """Futures as they are done; few are handed out at a time, so that an end is soon."""
    rest, heard = iter(tasks), len(received)
    under_way: set[Future[Record]] = set()
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
                    yield _of_worker(future, named.pop(future))


def _of_worker(future: Future[Record], task: dict[str, Any]) -> Record:
    """A worker's record; of a point that its worker did not survive, one that says so."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        head = {k: task[k] for k in ("key", "version", "build")}
        return {"schema": 1, **head, **failed("worker-lost", f"its worker died: {error}")}


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
