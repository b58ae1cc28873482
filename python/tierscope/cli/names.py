"""Names that a shell completes: systems and workloads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tierscope import _core
from tierscope._call import parsed

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext


def systems(context: CompletionContext) -> list[tuple[str, str]]:
    """Presets, descriptions and folders of them, behind a comma too."""
    before, comma, begun = context.incomplete.rpartition(",")
    found = [*parsed(_core.list_systems()), *_descriptions(begun)]
    return [(f"{before}{comma}{name}", meaning) for name, meaning in found]


def workloads(_: CompletionContext) -> list[tuple[str, str]]:
    """Built-in workloads, and what stands before the file of a recording or of a memory trace."""
    generators = [(one["name"], one["summary"]) for one in parsed(_core.list_workloads())]
    formats = [(f"{one['name']}:", one["summary"]) for one in parsed(_core.list_formats())]
    return [*generators, ("trace:", "A recording of tierscope"), *formats]


def formats(_: CompletionContext) -> list[tuple[str, str]]:
    """What stands before the file of a trace that is written."""
    listed = parsed(_core.list_formats())
    return [(f"{one['name']}:", one["summary"]) for one in listed if one["written"]]


def _descriptions(begun: str) -> Iterator[tuple[str, str]]:
    folder, slash, _ = begun.rpartition("/")
    try:
        for path in sorted(Path(folder or slash or ".").iterdir()):
            name = f"{folder}{slash}{path.name}"
            if path.is_dir() and not path.name.startswith("."):
                yield f"{name}/", "folder"
            elif path.suffix == ".toml":
                yield name, "description"
    except OSError:
        return
