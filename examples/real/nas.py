"""Kernels like CG, IS, MG and SP of the NAS Parallel Benchmarks (programs of ours in C)."""

from __future__ import annotations

from common import Real, main

KERNELS = {
    # Arguments at the quick size, and at the full one: NPB's class S or less, and class A, of mg W.
    "cg": (["1400", "8", "3"], ["14000", "130", "15"]),
    "is": (["14", "11", "1"], ["23", "19", "2"]),
    "mg": (["4", "1"], ["7", "2"]),
    "sp": (["12", "1"], ["64", "4"]),
}


def run(real: Real) -> None:
    """Each of the kernels."""
    for name, (quick, full) in KERNELS.items():
        program = real.compile(f"nas_{name}.c")
        sizes = full if real.arguments.full else quick
        real.record(f"nas-{name}", [program, *sizes], roi=True)


if __name__ == "__main__":
    main(run, "cc")
