"""GUPS: random updates of a table of 64-bit words, by four threads (a program of ours in C)."""

from __future__ import annotations

from common import Real, main


def run(real: Real) -> None:
    """A table of 2 MiB, or of 1 GiB."""
    program = real.compile("gups.c")
    words, updates = real.size(quick=18, full=27), real.size(quick=50_000, full=20_000_000)
    real.record("gups", [program, str(words), str(updates)], roi=True)


if __name__ == "__main__":
    main(run, "cc")
