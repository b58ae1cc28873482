"""PostgreSQL: transactions like pgbench's on a table that pgbench has made (Debian's postgresql).

All processes of the server are recorded, and pgbench, which asks it, is not. That needs
PostgreSQL 16, or a QEMU that aligns the stack of handlers of signals, which 7.2 does not: the
first process of earlier servers starts others in handlers, and crashes there, recorded or not.
Where both are older, one process without a server (its single-user mode) does the same.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from common import Real, Server, find_program, main

BRANCH_ACCOUNTS, BRANCH_TELLERS = 100_000, 10
"""Of one branch, pgbench's unit of scale."""


def server_can_run(real: Real, program: str) -> bool:
    """Whether the server, with its first process, can be recorded."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+", said.stdout)
    if found and int(found[0]) >= 16:
        return True
    probe = ["qemu-x86_64", real.compile("handler_stack.c")]
    return subprocess.run(probe, check=False).returncode == 0


def tpcb(scale: int, count: int) -> Iterator[str]:
    """Transactions like TPC-B, as pgbench's built-in script has them, each a line."""
    draw = random.Random(1).randint
    for _ in range(count):
        account, teller = draw(1, BRANCH_ACCOUNTS * scale), draw(1, BRANCH_TELLERS * scale)
        branch, delta = draw(1, scale), draw(-5000, 5000)
        yield (
            f"UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account};"
            f" SELECT abalance FROM pgbench_accounts WHERE aid = {account};"
            f" UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller};"
            f" UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {branch};"
            " INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)"
            f" VALUES ({teller}, {branch}, {account}, {delta}, CURRENT_TIMESTAMP);"
        )


def selects(scale: int, count: int) -> Iterator[str]:
    """Selects by number, as pgbench's."""
    draw = random.Random(1).randint
    for _ in range(count):
        account = draw(1, BRANCH_ACCOUNTS * scale)
        yield f"SELECT abalance FROM pgbench_accounts WHERE aid = {account};"


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
    server = Server([program["postgres"], "-D", data, *given], ready, stop, user)
    alone = [program["postgres"], "--single", "-D", data, *given, "postgres"]
    whole = server_can_run(real, program["postgres"])

    def prepare() -> None:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        make = [program["initdb"], "-D", data, "-A", "trust", "-N", "-U", "bench"]
        real.run(make, user, stdout=subprocess.DEVNULL)
        with real.serving(server):
            fill = ["-i", "-q", "-s", str(scale), "postgres"]
            real.run([program["pgbench"], *connect, *fill], stdout=sys.stderr)

    for name, mix, script in (("tpcb", "tpcb-like", tpcb), ("select", "select-only", selects)):

        def drive(mix: str = mix) -> None:
            each = str(transactions // clients)
            work = ["-b", mix, "-n", "-c", str(clients), "-t", each, "postgres"]
            real.run([program["pgbench"], *connect, *work], stdout=sys.stderr)

        if whole:
            real.record_server(f"postgresql-{name}", server, drive, prepare)
        else:
            lines = "\n".join(script(scale, transactions)) + "\n"
            name = f"postgresql-{name}-single"
            real.record(name, alone, prepare=prepare, text=lines, user=user, silent=True)


if __name__ == "__main__":
    main(run, "cc", "postgresql")
