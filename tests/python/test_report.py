"""What a terminal shows of a result."""

from __future__ import annotations

from itertools import pairwise

import pytest
import tierscope as ts
from conftest import DATA
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tierscope import format as fmt
from tierscope import report, table
from tierscope._shape import ResultData
from tierscope.breakdown import GROUPS, apportion, grouped

_PARTS = st.lists(st.floats(min_value=0, max_value=1e18), min_size=1, max_size=12)


@given(_PARTS.filter(lambda parts: sum(parts) > 0), st.integers(min_value=1, max_value=40))
def test_rows_are_shared_out_whole_and_within_one_of_the_exact_share(
    parts: list[float], rows: int
) -> None:
    given_out = apportion(parts, rows)
    assert sum(given_out) == rows
    total = sum(parts)
    for part, height in zip(parts, given_out, strict=True):
        assert abs(height - part / total * rows) < 1 + 1e-6


def test_parts_without_a_sum_are_refused() -> None:
    with pytest.raises(ValueError, match="no positive sum"):
        apportion([0.0, 0.0], 4)


def test_each_owner_of_time_is_in_one_group() -> None:
    owners = [owner for group in GROUPS for owner in group.owners]
    assert len(owners) == len(set(owners))


def test_what_waits_for_the_store_is_not_the_operating_systems() -> None:
    times = {"host_queue": 5.0, "medium": 2.0, "driver": 1.0, "busy": 1.0}
    of = {group.label: time for group, time in grouped(times)}
    assert of == {"busy": 1.0, "operating system": 1.0, "store": 7.0}


def test_fills_are_distinct_so_that_columns_read_without_colour() -> None:
    assert len({group.fill for group in GROUPS}) == len(GROUPS)
    assert len({group.ascii_fill for group in GROUPS}) == len(GROUPS)
    assert all(group.ascii_fill.isascii() for group in GROUPS)


def test_an_owner_that_no_group_knows_keeps_its_time() -> None:
    times = {"busy": 1.0, "warp_drive": 3.0}
    assert sum(time for _, time in grouped(times)) == 4.0
    assert grouped(times)[-1][0].label == "other"


