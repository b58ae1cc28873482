"""PostMark: files created, read, appended to and deleted at random (Debian's postmark)."""

from __future__ import annotations

import shutil

from common import Real, main


def run(real: Real) -> None:
    """Its defaults, and at the full size 20 times as many files."""
    files, transactions = real.size(quick=200, full=10_000), real.size(quick=500, full=20_000)
    directory = real.scratch / "files"

    def prepare() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()

    commands = [
        f"set location {directory}",
        f"set number {files}",
        f"set transactions {transactions}",
        "run",
        "quit",
    ]
    real.record("postmark", ["postmark"], prepare=prepare, text="\n".join(commands) + "\n")


if __name__ == "__main__":
    main(run, "postmark")
