"""numpy: a product of two matrices (Debian's python3-numpy, with the BLAS that is installed)."""

from __future__ import annotations

from common import SOURCES, Real, main


def run(real: Real) -> None:
    """Matrices of 64 or 1024 rows; what Python does at its start is recorded too."""
    rows = real.size(quick=64, full=1024)
    # Debian's own interpreter, whatever runs this script; no file of code is written.
    command = ["/usr/bin/python3", "-B", "-I", str(SOURCES / "matmul_numpy.py"), str(rows)]
    real.record("numpy", command)


if __name__ == "__main__":
    main(run, "numpy")
