"""tierscope: brings extended memory hierarchies into focus.

Describe a machine once, run any program on it, and see where the time and the data go::

    import tierscope as ts

    base = ts.system("hybrid/quick")
    wide = base.replace(cache=ts.DramCache(ways=64))
    result = ts.compare([base, wide, ts.system("storage/quick")], ts.workload("gups", random=0.1))
    print(result.table())
    result.plot_breakdown().savefig("breakdown.png")
"""

import os as _os

TYPE_CHECKING = False  # Type checkers take it for true; loading typing takes long.

if TYPE_CHECKING:
    from tierscope._public import *  # noqa: F403
    from tierscope._public import __version__ as __version__
    from tierscope._spec import *  # noqa: F403
else:
    # Loaded when first asked for: the command answers signals before it loads what takes long.

    def __getattr__(name: str) -> object:
        """What the package offers; modules of its own are found by importing them."""
        private = name.startswith("_") and name not in ("__all__", "__version__")
        # Without pathlib, which takes long to load.
        module = f"{__path__[0]}/{name}.py"  # noqa: F405
        if private or _os.path.isfile(module):  # noqa: PTH113
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in ("include_dir", "roi", "roi_begin", "roi_end"):
            # For programs that are recorded: what they load is recorded too.
            from tierscope import _mark as home
        else:
            from tierscope import _public as home
        try:
            value = getattr(home, name)
        except AttributeError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """What there is, for completion."""
        from tierscope import _public

        return sorted({*globals(), *_public.__all__})
