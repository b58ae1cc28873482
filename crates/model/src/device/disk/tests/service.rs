//! Order of service, buffer, flushes.

use super::*;
use tierscope_kernel::Random;

/// Random reads or writes, `depth` of them at a time: how many a second, and the disk.
fn rate(spec: &DiskSpec, depth: usize, count: usize, write: bool) -> (f64, Disk) {
    let mut disk = Disk::new(spec);
    let pages = spec.capacity.bytes() / 4096;
    let (mut random, mut out) = (Random::stream(1, "rate"), Vec::new());
    let (mut sent, mut done, mut now_ps) = (0, 0, 0);
    while done < count {
        while sent < count && sent - done < depth {
            disk.submit(now_ps, access(sent as u32, random.below(pages), write));
            sent += 1;
        }
        now_ps = disk.next_event_ps().expect("something is under way");
        disk.advance(now_ps, &mut out);
        done += out.drain(..).count();
    }
    (count as f64 / now_ps as f64 * 1e12, disk)
}

#[test]
fn the_way_decides_who_is_next_and_age_bounds_it() {
    let order = |window, age_limit| {
        let mut spec = plain();
        (spec.window, spec.age_limit) = (window, age_limit);
        let mut disk = Disk::new(&spec);
        // Pages of the first track: 7 comes first, then 6 a little too late, and so on.
        for (token, page) in [7, 5, 3, 1].into_iter().enumerate() {
            disk.submit(0, access(token as u32, page, false));
        }
        wait(&mut disk, 4).iter().map(|done| done.token).collect::<Vec<_>>()
    };
    assert_eq!(order(32, us(500_000)), [3, 2, 1, 0], "as they pass below the head");
    assert_eq!(order(1, us(500_000)), [0, 1, 2, 3], "as they came");
    assert_eq!(order(2, us(500_000)), [1, 0, 3, 2], "of the two that wait longest");
    // Page 1 is done at 2.5 ms; after that, all have waited longer than a millisecond.
    assert_eq!(order(32, us(1000)), [3, 0, 1, 2]);
}

#[test]
fn more_commands_at_a_time_are_served_faster() {
    let spec = plain();
    let rates = [1, 4, 16, 32].map(|depth| rate(&spec, depth, 2000, false).0);
    assert!(rates.is_sorted(), "{rates:?}");
    // 32 at a time halve the way, and then some.
    assert!(rates[3] / rates[0] > 1.8, "{rates:?}");
    let mut in_order = plain();
    in_order.window = 1;
    let deep = rate(&in_order, 32, 2000, false).0;
    assert!((deep / rates[0] - 1.0).abs() < 0.05, "without a choice, depth wins nothing: {deep}");
}

#[test]
fn nothing_waits_much_longer_than_the_age_limit() {
    let mut spec = plain();
    spec.age_limit = us(100_000);
    let mut disk = Disk::new(&spec);
    // The last page, while the first tracks are read over and over.
    disk.submit(0, access(u32::MAX, 600, false));
    let (mut out, mut sent, mut now_ps) = (Vec::new(), 0, 0);
    let at_ps = loop {
        while sent < 2000 && disk.held.len() < 8 {
            disk.submit(now_ps, access(sent, u64::from(sent) % 61 * 3 % 61, false));
            sent += 1;
        }
        now_ps = disk.next_event_ps().expect("something is under way");
        disk.advance(now_ps, &mut out);
        if let Some(done) = out.drain(..).find(|done| done.token == u32::MAX) {
            break done.at_ps;
        }
    };
    assert!((100 * MS..140 * MS).contains(&at_ps), "{at_ps}");
    assert!(disk.counts.aged > 0);
}

#[test]
fn what_lies_behind_a_read_is_read_ahead_and_no_further() {
    let mut disk = Disk::new(&spec());
    let first_ps = one(&mut disk, 0, 0, false);
    assert_eq!(settle(&mut disk), first_ps + 4 * TURN / 8, "four pages: 16 KiB");
    assert_eq!((disk.counts.platter_reads, disk.counts.read_ahead), (5, 4));
    // They come from the buffer, and what lies behind the last of them is read on.
    let at_ps = one(&mut disk, TURN * 9, 4, false);
    assert_eq!((at_ps - TURN * 9, disk.counts.buffer_hits), (100_000_000, 1));
    settle(&mut disk);
    assert_eq!(disk.counts.read_ahead, 8);
    assert!(!disk.segments.holds(9) && disk.segments.holds(8));
}

