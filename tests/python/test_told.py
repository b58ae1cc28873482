"""Standard error: folded on a terminal, a line each in a file."""

from __future__ import annotations

import sys

import pytest
from tierscope.cli import told

LINE = "error[x]: " + "a word and another " * 12


def test_a_line_is_folded_between_words_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told.folded(LINE) == LINE
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    lines = told.folded(LINE).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 72
    assert " ".join(line.strip() for line in lines) == LINE.strip()
    assert all(line.startswith("    ") for line in lines[1:])
