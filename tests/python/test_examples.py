"""The bundled recording, which stands in for a live program."""

from __future__ import annotations

from pathlib import Path

import tierscope as ts

RECORDING = Path(__file__).parents[2] / "examples" / "data" / "sqlite.tst"


def test_the_bundled_recording_tells_the_three_machines_apart() -> None:
    systems = ["hybrid/quick", "storage/quick", "oracle/quick"]
    result = ts.compare(systems, f"trace:{RECORDING}")
    assert result.complete
    hybrid, storage, oracle = (result[name] for name in systems)
    assert hybrid["instructions"] == storage["instructions"] == oracle["instructions"]
    assert storage["time_ps"] > hybrid["time_ps"] > oracle["time_ps"]
    assert storage["store_bytes"]["read"] > hybrid["store_bytes"]["read"] > 0