#[test]
fn a_page_that_is_being_read_ahead_is_waited_for_and_not_read_again() {
    let mut disk = Disk::new(&spec());
    let first_ps = one(&mut disk, 0, 0, false);
    // Page 1 passes while it is asked for.
    let at_ps = one(&mut disk, first_ps + 1000, 1, false);
    assert_eq!(at_ps, first_ps + TURN / 8);
    assert_eq!(disk.counts.platter_reads, 2);
}

#[test]
fn a_write_is_done_in_the_buffer_until_that_is_full() {
    let mut spec = spec();
    spec.buffer.dirty = Size::from_bytes(3 * 4096);
    let mut disk = Disk::new(&spec);
    for page in 0..5 {
        disk.submit(0, access(page as u32, page * 50, true));
    }
    let done = wait(&mut disk, 5);
    let at_ps: Vec<_> = done.iter().map(|done| done.at_ps).collect();
    assert_eq!(at_ps[..3], [100_000_000; 3], "three fit");
    assert!(at_ps[3] > MS && at_ps[4] > at_ps[3], "the others wait for the platters");
    settle(&mut disk);
    assert_eq!((disk.counts.platter_writes, disk.dirty.len()), (5, 0));
}

#[test]
fn data_in_the_buffer_are_read_from_there_and_written_once() {
    let mut disk = Disk::new(&spec());
    // The mechanism is busy far away.
    disk.submit(0, access(9, 600, false));
    for token in 0..3 {
        disk.submit(0, access(token, 7, true));
    }
    disk.submit(0, access(3, 7, false));
    let done = wait(&mut disk, 5);
    assert_eq!(done.iter().filter(|done| done.at_ps == 100_000_000).count(), 4);
    settle(&mut disk);
    assert_eq!(disk.counts.platter_writes, 1);
}

#[test]
fn a_write_cache_makes_a_queue_of_single_writes() {
    let mut cached = spec();
    cached.buffer.dirty = Size::from_bytes(256 << 10);
    let (with, disk) = rate(&cached, 1, 3000, true);
    assert!(disk.dirty.len() > 60, "it is full");
    let (without, _) = rate(&plain(), 1, 3000, true);
    assert!(with / without > 1.8, "{with} and {without}");
}

#[test]
fn a_flush_waits_for_what_was_written_before_and_nothing_else() {
    let mut disk = Disk::new(&spec());
    for page in 0..4 {
        disk.submit(0, access(page, u64::from(page) * 40, true));
    }
    disk.submit_control(0, 10, PageControl::Flush);
    // Right behind the last page that was written before it.
    disk.submit(0, access(5, 121, true));
    let mut out = Vec::new();
    let flushed = loop {
        let at_ps = disk.next_event_ps().expect("the flush ends");
        disk.advance(at_ps, &mut out);
        if out.iter().any(|done| done.token == 10) {
            break disk.counts.platter_writes;
        }
    };
    let left: Vec<_> = disk.dirty.iter().copied().collect();
    assert!((4..=5).contains(&flushed));
    assert!(left.iter().all(|&page| page == 121), "{left:?}");
    // With nothing to write, it ends at once.
    settle(&mut disk);
    disk.submit_control(TURN * 90, 11, PageControl::Flush);
    disk.submit_control(TURN * 90, 12, PageControl::Trim { first: 0, count: 8 });
    let done = wait(&mut disk, 2);
    assert!(done.iter().all(|done| done.at_ps == TURN * 90 + 100_000_000));
}

