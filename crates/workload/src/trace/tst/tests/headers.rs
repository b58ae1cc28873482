//! Laws of headers, and of the windows that they say.

use super::*;
use crate::filter::FilterSpec;
use crate::op::{Buffer, MOST_DEPENDENCE, NO_FILE};
use crate::windows::WindowSpec;
use std::collections::HashSet;

#[test]
fn a_recording_of_windows_counts_what_lies_between_them() {
    let scratch = Scratch::new();
    let windows = WindowSpec::new(1000, 10_000).unwrap();
    assert_eq!(windows.start_accesses, 10_000);
    let metadata = TstMetadata { windows: Some(windows), ..metadata() };
    let mut writer = TstWriter::create(&scratch.file(), &metadata).unwrap();
    let ops: Vec<Op> = (0..100_000).map(|at| Op::load(at * 8, 8, 3)).collect();
    ops.chunks(777).for_each(|piece| writer.append(0, piece).unwrap());
    let totals = writer.finish("exit status 0").unwrap();
    assert_eq!((totals.loads, totals.instructions), (19_000, 57_000));
    let skipped = SkippedTotals { windows: 9, loads: 81_000, stores: 0, instructions: 243_000 };
    assert_eq!(totals.skipped, Some(skipped));
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!((reader.metadata(), reader.totals()), (&metadata, Some(&totals)));
    let replayed = replay(&mut reader, 0).unwrap();
    let mut first = Vec::new();
    Call::Skip { instructions: 13_500, loads: 4500, stores: 0 }.encode(0, &mut first);
    let (start, replayed) = replayed.split_at(10_000);
    assert_eq!(start, &ops[..10_000]);
    assert_eq!(replayed[..first.len()], first);
    let used = (1250..1813).map(|line| Op::used(64 * line, false));
    let told: Vec<Op> = replayed[first.len()..][..563].to_vec();
    assert_eq!(told.iter().collect::<HashSet<_>>(), used.collect::<Vec<_>>().iter().collect());
    assert_eq!(replayed[first.len() + 563], ops[14_500]);
    let whole = std::fs::read(scratch.file()).unwrap();
    let unsaid = r#"{"command":[],"tierscope_version":"0","recorder":"x"}"#;
    std::fs::write(scratch.file(), with_header(&whole, VERSION, unsaid)).unwrap();
    let refused = TstReader::open(&scratch.file(), false).err().unwrap().to_string();
    assert!(refused.contains("it passes over a part of the program, and the header says of no"));
}

