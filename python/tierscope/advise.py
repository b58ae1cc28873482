"""Advice: which organization, with how much DRAM, for a workload and what it may cost.

Candidates are machines with each size of DRAM. They run as a sweep, beside a reference, and what is
asked for is decided from what came out: the Pareto front of slowdown, cost, energy and lifetime,
where one machine overtakes another, and how sure both are.
"""

from __future__ import annotations

import json
import math
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tierscope import _check, _core
from tierscope import format as fmt
from tierscope._call import parsed
from tierscope._files import read_text, toml_mistake
from tierscope._repeat import student_t
from tierscope._system import System, from_toml, system
from tierscope.errors import TierscopeError
from tierscope.sweeps.study import Study
from tierscope.sweeps.sweep import Sweep

KEYS = ("dram_limit", "slowdown", "usd_per_gb")
"""What a budget may say."""
_MEND = 'write dram_limit = "256MiB", slowdown = 2.0, [usd_per_gb] with dram = 3.0, hybrid = 0.1'
_GB = 1e9
OBJECTIVES = ("slowdown", "cost", "energy_j", "lifetime_years")
"""What is weighed: less is better of all but the last."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a machine may cost, and how slow it may be.

    Attributes:
        dram_limit_bytes: the most DRAM; none where any will do.
        slowdown: the most slowdown against the reference; none where any will do.
        usd_per_gb: price of a GB (10^9 bytes) of ``dram``, and of each system's store by its name.
    """

    dram_limit_bytes: int | None = None
    slowdown: float | None = None
    usd_per_gb: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A machine with a size of DRAM, and what came out.

    Attributes:
        system: its name.
        dram: its DRAM, as it was written.
        dram_bytes: the same.
        slowdown: its time over the reference's, the mean of all seeds.
        half_width: half of the 95 % confidence interval of the slowdown; none of one seed.
        cost: price in USD where prices are known, else DRAM in GB.
        energy_j: energy; none where nothing of it is known.
        lifetime_years: how long its store lasts at this rate; none where that is not modelled.
        front: ``yes`` where no other is better in all, ``unsure`` where intervals do not say.
        fits: ``yes``, ``unsure`` or ``no``: whether it is within the budget.
    """

    system: str
    dram: str
    dram_bytes: int
    slowdown: float
    half_width: float | None
    cost: float
    energy_j: float | None
    lifetime_years: float | None
    front: str = ""
    fits: str = ""

    @property
    def low(self) -> float:
        """The lower end of the slowdown's interval."""
        return self.slowdown - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """The upper end of it."""
        return self.slowdown + (self.half_width or 0.0)


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where one machine overtakes another as DRAM grows.

    Attributes:
        smaller: the quicker one with less DRAM.
        larger: the quicker one with more.
        least: the size up to which the first is quicker.
        most: the size from which the second is.
        sure: whether the intervals of both sizes are apart.
    """

    smaller: str
    larger: str
    least: str
    most: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """What to take.

    Attributes:
        candidates: every machine with each size, by cost.
        crossovers: where one overtakes another.
        reference: the machine that slowdowns are against.
        weighed: which of :data:`OBJECTIVES` were weighed: those known of all candidates.
        cost_unit: what ``cost`` counts.
        seeds: how many seeds each ran with.
        workload: what ran.
        state: ``complete``, ``sampled`` or ``partial``.
    """

    candidates: tuple[Candidate, ...]
    crossovers: tuple[Crossover, ...]
    reference: str
    weighed: tuple[str, ...]
    cost_unit: str
    seeds: int
    workload: str
    state: str

    @property
    def best(self) -> Candidate | None:
        """The cheapest on the front that is surely within the budget; the quickest of equals."""
        able = [one for one in self.candidates if one.front != "no" and one.fits == "yes"]
        return min(able, key=lambda one: (one.cost, one.slowdown), default=None)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        best = self.best
        return {
            "version": _core.version(),
            "workload": self.workload,
            "state": self.state,
            "reference": self.reference,
            "seeds": self.seeds,
            "weighed": list(self.weighed),
            "cost_unit": self.cost_unit,
            "best": None if best is None else asdict(best),
            "candidates": [asdict(one) for one in self.candidates],
            "crossovers": [asdict(one) for one in self.crossovers],
        }


def read_budget(path: Path) -> Budget:
    """A budget that a TOML file says.

    Raises:
        TierscopeError: with the first mistake of it.
    """
    text = read_text(path, "a budget", _MEND)
    try:
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        told = f"{path} is not TOML: {toml_mistake(error)}"
        raise TierscopeError("unreadable", told, _MEND) from None
    for key in said:
        if key not in KEYS:
            mend = _check.meant(key, KEYS, f"its keys are {', '.join(KEYS)}")
            raise TierscopeError("unknown-key", f"{path}: a budget has no key `{key}`", mend)
    limit, slowdown, prices = (said.get(key) for key in KEYS)
    quantity = _core.quantity(limit) if isinstance(limit, str) else None
    if limit is not None and (quantity is None or quantity[0] != "size"):
        raise _impossible(path, "dram_limit", limit)
    if slowdown is not None and not _is_number(slowdown, 1.0):
        raise _impossible(path, "slowdown", slowdown)
    if prices is not None and not isinstance(prices, dict):
        raise _impossible(path, "usd_per_gb", prices)
    for name, price in (prices or {}).items():
        if not _is_number(price, 0.0):
            raise _impossible(path, f"usd_per_gb.{name}", price)
    if prices is not None and "dram" not in prices:
        raise _impossible(path, "usd_per_gb.dram", None)
    return Budget(None if quantity is None else int(quantity[1]), slowdown, prices)


def _is_number(value: object, least: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(float(str(value))) and float(str(value)) >= least


def _impossible(path: Path, key: str, value: object) -> TierscopeError:
    told = "is missing" if value is None else f"is {_check.shown(value)}"
    return TierscopeError("impossible-value", f"{path}: {key} {told}", _MEND)


def dram_path(machine: System) -> str | None:
    """The path of a machine's DRAM before its store; nothing where it has no such DRAM."""
    found = parsed(_core.sizes(json.dumps(machine.to_dict())))["dram"]
    return str(found["path"]) if found is not None and found["before_store"] else None