#[test]
fn what_was_read_before_a_write_is_not_read_after_it() {
    for cache in [false, true] {
        let mut spec = spec();
        spec.buffer.write_cache = cache;
        let mut disk = Disk::new(&spec);
        let now_ps = one(&mut disk, 0, 0, false);
        settle(&mut disk);
        assert!(disk.segments.holds(2));
        one(&mut disk, now_ps + TURN * 3, 2, true);
        settle(&mut disk);
        assert!(!disk.segments.holds(2) && disk.segments.holds(3));
        let reads = disk.counts.platter_reads;
        one(&mut disk, now_ps + TURN * 9, 2, false);
        assert_eq!(disk.counts.platter_reads, reads + 1, "it is read anew");
    }
}

#[test]
fn a_forced_write_is_answered_when_the_platters_have_it_and_others_from_the_buffer() {
    let mut disk = Disk::new(&spec());
    assert!(disk.follow_contents(Weaknesses::default()));
    let write = |token: u32, page, content, force_unit_access| {
        let plain = access(token, page, true);
        PageAccess { content, force_unit_access, ..plain }
    };
    disk.submit(0, write(0, 7, 1, false));
    disk.submit(0, write(1, 9, 2, true));
    let done = wait(&mut disk, 2);
    assert_eq!(done.iter().map(|one| one.token).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(done[0].at_ps, 100_000_000, "the controller alone");
    assert!(done[1].at_ps > TURN / 64, "the platters: {}", done[1].at_ps);
    assert_eq!(disk.content(9), 2);
    assert_eq!(done[1].stages.total_ps(), done[1].at_ps);
}

/// Pages are written again and again; power fails at every event.
#[test]
fn what_is_in_the_buffer_is_lost_and_what_was_flushed_or_forced_is_on_the_platters() {
    let mut disk = Disk::new(&spec());
    assert!(disk.follow_contents(Weaknesses::default()));
    let (mut random, mut out) = (Random::stream(4, "disk.power"), Vec::new());
    let (mut now_ps, mut kept, mut lost) = (0, 0, 0);
    // Of each page: what was answered last, and the newest that is promised.
    let (mut answered, mut promised) = ([0; 16], [0; 16]);
    let mut asked: Vec<(u64, u64, bool)> = Vec::new();
    let mut flush: Option<[u64; 16]> = None;
    for turn in 1..400u64 {
        if turn % 40 == 0 && flush.is_none() {
            disk.submit_control(now_ps, u32::MAX, PageControl::Flush);
            flush = Some(answered);
        } else {
            let (page, forced) = (random.below(16), random.below(8) == 0);
            // Nobody writes a page that is on its way.
            if asked.iter().all(|(other, ..)| *other != page) {
                let plain = access(turn as u32, page, true);
                let with = PageAccess { content: turn, force_unit_access: forced, ..plain };
                disk.submit(now_ps, with);
                asked.push((page, turn, forced));
            }
        }
        now_ps = disk.next_event_ps().expect("something is under way");
        disk.advance(now_ps, &mut out);
        for done in out.drain(..) {
            let Some(at) = asked.iter().position(|(_, token, _)| *token == u64::from(done.token))
            else {
                let flushed = flush.take().expect("a flush is under way");
                promised.iter_mut().zip(flushed).for_each(|(it, other)| *it = other.max(*it));
                continue;
            };
            let (page, content, forced) = asked.remove(at);
            answered[page as usize] = content;
            promised[page as usize] = if forced { content } else { promised[page as usize] };
        }
        let mut fork = disk.fork();
        let outage = fork.cut_power(now_ps);
        lost += outage.lost_pages;
        for (page, promised) in (0..).zip(promised) {
            let found = fork.content(page);
            assert!(found >= promised, "page {page} at {now_ps}: {found}, {promised} promised");
            let may_differ = outage.touched.contains(&page);
            assert!(may_differ || found == answered[page as usize], "page {page} at {now_ps}");
            kept += u64::from(found > 0);
        }
        // It goes on: what is written then is there.
        fork.submit(now_ps, PageAccess { content: 1000, ..access(0, 3, true) });
        fork.submit_control(now_ps, 1, PageControl::Flush);
        assert_eq!(wait(&mut fork, 2).len(), 2);
        assert_eq!(fork.content(3), 1000);
    }
    assert!(lost > 1000 && kept > 1000, "{lost} {kept}");
}
