"""Advice: which organization, with how much DRAM, for a workload and what it may cost.

Candidates are machines with each size of DRAM. They run as a sweep, beside a reference, and what is
asked for is decided from what came out: the Pareto front of slowdown, cost, energy and lifetime,
where one machine overtakes another, and how sure both are.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from tierscope import _core
from tierscope import format as fmt
from tierscope._call import parsed
from tierscope._repeat import student_t
from tierscope._system import System, from_toml, system
from tierscope.advise_budget import DRAM, of_store
from tierscope.advise_budget import Budget as Budget
from tierscope.errors import SpecError, TierscopeError
from tierscope.sweeps.points import points
from tierscope.sweeps.study import Study
from tierscope.sweeps.sweep import Sweep

_GB = 1e9
OBJECTIVES = ("slowdown", "cost", "energy_j", "lifetime_years")
"""What is weighed: less is better of all but the last."""
_OF_PROGRAM = "windows_thread_time_s"
_NEAR = 0.02
"""Slowdowns of one seed that are no further apart are not told apart: seeds differ by as much."""


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

    def told_apart(self, other: Candidate) -> bool:
        """Whether the runs tell the time of one from that of another."""
        if self.half_width is None or other.half_width is None:
            low, high = sorted((self.slowdown, other.slowdown))
            return high > low * (1 + _NEAR)
        return self.high < other.low or other.high < self.low


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
        touched_bytes: how much the workload touches.
        powers: whether energy is that of the budget's powers, and not that of the simulation.
        of_windows: whether the workload is a recording of windows, whose slowdowns are of all
            threads of the whole program, and all else of what is recorded.
    """

    candidates: tuple[Candidate, ...]
    crossovers: tuple[Crossover, ...]
    reference: str
    weighed: tuple[str, ...]
    cost_unit: str
    seeds: int
    workload: str
    state: str
    touched_bytes: int = 0
    powers: bool = False
    of_windows: bool = False
    seeded: bool = True

    @property
    def like_the_best(self) -> tuple[Candidate, ...]:
        """Candidates within the budget whose time the runs do not tell from that of the best."""
        best = self.best
        others = [one for one in self.candidates if one is not best and one.fits != "no"]
        return tuple(one for one in others if best is not None and not best.told_apart(one))

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
            "touched_bytes": self.touched_bytes,
            "energy_by": "powers" if self.powers else "simulation",
            "of_windows": self.of_windows,
            "seeded": self.seeded,
            "best": None if best is None else asdict(best),
            "like_the_best": [[one.system, one.dram] for one in self.like_the_best],
            "candidates": [asdict(one) for one in self.candidates],
            "crossovers": [asdict(one) for one in self.crossovers],
        }


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
        TierscopeError: where a size is none, or no machine has DRAM before a store.
    """
    from tierscope.sweeps.study import study

    _check_sizes(sizes)
    machines = [system(name) for name in dict.fromkeys([*systems, reference])]
    paths = list(dict.fromkeys(path for one in machines if (path := dram_path(one)) is not None))
    if not paths:
        mend = "name machines such as hybrid/quick and storage/quick"
        raise TierscopeError("no-effect", "no machine has DRAM before a store to size", mend)
    asked = study(
        list(machines),
        [workload],
        {"dram": {"paths": paths, "values": list(sizes)}},
        name="advice",
        **options,
    )
    try:
        points(asked)
    except SpecError as error:
        placed = [replace(p, place=p.place or _DRAM_AT * (p.path in paths)) for p in error.problems]
        raise SpecError(placed) from None
    return asked


_DRAM_AT = "--dram"
"""Where sizes of DRAM come from, for messages."""


def _check_sizes(sizes: Sequence[str]) -> None:
    """Refuses what is no size of DRAM, and the same one twice.

    Raises:
        TierscopeError: with the first mistake.
    """
    mend = "write --dram 64MiB,256MiB"
    if not sizes:
        raise TierscopeError("missing", f"{_DRAM_AT} names no size", mend)
    seen: set[int] = set()
    for text in sizes:
        quantity = _core.quantity(text)
        if quantity is None or quantity[0] != "size" or not quantity[1]:
            raise TierscopeError("impossible-value", f"{_DRAM_AT}: `{text}` is no size", mend)
        if quantity[1] in seen:
            raise TierscopeError("contradiction", f"{_DRAM_AT} names {text} twice", mend)
        seen.add(quantity[1])


def advise(done: Sweep, reference: str, budget: Budget) -> Advice:
    """What a sweep of :func:`study_of` says. :meth:`Budget.check` comes before it runs.

    Args:
        done: the sweep.
        reference: the name of the machine that slowdowns are against.
        budget: what a machine may cost, and how slow it may be.

    Raises:
        TierscopeError: where the reference or all candidates gave nothing.
    """
    rows = _rows(done)
    ours = {
        (row["dram"], row["seed"]): _compared_s(row) for row in rows if row["system"] == reference
    }
    if not ours:
        why = "; ".join(why for _, why in done.failures()) or "it has not run"
        raise TierscopeError("no-result", f"{reference} gave no time to compare with: {why}")
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["system"] != reference and (row["dram"], row["seed"]) in ours:
            groups.setdefault((row["system"], row["dram"]), []).append(row)
    if not groups:
        raise TierscopeError("no-result", "no candidate gave a result")
    touched = max(int(row.get("footprint_bytes") or 0) for row in rows)
    found = [_candidate(members, ours, budget, touched) for members in _distinct(groups)]
    found.sort(key=lambda one: (one.cost, one.slowdown))
    weighed = _weighed(found)
    placed = [_placed(one, found, weighed, budget) for one in found]
    return Advice(
        candidates=tuple(placed),
        crossovers=tuple(_crossovers(placed)),
        reference=reference,
        weighed=weighed,
        cost_unit="GB of DRAM" if budget.usd_per_gb is None else "USD",
        seeds=max(row["repetition"] for row in rows),
        workload=str(rows[0]["workload"]),
        state=done.completeness,
        touched_bytes=touched,
        powers=budget.w_per_gb is not None,
        of_windows=any(row.get(_OF_PROGRAM) is not None for row in rows),
        seeded=any(row["seed"] is not None for row in rows),
    )


def _compared_s(row: Mapping[str, Any]) -> float:
    """What a slowdown is of: all threads of the program, where windows of it tell them."""
    of_program = row.get(_OF_PROGRAM)
    return float(row["time_s"] if of_program is None else of_program)


def _rows(done: Sweep) -> list[dict[str, Any]]:
    """Rows of what has run, each with whether its machine's DRAM varies, and what it has else."""
    frame = done.table()
    rows = [row for row in frame.iter_rows(named=True) if row.get("time_s") is not None]
    known: dict[str, tuple[bool, int, int]] = {}
    for row in rows:
        name = row["system"]
        if name not in known:
            machine = from_toml(name, row["machine"])
            controllers = int(machine.to_dict().get("controllers", {}).get("count", 1))
            known[name] = (dram_path(machine) is not None, _memory_bytes(machine), controllers)
        row["sized"], row["memory_bytes"], row["controllers"] = known[name]
    return rows


