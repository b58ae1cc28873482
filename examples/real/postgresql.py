"""PostgreSQL: transactions like pgbench's on a table that pgbench has made (Debian's postgresql).

All processes of the server are recorded, and pgbench, which asks it, is not. The first process of
PostgreSQL before 16 starts others in handlers of signals, and crashes there where these have no
aligned stack, as by QEMU 7.2: where both are older, a library of ours (aligned_handlers.c), which
is loaded before the server, aligns it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from common import Real, Server, find_program, main


def server_can_run(real: Real, program: str) -> bool:
    """Whether the server, with its first process, can be recorded as it is."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+", said.stdout)
    if found and int(found[0]) >= 16:
        return True
    probe = ["qemu-x86_64", real.compile("handler_stack.c")]
    return subprocess.run(probe, check=False).returncode == 0


def run(real: Real) -> None:
    """A cluster of its own, on a socket of its own: a mix like TPC-B, then selects alone."""
    # The server refuses to run as root, and another user might not reach what this one may read.
    user = "postgres" if os.geteuid() == 0 else None
    scale, clients = real.size(quick=1, full=20), 2
    transactions = real.size(quick=50, full=4_000)
    home = real.scratch / "postgresql"
    data = str(home / "data")
    names = ("initdb", "postgres", "pg_ctl", "pgbench", "pg_isready")
    program = {name: find_program(name) or name for name in names}
    connect = ["-h", str(home), "-U", "bench"]
    settings = {
        "unix_socket_directories": str(home),
        "listen_addresses": "",
        "shared_buffers": "32MB",
        "autovacuum": "off",
    }
    given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    stop = [program["pg_ctl"], "stop", "-D", data, "-m", "fast"]
    ready = [program["pg_isready"], *connect, "-d", "postgres"]
    command = [program["postgres"], "-D", data, *given]
    if not server_can_run(real, program["postgres"]):
        aligned = real.compile("aligned_handlers.c", "-shared", "-fPIC", "-ldl")
        command = ["env", f"LD_PRELOAD={aligned}", *command]
    server = Server(command, ready, stop, user)

    def prepare() -> None:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        make = [program["initdb"], "-D", data, "-A", "trust", "-N", "-U", "bench"]
        real.run(make, user, stdout=subprocess.DEVNULL)
        with real.serving(server):
            fill = ["-i", "-q", "-s", str(scale), "postgres"]
            real.run([program["pgbench"], *connect, *fill], stdout=sys.stderr)

    for name, mix in (("tpcb", "tpcb-like"), ("select", "select-only")):

        def drive(mix: str = mix) -> None:
            each = str(transactions // clients)
            work = ["-b", mix, "-n", "-c", str(clients), "-t", each, "postgres"]
            real.run([program["pgbench"], *connect, *work], stdout=sys.stderr)

        real.record_server(f"postgresql-{name}", server, drive, prepare)


if __name__ == "__main__":
    main(run, "cc", "postgresql")
