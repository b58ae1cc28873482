"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope import format as fmt

_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (fmt.seconds(0), "0 s"),
        (fmt.seconds(2.345), "2.35 s"),
        (fmt.seconds(0.9999), "1.00 s"),
        (fmt.seconds(12e-9), "12.0 ns"),
        (fmt.nanoseconds(85360.93), "85.4 µs"),
        (fmt.nanoseconds(None), "–"),
        (fmt.years(12.34), "12.3 years"),
        (fmt.years(0.01), "3.65 days"),
        (fmt.years(None), "–"),
        (fmt.size(0), "0 B"),
        (fmt.size(1023), "1023 B"),
        (fmt.size(1536), "1.50 KiB"),
        (fmt.size(471859200), "450 MiB"),
        (fmt.count(999), "999"),
        (fmt.count(812345678), "812 M"),
        (fmt.rate(8641975, "accesses"), "8.64 M accesses/s"),
        (fmt.rate(8641975), "8.64 M/s"),
        (fmt.rate(12), "12 /s"),
        (fmt.percent(0.0312), "3.12 %"),
        (fmt.share(1, 3), "33.3 %"),
        (fmt.share(1, 1_000_000), "<0.1 %"),
        (fmt.share(0, 3), "–"),
        (fmt.factor(30.71), "30.7×"),
    ],
)
def test_values_are_shown_with_a_unit_and_three_digits(shown: str, expected: str) -> None:
    assert shown == expected


@given(st.floats(min_value=1e-10, max_value=1e6))
def test_a_shown_time_is_within_half_a_percent(value: float) -> None:
    number, unit = fmt.seconds(value).split()
    assert float(number) * _UNITS[unit] == pytest.approx(value, rel=0.0051)


@given(st.integers(min_value=0, max_value=1 << 63))
def test_a_shown_size_is_within_half_a_percent(value: int) -> None:
    number, unit = fmt.size(value).split()
    power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    assert float(number) * 1024**power == pytest.approx(value, rel=0.0051)
    assert len(number) <= 5


def test_a_name_of_unknown_origin_commands_no_terminal() -> None:
    assert fmt.visible("naïve µs") == "naïve µs"
    assert fmt.visible("a\x1b[31mb\nc\r\x07") == "a\\x1b[31mb\\nc\\r\\x07"
