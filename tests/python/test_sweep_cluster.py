"""A sweep on a cluster gives what threads give."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import tierscope as ts
from conftest import Runner
from test_sweep import POINTS, STUDY, kept
from tierscope.sweeps import execute
from tierscope.sweeps.points import points


@contextmanager
def process(*arguments: str, folder: Path, ready: str) -> Iterator[str]:
    """A process of a cluster, once it has said that it is ready; and the line that says so."""
    log = folder / f"{arguments[0]}-{len(list(folder.iterdir()))}.log"
    with log.open("wb") as file:
        running = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "DASK_DISTRIBUTED__WORKER__DAEMON": "False"},
        )
        try:
            for _ in range(600):
                if found := re.search(ready, log.read_text()):
                    break
                assert running.poll() is None, log.read_text()
                try:
                    running.wait(0.1)
                except subprocess.TimeoutExpired:
                    continue
            else:
                raise AssertionError(log.read_text())
            yield found[0]
        finally:
            running.terminate()
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler with workers, each a process of its own; its address."""
    folder.mkdir()
    alone = ("--no-dashboard", "--host", "127.0.0.1")
    with ExitStack() as stack:
        scheduler = process(
            "distributed.cli.dask_scheduler",
            *alone,
            "--port",
            "0",
            folder=folder,
            ready=r"tcp://127\.0\.0\.1:\d+",
        )
        address = stack.enter_context(scheduler)
        for number in range(workers):
            worker = process(
                "distributed.cli.dask_worker",
                address,
                *alone,
                "--no-nanny",
                "--nthreads",
                "1",
                "--name",
                str(number),
                folder=folder,
                ready=r"Registered to",
            )
            stack.enter_context(worker)
        yield address.removeprefix("tcp://")


def test_two_workers_of_a_cluster_give_the_table_that_threads_give(
    tierscope: Runner, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    assert tierscope("sweep", "study.toml", "-o", "threads").returncode == 0
    with cluster(tmp_path / "cluster", workers=2) as address:
        on = f"dask://{address}"
        done = tierscope("sweep", "study.toml", "-o", "dask", "--on", on)
        assert done.returncode == 0, done.stderr
        before = kept(tmp_path / "dask")
        again = tierscope("sweep", "study.toml", "-o", "dask", "--on", on)
        assert again.returncode == 0, again.stderr
        logs = [path.read_text() for path in (tmp_path / "cluster").glob("*worker*.log")]
    assert len(logs) == 2
    assert kept(tmp_path / "dask") == before
    assert len(before) == POINTS
    tables = [(tmp_path / name / "sweep.parquet").read_bytes() for name in ("threads", "dask")]
    assert tables[0] == tables[1]


def test_a_worker_of_another_build_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (point, *_) = points(ts.load_study(tmp_path / "study.toml"))
    asked = execute.task(point, {})
    assert execute.simulate(asked)[0]["status"] == "complete"
    with pytest.raises(ts.TierscopeError) as raised:
        execute.simulate({**asked, "build": "0" * 16})
    assert raised.value.code == "other-version"


def test_without_dask_that_is_said(tierscope: Runner, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "distributed.py").write_text("raise ImportError('none')\n")
    done = tierscope(
        *("sweep", "study.toml", "--on", "dask://127.0.0.1:1"),
        PYTHONPATH=str(tmp_path / "without"),
    )
    assert done.returncode == 125
    assert "error[no-dask]: " in done.stderr
    assert "pip install tierscope[dask]" in done.stderr


def test_without_a_scheduler_that_is_said(tierscope: Runner, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    done = tierscope("sweep", "study.toml", "--on", "dask://127.0.0.1:1")
    assert done.returncode == 125
    assert "error[no-scheduler]: no Dask scheduler answers at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
