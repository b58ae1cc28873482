"""fio: requests by calls, and random writes of a mapped file (Debian's fio)."""

from __future__ import annotations

from common import Real, main

JOBS = {
    # Its name: how it asks, what for, the bytes of a request.
    "random-read": ("psync", "randread", 4096),
    "sequential-read": ("psync", "read", 65536),
    "random-mixed": ("psync", "randrw", 4096),
    "mapped-random-write": ("mmap", "randwrite", 4096),
}


def run(real: Real) -> None:
    """Each of the jobs, by two threads with a file each."""
    size = real.size(quick=2 << 20, full=256 << 20)
    threads = 2
    for name, (engine, pattern, block_bytes) in JOBS.items():
        options = {
            "name": name,
            "directory": str(real.scratch),
            "ioengine": engine,
            "rw": pattern,
            "bs": str(block_bytes),
            "size": str(size),
            "numjobs": str(threads),
            "randseed": "1",
            # The work is a count and no time, since a recorded program runs slower.
            "number_ios": str(min(real.size(quick=400, full=40_000), size // block_bytes)),
        }
        # Without clocks between calls, which cost more under emulation than alone.
        command = ["fio", "--thread", "--gtod_reduce=1", "--output=/dev/null"]
        command += [f"--{option}={value}" for option, value in options.items()]
        real.record(f"fio-{name}", command)
        for file in real.scratch.glob(f"{name}.*"):
            file.unlink()


if __name__ == "__main__":
    main(run, "fio")
