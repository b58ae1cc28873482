"""tierscope: brings extended memory hierarchies into focus.

Describe a machine once, run any program on it, and see where the time and the data go::

    import tierscope as ts

    base = ts.system("hybrid/quick")
    wide = base.replace(cache=ts.DramCache(ways=64))
    result = ts.compare([base, wide, ts.system("storage/quick")], ts.workload("gups", random=0.1))
    print(result.table())
    result.plot_breakdown().savefig("breakdown.png")
"""

from tierscope import _core, _spec
from tierscope._result import Result, load
from tierscope._run import Progress, Recording, RunFailedError, compare, record, run
from tierscope._spec import *  # noqa: F403
from tierscope._system import System, system
from tierscope._workload import Generated, Program, Recorded, program, workload
from tierscope.errors import ArgumentError, Problem, RunError, SpecError, TierscopeError

__version__ = _core.version()

__all__ = [
    "ArgumentError",
    "Generated",
    "Problem",
    "Program",
    "Progress",
    "Recorded",
    "Recording",
    "Result",
    "RunError",
    "RunFailedError",
    "SpecError",
    "System",
    "TierscopeError",
    "__version__",
    "compare",
    "load",
    "program",
    "record",
    "run",
    "system",
    "workload",
]
__all__ += _spec.__all__
