"""`tierscope run --repeat`: several runs, and how far their figures vary."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from tierscope import _files
from tierscope._repeat import Repetitions

_IN_ASCII = str.maketrans({"µ": "u", "±": "+/-", "×": "x", "–": "-"})


def show_repetitions(kept: Repetitions, json_: str | None) -> None:
    """Prints means and their confidence, or their JSON object where ``json_`` is ``-``."""
    if json_ == "-":
        print(kept.to_json())
        return
    text = kept.report()
    encoding = sys.stdout.encoding if isinstance(sys.stdout, io.TextIOBase) else "utf-8"
    print(text if (encoding or "").lower().startswith("utf") else text.translate(_IN_ASCII))
    if json_ is not None:
        _files.write_text(Path(json_), kept.to_json() + "\n")