def _memory_bytes(machine: System) -> int:
    """All of a machine's memory where there is no store behind it; else 0."""
    capacity = machine.to_dict().get("oracle", {}).get("capacity")
    quantity = _core.quantity(capacity) if isinstance(capacity, str) else None
    return int(quantity[1]) if quantity is not None else 0


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
    budget: Budget,
    touched_bytes: int,
) -> Candidate:
    first = rows[0]
    ratios = [_compared_s(row) / reference[row["dram"], row["seed"]] for row in rows]
    half = None
    if len(ratios) > 1:
        half = student_t(len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    quantity = _core.quantity(first["dram"])
    # Without a store, all memory of the machine is DRAM, of the size that it is described with.
    dram_bytes = int(quantity[1]) if quantity and first["sized"] else int(first["memory_bytes"])
    # Sizes are those of one controller.
    dram_bytes *= int(first["controllers"])
    cost = dram_bytes / _GB
    if budget.usd_per_gb is not None:
        cost = _total(first, budget.usd_per_gb, dram_bytes, touched_bytes)
    energy_j = _mean(rows, "energy_j")
    if budget.w_per_gb is not None:
        power_w = _total(first, budget.w_per_gb, dram_bytes, touched_bytes)
        energy_j = power_w * statistics.fmean(float(row["time_s"]) for row in rows)
    return Candidate(
        system=str(first["system"]),
        dram=str(first["dram"]) if first["sized"] else fmt.size(dram_bytes),
        dram_bytes=dram_bytes,
        slowdown=statistics.fmean(ratios),
        half_width=half,
        cost=cost,
        energy_j=energy_j,
        lifetime_years=_mean(rows, "drive_lifetime_years") or _mean(rows, "nvm_levelled_years"),
    )


def _total(
    row: Mapping[str, Any], figures: Mapping[str, float], dram_bytes: int, touched_bytes: int
) -> float:
    """A figure a GB, of DRAM for its size and of the store for what is touched.

    Raises:
        TierscopeError: where there is no figure of the system's store.
    """
    store = 0.0 if row["organization"] == "oracle" else of_store(figures, str(row["system"]))
    if store is None:
        told = f"the budget has no figure of the store of {row['system']}"
        raise TierscopeError("missing", told, f'write it by its name: "{row["system"]}" = 0.1')
    return (dram_bytes * figures[DRAM] + touched_bytes * store) / _GB


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
    found += _alike(advice)
    for one in advice.crossovers:
        sure = "" if one.sure else " (not sure: the intervals overlap, or one seed ran)"
        found.append(
            f"{one.smaller} is quicker up to {one.least} of DRAM, {one.larger} from {one.most} "
            f"on{sure}."
        )
    cut = advice.state == "partial"
    if advice.of_windows:
        of = "program so far" if cut else "whole program"
        found.append(
            f"The workload is a recording of windows: slowdowns are of the {of}, energy "
            "and lifetime of what is recorded."
        )
    if cut:
        found.append("Partial: runs ended early, or what they replay is cut short.")
    left = [name for name in OBJECTIVES if name not in advice.weighed]
    by = "; energy is the budget's powers over the time" * advice.powers
    found.append(f"Weighed: {', '.join(advice.weighed)}{by}.")
    if left:
        found.append(f"Not weighed, as not known of all: {', '.join(left)}.")
    if not advice.seeded:
        found.append("What is recorded runs once: nothing is said of how sure the slowdowns are.")
    elif advice.seeds == 1:
        found.append("One seed ran: nothing is said of how sure the slowdowns are; --seeds 3 does.")
    else:
        found.append(
            f"Means of {advice.seeds} seeds; ± is half of the 95 % confidence interval (Student t)."
        )
    return found


def _alike(advice: Advice) -> list[str]:
    """What the runs do not tell apart by time, in words."""
    alike = advice.like_the_best
    if not alike:
        return []
    named = "; ".join(f"{one.system} with {one.dram}" for one in alike)
    why = "their intervals overlap"
    if advice.seeds == 1:
        one = "one seed ran" if advice.seeded else "it ran once"
        why = f"they are within {_NEAR:.0%} of it, and {one}"
    sizes = [one.dram_bytes for one in advice.candidates]
    fits = f"; the {fmt.size(advice.touched_bytes)} that it touches fit in the smallest DRAM"
    why += fits if 0 < advice.touched_bytes <= min(sizes) else ""
    return [f"By time it cannot be told from {named}: {why}."]


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
