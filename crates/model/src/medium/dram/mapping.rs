//! From an address to channel, bank and row.
//!
//! A mapping says of each part of an address above the line what it chooses, from the highest part
//! down: as names (`ro-ra-ba-bg-co-ch`; `co3` is three bits of the column) or as letters, one a bit
//! (`rkbbggcccccch`). By names every count may be any number, not only a power of two; rows extend
//! to the capacity.

use super::super::DramSpec;
use super::description::Description;
use tierscope_units::Problems;

/// What a part of an address chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Row,
    Rank,
    Bank,
    Group,
    Column,
    Channel,
}

use Field::*;

/// Names and letters of the fields.
const NAMES: [(&str, char, Field); 6] = [
    ("ro", 'r', Row),
    ("ra", 'k', Rank),
    ("ba", 'b', Bank),
    ("bg", 'g', Group),
    ("co", 'c', Column),
    ("ch", 'h', Channel),
];

/// One part of an address, lowest first: so many values of a field, from this weight of it on.
#[derive(Clone, Copy, Debug)]
struct Digit {
    field: Field,
    values: u64,
    weight: u64,
}

/// Where a line lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its channel.
    pub channel: usize,
    /// Its bank, among all banks of the channel: by rank, bank group, bank.
    pub bank: u32,
    /// Row of the bank.
    pub row: u64,
}

/// Lines of one request in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they lie.
    pub place: Place,
    /// How many.
    pub lines: u32,
}

/// The address mapping of one DRAM.
#[derive(Clone, Debug)]
pub struct Mapping {
    line: Divisor,
    steps: Vec<Step>,
    /// The digits of a place, where each is some bits of a line's number.
    slices: Option<Vec<Slice>>,
    /// Lines until the banks of a request repeat, or the next column.
    unit: u64,
    /// Of these, lines of one row.
    lines_of_unit: u32,
    /// Lines after which rows change.
    block: u64,
}

/// A digit, ready to be taken off an address.
#[derive(Clone, Copy, Debug)]
struct Step {
    divisor: Divisor,
    channel_weight: u32,
    bank_weight: u32,
    row_weight: u64,
    column: bool,
}

/// Bits of a line's number, and what they choose.
#[derive(Clone, Copy, Debug)]
struct Slice {
    shift: u32,
    mask: u64,
    channel_weight: u32,
    bank_weight: u32,
    row_weight: u64,
}

impl Mapping {
    /// The mapping for lines of `line_bytes`. A line larger than a row counts as a row of its own.
    ///
    /// # Panics
    /// If the text is none: it has been checked.
    pub fn new(spec: &DramSpec, description: &Description, line_bytes: u64) -> Self {
        let columns = (description.row_bytes / line_bytes).max(1);
        let digits = match digits(&spec.mapping, description, columns) {
            Ok(digits) => digits,
            Err((reason, _)) => panic!("the mapping {}: {reason}", spec.mapping),
        };
        let top_column =
            digits.iter().rposition(|digit| digit.field == Column).map_or(0, |i| i + 1);
        let low = digits[..top_column].iter().rposition(|digit| digit.field != Column);
        let low = &digits[..low.map_or(0, |i| i + 1)];
        let lines = |digits: &[Digit]| digits.iter().map(|digit| digit.values).product::<u64>();
        let columns_below = low.iter().filter(|digit| digit.field == Column);
        let steps: Vec<_> = digits.iter().map(|digit| step(digit, description)).collect();
        Mapping {
            line: Divisor::new(line_bytes),
            slices: slices(&steps),
            unit: lines(low),
            lines_of_unit: columns_below.map(|digit| digit.values as u32).product(),
            block: lines(&digits[..top_column]),
            steps,
        }
    }

    /// The number of the line that holds `address`, from the start of memory.
    #[inline]
    pub fn line(&self, address: u64) -> u64 {
        self.line.split(address).0
    }

