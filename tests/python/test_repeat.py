"""Repetitions: means, confidence, and what is kept."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import jsonschema
import pytest
import tierscope as ts
from conftest import Runner
from tierscope import _repeat

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "repetitions.schema.json").read_text(
        encoding="utf-8"
    )
)
SHORT = ("-w", "gups", "--set", "workload.updates=300", "--set", "workload.table=8MiB")


def gups() -> ts.Generated:
    work = ts.workload("gups", updates=300, table="8MiB", seed=5)
    assert isinstance(work, ts.Generated)
    return work


@pytest.mark.parametrize(
    ("degrees", "expected"),
    # Two-sided 95 %, from any printed table of Student's t.
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)],
)
def test_student_t_is_that_of_the_tables(degrees: int, expected: float) -> None:
    assert _repeat.student_t(degrees) == pytest.approx(expected, abs=6e-4)


def test_means_and_confidence_are_those_of_the_runs() -> None:
    kept = ts.repeat(["hybrid/quick", "oracle/quick"], gups(), 4)
    assert kept.data["seeds"] == [5, 6, 7, 8]
    assert kept.complete
    alone = [
        ts.run("hybrid/quick", ts.workload("gups", updates=300, table="8MiB", seed=seed))
        for seed in (5, 6, 7, 8)
    ]
    times = [one["hybrid/quick"]["time_s"] for one in alone]
    found = kept["hybrid/quick"]["time_s"]
    assert found["values"] == times
    assert found["mean"] == pytest.approx(statistics.fmean(times))
    assert found["standard_deviation"] == pytest.approx(statistics.stdev(times))
    assert found["half_width"] == pytest.approx(3.182 * statistics.stdev(times) / 2, rel=1e-3)
    assert found["standard_deviation"] > 0, "the seeds do differ"
    jsonschema.validate(kept.data, SCHEMA)


def test_the_confidence_interval_holds_the_mean_as_often_as_it_says() -> None:
    import random

    draws, within = random.Random(1), 0
    for _ in range(2000):
        figure = _repeat._figure([draws.gauss(10, 3) for _ in range(4)])
        within += abs(figure["mean"] - 10) <= figure["half_width"]
    # 95 % of 2000 are 1900; five standard deviations are 49.
    assert abs(within - 1900) < 49, within


def test_the_table_shows_means_with_half_widths(tierscope: Runner) -> None:
    shown = tierscope("run", "-s", "hybrid/quick,oracle/quick", *SHORT, "--repeat", "3")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0] == "gups: 3 runs, seeds 0 to 2"
    assert lines[2].split() == ["hybrid/quick", "oracle/quick"]
    (time,) = [line for line in lines if line.startswith("Execution time")]
    assert time.count("±") == 2
    assert "95 % confidence" in shown.stdout


def test_repetitions_are_kept_and_shown_again(tierscope: Runner, tmp_path: Path) -> None:
    run = ("run", "-s", "hybrid/quick", *SHORT, "--repeat", "2", "-o", "kept")
    first = tierscope(*run)
    assert first.returncode == 0, first.stderr
    held = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert held == ["repetition-1", "repetition-2", "repetitions.json"]
    assert tierscope("show", "kept").stdout == first.stdout
    assert tierscope("show", "kept/repetition-2").stdout.startswith("gups: 1 thread")
    assert tierscope(*run).returncode == 0, "earlier repetitions are replaced"
    (tmp_path / "kept" / "precious").write_text("mine", encoding="utf-8")
    refused = tierscope(*run)
    assert refused.returncode == 125
    assert refused.stderr.startswith("error[foreign-directory]")
    assert (tmp_path / "kept" / "precious").is_file()


def test_where_one_result_is_meant_repetitions_say_that_they_are_several(
    tierscope: Runner, tmp_path: Path
) -> None:
    run = ("run", "-s", "hybrid/quick", *SHORT, "--repeat", "2")
    for name in ("before", "after"):
        assert tierscope(*run, "-o", name).returncode == 0
    refused = tierscope("compare", "before", "after")
    assert (refused.returncode, refused.stdout) == (125, "")
    one = Path("before", "repetition-1")
    assert refused.stderr.splitlines()[0].startswith(
        "error[several-results]: before holds repetitions, not one result"
    )
    assert f"name one of them, such as {one}" in refused.stderr
    compared = tierscope("compare", str(one), str(Path("after", "repetition-1")))
    assert compared.returncode == 0, compared.stderr
    with pytest.raises(ts.TierscopeError, match="holds repetitions") as raised:
        ts.load(tmp_path / "before")
    assert raised.value.code == "several-results"


def test_a_program_runs_each_time(tierscope: Runner, tmp_path: Path) -> None:
    program = ("--", "sh", "-c", "echo x >> runs; exit 3")
    shown = tierscope("run", "-s", "oracle/quick", "--repeat", "2", "--json", *program)
    assert shown.returncode == 3, "the status is the program's"
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "x\nx\n"
    data = json.loads(shown.stdout)
    jsonschema.validate(data, SCHEMA)
    assert (data["runs"], data["seeds"]) == (2, None)


def test_an_interrupted_run_is_not_counted() -> None:
    work = gups()
    whole, cut = ts.run("oracle/quick", work), ts.run("oracle/quick", work)
    cut.data["completeness"], cut.data["partial_reason"] = "partial", "the run was interrupted"
    kept = ts.Repetitions([whole, whole, cut], 5)
    assert (kept.data["runs"], kept.data["counted"]) == (3, 2)
    assert not kept.complete
    assert "2 of 5 repetitions were run to their end" in str(kept.data["partial_reason"])
    jsonschema.validate(kept.data, SCHEMA)
    alone = ts.Repetitions([cut], 5)
    assert alone["oracle/quick"]["time_s"]["half_width"] is None
    assert "±" not in alone.table()
    assert math.isfinite(alone["oracle/quick"]["time_s"]["mean"])
    jsonschema.validate(alone.data, SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--repeat", "1", *SHORT), "impossible-value", "from 2 to"),
        (("--repeat", "x", *SHORT), "usage", "--repeat"),
        (("--repeat", "2", "-w", "trace:app.tst"), "no-effect", "the same, to the last digit"),
        (("--repeat", "2", *SHORT, "--seed", str(2**64 - 1)), "impossible-value", "largest"),
    ],
)
def test_what_cannot_be_repeated_is_refused(
    tierscope: Runner, arguments: tuple[str, ...], code: str, said: str
) -> None:
    refused = tierscope("run", "-s", "oracle/quick", *arguments)
    assert (refused.returncode, refused.stdout) == (125, "")
    assert refused.stderr.startswith(f"error[{code}]: "), refused.stderr
    assert said in refused.stderr
