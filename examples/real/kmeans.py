"""k-means: points of a mapped file dealt to five centres by four threads (ours in C)."""

from __future__ import annotations

import array
import random

from common import Real, main

FEATURES = 34
"""Of a point; those of Rodinia's input, kdd_cup."""


def run(real: Real) -> None:
    """Points of 34 features, of 0.3 MB or 140 MB."""
    program = real.compile("kmeans.c")
    file = real.scratch / "points"
    points = real.size(quick=2_000, full=1_000_000)
    draw = random.Random(1).random
    with file.open("wb") as data:
        # As many different values as make no two points alike; the rest repeats them.
        values = array.array("f", (draw() for _ in range(FEATURES * 2_003)))
        for first in range(0, points, 1_000):
            start = first % 1_003 * FEATURES
            values[start : start + 1_000 * FEATURES].tofile(data)
    iterations = real.size(quick=2, full=3)
    real.record("kmeans", [program, str(file), str(FEATURES), "5", str(iterations)], roi=True)


if __name__ == "__main__":
    main(run, "cc")