def study_of(
    systems: Sequence[str], reference: str, workload: str, sizes: Sequence[str], **options: Any
) -> Study:
    """The study that tells what is asked for: each machine with each size, and the reference.

    Args:
        systems: presets or files.
        reference: the machine that slowdowns are against.
        workload: what runs.
        sizes: sizes of DRAM.
        options: as of :func:`tierscope.study`: ``set``, ``repetitions``, ``skip``, ``limit`` …

    Raises:
        SpecError: with every mistake of it.
        TierscopeError: where no machine has DRAM before a store.
    """
    from tierscope.sweeps.study import study

    machines = [system(name) for name in dict.fromkeys([*systems, reference])]
    paths = list(dict.fromkeys(path for one in machines if (path := dram_path(one)) is not None))
    if not paths:
        mend = "name machines such as hybrid/quick and storage/quick"
        raise TierscopeError("no-effect", "no machine has DRAM before a store to size", mend)
    return study(
        list(machines),
        [workload],
        {"dram": {"paths": paths, "values": list(sizes)}},
        name="advice",
        **options,
    )


def advise(done: Sweep, reference: str, budget: Budget) -> Advice:
    """What a sweep of :func:`study_of` says.

    Args:
        done: the sweep.
        reference: the name of the machine that slowdowns are against.
        budget: what a machine may cost, and how slow it may be.

    Raises:
        TierscopeError: where the reference or all candidates gave nothing.
    """
    rows = _rows(done)
    ours = {(row["dram"], row["seed"]): row["time_s"] for row in rows if row["system"] == reference}
    if not ours:
        why = "; ".join(why for _, why in done.failures()) or "it has not run"
        raise TierscopeError("no-result", f"{reference} gave no time to compare with: {why}")
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["system"] != reference and (row["dram"], row["seed"]) in ours:
            groups.setdefault((row["system"], row["dram"]), []).append(row)
    if not groups:
        raise TierscopeError("no-result", "no candidate gave a result")
    prices = budget.usd_per_gb
    touched = max(int(row.get("footprint_bytes") or 0) for row in rows)
    found = [_candidate(members, ours, prices, touched) for members in _distinct(groups)]
    found.sort(key=lambda one: (one.cost, one.slowdown))
    weighed = _weighed(found)
    placed = [_placed(one, found, weighed, budget) for one in found]
    return Advice(
        candidates=tuple(placed),
        crossovers=tuple(_crossovers(placed)),
        reference=reference,
        weighed=weighed,
        cost_unit="GB of DRAM" if prices is None else "USD",
        seeds=max(row["repetition"] for row in rows),
        workload=str(rows[0]["workload"]),
        state=done.completeness,
    )


