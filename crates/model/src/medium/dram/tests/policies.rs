//! The controller's policies: order, drain, forwarding, rows, background.

use super::*;

/// Ids in the order of completion.
fn order(spec: &DramSpec, requests: &[(u64, Request)]) -> Vec<u32> {
    let mut out = Vec::new();
    play(&mut Dram::new(spec, CAPACITY, 64), requests, &mut out);
    out.iter().map(|completion| completion.id).collect()
}

#[test]
fn a_hit_passes_an_older_conflict_until_that_is_aged() {
    let row = ways(&calm()).next_row;
    let requests = [(0, read(0, 0)), (0, read(1, row)), (0, read(2, 64)), (0, read(3, 128))];
    assert_eq!(order(&calm(), &requests), [0, 2, 3, 1]);
    let fair = DramSpec { age_cap: ps(0), ..calm() };
    assert_eq!(order(&fair, &requests), [0, 1, 2, 3]);
}

#[test]
fn no_stream_of_hits_starves_a_conflict() {
    let spec = DramSpec { age_cap: ps(300_000), ..calm() };
    let row = ways(&spec).next_row;
    let mut requests = vec![(0, read(0, 0)), (0, read(1, row))];
    requests.extend((2..2_000).map(|i| (0, read(i, u64::from(i % 16) * 64))));
    let all = run(Dram::new(&spec, CAPACITY, 64), &requests);
    assert!(all[1].stages.total_ps() < 300_000 + 200_000, "{}", all[1].stages.total_ps());
}

#[test]
fn reads_pass_writes_until_many_wait_and_then_few_are_left() {
    let spec = DramSpec { write_high: 20, write_low: 10, age_cap: ps(1 << 40), ..calm() };
    let bank = ways(&spec).next_bank;
    let mut requests: Vec<_> = (0..60).map(|i| (0, read(i, u64::from(i % 16) * 64))).collect();
    // Rows of 16 lines.
    let row = ways(&spec).next_row;
    let place = |i: u32| bank + u64::from(i / 16) * row + u64::from(i % 16) * 64;
    requests.extend((60..85).map(|i| (0, write(i, place(i)))));
    requests.extend((100..160).map(|i| (0, read(i, u64::from(i % 16) * 64))));
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    dram.start_log();
    play(&mut dram, &requests, &mut Vec::new());
    let log = dram.take_log(0, true);
    let mut runs: Vec<(standard::Command, u32)> = Vec::new();
    for logged in log.iter().filter(|logged| logged.command.is_column()) {
        match runs.last_mut() {
            Some((command, count)) if *command == logged.command => *count += 1,
            _ => runs.push((logged.command, 1)),
        }
    }
    // All come at once: 25 writes wait, so that they go first until ten are left; then all reads.
    assert_eq!(runs.len(), 3, "{runs:?}");
    assert_eq!(runs[0], (standard::Command::Write, 15));
    assert_eq!(runs[1].0, standard::Command::Read);
    assert_eq!(runs[2], (standard::Command::Write, 10));
}

#[test]
fn a_write_that_is_aged_goes_ahead_of_reads() {
    let spec = DramSpec { age_cap: ps(600_000), ..calm() };
    let bank = ways(&spec).next_bank;
    let mut requests = vec![(0, Request { bytes: 2 * LINE, ..write(0, bank) })];
    requests.extend((1..500).map(|i| (0, read(i, u64::from(i % 16) * 64))));
    let all = run(Dram::new(&spec, CAPACITY, 64), &requests);
    let latency_ps = all[0].stages.total_ps();
    assert!((600_000..700_000).contains(&latency_ps), "{latency_ps}");
}