#[test]
fn a_header_that_contradicts_its_version_or_names_no_filter_is_refused() {
    let scratch = Scratch::new();
    record(&scratch.file(), [100, 10], 50);
    let whole = std::fs::read(scratch.file()).unwrap();
    let filter = |size: u64, ways: u64| {
        format!(r#","filter":{{"capacity_bytes":{size},"ways":{ways},"line_bytes":64}}"#)
    };
    let windows = |window: u64, period: u64| {
        format!(r#","windows":{{"window_accesses":{window},"period_accesses":{period}}}"#)
    };
    let whole_start =
        r#","windows":{"window_accesses":1000,"period_accesses":2000,"start_accesses":2000}"#;
    let sites = r#","sites":"function""#.to_owned();
    let sound = filter(32 << 10, 8);
    for (version, more, refused) in [
        (1, sites.clone(), "it tells sites, which version 1 has not"),
        (1, sound.clone(), "it has a filter, which comes with version 3"),
        (2, String::new(), "it is of version 2, and says of no sites"),
        (2, format!("{sites}{sound}"), "it has a filter, which comes with version 3"),
        (3, String::new(), "it is of version 3, and says of no filter"),
        (3, sites, "it is of version 3, and says of no filter"),
        (3, filter(32 << 10, 0), "there is no filter of 32KiB, 0 ways"),
        (4, filter(0, 8), "there is no filter of 0B, 8 ways"),
        (4, filter(u64::MAX, 8), "there is no filter of"),
        (4, windows(1000, 2000), "it holds windows, which come with version 5"),
        (5, windows(1000, 1000), "there are no windows of 1000 of each 1000 accesses"),
        (5, windows(0, 1000), "there are no windows of 0 of each 1000 accesses"),
        (
            5,
            whole_start.into(),
            "the start is whole (`windows.start_accesses`), which comes with version 6",
        ),
        (
            6,
            r#","windows":[]"#.into(),
            "`windows` is [], and is to be an object with window_accesses, ",
        ),
        (
            6,
            r#","windows":[1000,2000,0]"#.into(),
            "`windows` is [1000,2000,0], and is to be an object",
        ),
        (
            6,
            windows(1000, 2000).replace("2000", "-1"),
            "`windows.period_accesses` is -1, and is to be a whole",
        ),
        (
            6,
            r#","windows":{"window_accesses":1000}"#.into(),
            "`windows.period_accesses` is missing",
        ),
        (2, r#","sites":"line""#.into(), "`sites` is \"line\", and is to be function or address"),
        (
            4,
            r#","filter":"32KiB""#.into(),
            "`filter` is \"32KiB\", and is to be an object with capacity_",
        ),
        (4, r#","cut"#.into(), "it is no JSON (line 1, column "),
    ] {
        let metadata = format!(r#"{{"command":[],"tierscope_version":"0","recorder":"x"{more}}}"#);
        std::fs::write(scratch.file(), with_header(&whole, version, &metadata)).unwrap();
        for allow_truncated in [false, true] {
            let error = TstReader::open(&scratch.file(), allow_truncated).err().unwrap();
            let told = error.to_string();
            assert!(told.contains(refused), "{version} {metadata}: {told}");
        }
    }
}

/// A recording of 100,000 loads in windows of 1000 in 10,000.
fn windows_of(path: &Path, spec: WindowSpec, filter: Option<FilterSpec>) -> TstTotals {
    let metadata = TstMetadata { windows: Some(spec), filter, ..metadata() };
    let mut writer = TstWriter::create(path, &metadata).unwrap();
    let ops: Vec<Op> = (0..100_000).map(|at| Op::load(at % 5000 * 8, 8, 3)).collect();
    ops.chunks(777).for_each(|piece| writer.append(0, piece).unwrap());
    writer.finish("exit status 0").unwrap()
}

/// Its header says these windows, and is as long as it was.
fn with_windows(whole: &[u8], version: u32, spec: Option<WindowSpec>) -> Vec<u8> {
    let said = serde_json::to_string(&TstMetadata { windows: spec, ..metadata() }).unwrap();
    with_header(whole, version, &format!("{said:width$}", width = u32_at(whole, 12) as usize))
}

#[test]
fn windows_that_are_not_those_of_the_content_are_refused() {
    let scratch = Scratch::new();
    let right = WindowSpec::new(1000, 10_000).unwrap();
    let totals = windows_of(&scratch.file(), right, None);
    let whole = std::fs::read(scratch.file()).unwrap();
    let told = |bytes: &[u8], allow_truncated| {
        std::fs::write(scratch.file(), bytes).unwrap();
        TstReader::open(&scratch.file(), allow_truncated).map(|_| ()).map_err(|it| it.to_string())
    };
    assert_eq!(told(&with_windows(&whole, VERSION, Some(right)), false), Ok(()));
    for wrong in [
        WindowSpec { window_accesses: 1001, ..right },
        WindowSpec::new(1000, 20_000).unwrap(),
        WindowSpec::new(1000, 10_001).unwrap(),
        WindowSpec { start_accesses: 0, ..right },
    ] {
        for allow_truncated in [false, true] {
            let error = told(&with_windows(&whole, VERSION, Some(wrong)), allow_truncated);
            let error = error.unwrap_err();
            assert!(
                error.contains(&format!("it says of windows of {wrong}, the first")),
                "{error}"
            );
            assert!(error.ends_with("nothing of it can be replayed: record it again"), "{error}");
        }
    }
    let skipped = totals.skipped.unwrap();
    for (windows, loads) in [(skipped.windows + 1, skipped.loads), (skipped.windows, u64::MAX)] {
        let skipped = SkippedTotals { windows, loads, ..skipped };
        let forged = with_totals(&whole, &TstTotals { skipped: Some(skipped), ..totals.clone() });
        assert!(told(&forged, false).unwrap_err().contains("the header is damaged"));
    }
    for (instructions, wrong) in
        [(0, "between windows, and no instructions"), (u64::MAX, "more than a program can do")]
    {
        let skipped = SkippedTotals { instructions, ..skipped };
        let forged = with_totals(&whole, &TstTotals { skipped: Some(skipped), ..totals.clone() });
        let error = told(&forged, false).unwrap_err();
        assert!(error.contains(wrong), "{error}");
    }
    // Loads that are told to be stores, and instructions: only what the blocks hold tells.
    let SkippedTotals { loads, stores, instructions, .. } = skipped;
    for (skipped, what) in [
        (SkippedTotals { loads: loads - 7, stores: stores + 7, ..skipped }, "loads"),
        (SkippedTotals { instructions: instructions + 1, ..skipped }, "instructions"),
    ] {
        let forged = with_totals(&whole, &TstTotals { skipped: Some(skipped), ..totals.clone() });
        std::fs::write(scratch.file(), &forged).unwrap();
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        let error = replay(&mut reader, 0).unwrap_err().to_string();
        assert!(error.contains(&format!("{what} between windows, and the blocks have")), "{error}");
        let damage = TstReader::open(&scratch.file(), true).unwrap().damage().cloned().unwrap();
        assert!(damage.what.contains("between windows"), "{}", damage.what);
    }
    for (spec, of) in
        [(None, "no windows, and the totals do"), (Some(right), "windows, and the totals")]
    {
        let skipped = totals.skipped.filter(|_| spec.is_none());
        let forged = with_totals(&whole, &TstTotals { skipped, ..totals.clone() });
        let error = told(&with_windows(&forged, VERSION, spec), false).unwrap_err();
        assert!(error.contains(&format!("it says of {of}")), "{error}");
    }
}

/// Threads, a filter, and an end in the middle change nothing about how many accesses windows have.
#[test]
fn what_is_written_says_windows_that_are_there() {
    let scratch = Scratch::new();
    let filter = FilterSpec::new(Size::from_bytes(32 << 10)).unwrap();
    for (window, period) in [(1000, 1001), (1000, 99_999), (1000, 100_000), (3000, 1_000_000)] {
        for filter in [None, Some(filter)] {
            windows_of(&scratch.file(), WindowSpec::new(window, period).unwrap(), filter);
            TstReader::open(&scratch.file(), false).unwrap();
        }
    }
}

#[test]
fn operations_of_later_versions_are_damage_in_earlier_ones() {
    let scratch = Scratch::new();
    let right = WindowSpec { start_accesses: 0, ..WindowSpec::new(1000, 10_000).unwrap() };
    windows_of(&scratch.file(), right, None);
    let whole = std::fs::read(scratch.file()).unwrap();
    std::fs::write(scratch.file(), with_windows(&whole, WINDOWS_VERSION, Some(right))).unwrap();
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    let told = replay(&mut reader, 0).unwrap_err().to_string();
    assert!(told.contains("block 0 at byte"), "{told}");
    assert!(told.contains("it tells what was used between windows, which comes with version 6"));
    let reader = TstReader::open(&scratch.file(), true).unwrap();
    assert_eq!((reader.damage().unwrap().block, reader.operations()), (0, 0));
}

#[test]
fn calls_that_came_with_version_7_are_refused_in_earlier_recordings() {
    let scratch = Scratch::new();
    let further = [Buffer { address: 1 << 20, length: 9 }];
    let read = Call::Read { file: 0, offset: 0, length: 20, address: 4096 };
    let copy = Call::CopyRange { source: 0, source_offset: 1, file: 0, offset: 2, length: 3 };
    let plain = Call::Unlink { file: 0, size: 7 };
    for (call, buffers, is_new) in
        [(read, &further[..], true), (copy, &[], true), (plain, &[], false)]
    {
        let mut ops = Vec::new();
        call.encode_with(buffers, 3, &mut ops);
        let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
        writer.append(0, &ops).unwrap();
        writer.finish("exit status 0").unwrap();
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        assert_eq!(reader.version(), VERSION);
        assert_eq!(replay(&mut reader, 0).unwrap(), ops);
        let whole = std::fs::read(scratch.file()).unwrap();
        let header = serde_json::to_string(&metadata()).unwrap();
        std::fs::write(scratch.file(), with_header(&whole, 6, &header)).unwrap();
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        assert_eq!(reader.version(), 6);
        let replayed = replay(&mut reader, 0);
        assert_eq!(replayed.is_err(), is_new, "{call:?}: {replayed:?}");
    }
}

/// Recordings of each call are read, and refused with `reason` where the header says `before`.
fn are_refused_before(before: u32, calls: &[Call], reason: &str) {
    for call in calls {
        let mut ops = Vec::new();
        call.encode(3, &mut ops);
        is_refused_before(before, &ops, reason);
    }
}

/// A recording of these operations is read, and refused with `reason` where the header says `before`.
fn is_refused_before(before: u32, ops: &[Op], reason: &str) {
    let scratch = Scratch::new();
    let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
    writer.append(0, ops).unwrap();
    writer.finish("exit status 0").unwrap();
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!(replay(&mut reader, 0).unwrap(), ops);
    let whole = std::fs::read(scratch.file()).unwrap();
    let header = serde_json::to_string(&metadata()).unwrap();
    std::fs::write(scratch.file(), with_header(&whole, before, &header)).unwrap();
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    let told = replay(&mut reader, 0).unwrap_err().to_string();
    assert!(told.contains(reason), "{told}");
}

#[test]
fn calls_on_names_are_refused_in_recordings_before_version_8() {
    let within = Call::Within { file: 0, parent: 1, size: 0 };
    let rename = Call::Rename { file: 0, parent: 1, replaced: NO_FILE, size: 0, names: 0 };
    let list = Call::ReadDirectory { file: 1, length: 4096 };
    let calls = [within, rename, list, Call::MakeDirectory { file: 1, parent: NO_FILE }];
    are_refused_before(FILES_VERSION, &calls, "which come with version 8");
}

#[test]
fn advice_on_files_and_locks_are_refused_in_recordings_before_version_9() {
    let (address, length) = (4096, 8192);
    let calls = [
        Call::AdviseFile { file: 0, offset: 1, length, advice: 4 },
        Call::Lock { address, length, flags: 0 },
        Call::Unlock { address, length },
        Call::LockAll { process: 0, flags: 3 },
        Call::Populate { address, length, how: 1 },
        Call::Protect { address, length, flags: 2 },
    ];
    are_refused_before(NAMES_VERSION, &calls, "which come with version 9");
}

#[test]
fn calls_that_ask_of_files_are_refused_in_recordings_before_version_10() {
    let exists = Call::Exists { file: 0, parent: 1, size: 0, directory: 0 };
    are_refused_before(ADVICE_VERSION, &[exists, Call::Stat { file: 0 }], "come with version 10");
}

#[test]
fn accesses_that_depend_on_loads_before_the_last_are_refused_in_recordings_before_version_11() {
    for back in 2..=u64::from(MOST_DEPENDENCE) {
        let ops = [Op::load(64, 8, 1), Op::store(128, 8, 1).depending_on(back)];
        is_refused_before(STAT_VERSION, &ops, "which version 11 tells");
    }
}
