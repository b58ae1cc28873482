//! The hybrid's options on a whole machine: what docs/models/hybrid.md says of them.

use super::support::*;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call};

/// Pages that the program writes, and later reads.
const WANTED: u64 = 64;
/// Pages that come between and push them out of DRAM, which holds 256.
const OTHERS: u64 = 1024;

const SMALL_CACHE: Sets<'static> =
    &[("hybrid.cache.capacity", "1MiB"), ("hybrid.prefetch_pages", "0")];

/// Writes pages, has them pushed out, gives `advice` on them, works for a while, and reads another
/// line of each.
fn come_back(advice: Advice) -> Vec<Op> {
    let mut ops = vec![];
    for page in 0..WANTED + OTHERS {
        ops.push(Op::store(ANONYMOUS + page * PAGE, 8, 10));
    }
    let (address, length) = (ANONYMOUS, WANTED * PAGE);
    ops.extend(call(Call::Advise { address, length, advice: advice as u64 }));
    ops.push(Op::compute(20_000_000));
    let lines: Vec<u64> = (0..WANTED).map(|page| ANONYMOUS + page * PAGE + 1024).collect();
    ops.extend(chase(&lines, 10));
    ops
}

#[test]
fn what_a_program_says_it_will_need_is_there_when_it_does() {
    let spec = system("hybrid/quick", &[SMALL_CACHE, SMALL_L3]);
    let [normal, told] =
        [Advice::Normal, Advice::WillNeed].map(|advice| run(&spec, &[come_back(advice)]));
    assert_eq!(normal.counter("prefetched_pages"), 0);
    assert_eq!(told.counter("prefetched_pages"), WANTED);
    assert_eq!(told.counter("prefetch_hits"), WANTED);
    // Each of them is a read of the store, 25 us, that is not waited for.
    let saved_ps = normal.time_ps - told.time_ps;
    assert!(saved_ps > (WANTED - 4) * 25_000_000, "{saved_ps} ps");
}

#[test]
fn an_oracle_needs_nothing_brought() {
    let spec = system("oracle/quick", &[]);
    let [normal, told] =
        [Advice::Normal, Advice::WillNeed].map(|advice| run(&spec, &[come_back(advice)]));
    assert_eq!(normal.time_ps, told.time_ps);
}

#[test]
fn sectors_bring_less_and_read_the_same_data() {
    let lines: Vec<u64> = (0..4_000).map(|i| ANONYMOUS + mixed(i) % (512 * PAGE)).collect();
    let touched = every(PAGE, 512).into_iter().map(|address| Op::store(address, 8, 10));
    let random = lines.iter().enumerate().map(|(i, line)| {
        let address = line & !7;
        if i % 3 == 0 { Op::store(address, 8, 10) } else { Op::load(address, 8, 10) }
    });
    let ops: Vec<Op> = touched.chain(random).collect();
    let checked: Sets<'_> = &[("check_data", "true")];
    let with = |sector: Sets<'_>| {
        let spec = system("hybrid/quick", &[SMALL_CACHE, SMALL_L3, checked, sector]);
        run(&spec, &[ops.clone(), ops.clone()])
    };
    let whole = with(&[]);
    let parts = with(&[("hybrid.cache.sector", "512B")]);
    let [whole_read, parts_read] = [&whole, &parts].map(|sums| sums.result.store_bytes.read);
    assert!(parts_read * 2 < whole_read, "{parts_read} B of {whole_read}");
    assert!(parts.result.store_bytes.written < whole.result.store_bytes.written);
}
