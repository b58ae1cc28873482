"""Berkeley DB: gets and puts in transactions, in a B+tree and a hash table (Debian's libdb)."""

from __future__ import annotations

import shutil

from common import Real, main


def run(real: Real) -> None:
    """Both kinds of table."""
    program = real.compile("berkeley_db.c", "-ldb")
    records = real.size(quick=5_000, full=500_000)
    operations = real.size(quick=1_500, full=60_000)
    directory = real.scratch / "environment"
    for kind in ("btree", "hash"):

        def prepare(kind: str = kind) -> None:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            real.run([program, str(directory), kind, "load", str(records), "0"])

        command = [program, str(directory), kind, "mixed", str(records), str(operations)]
        real.record(f"berkeley-db-{kind}", command, prepare=prepare, roi=True)


if __name__ == "__main__":
    main(run, "cc", "berkeley-db")
