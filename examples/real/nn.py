"""Nearest neighbours: records of a mapped file nearest to a place (a program of ours in C)."""

from __future__ import annotations

import random

from common import Real, main


def run(real: Real) -> None:
    """Records of storms like Rodinia's, of 0.2 MB or 49 MB."""
    program = real.compile("nn.c")
    file = real.scratch / "records"
    draw = random.Random(1)
    with file.open("w", encoding="ascii") as records:
        for number in range(real.size(quick=5_000, full=1_000_000)):
            when = f"{1950 + number % 54} {1 + number % 12:2} {1 + number % 28:2} {number % 24:2}"
            place = f"{draw.uniform(7, 69):5.1f}{draw.uniform(9, 360):5.1f}"
            record = f"{when} {number % 100:2} STORM{number % 10000:04}"[:27].ljust(27) + place
            records.write(f"{record} {draw.randrange(200):4} {number % 10:3}".ljust(48)[:48] + "\n")
    real.record("nn", [program, str(file), "5", "30", "90"], roi=True)


if __name__ == "__main__":
    main(run, "cc")
