"""Redis: sets and gets, asked by redis-benchmark, which is not recorded (Debian's)."""

from __future__ import annotations

import sys

from common import Real, Server, main


def run(real: Real) -> None:
    """A server without files, on a socket of its own."""
    socket = str(real.scratch / "redis.sock")
    keys, requests = real.size(quick=1_000, full=200_000), real.size(quick=2_000, full=200_000)
    command = ["redis-server", "--port", "0", "--unixsocket", socket]
    command += ["--save", "", "--appendonly", "no", "--dir", str(real.scratch)]
    ask = ["redis-cli", "-s", socket]
    server = Server(command, [*ask, "ping"], [*ask, "shutdown", "nosave"])

    def drive() -> None:
        how = ["-s", socket, "-c", "8", "-n", str(requests), "-r", str(keys), "-d", "256"]
        real.run(["redis-benchmark", *how, "-t", "set,get", "-q"], stdout=sys.stderr)

    real.record_server("redis", server, drive)


if __name__ == "__main__":
    main(run, "redis")