#[test]
fn writes_without_a_pause_starve_no_read_nor_reads_writes() {
    for part in parts() {
        // With and without a write that is past its age.
        for age_cap in [ps(0), ps(1 << 40)] {
            let spec = DramSpec {
                write_queue_depth: 64,
                write_high: 54,
                write_low: 32,
                ..calm_part(part)
            };
            let mut dram = Dram::new(&DramSpec { age_cap, ..spec }, CAPACITY, 64);
            let random = Counter::stream(7, "lines");
            let place = |id: u32| random.at(u64::from(id)) % (1 << 24) * 64;
            let (mut id, mut now_ps, mut out, mut latencies_ps) = (0, 0, Vec::new(), Vec::new());
            let mut reads = true;
            while latencies_ps.len() < 1_000 {
                while dram.submit(now_ps, write(id, place(id))).is_ok() {
                    id += 1;
                }
                assert!(id < 1 << 20, "{part}, {age_cap:?}: writes alone");
                if std::mem::take(&mut reads) {
                    dram.submit(now_ps, read(u32::MAX, place(!id)))
                        .expect("no other read is there");
                }
                now_ps = dram.next_event_ps().expect("writes wait");
                dram.advance(now_ps, &mut out);
                for completion in out.drain(..).filter(|completion| completion.id == u32::MAX) {
                    latencies_ps.push(completion.stages.total_ps());
                    reads = true;
                }
            }
            let worst_ps = latencies_ps.iter().max().expect("reads were answered");
            assert!(*worst_ps < 2_000_000, "{part}, {age_cap:?}: {worst_ps} ps");
            assert!(id > 1_000, "{part}, {age_cap:?}: {id} writes");
        }
    }
}

#[test]
fn a_read_gets_the_data_of_a_write_that_waits() {
    let spec = calm();
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    let mut out = Vec::new();
    // A read that keeps reads in front; then a write, and a read of what it writes.
    play(&mut dram, &[(0, read(0, 4096)), (1, write(1, 0)), (2, read(2, 0))], &mut out);
    assert_eq!(dram.counts().forwarded_lines, 1);
    let by_id = |id| out.iter().find(|completion| completion.id == id).expect("it is answered");
    assert_eq!(by_id(2).at_ps, 3_002);
    assert_eq!(by_id(1).at_ps, 3_001, "the write was taken for good");
    assert_eq!(dram.moved_bytes(), (2 * 64, 64));
    // A write of many lines is not answered before it is written: the read follows it.
    let row = Request { bytes: 1024, ..write(0, 0) };
    assert_eq!(order(&spec, &[(0, row), (1, read(1, 64))]), [0, 1]);
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    play(&mut dram, &[(0, row), (1, read(1, 64))], &mut Vec::new());
    assert_eq!(dram.counts().forwarded_lines, 0);
}

#[test]
fn what_touches_the_same_line_keeps_its_order() {
    let page = |id, write| Request { bytes: PAGE, write, ..read(id, 0) };
    // A write behind a read of the page, and a read of the page behind that write.
    let requests =
        [(0, page(0, false)), (0, page(1, true)), (0, page(2, false)), (0, page(3, true))];
    assert_eq!(order(&calm(), &requests), [0, 1, 2, 3]);
    let mut dram = Dram::new(&calm(), CAPACITY, 64);
    dram.start_log();
    play(&mut dram, &requests, &mut Vec::new());
    let columns = dram.take_log(0, true);
    let turns = columns
        .iter()
        .filter(|logged| logged.command.is_column() && logged.bank == 0)
        .map(|logged| logged.command)
        .fold(Vec::new(), |mut turns: Vec<_>, command| {
            if turns.last() != Some(&command) {
                turns.push(command);
            }
            turns
        });
    use standard::Command::{Read, Write};
    assert_eq!(turns, [Read, Write, Read, Write]);
}

#[test]
fn rows_are_closed_as_the_policy_says() {
    let row = ways(&calm()).next_row;
    let later = |policy, row_timeout, gap_ps, address| {
        let spec = DramSpec { page_policy: policy, row_timeout, ..calm() };
        clocks(&spec, &[(0, read(0, 0)), (gap_ps, read(1, address))])
    };
    let (hit, closed, conflict) = (14, 24, 34);
    assert_eq!(later(PagePolicy::Open, None, LATER_PS, 64), hit);
    assert_eq!(later(PagePolicy::Open, None, LATER_PS, row), conflict);
    assert_eq!(later(PagePolicy::Closed, None, LATER_PS, 64), closed);
    assert_eq!(later(PagePolicy::Closed, None, LATER_PS, row), closed);
    assert_eq!(later(PagePolicy::Closed, None, 0, 64), hit + 14, "who waits is served before");
    let after = Some(ps(300_000));
    assert_eq!(later(PagePolicy::Timeout, after, 250_000, 64), hit);
    assert_eq!(later(PagePolicy::Timeout, after, 250_000, row), conflict);
    assert_eq!(later(PagePolicy::Timeout, after, 400_000, 64), closed);
    assert_eq!(later(PagePolicy::Timeout, after, 400_000, row), closed);
}

