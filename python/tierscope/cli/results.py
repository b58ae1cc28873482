"""Results on the terminal: one that was kept, and several side by side: `tierscope compare`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from tierscope import _files, causes, report
from tierscope._compare import Comparison
from tierscope._result import Result, load
from tierscope._why import Why, lines
from tierscope.causes import By
from tierscope.cli.options import check_json
from tierscope.errors import TierscopeError

COMPARE_USAGE = "Usage: tierscope compare DIR DIR... [--json[=FILE]]"
COMPARE_EXAMPLES = """\
Results that were kept, side by side:

  tierscope run -s hybrid,oracle -w gups -o before/
  tierscope run -s hybrid --set hybrid.cache.ways=64 -w gups -o after/
  tierscope compare before/ after/
"""


ByOption = Annotated[list[By] | None, Parameter(name="--by", consume_multiple=False)]
"""What misses and stalls are told by; repeated for several."""


def show_result(
    result: Result, json_: str | None, by: Sequence[By] = (), reasons: Why | None = None
) -> None:
    """Prints a result's report, or its JSON object where ``json_`` is ``-``.

    Any other ``json_`` names a file, to which the object goes beside the report. What says why the
    systems take as long as they do stands below the report, and below ``why`` of the object.

    Raises:
        RunError: where the result does not tell what ``by`` asks for.
    """
    causes.check_told(result.data, by)

    def to_json() -> str:
        if reasons is None:
            return result.to_json()
        whole = {**result.data, "why": reasons.to_dict()}
        return json.dumps(whole, ensure_ascii=False, indent=2)

    def render(console: Console) -> Text:
        found = report.render(result.data, console, by=by)
        for reason in reasons.reasons if reasons is not None else ():
            found.append("\n".join(["", "", *lines(reason)]))
        return found

    _show(json_, to_json, render)


def compare(
    *directories: Path,
    json_: Annotated[str | None, Parameter(name="--json")] = None,
) -> int:
    """Prints results that were kept side by side.

    Systems whose names are in more than one of the results are called DIR:SYSTEM, and what sets
    them apart is told. Where the results are of different workloads, that is told too: their
    columns do not measure the same work.

    Args:
        directories: Directories that `tierscope run -o` wrote.
        json_: Prints one JSON object instead, with the differences and each whole result; or
            writes it to a file: --json=FILE.
    """
    check_json(json_)
    if len(directories) < 2:
        mend = "name two or more that `tierscope run -o` wrote; tierscope show DIR prints one"
        raise TierscopeError("usage", "there are no two results to compare", mend)
    names = [str(directory) for directory in directories]
    for index, directory in enumerate(directories):
        earlier = [other.resolve() for other in directories[:index]]
        if directory.resolve() in earlier:
            raise TierscopeError("usage", f"{directory} is given twice", "name each result once")
    results = [load(directory) for directory in directories]
    comparison = Comparison(dict(zip(names, results, strict=True)))
    _show(json_, comparison.to_json, comparison.render)
    return 0


def _show(json_: str | None, to_json: Callable[[], str], render: Callable[[Console], Text]) -> None:
    if json_ == "-":
        print(to_json())
        return
    console = Console(highlight=False)
    console.print(render(console))
    if json_ is not None:
        _files.write_text(Path(json_), to_json() + "\n")
