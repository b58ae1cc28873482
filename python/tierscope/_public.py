"""All that the package `tierscope` offers, under one name."""

from tierscope import _core, _spec
from tierscope._crash import CrashReport, crash
from tierscope._mark import include_dir, roi, roi_begin, roi_end
from tierscope._repeat import Repetitions, load_repetitions, repeat
from tierscope._result import Result, load
from tierscope._run import (
    Growth,
    NoResultError,
    Progress,
    Recording,
    RunFailedError,
    compare,
    record,
    run,
)
from tierscope._spec import *  # noqa: F403
from tierscope._system import System, system
from tierscope._trace import Conversion, Passed, TraceInfo, convert, trace_info
from tierscope._why import Why, why
from tierscope._workload import (
    Generated,
    MemoryTrace,
    Program,
    Recorded,
    program,
    with_hints,
    workload,
)
from tierscope.errors import ArgumentError, Problem, RunError, SpecError, TierscopeError
from tierscope.pages.report import write_report
from tierscope.sweeps.study import Study, study
from tierscope.sweeps.study import read as load_study
from tierscope.sweeps.sweep import Sweep, SweepProgress, load_sweep, sweep

__version__ = _core.version()

__all__ = [
    "ArgumentError",
    "Conversion",
    "CrashReport",
    "Generated",
    "Growth",
    "MemoryTrace",
    "NoResultError",
    "Passed",
    "Problem",
    "Program",
    "Progress",
    "Recorded",
    "Recording",
    "Repetitions",
    "Result",
    "RunError",
    "RunFailedError",
    "SpecError",
    "Study",
    "Sweep",
    "SweepProgress",
    "System",
    "TierscopeError",
    "TraceInfo",
    "Why",
    "__version__",
    "compare",
    "convert",
    "crash",
    "include_dir",
    "load",
    "load_repetitions",
    "load_study",
    "load_sweep",
    "program",
    "record",
    "repeat",
    "roi",
    "roi_begin",
    "roi_end",
    "run",
    "study",
    "sweep",
    "system",
    "trace_info",
    "why",
    "with_hints",
    "workload",
    "write_report",
]
__all__ += _spec.__all__