def _rows(done: Sweep) -> list[dict[str, Any]]:
    """Rows of what has run, each with whether its machine's DRAM varies."""
    frame = done.table()
    rows = [row for row in frame.iter_rows(named=True) if row.get("time_s") is not None]
    sized: dict[str, bool] = {}
    for row in rows:
        name = row["system"]
        if name not in sized:
            sized[name] = dram_path(from_toml(name, row["machine"])) is not None
        row["sized"] = sized[name]
    return rows


def _distinct(
    groups: Mapping[tuple[str, str], list[Mapping[str, Any]]],
) -> Iterator[list[Mapping[str, Any]]]:
    """Candidates, those whose DRAM does not vary once."""
    seen: set[str] = set()
    for (name, _), members in groups.items():
        if members[0]["sized"] or name not in seen:
            seen.add(name)
            yield members


def _candidate(
    rows: Sequence[Mapping[str, Any]],
    reference: Mapping[tuple[str, Any], float],
    prices: Mapping[str, float] | None,
    touched_bytes: int,
) -> Candidate:
    first = rows[0]
    ratios = [row["time_s"] / reference[row["dram"], row["seed"]] for row in rows]
    half = None
    if len(ratios) > 1:
        half = student_t(len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    quantity = _core.quantity(first["dram"])
    # Without DRAM before a store, all that is touched has to be in it, or there is none.
    whole_bytes = touched_bytes if first["organization"] == "oracle" else 0
    dram_bytes = int(quantity[1]) if quantity and first["sized"] else whole_bytes
    cost = _cost(first, dram_bytes, prices, touched_bytes)
    return Candidate(
        system=str(first["system"]),
        dram=str(first["dram"]) if first["sized"] else fmt.size(dram_bytes),
        dram_bytes=dram_bytes,
        slowdown=statistics.fmean(ratios),
        half_width=half,
        cost=cost,
        energy_j=_mean(rows, "energy_j"),
        lifetime_years=_mean(rows, "drive_lifetime_years") or _mean(rows, "nvm_levelled_years"),
    )


def _cost(
    row: Mapping[str, Any],
    dram_bytes: int,
    prices: Mapping[str, float] | None,
    touched_bytes: int,
) -> float:
    """USD of DRAM for its size and of the store for what is touched; or GB of DRAM.

    Raises:
        TierscopeError: where the budget has no price of the system's store.
    """
    if prices is None:
        return dram_bytes / _GB
    name = str(row["system"])
    price = prices.get(name, prices.get(name.removesuffix("/quick")))
    if price is None and row["organization"] != "oracle":
        mend = f'write its price below [usd_per_gb]: "{name}" = 0.1'
        raise TierscopeError("missing", f"the budget has no price of the store of {name}", mend)
    return (dram_bytes * prices["dram"] + touched_bytes * (price or 0.0)) / _GB


def _mean(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [row.get(key) for row in rows]
    known = [float(value) for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(rows) else None


def _weighed(found: Sequence[Candidate]) -> tuple[str, ...]:
    """Objectives that all candidates have: what some lack cannot be compared."""
    return tuple(name for name in OBJECTIVES if all(getattr(c, name) is not None for c in found))


def _placed(
    one: Candidate, found: Sequence[Candidate], weighed: Sequence[str], budget: Budget
) -> Candidate:
    """A candidate, with whether it is on the front and within the budget."""
    at_best = any(_dominates(other, one, weighed, other.high, one.low) for other in found)
    at_worst = any(_dominates(other, one, weighed, other.low, one.high) for other in found)
    front = "no" if at_best else "yes" if not at_worst else "unsure"
    fits = "yes"
    if budget.slowdown is not None and one.high > budget.slowdown:
        fits = "unsure" if one.low <= budget.slowdown else "no"
    if budget.dram_limit_bytes is not None and one.dram_bytes > budget.dram_limit_bytes:
        fits = "no"
    return replace(one, front=front, fits=fits)


def _dominates(
    a: Candidate, b: Candidate, weighed: Sequence[str], a_slowdown: float, b_slowdown: float
) -> bool:
    """Whether one is no worse than another in all that is weighed, and better in something."""
    if a is b:
        return False
    pairs = [(a_slowdown, b_slowdown)]
    for name in weighed:
        if name != "slowdown":
            sign = -1.0 if name == "lifetime_years" else 1.0
            pairs.append((sign * getattr(a, name), sign * getattr(b, name)))
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)


def _crossovers(found: Sequence[Candidate]) -> Iterator[Crossover]:
    by_system: dict[str, dict[int, Candidate]] = {}
    for one in found:
        by_system.setdefault(one.system, {})[one.dram_bytes] = one
    names = sorted(by_system)
    for index, a in enumerate(names):
        for b in names[index + 1 :]:
            sizes = sorted(set(by_system[a]) & set(by_system[b]))
            for low, high in pairwise(sizes):
                pairs = [(by_system[a][size], by_system[b][size]) for size in (low, high)]
                before, after = (x.slowdown - y.slowdown for x, y in pairs)
                if before * after < 0:
                    smaller, larger = (a, b) if before < 0 else (b, a)
                    sure = all(x.high < y.low or y.high < x.low for x, y in pairs)
                    sure = sure and pairs[0][0].half_width is not None
                    ends = pairs[0][0].dram, pairs[1][0].dram
                    yield Crossover(smaller, larger, *ends, sure)


def lines(advice: Advice) -> list[str]:
    """What is advised, in words."""
    best = advice.best
    found = []
    if best is None:
        found.append("Nothing is surely within the budget.")
    else:
        cost = f"{best.cost:.3g} {advice.cost_unit}"
        told = f"Take {best.system} with {best.dram} of DRAM: {fmt.factor(best.slowdown)} the time"
        found.append(f"{told} of {advice.reference}, for {cost}.")
    for one in advice.crossovers:
        sure = "" if one.sure else " (not sure: the intervals overlap, or one seed ran)"
        found.append(
            f"{one.smaller} is quicker up to {one.least} of DRAM, {one.larger} from {one.most} "
            f"on{sure}."
        )
    left = [name for name in OBJECTIVES if name not in advice.weighed]
    found.append(f"Weighed: {', '.join(advice.weighed)}.")
    if left:
        found.append(f"Not weighed, as not known of all: {', '.join(left)}.")
    if advice.seeds == 1:
        found.append("One seed ran: nothing is said of how sure the slowdowns are; --seeds 3 does.")
    else:
        found.append(
            f"Means of {advice.seeds} seeds; ± is half of the 95 % confidence interval (Student t)."
        )
    return found


def rows(advice: Advice) -> list[list[str]]:
    """Each candidate, as a table shows it."""
    found = []
    for one in advice.candidates:
        half = "" if one.half_width is None else f" ± {one.half_width:.2g}"
        found.append(
            [
                one.system,
                one.dram,
                fmt.factor(one.slowdown) + half,
                f"{one.cost:.3g}",
                fmt.joules(one.energy_j),
                fmt.years(one.lifetime_years),
                one.front,
                one.fits,
            ]
        )
    return found


def headings(advice: Advice) -> list[str]:
    """What stands above :func:`rows`."""
    return ["system", "DRAM", "slowdown", advice.cost_unit, "energy", "lasts", "front", "fits"]
