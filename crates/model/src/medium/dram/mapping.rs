//! From an address to channel, rank, bank, row and column.
//!
//! From the highest part down: row : rank : bank : column : channel : byte of the line. Successive
//! lines go to successive channels; in each channel they fill a row, then go to the next bank, the
//! next rank, and at last to the next row. Rows extend to the capacity. Every count may be any
//! number, not only a power of two.

use super::super::DramSpec;

/// Where a line lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rank of the channel.
    pub rank: u32,
    /// Bank of the rank.
    pub bank: u32,
    /// Row of the bank.
    pub row: u64,
    /// Line of the row.
    pub column: u64,
}

/// The address mapping of one DRAM.
#[derive(Clone, Debug)]
pub struct Mapping {
    line: Divisor,
    channels: Divisor,
    columns: Divisor,
    banks: Divisor,
    ranks: Divisor,
}

impl Mapping {
    /// The mapping for lines of `line_bytes`. A line larger than a row counts as a row of its own.
    pub fn new(spec: &DramSpec, line_bytes: u64) -> Self {
        Mapping {
            line: Divisor::new(line_bytes),
            channels: Divisor::new(u64::from(spec.channels)),
            columns: Divisor::new((spec.row.bytes() / line_bytes).max(1)),
            banks: Divisor::new(u64::from(spec.banks)),
            ranks: Divisor::new(u64::from(spec.ranks)),
        }
    }

    /// The number of the line that holds `address`, from the start of memory.
    #[inline]
    pub fn line(&self, address: u64) -> u64 {
        self.line.split(address).0
    }

    /// The channel of a line, and the line's number within the channel.
    #[inline]
    pub fn channel(&self, line: u64) -> (usize, u64) {
        let (channel_line, channel) = self.channels.split(line);
        (channel as usize, channel_line)
    }

    /// Where the channel keeps its line of this number.
    #[inline]
    pub fn place(&self, channel_line: u64) -> Place {
        let (rest, column) = self.columns.split(channel_line);
        let (rest, bank) = self.banks.split(rest);
        let (row, rank) = self.ranks.split(rest);
        Place { rank: rank as u32, bank: bank as u32, row, column }
    }

    /// Lines from `column` to the end of its row.
    #[inline]
    pub fn lines_left(&self, column: u64) -> u64 {
        self.columns.divisor - column
    }
}

/// A divisor known at construction: a shift where it is a power of two.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    divisor: u64,
    shift: Option<u32>,
}

impl Divisor {
    fn new(divisor: u64) -> Self {
        let shift = divisor.is_power_of_two().then(|| divisor.trailing_zeros());
        Divisor { divisor: divisor.max(1), shift }
    }

    /// Quotient and remainder.
    #[inline]
    fn split(self, value: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (value >> shift, value & (self.divisor - 1)),
            None => (value / self.divisor, value % self.divisor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use proptest::prelude::*;
    use tierscope_units::Size;

    /// Puts the parts together again: the inverse of the mapping, written down once more.
    fn line_of(spec: &DramSpec, line_bytes: u64, channel: usize, place: Place) -> u64 {
        let columns = spec.row.bytes() / line_bytes;
        let above = place.row * u64::from(spec.ranks) + u64::from(place.rank);
        let above = above * u64::from(spec.banks) + u64::from(place.bank);
        let channel_line = above * columns + place.column;
        channel_line * u64::from(spec.channels) + channel as u64
    }

    proptest! {
        #[test]
        fn the_mapping_is_one_to_one(
            channels in 1..20u32,
            ranks in 1..5u32,
            banks in 1..20u32,
            row in 6..14u32,
            line in 0..1u64 << 40,
        ) {
            let row = Size::from_bytes(1 << row);
            let spec = DramSpec { channels, ranks, banks, row, ..spec() };
            let mapping = Mapping::new(&spec, 64);
            let (channel, channel_line) = mapping.channel(mapping.line(line * 64 + 63));
            let place = mapping.place(channel_line);
            prop_assert!(channel < channels as usize);
            prop_assert!(place.rank < ranks && place.bank < banks);
            prop_assert!(place.column < row.bytes() / 64);
            prop_assert_eq!(line_of(&spec, 64, channel, place), line);
        }
    }

    #[test]
    fn lines_interleave_over_channels_then_fill_a_row_then_change_bank() {
        let spec = DramSpec { channels: 4, row: Size::from_bytes(1024), ..spec() };
        let mapping = Mapping::new(&spec, 64);
        assert_eq!(mapping.channel(5), (1, 1));
        assert_eq!(mapping.place(15), Place { rank: 0, bank: 0, row: 0, column: 15 });
        assert_eq!(mapping.place(16), Place { rank: 0, bank: 1, row: 0, column: 0 });
        assert_eq!(mapping.place(16 * 8), Place { rank: 0, bank: 0, row: 1, column: 0 });
        assert_eq!(mapping.lines_left(15), 1);
    }
}