#[test]
fn an_adaptive_policy_learns_whether_rows_are_wanted_again() {
    let (row, adaptive) = (ways(&calm()).next_row, PagePolicy::Adaptive);
    let spec = DramSpec { page_policy: adaptive, ..calm() };
    // One by one: so many clocks takes the last of these rows.
    let last = |rows: &[u64]| {
        let place = |(i, n): (usize, &u64)| (i as u64 * LATER_PS, read(i as u32, n * row + 64));
        clocks(&spec, &rows.iter().enumerate().map(place).collect::<Vec<_>>())
    };
    let (hit, closed, conflict) = (14, 24, 34);
    assert_eq!(last(&[0, 0]), hit, "at first rows stay open");
    assert_eq!(last(&[0, 1]), conflict);
    assert_eq!(last(&[0, 1, 2]), closed, "another was wanted");
    assert_eq!(last(&[0, 1, 2, 3, 3]), closed);
    assert_eq!(last(&[0, 1, 2, 3, 3, 3, 3]), hit, "the same was wanted twice");
    assert_eq!(last(&[0, 1, 1, 1, 2]), conflict);
}

#[test]
fn demand_waits_for_little_of_the_background() {
    let spec = calm();
    let background =
        |i: u32| Request { bytes: PAGE, background: true, ..read(i, u64::from(i) * 4096) };
    let requests: Vec<_> =
        (0..8).map(|i| (0, background(i))).chain([(100_500, read(8, 1 << 30))]).collect();
    let all = run(Dram::new(&spec, CAPACITY, 64), &requests);
    let latency = (all[8].at_ps - 100_500 - 3_000) / 1_500;
    // Its bank may be at work for the background: the row is open for tRAS, then it is closed; the
    // others may have used up tFAW, and their bursts be in its way.
    assert!(latency <= 24 + 34 + 20 + 2 * 4, "{latency} clocks");
    // Writes are turned around for it.
    let requests: Vec<_> = (0..7)
        .map(|i| (0, Request { write: true, ..background(i) }))
        .chain([(100_500, read(8, 1 << 30))])
        .collect();
    let eager = DramSpec { write_high: 512, ..spec };
    let all = run(Dram::new(&eager, CAPACITY, 64), &requests);
    let latency = (all[7].at_ps - 100_500 - 3_000) / 1_500;
    assert!(latency <= 24 + 7 + 4 + 10 + 34 + 20 + 2 * 4, "{latency} clocks");
}

#[test]
fn background_is_not_starved() {
    let spec = DramSpec { read_queue_depth: 32, ..calm() };
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    let mut out = Vec::new();
    let mut id = 1;
    let mut now_ps = 0;
    let row = ways(&spec).next_row;
    dram.submit(0, read(u32::MAX, 0)).expect("room");
    dram.submit(0, Request { background: true, ..read(0, row) }).expect("room");
    // Demand for the same bank that keeps the queue full, for as long as it takes.
    while !out.iter().any(|completion: &Completion| completion.id == 0) {
        while dram.submit(now_ps, read(id, u64::from(id % 16) * 64)).is_ok() {
            id += 1;
        }
        now_ps = dram.next_event_ps().expect("the queue is full");
        dram.advance(now_ps, &mut out);
        assert!(id < 400, "{id} requests have passed a single one in the background");
    }
}

#[test]
fn a_log_changes_nothing() {
    for part in parts() {
        let spec = DramSpec { ranks: 2, ..DramSpec::of_part(part, 1) };
        let requests: Vec<_> = random_lines(30)
            .map(|(at_ps, request)| {
                let page = request.id.is_multiple_of(5);
                let address = request.address % (1 << 20);
                let (address, bytes) =
                    if page { (address / 4096 * 4096, PAGE) } else { (address, LINE) };
                let background = request.id.is_multiple_of(3);
                (at_ps * 16, Request { address, bytes, background, ..request })
            })
            .take(4_000)
            .collect();
        let mut plain = Dram::new(&spec, CAPACITY, 64);
        let mut logged = plain.clone();
        logged.start_log();
        let (mut without, mut with) = (Vec::new(), Vec::new());
        play(&mut plain, &requests, &mut without);
        play(&mut logged, &requests, &mut with);
        // Without a log, column commands of a row are given many at once.
        assert_eq!(without, with, "{part}");
        assert_eq!(plain.counts(), logged.counts(), "{part}");
    }
}