def test_the_report_is_as_reviewed(sample: ResultData) -> None:
    """`python tests/python/test_report.py` writes the golden file anew."""
    assert ts.Result(sample).report() == (DATA / "three-systems.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_of_the_report_is_wider_than_the_terminal(sample: ResultData, width: int) -> None:
    lines = ts.Result(sample).report(width).splitlines()
    assert max(map(len, lines)) <= width


def test_no_figure_is_cut_however_short_the_names_are(sample: ResultData) -> None:
    sample["systems"] = {name[0]: system for name, system in sample["systems"].items()}
    plain = report.render(sample, Console(width=80), by=["area"]).plain
    assert "1.80 s  27%" in plain
    assert "…" not in plain


def test_systems_that_do_not_fit_side_by_side_follow_below(sample: ResultData) -> None:
    narrow = ts.Result(sample).report(60)
    assert narrow.count("Execution time") == 2
    assert narrow.index("oracle/quick") > narrow.index("Where the threads' time goes")


def test_a_terminal_of_ascii_gets_ascii(sample: ResultData) -> None:
    sample["systems"]["storage/quick"]["notes"] = []
    console = Console(width=80)
    assert report.render(sample, console, unicode=False).plain.isascii()


def test_a_partial_result_says_why(sample: ResultData) -> None:
    sample["completeness"] = "partial"
    sample["partial_reason"] = "the run was interrupted"
    assert "Partial: the run was interrupted." in report.closing_lines(sample)


def test_what_is_not_known_is_not_shown_as_zero(sample: ResultData) -> None:
    sample["systems"]["oracle/quick"]["latency_ns"] = None
    rows = dict(table.rows(sample))
    assert rows["  median"]["oracle/quick"] == "–"


def test_threads_that_idle_are_told_where_it_matters(sample: ResultData) -> None:
    assert "Threads idle" not in dict(table.rows(sample)), "50 ms of seven seconds"
    times = sample["systems"]["storage/quick"]["time_breakdown_ns"]
    times["idle"] = sum(times.values()) - times["idle"]
    row = dict(table.rows(sample))["Threads idle"]
    assert row == {"hybrid/quick": "0 %", "storage/quick": "50.0 %", "oracle/quick": "0 %"}


def test_what_threads_stood_still_for_is_told_by_area(sample: ResultData) -> None:
    plain = report.render(sample, Console(width=80)).plain
    assert "stood still" not in plain
    told = report.render(sample, Console(width=80), by=["area"]).plain.splitlines()
    start = next(i for i, line in enumerate(told) if line.startswith("Threads stood still for"))
    database, heap, total, store = told[start + 1 : start + 5]
    assert database.split()[0] == "test.db"
    assert "800 ms" in database
    assert "1.80 s  27%" in database
    assert heap.split()[-1] == "–"
    assert total.split()[:2] == ["all", "together"]
    assert store == "Accesses and calls that waited for the store"


if __name__ == "__main__":
    import json

    data = json.loads((DATA / "three-systems.json").read_text(encoding="utf-8"))
    (DATA / "three-systems.txt").write_text(ts.Result(data).report(), encoding="utf-8")


def test_rows_that_tell_nothing_are_left_out_and_what_is_0_is_not_absent() -> None:
    work = ts.workload("random", requests=300, size="4KiB", reads=1.0)
    mixed = ts.compare(["device/z-ssd/quick", "device/optane-dimm", "device/disk-7200"], work)
    told = dict(table.rows(mixed.data))
    assert len(told) == len({label for label, _ in table.rows(mixed.data)}), "no label twice"
    empty = [label for label, cells in told.items() if set(cells.values()) == {"–"}]
    assert all(nxt.startswith("  ") for label, nxt in pairwise(told) if label in empty), (
        "but for the heads of those below"
    )
    assert "Write amplification, of pages" not in told, "nothing was written"
    buffers = [label for label in told if label.startswith("Reads from the ")]
    assert buffers == [
        "Reads from the drive's buffer",
        "Reads from the memory's buffer",
        "Reads from the disk's buffer",
    ]
    assert "0 %" in told["Reads from the memory's buffer"].values()


def test_write_amplification_is_told_for_pages_and_for_bytes_from_the_host() -> None:
    work = ts.workload("gups", updates=3000, table="16MiB")
    result = ts.run("ull/quick", work)
    drive = result["ull/quick"]["drive"]
    assert drive is not None
    programmed = drive["flushed_pages"] + drive["moved_pages"] + drive["padded_pages"]
    written = result["ull/quick"]["store_bytes"]["written"]
    each = drive["flash_bytes_per_host_byte"]
    assert each is not None
    assert each == pytest.approx(programmed * drive["page_bytes"] / written)
    told = dict(table.rows(result.data))
    assert told["  of bytes from the host"] != told["Write amplification, of pages"]


def test_guesses_of_misses_have_rows_where_machines_guess() -> None:
    sets = [("hybrid.cache.capacity", "7MiB"), ("dram.channels", "1")]
    guessing = ts.system("hybrid/alloy/quick").with_sets(sets)
    work = ts.workload("gups", updates=20000, table="16MiB")
    result = ts.compare([guessing, "oracle/quick"], work)
    counters = result["hybrid/alloy/quick"]["counters"]
    wrong = counters["predicted_misses_that_hit"] + counters["predicted_hits_that_missed"]
    assert 0 < wrong < counters["predicted_reads"]
    told = dict(table.rows(result.data))
    right = told["Reads guessed right"]
    assert right["hybrid/alloy/quick"].endswith("%")
    assert right["oracle/quick"] == "–"
    wasted = told["  reads of the store in vain"]["hybrid/alloy/quick"]
    assert wasted == str(counters["wasted_store_reads"])
    plain = ts.run("oracle/quick", ts.workload("gups", updates=300, table="1MiB"))
    assert "Reads guessed right" not in dict(table.rows(plain.data))


def test_what_fills_a_dram_cache_has_rows_where_not_every_miss_does() -> None:
    sets = [("hybrid.cache.capacity", "1MiB"), ("processor.caches.L3.capacity", "320KiB")]
    sets += [("hybrid.cache.sector", "64B"), ("hybrid.prefetch_pages", "0")]
    filled = ts.system("hybrid/quick").with_sets([*sets, ("hybrid.cache.fill", "victims")])
    work = ts.workload("gups", updates=3000, table="4MiB")
    result = ts.run(filled, work)
    counters = result["hybrid/quick"]["counters"]
    assert 0 < counters["clean_victims_kept"] <= counters["clean_victims"]
    told = dict(table.rows(result.data))
    for label, name in [
        ("Reads past the DRAM cache", "reads_past_cache"),
        ("  lines written around it", "writes_around_cache"),
        ("  clean lines offered to it", "clean_victims"),
        ("  that it kept", "clean_victims_kept"),
    ]:
        assert told[label]["hybrid/quick"] == fmt.count(counters[name])
    plain = ts.run("hybrid/quick", ts.workload("gups", updates=300, table="1MiB"))
    assert "Reads past the DRAM cache" not in dict(table.rows(plain.data))


def test_switches_and_trims_have_rows_where_there_are_any() -> None:
    sets = [("processor.cores", "1"), ("processor.caches.L3.capacity", "960KiB")]
    work = ts.workload("chase", threads=2)
    result = ts.run(ts.system("cxl-ssd/switching/quick").with_sets(sets), work, limit=20_000)
    switches = result["cxl-ssd/switching/quick"]["counters"]["long_read_switches"]
    told = dict(table.rows(result.data))
    label = "Switches away from reads of flash"
    assert switches > 0
    assert told[label]["cxl-ssd/switching/quick"] == fmt.count(switches)
    assert "Pages that the host has trimmed" not in told
    discards = ts.system("storage/ext4").with_sets([("storage.file_system.discard", "true")])
    mail = ts.workload("filebench/varmail", files=50, threads=4, loops=20, memory="1MiB")
    result = ts.run(discards, mail)
    drive = result["storage/ext4"]["drive"]
    assert drive is not None
    assert drive["trimmed_pages"] > 0
    told = dict(table.rows(result.data))
    trimmed = fmt.count(drive["trimmed_pages"])
    assert told["Pages that the host has trimmed"]["storage/ext4"] == trimmed
    assert label not in told


def test_calls_on_files_have_rows_where_there_were_any() -> None:
    result = ts.run("storage/quick", ts.workload("filebench/varmail", files=40, threads=2, loops=2))
    system = result["storage/quick"]
    told = table.rows(result.data)
    at = [label for label, _ in told].index("Syncs")
    sync = system["calls"]["sync"]
    cells = {label: cells["storage/quick"] for label, cells in told[at : at + 4]}
    group, most = max(grouped(sync["stages_ns"]), key=lambda part: part[1])
    share = most / sync["latency_ns"]["mean"]
    assert share > 0.2
    assert cells == {
        "Syncs": fmt.count(sync["count"]),
        "  mean": fmt.nanoseconds(sync["latency_ns"]["mean"]),
        "  most of it": f"{group.label}, {fmt.percent(share)}",
        "  99th percentile": fmt.nanoseconds(sync["latency_ns"]["p99"]),
    }
    # Two threads, two loops, each with two mails that are written and synced.
    assert (sync["count"], sync["bytes"]) == (8, 0)
    assert sync["time_ns"] == pytest.approx(8 * sync["latency_ns"]["mean"])
    for one in system["calls"].values():
        assert sum(one["stages_ns"].values()) == pytest.approx(one["latency_ns"]["mean"])
    row = result.to_polars().row(0, named=True)
    assert row["call_read_count"] == system["calls"]["read"]["count"]
    assert row["call_read_bytes"] == system["counters"]["file_read_bytes"]
    assert row["call_sync_latency_p999_ns"] == sync["latency_ns"]["p999"]
    assert row["call_sync_stage_medium_ns"] == sync["stages_ns"]["medium"] > 0
    plain = ts.run("oracle/quick", ts.workload("gups", updates=300, table="1MiB"))
    assert "calls" not in plain["oracle/quick"]
    assert not {"Reads by calls", "Syncs"} & set(dict(table.rows(plain.data)))


def test_what_cores_prefetched_has_rows_where_they_did() -> None:
    ahead = (
        '{ kind = "stream", degree = 2, distance = 20, trackers = 32, outstanding = 16, '
        'into = "private" }'
    )
    both = [
        ts.system("oracle/quick"),
        ts.system("oracle/quick").with_sets([("processor.prefetch", ahead), ("name", "ahead")]),
    ]
    result = ts.compare(both, ts.workload("mmap-benchmark/seq-read"), limit=200_000)
    told, counters = dict(table.rows(result.data)), result["ahead"]["counters"]
    assert counters["line_prefetches"] > counters["memory_reads"] > 0
    assert told["Lines prefetched by cores"] == {
        "oracle/quick": "0",
        "ahead": fmt.count(counters["line_prefetches"]),
    }
    late = told["  accesses came before they did"]["ahead"]
    assert late == fmt.count(counters["line_prefetches_late"])
    assert told["Lines read on demand"]["ahead"] == fmt.count(counters["memory_reads"])
    plain = ts.run("oracle/quick", ts.workload("gups", updates=300, table="1MiB"))
    assert "Lines prefetched by cores" not in dict(table.rows(plain.data))


def test_what_cores_were_told_of_unmapped_memory_has_rows_where_any_was() -> None:
    small = ts.system("storage/quick").with_sets([("storage.dram_capacity", "16MiB")])
    result = ts.run(small, ts.workload("gups", updates=300, table="32MiB", threads=2, touched=True))
    counters = result["storage/quick"]["counters"]
    assert counters["shootdown_interrupts"] > 0
    told = dict(table.rows(result.data))
    assert told["Translations taken back"]["storage/quick"] == fmt.count(counters["tlb_shootdowns"])
    interrupted = told["  cores interrupted for them"]["storage/quick"]
    assert interrupted == fmt.count(counters["shootdown_interrupts"])
    plain = ts.run("oracle/quick", ts.workload("gups", updates=300, table="1MiB", threads=2))
    assert "Translations taken back" not in dict(table.rows(plain.data))


def test_journals_and_tag_caches_have_rows_where_machines_have_them() -> None:
    system = (
        '{ kind = "ext4", journal = "ordered", commit_interval = "1ms", journal_capacity = "4MiB", '
        'barrier = "flush", timestamp_interval = "4ms" }'
    )
    journal = ts.system("storage/quick").with_sets([("storage.file_system", system)])
    tags = {"tags": "dram", "tag_cache.capacity": "64KiB", "tag_cache.ways": "8"}
    sets = [(f"hybrid.cache.{key}", value) for key, value in tags.items()]
    cached = ts.system("hybrid/quick").with_sets(sets)
    work = ts.workload("filebench/varmail", files=40, threads=2, loops=2)
    result = ts.compare([journal, cached, "oracle/quick"], work)
    told = dict(table.rows(result.data))
    commits = result["storage/quick"]["counters"]["journal_commits"]
    assert commits > 0
    assert told["Commits of the journal"] == {
        "storage/quick": str(commits),
        "hybrid/quick": "–",
        "oracle/quick": "–",
    }
    assert told["Tags found on chip"]["hybrid/quick"].endswith("%")
    assert told["Tags found on chip"]["storage/quick"] == "–"
    plain = ts.run("oracle/quick", ts.workload("gups", updates=300, table="1MiB"))
    assert not {"Commits of the journal", "Tags found on chip"} & set(dict(table.rows(plain.data)))
    # What has no effect is told.
    notes = result["storage/quick"]["notes"]
    assert any("storage.file_system.barrier has no effect" in note for note in notes)


def test_a_drive_tells_what_its_link_sends_and_in_which_state_it_begins() -> None:
    work = ts.workload("random", requests=200)
    both = ts.compare(["device/z-ssd/quick", "device/slc"], work)
    told = {label.strip(): cells for label, cells in table.rows(both.data)}
    counters = both["device/z-ssd/quick"]["counters"]
    assert counters["nvme_doorbells"] > 0
    assert told["NVM Express doorbells"] == {
        "device/z-ssd/quick": fmt.count(counters["nvme_doorbells"]),
        "device/slc": "–",
    }
    assert told["interrupts"]["device/z-ssd/quick"] == fmt.count(counters["nvme_interrupts"])
    assert told["interrupts held back, sum"]["device/z-ssd/quick"] == "0 s"
    state = "the drive's flash is in the steady state of a full drive that is written at random"
    assert f"device/z-ssd/quick: {state}" in " ".join(both.report(width=200).split())
    assert both["device/slc"]["notes"] == []
    erased = ts.system("device/z-ssd/quick").replace(ssd={"initial": "erased"})
    (_, note) = ts.run(erased, work)["device/z-ssd/quick"]["notes"]
    assert note == "the drive's flash is erased when the run begins (ssd.initial)"


def test_the_block_layer_has_rows_where_a_machine_has_one() -> None:
    layer = '{ scheduler = "mq-deadline" }'
    layered = ts.system("storage/quick").with_sets([("storage.block_layer", layer)])
    work = ts.workload("filebench/webserver", files=40, threads=2, loops=2)
    result = ts.compare([layered, "oracle/quick"], work)
    counters = result["storage/quick"]["counters"]
    assert counters["block_pages"] > counters["block_requests"] > 0
    told = dict(table.rows(result.data))
    assert told["Requests of the block layer"] == {
        "storage/quick": fmt.count(counters["block_requests"]),
        "oracle/quick": "–",
    }
    mean = counters["block_pages"] / counters["block_requests"]
    assert told["  pages of a request, mean"]["storage/quick"] == fmt.plain(mean)
    plain = ts.run("storage/quick", ts.workload("gups", updates=300, table="1MiB"))
    assert "Requests of the block layer" not in dict(table.rows(plain.data))


def test_pages_that_are_promoted_have_rows_and_the_threshold_that_was_reached() -> None:
    small = ts.system("flatflash-m/quick").with_sets(
        [("tiered.promotion.most_threshold", "3"), ("tiered.promotion.capacity", "1MiB")]
    )
    result = ts.run(small, ts.workload("gups", updates=20000, table="4MiB"))
    counters = result["flatflash-m/quick"]["counters"]
    told = dict(table.rows(result.data))
    assert counters["promoted_pages"] > counters["demoted_pages"] > 0
    assert 1 <= counters["promotion_threshold_least"] <= counters["promotion_threshold"] <= 3
    for label, key in [
        ("Pages moved to DRAM", "promoted_pages"),
        ("  moved out of it", "demoted_pages"),
        ("  accesses before a page moves, at the end", "promotion_threshold"),
        ("  the fewest", "promotion_threshold_least"),
    ]:
        assert told[label] == {"flatflash-m/quick": fmt.count(counters[key])}
    assert "  faults of these" not in told


def test_huge_pages_have_rows_where_a_machine_makes_some() -> None:
    sets = [("os.transparent_huge_pages", "always"), ("storage.dram_capacity", "48MiB")]
    small = ts.system("storage/quick").with_sets(sets)
    workload = ts.workload("gups", updates=3000, table="64MiB", touched=True)
    result = ts.run(small, workload)
    huge = result["storage/quick"]["counters"]
    plain = ts.run("oracle/quick", ts.workload("gups", updates=300, table="1MiB"))
    told = dict(table.rows(result.data))
    assert huge["huge_page_faults"] > 0
    assert huge["huge_page_swap_outs"] + huge["huge_page_splits"] > 0
    assert "huge_page_faults" not in plain["oracle/quick"]["counters"]
    for label, key in [
        ("Faults that made a huge page", "huge_page_faults"),
        ("  that found no room for one", "huge_page_fallbacks"),
        ("  huge pages swapped out whole", "huge_page_swap_outs"),
        ("  huge pages split", "huge_page_splits"),
    ]:
        assert told[label]["storage/quick"] == fmt.count(huge[key])


def test_two_nodes_of_memory_have_rows_and_say_where_one_was_enough() -> None:
    small = ts.system("cxl-tiering/quick").with_sets([("tiering.capacity", "32MiB")])
    result = ts.run(small, ts.workload("gups", updates=3000, table="64MiB", touched=True))
    counters = result["cxl-tiering/quick"]["counters"]
    told = dict(table.rows(result.data))
    assert counters["protected_pages"] > 0
    for label, key in [
        ("Pages moved to DRAM", "promoted_pages"),
        ("  entries taken away to find them", "protected_pages"),
    ]:
        assert told[label] == {"cxl-tiering/quick": fmt.count(counters[key])}
    enough = ts.run("cxl-tiering/quick", ts.workload("gups", updates=300, table="1MiB"))
    words = " ".join(enough.report(width=200).split())
    assert "the run tells nothing of the memory behind it." in words
    plain = ts.run("oracle/quick", ts.workload("gups", updates=300, table="1MiB"))
    assert "Pages moved to DRAM" not in dict(table.rows(plain.data))
