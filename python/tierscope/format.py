"""Numbers as people read them: a unit, three significant digits, no exponent."""

from __future__ import annotations

_TIME_UNITS = [(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")]
_BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
_DECIMAL_UNITS = ["", "k", "M", "G", "T", "P", "E"]
ABSENT = "–"


def visible(text: str) -> str:
    """A text of unknown origin, such as a name in a program, without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def value(given: object) -> str:
    """A parameter's value as a description has it: truth values are true and false."""
    return str(given).lower() if isinstance(given, bool) else str(given)


def digits(value: float) -> str:
    """Three significant digits, without an exponent and without dropping whole digits."""
    if value == 0:
        return "0"
    exponent = int(f"{abs(value):.2e}".partition("e")[2])
    if exponent < -4:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - exponent)}f}"


def seconds(value: float | None) -> str:
    """A time given in seconds."""
    if value is None:
        return ABSENT
    if value == 0:
        return "0 s"
    scale, unit = _TIME_UNITS[0]
    for candidate in _TIME_UNITS:
        # A value that would round to 1000 of a unit belongs to the next.
        if abs(value) >= candidate[0] * 0.9995:
            scale, unit = candidate
    return f"{digits(value / scale)} {unit}"


def wall(value: float) -> str:
    """A time, given in seconds, that is known roughly: one digit, as more would claim more."""
    for unit_s, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        # A value that would round to a whole unit is one.
        rounded = float(f"{value / unit_s:.1g}")
        if rounded >= 1 or unit_s == 1:
            return f"{rounded:g} {unit}"
    raise AssertionError("the last unit takes all")


def joules(value: float | None) -> str:
    """An energy given in joules."""
    return _small(value, "J")


def watts(value: float | None) -> str:
    """A power given in watts."""
    return _small(value, "W")


def _small(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    for scale, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if abs(value) >= scale * 0.9995 or scale == 1e-9:
            return f"{digits(value / scale)} {prefix}{unit}"
    raise AssertionError("the last scale takes all")


def nanoseconds(value: float | None) -> str:
    """A time given in nanoseconds."""
    return seconds(None if value is None else value * 1e-9)


def size(value: float | None) -> str:
    """A number of bytes, in powers of 1024."""
    return ABSENT if value is None else _scaled(value, 1024.0, _BINARY_UNITS)


def count(value: float | None) -> str:
    """A number of things, in powers of 1000."""
    return ABSENT if value is None else _scaled(value, 1000.0, _DECIMAL_UNITS).rstrip()


def rate(value: float | None, what: str = "") -> str:
    """A number of things each second, such as ``8.53 M accesses/s``."""
    if value is None:
        return ABSENT
    number = _scaled(value, 1000.0, _DECIMAL_UNITS).rstrip()
    return f"{number} {what}/s" if what or number[-1].isdigit() else f"{number}/s"


def bandwidth(value: float | None) -> str:
    """Bytes each second, in powers of 1000, as data sheets have them."""
    if value is None:
        return ABSENT
    return f"{_scaled(value, 1000.0, _DECIMAL_UNITS)}B/s"


def percent(share: float | None) -> str:
    """A share of one."""
    return ABSENT if share is None else f"{digits(share * 100)} %"


def share(part: float, whole: float) -> str:
    """A part of a whole, to a tenth of a percent, so that a column of them lines up."""
    if part == 0 or whole == 0:
        return ABSENT
    tenths = part / whole * 100
    return f"{tenths:.1f} %" if tenths >= 0.05 else "<0.1 %"


def factor(value: float | None) -> str:
    """How many times one thing is another."""
    return ABSENT if value is None else f"{digits(value)}×"


def years(value: float | None) -> str:
    """A time given in years of 365 days, in days where it is short."""
    if value is None:
        return ABSENT
    return f"{digits(value)} years" if value >= 1 else f"{digits(value * 365)} days"


def plain(value: float | None) -> str:
    """A number without a unit."""
    return ABSENT if value is None else digits(value)


def _scaled(value: float, step: float, units: list[str]) -> str:
    power = 0
    while abs(value) >= step * 0.9995 and power < len(units) - 1:
        value /= step
        power += 1
    number = f"{value:.0f}" if power == 0 and value == int(value) else digits(value)
    return f"{number} {units[power]}"