/// The times of completion of pages at random, four in flight, each replaced when it is done.
fn closed_loop(mut dram: Dram, write: bool, fine_ps: Option<u64>) -> Vec<(u32, u64)> {
    let random = Counter::stream(5, "pages");
    let (mut out, mut all, mut now_ps, mut sent) = (Vec::new(), Vec::new(), 0, 0u32);
    while all.len() < 3_000 {
        while dram.in_flight() < 4 {
            let address = random.at(u64::from(sent)) % (1 << 24) * 4096;
            let page = Request { bytes: PAGE, write, ..read(sent, address) };
            dram.submit(now_ps, page).expect("room");
            sent += 1;
        }
        let next_ps = dram.next_event_ps().expect("four are in flight");
        now_ps = fine_ps.map_or(next_ps, |fine_ps| next_ps.min(now_ps + fine_ps));
        dram.advance(now_ps, &mut out);
        all.extend(out.drain(..).map(|completion| (completion.id, completion.at_ps)));
    }
    all
}

#[test]
fn pages_take_the_same_time_however_many_bursts_are_given_at_once() {
    for part in ["ddr3-1333-2gb-x8", "ddr4-2400-8gb-x8", "hbm2-2000-8gb"] {
        for write in [false, true] {
            let row = Some(Size::from_bytes(1024));
            let spec = DramSpec {
                row,
                read_queue_depth: 512,
                write_queue_depth: 512,
                ..DramSpec::of_part(part, 4)
            };
            let dram = Dram::new(&spec, CAPACITY, 64);
            let mut logged = dram.clone();
            logged.start_log();
            let plain = closed_loop(dram.clone(), write, None);
            let fine = closed_loop(dram, write, Some(3_000));
            assert_eq!(plain, fine, "{part}, written: {write}: time cut finely");
            assert_eq!(plain, closed_loop(logged, write, None), "{part}, written: {write}: logged");
        }
    }
}

/// Rows that were closed without a column command since they had been opened, of all that were opened.
fn opened_in_vain(spec: &DramSpec) -> (u64, u64) {
    use standard::Command::*;
    let mut dram = Dram::new(spec, CAPACITY, 64);
    dram.start_log();
    let requests: Vec<_> = random_lines(30).collect();
    play(&mut dram, &requests, &mut Vec::new());
    let (mut unused, mut in_vain, mut opened) = (vec![false; 1 << 10], 0, 0);
    for logged in dram.take_log(0, true) {
        let bank = (logged.rank << 5 | logged.bank) as usize;
        match logged.command {
            Activate => (unused[bank], opened) = (true, opened + 1),
            Precharge => in_vain += u64::from(std::mem::take(&mut unused[bank])),
            command if command.is_column() => unused[bank] = false,
            _ => {}
        }
    }
    (in_vain, opened)
}

#[test]
fn no_turn_closes_a_row_before_it_was_used() {
    for part in ["ddr3-1333-2gb-x8", "ddr4-2400-8gb-x8", "ddr5-4800-16gb-x8"] {
        for (high, low) in [(40, 20), (4, 0), (500, 0)] {
            let spec = DramSpec { write_high: high, write_low: low, ..calm_part(part) };
            let patient = DramSpec { age_cap: ps(1 << 50), ..spec.clone() };
            let (in_vain, opened) = opened_in_vain(&patient);
            assert!(in_vain == 0 && opened > 5_000, "{part}, {high}: {in_vain} of {opened}");
            // Who is past his age waits for nobody: so many would be seen.
            let (in_vain, opened) = opened_in_vain(&DramSpec { age_cap: ps(0), ..spec });
            assert!(in_vain > 0, "{part}, {high}: none of {opened}");
        }
    }
}
