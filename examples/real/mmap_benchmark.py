"""mmap-benchmark: pages of a mapped file copied by four threads (a program of ours in C)."""

from __future__ import annotations

from common import Real, main


def run(real: Real) -> None:
    """Its four patterns, on a file of 2 MiB or 256 MiB."""
    program = real.compile("mmap_benchmark.c")
    file = real.scratch / "pages"
    size = real.size(quick=2 << 20, full=256 << 20)

    def prepare() -> None:
        with file.open("wb") as pages:
            for number in range(size // 4096):
                pages.write(number.to_bytes(8, "little") * 512)

    for direction in ("read", "write"):
        for order in ("sequential", "random"):
            command = [program, str(file), direction, order, "2"]
            real.record(f"mmap-{order}-{direction}", command, prepare=prepare, roi=True)


if __name__ == "__main__":
    main(run, "cc")
