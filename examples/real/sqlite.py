"""SQLite: selects and inserts on a database that is mapped into memory (Debian's sqlite3)."""

from __future__ import annotations

import sys

from common import Real, main

INSERT_SHARE = 20
"""Of so many rows, one is inserted anew."""


def table(rows: int) -> str:
    """Statements that make a table of rows of about 1 KB, with an index."""
    return f"""
        PRAGMA journal_mode = wal;
        CREATE TABLE item (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, note TEXT NOT NULL);
        BEGIN;
        WITH RECURSIVE row (id) AS
            (SELECT 0 UNION ALL SELECT id + 1 FROM row WHERE id < {rows - 1})
        INSERT INTO item SELECT id, id * 2654435761 % 1000003, printf('%01000d', id) FROM row;
        CREATE INDEX by_amount ON item (amount);
        COMMIT;
        PRAGMA wal_checkpoint(truncate);
    """


def draws(count: int) -> str:
    """A table of numbers below 2^31, from a linear congruential generator."""
    return f"""
        WITH RECURSIVE draw (n, x) AS (SELECT 1, 12345 UNION ALL
            SELECT n + 1, (x * 1103515245 + 12345) % 2147483648 FROM draw WHERE n < {count})
    """


MAPPED = "PRAGMA mmap_size = 1073741824; PRAGMA synchronous = normal;"


def selects(rows: int, lookups: int) -> str:
    """Look-ups of random rows by number, of others by the index, and a scan of a tenth."""
    return f"""{MAPPED}
        {draws(lookups)} SELECT 'by number', count(*), sum(amount)
            FROM draw JOIN item ON id = x / 8 % {rows};
        {draws(lookups // 4)} SELECT 'by index', count(*), sum(length(note))
            FROM draw JOIN item ON amount = x / 8 % {rows} * 2654435761 % 1000003;
        SELECT 'scanned', count(*), sum(amount) FROM item WHERE id < {rows // 10};
    """


def inserts(rows: int, more: int) -> str:
    """New rows behind the others, whose places in the index are random, a hundred a transaction."""
    each = 100
    statements = [
        f"""BEGIN; {draws(each)} INSERT INTO item
            SELECT {rows + first} + n, (x / 8 + {first}) % 1000003, printf('%0900d', x) FROM draw;
            COMMIT;"""
        for first in range(0, more, each)
    ]
    return MAPPED + "".join(statements) + "SELECT 'rows', count(*) FROM item;"


def run(real: Real) -> None:
    """Both mixes."""
    rows = real.size(quick=5_000, full=400_000)
    database = real.scratch / "test.db"

    def prepare() -> None:
        for file in real.scratch.glob("test.db*"):
            file.unlink()
        real.run(["sqlite3", str(database)], text=table(rows), stdout=sys.stderr)

    command = ["sqlite3", str(database)]
    lookups = real.size(quick=1_000, full=200_000)
    real.record("sqlite-select", command, prepare=prepare, text=selects(rows, lookups))
    more = rows // INSERT_SHARE // 100 * 100
    real.record("sqlite-insert", command, prepare=prepare, text=inserts(rows, more))


if __name__ == "__main__":
    main(run, "sqlite")