    /// Where a line lies.
    #[inline]
    pub fn place(&self, line: u64) -> Place {
        let Some(slices) = &self.slices else { return self.walk(line).0 };
        let (mut channel, mut bank, mut row) = (0, 0, 0);
        for slice in slices {
            let value = line >> slice.shift & slice.mask;
            channel += value as u32 * slice.channel_weight;
            bank += value as u32 * slice.bank_weight;
            row += value * slice.row_weight;
        }
        Place { channel: channel as usize, bank, row }
    }

    /// Where a line lies, and whether it is the first of its row in a unit.
    #[inline]
    fn walk(&self, line: u64) -> (Place, bool) {
        let (mut rest, mut first) = (line, true);
        let (mut channel, mut bank, mut row) = (0, 0, 0);
        for step in &self.steps {
            let (quotient, value) = step.divisor.split(rest);
            rest = quotient;
            channel += value as u32 * step.channel_weight;
            bank += value as u32 * step.bank_weight;
            row += value * step.row_weight;
            first &= !(step.column & (value != 0));
        }
        (Place { channel: channel as usize, bank, row }, first)
    }

    /// The runs of lines `first` to `last`, both included, in order of their first lines.
    pub fn runs(&self, first: u64, last: u64, out: &mut Vec<Run>) {
        out.clear();
        let mut start = first;
        while start <= last {
            let end = last.min(start / self.block * self.block + self.block - 1);
            let lines = end - start + 1;
            if start.is_multiple_of(self.unit) && lines.is_multiple_of(self.unit) {
                self.whole_units(start, lines, out);
            } else {
                self.single_lines(start, end, out);
            }
            start = end + 1;
        }
    }

    /// Every bank has equally many of the lines.
    fn whole_units(&self, start: u64, lines: u64, out: &mut Vec<Run>) {
        let each = (lines / self.unit) as u32 * self.lines_of_unit;
        for line in start..start + self.unit {
            // Columns above the unit do not matter: all lines here are of one block.
            let (place, _) = self.walk(line);
            if self.lines_of_unit == 1 || self.first_of_unit(line) {
                out.push(Run { place, lines: each });
            }
        }
    }

    /// Whether all columns below the unit are 0.
    fn first_of_unit(&self, line: u64) -> bool {
        self.walk(line % self.unit).1
    }

    fn single_lines(&self, start: u64, end: u64, out: &mut Vec<Run>) {
        let begin = out.len();
        for line in start..=end {
            let place = self.place(line);
            match out[begin..].iter_mut().rev().find(|run| run.place == place) {
                Some(run) => run.lines += 1,
                None => out.push(Run { place, lines: 1 }),
            }
        }
    }
}

fn step(digit: &Digit, description: &Description) -> Step {
    let weight = digit.weight as u32;
    let bank_weight = match digit.field {
        Rank => weight * description.banks_of_rank(),
        Group => weight * description.banks,
        Bank => weight,
        Row | Column | Channel => 0,
    };
    Step {
        divisor: Divisor::new(digit.values),
        channel_weight: if digit.field == Channel { weight } else { 0 },
        bank_weight,
        row_weight: if digit.field == Row { digit.weight } else { 0 },
        column: digit.field == Column,
    }
}

/// The steps as bits, if all have a power of two of values; without those that choose no place.
fn slices(steps: &[Step]) -> Option<Vec<Slice>> {
    let (mut slices, mut shift) = (Vec::new(), 0);
    for (index, step) in steps.iter().enumerate() {
        let top = index + 1 == steps.len();
        let bits = if top { 64 - shift } else { step.divisor.shift? };
        let mask = 1u64.checked_shl(bits).map_or(u64::MAX, |values| values - 1);
        let Step { channel_weight, bank_weight, row_weight, .. } = *step;
        if mask > 0 && (channel_weight > 0 || bank_weight > 0 || row_weight > 0) {
            slices.push(Slice { shift, mask, channel_weight, bank_weight, row_weight });
        }
        shift += bits;
    }
    Some(slices)
}

