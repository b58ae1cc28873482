"""The bundled recording, which stands in for a live program."""

from __future__ import annotations

from pathlib import Path

import tierscope as ts

EXAMPLES = Path(__file__).parents[2] / "examples"
RECORDING = EXAMPLES / "data" / "sqlite.tst"


def test_the_study_of_dram_sizes_tells_the_two_machines_apart(tmp_path: Path) -> None:
    text = (EXAMPLES / "dram-size.toml").read_text()
    (tmp_path / "few.toml").write_text(
        text.replace('["16MiB", "32MiB", "64MiB", "96MiB", "128MiB", "160MiB"]', '["64MiB"]')
        .replace("skip = 80000", "skip = 20000")
        .replace("= 40000", "= 11000")
    )
    found = ts.sweep(tmp_path / "few.toml", tmp_path / "out")
    assert found.complete
    hybrid, storage = found.table()["time_s"]
    assert storage > hybrid > 0


def test_the_bundled_recording_tells_the_three_machines_apart() -> None:
    systems = ["hybrid/quick", "storage/quick", "oracle/quick"]
    result = ts.compare(systems, f"trace:{RECORDING}")
    assert result.complete
    hybrid, storage, oracle = (result[name] for name in systems)
    assert hybrid["instructions"] == storage["instructions"] == oracle["instructions"]
    assert storage["time_ps"] > hybrid["time_ps"] > oracle["time_ps"]
    assert storage["store_bytes"]["read"] > hybrid["store_bytes"]["read"] > 0
