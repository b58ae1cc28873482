//! Where lines lie: channel, bank, and line of the bank.

use super::NvmArraySpec;

/// Where a line lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its channel.
    pub channel: usize,
    /// Its bank, among those of the channel.
    pub bank: usize,
    /// Its number in the bank, before wear levelling.
    pub line: u64,
}

/// How lines are dealt to channels and banks.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    channels: u64,
    banks: u64,
    /// Lines that follow each other in a channel, and in a bank.
    channel_run: u64,
    bank_run: u64,
}

impl Places {
    /// The places of a description that has been checked.
    pub fn new(spec: &NvmArraySpec) -> Self {
        Places {
            channels: u64::from(spec.channels),
            banks: u64::from(spec.banks),
            channel_run: spec.channel_interleave.bytes() / spec.line.bytes(),
            bank_run: spec.bank_interleave.bytes() / spec.line.bytes(),
        }
    }

    /// Where line `number` lies.
    #[inline]
    pub fn of(&self, number: u64) -> Place {
        let (channel, line) = deal(number, self.channels, self.channel_run);
        let (bank, line) = deal(line, self.banks, self.bank_run);
        Place { channel: channel as usize, bank: bank as usize, line }
    }
}

/// Deals `number` to `many`, in runs of `run`: to whom, and its number there.
#[inline]
fn deal(number: u64, many: u64, run: u64) -> (u64, u64) {
    let (turn, within) = (number / run, number % run);
    (turn % many, turn / many * run + within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::nvm::tests::array;
    use std::collections::HashSet;
    use tierscope_units::Size;

    #[test]
    fn each_line_has_a_place_of_its_own_and_banks_are_filled_evenly() {
        let spec = NvmArraySpec {
            channels: 3,
            banks: 4,
            channel_interleave: Size::from_bytes(128),
            bank_interleave: Size::from_bytes(256),
            ..array()
        };
        let places = Places::new(&spec);
        let lines = 3 * 4 * 64;
        let all: Vec<Place> = (0..lines).map(|number| places.of(number)).collect();
        let different: HashSet<_> = all.iter().map(|it| (it.channel, it.bank, it.line)).collect();
        assert_eq!(different.len() as u64, lines);
        assert!(all.iter().all(|it| it.channel < 3 && it.bank < 4 && it.line < 64));
        // Two lines a channel in turn; of a channel, four lines a bank in turn.
        let first: Vec<_> = all[..8].iter().map(|it| (it.channel, it.bank)).collect();
        assert_eq!(first, [(0, 0), (0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (0, 0), (0, 0)]);
        assert_eq!((all[12].channel, all[12].bank, all[12].line), (0, 1, 0));
    }
}