/// The digits of a mapping, lowest first, or what is wrong and what to write.
fn digits(
    text: &str,
    description: &Description,
    columns: u64,
) -> Result<Vec<Digit>, (String, String)> {
    let usual = "write \"ro-ra-ba-bg-co-ch\"".to_owned();
    let count = |field| match field {
        Row => u64::MAX,
        Rank => u64::from(description.ranks),
        Bank => u64::from(description.banks),
        Group => u64::from(description.groups),
        Column => columns,
        Channel => u64::from(description.channels),
    };
    let tokens = tokens(text).ok_or_else(|| {
        (
            "it is made of ro, ra, ba, bg, co and ch, or of the letters r k b g c h".into(),
            usual.clone(),
        )
    })?;
    // Values of each field that are given a place by bits; the rest is the plain token's.
    let mut by_bits = [1u64; 6];
    for &(field, bits) in &tokens {
        let values = 1u64.checked_shl(bits.unwrap_or(0)).unwrap_or(u64::MAX);
        by_bits[field as usize] = by_bits[field as usize].saturating_mul(values);
    }
    let mut weights = [1u64; 6];
    let mut open = [true; 6];
    let mut digits = Vec::new();
    for &(field, bits) in tokens.iter().rev() {
        let (weight, open) = (&mut weights[field as usize], &mut open[field as usize]);
        let name = NAMES[field as usize].0;
        let values = match bits {
            Some(bits) => 1u64.checked_shl(bits).unwrap_or(0),
            None if !*open => return Err((format!("`{name}` is said twice"), usual)),
            None => {
                *open = false;
                if field == Row { u64::MAX } else { count(field) / by_bits[field as usize] }
            }
        };
        if values == 0
            || field != Row && !(count(field)).is_multiple_of(weight.saturating_mul(values))
        {
            let reason =
                format!("`{name}` has {} values, which these bits do not divide", count(field));
            return Err((reason, usual));
        }
        digits.push(Digit { field, values, weight: *weight });
        *weight = weight.saturating_mul(values);
    }
    for (name, letter, field) in NAMES {
        let covered = weights[field as usize];
        if covered < count(field) {
            return Err((
                format!(
                    "{covered} values of `{name}` ({letter}) have a place, of {}",
                    count(field)
                ),
                usual,
            ));
        }
    }
    if digits.last().is_none_or(|digit| digit.field != Row) {
        return Err(("rows extend to the capacity, so that `ro` comes first".into(), usual));
    }
    Ok(digits)
}

/// The tokens, highest first, each with its bits where they are said.
fn tokens(text: &str) -> Option<Vec<(Field, Option<u32>)>> {
    if text.contains('-') {
        return text.split('-').map(token).collect();
    }
    let letters = text.chars().enumerate().map(|(index, letter)| {
        let (_, _, field) = *NAMES.iter().find(|(_, known, _)| *known == letter)?;
        Some((field, if index == 0 && field == Row { None } else { Some(1) }))
    });
    letters.collect()
}

fn token(text: &str) -> Option<(Field, Option<u32>)> {
    let (name, bits) = text.split_at_checked(2)?;
    let (_, _, field) = *NAMES.iter().find(|(known, _, _)| *known == name)?;
    match bits {
        "" => Some((field, None)),
        bits => Some((field, Some(bits.parse().ok().filter(|bits| (1..=32).contains(bits))?))),
    }
}

/// Collects what is wrong with the mapping of a description that is right otherwise, for lines of
/// `line_bytes`.
pub fn check(spec: &DramSpec, line_bytes: u64, path: &str, problems: &mut Problems) {
    let description = Description::new(spec);
    let columns = (description.row_bytes / line_bytes).max(1);
    if let Err((reason, mend)) = digits(&spec.mapping, &description, columns) {
        problems.add(
            "impossible-value",
            format!("{path}.mapping"),
            format!("\"{}\"", spec.mapping.escape_debug()),
            reason,
            mend,
        );
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
