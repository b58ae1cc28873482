"""BFS: a breadth-first search of a random graph by four threads (a program of ours in C)."""

from __future__ import annotations

from common import Real, main


def run(real: Real) -> None:
    """Graphs of 20,000 or 4 million nodes with six edges each."""
    program = real.compile("bfs.c")
    nodes = real.size(quick=20_000, full=4_000_000)
    real.record("bfs", [program, str(nodes), "6"], roi=True)


if __name__ == "__main__":
    main(run, "cc")
