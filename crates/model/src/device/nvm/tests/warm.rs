//! Functional warming against the same accesses in detail.

use super::*;
use crate::medium::nvm::NvmCounts;
use crate::request::Manner;
use proptest::prelude::*;

fn kinds() -> Vec<NvmSpec> {
    let rows = NvmArraySpec { row: Size::from_bytes(1024), row_buffers: 2, ..buffered().array };
    let wear = NvmWearSpec { gap_interval: 3, randomized: true, ..no_levelling() };
    vec![
        spec(),
        NvmSpec { wear: wear.clone(), ..spec() },
        buffered(),
        NvmSpec { array: rows, wear, ..buffered() },
    ]
}

proptest! {
    /// Accesses one by one leave the same in buffer and cells, whether each takes its time or none.
    #[test]
    fn it_leaves_what_the_same_accesses_leave_one_by_one(
        accesses in proptest::collection::vec((0..64u64, any::<bool>()), 1..300),
    ) {
        for spec in kinds() {
            let [mut detail, mut warm] = [0; 2].map(|_| NvmDevice::new(&spec, &link()));
            let (mut now_ps, mut out) = (0, Vec::new());
            for (turn, &(line, write)) in accesses.iter().enumerate() {
                let request =
                    Request { id: 0, address: line * 64, bytes: 64, write, background: false };
                if turn % 3 == 0 {
                    // In detail, up to its answer: lines that leave the buffer may be on their way.
                    warm.submit(now_ps, request).expect("no more is in flight than fits");
                    let (mut at_ps, mut answers) = (now_ps, Vec::new());
                    while answers.is_empty() {
                        at_ps = warm.next_event_ps().expect("it is under way").max(at_ps);
                        warm.advance(at_ps, &mut answers);
                    }
                } else {
                    warm.warm(now_ps, request, Manner::default());
                }
                detail.submit(now_ps, request).expect("nothing is in flight");
                while let Some(next_ps) = detail.next_event_ps() {
                    detail.advance(next_ps, &mut out);
                    now_ps = next_ps;
                }
            }
            warm.advance(u64::MAX, &mut out);
            let left = |device: &NvmDevice| {
                let nvm = device.device();
                // A line that waits for its pulse may be written again, or read, before.
                let counts = nvm.array.counts();
                let counts =
                    NvmCounts { pulse_ps: 0, paused_writes: 0, cancelled_writes: 0, ..counts };
                (nvm.buffer.as_ref().map(Buffer::counts), counts, nvm.array.wear(), nvm.host_writes)
            };
            prop_assert_eq!(left(&warm), left(&detail), "{:?}", spec);
        }
    }
}
