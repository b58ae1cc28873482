"""The values that points take: designs, ranges and their mistakes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import tierscope as ts
from hypothesis import given, settings
from hypothesis import strategies as st
from tierscope import _core
from tierscope.sweeps.design import Kind, Parameter, Range, Scale, Values, choices, count
from tierscope.sweeps.points import points


def study(parameters: Mapping[str, object], **more: Any) -> ts.Study:
    """A study of one machine and one workload."""
    return ts.study(["hybrid/quick"], ["gups"], parameters, **more)


def test_a_grid_takes_every_combination_once_the_last_changing_first() -> None:
    found = [
        dict(p.choice)
        for p in points(study({"hybrid.cache.ways": [1, 4], "check_data": [False, True]}))
    ]
    assert [tuple(one.values()) for one in found] == [(1, False), (1, True), (4, False), (4, True)]


def test_a_list_takes_values_side_by_side() -> None:
    asked = {"hybrid.cache.ways": [1, 4], "workload.random": [0.5, 1.0]}
    found = [tuple(p.choice.values()) for p in points(study(asked, design="list"))]
    assert found == [(1, 0.5), (4, 1.0)]


@given(n=st.integers(1, 40), dimensions=st.integers(1, 4), seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_a_latin_hypercube_has_one_value_in_each_part_of_each_parameter(
    n: int, dimensions: int, seed: int
) -> None:
    each = [
        Parameter(f"p{i}", (f"p{i}",), Range(0.0, 1.0, "real", "linear", None, None))
        for i in range(dimensions)
    ]
    found = list(choices("latin-hypercube", each, n, seed))
    assert len(found) == n == count("latin-hypercube", each, n)
    for one in each:
        parts = sorted(math.floor(float(choice[one.name]) * n) for choice in found)
        assert parts == list(range(n))
    assert found == list(choices("latin-hypercube", each, n, seed))


@given(
    kind=st.sampled_from(["random", "latin-hypercube"]),
    low=st.integers(1, 1 << 40),
    more=st.integers(1, 1 << 40),
    scale=st.sampled_from(["linear", "log"]),
    multiple=st.one_of(st.none(), st.integers(1, 4096)),
    seed=st.integers(0, 100),
)
@settings(max_examples=100, deadline=None)
def test_values_of_a_range_keep_its_bounds_and_multiples(
    kind: Kind, low: int, more: int, scale: Scale, multiple: int | None, seed: int
) -> None:
    step = multiple or 1
    high = max(low + more, (low // step + 1) * step)
    one = Parameter("a", ("a",), Range(low, high, "size", scale, None, multiple))
    for choice in choices(kind, [one], 8, seed):
        found = _core.quantity(str(choice["a"]))
        assert found is not None
        assert found[0] == "size"
        assert low <= found[1] <= high
        assert found[1] % step == 0


def test_random_values_are_the_same_for_ever() -> None:
    one = Parameter("a", ("a",), Range(0, 1000, "whole", "linear", None, None))
    two = Parameter("b", ("b",), Values(("x", "y")))
    found = [tuple(c.values()) for c in choices("latin-hypercube", [one, two], 4, 7)]
    assert found == [(518, "x"), (884, "y"), (91, "x"), (264, "y")]


def test_steps_are_even_or_of_even_ratio() -> None:
    even = {"from": "1us", "to": "3us", "steps": 3}
    ratio = {"from": "64MiB", "to": "1GiB", "steps": 5, "scale": "log"}
    found = study({"store.read_latency": even, "hybrid.cache.capacity": ratio})
    assert found.parameters[0].values.values == ("1us", "2us", "3us")
    assert found.parameters[1].values.values == ("64MiB", "128MiB", "256MiB", "512MiB", "1GiB")


def test_a_path_is_passed_by_in_machines_without_the_part() -> None:
    found = points(
        ts.study(
            ["hybrid/quick", "storage/quick", ts.system("oracle/quick")],
            ["gups"],
            {"dram": {"paths": ["hybrid.cache.capacity", "oracle.capacity"], "values": ["1GiB"]}},
        )
    )
    specs = [point.machine.to_dict() for point in found]
    assert specs[0]["hybrid"]["cache"]["capacity"] == specs[2]["oracle"]["capacity"] == "1GiB"
    assert found[1].machine == ts.system("storage/quick")


def test_a_change_is_as_set_makes_it() -> None:
    (point,) = points(study({"dram.part": ["ddr4-2400-8gb-x8"]}))
    from tierscope._system import systems

    (expected,) = systems(["hybrid/quick"], [("dram.part", "ddr4-2400-8gb-x8")])
    assert point.machine == expected


def test_too_many_points_are_refused_before_they_are_made() -> None:
    many = {"from": 1, "to": 100000, "steps": 1000}
    asked = {"hybrid.cache.ways": many, "workload.updates": many}
    with pytest.raises(ts.SpecError, match="it has 1000000 points"):
        points(study(asked))
