//! `ramulator2-vector`: what is done, and a place in the memory's own organization, from the channel to the
//! column: the read and write trace of Ramulator 2. There are no times.
//!
//! A place is made an address as a number of mixed radix is, with the row, which is the last level but one,
//! before the others: lines of 64 bytes of the last level count fastest, and the row has no bound. With
//! `dram.mapping=ro-ch-ra-bg-ba-co`, which is that order, a device finds the place again. So is an address
//! written, by the levels of the target.

use super::words::{put_decimal, split, whole};
use super::{
    ChoiceError, Choices, Format, FormatOption, Out, Parse, Read, Script, TraceRequest,
    WriteScript, Writer,
};

/// The format.
pub const FORMAT: Format = Format {
    name: "ramulator2-vector",
    summary: "Read and write trace of Ramulator 2: R or W, place by channel, rank, bank group, bank, row \
              and column; requests come as fast as they are taken",
    grammar: "R|W CHANNEL,RANK,BANKGROUP,BANK,ROW,COLUMN",
    example: "R 0,0,1,2,77,5",
    options: &[LEVELS],
    source: "CMU-SAFARI/ramulator2@1fb94b8:src/frontend/impl/memory_trace/readwrite_trace.cpp",
    parse: Parse::Script(script),
    writer: Some(Writer { options: &[LEVELS], new: |choices| Ok(Box::new(Vectors::of(choices)?)) }),
    ..Format::PLAIN
};

const LINE_BYTES: u64 = 64;
/// One channel and rank of `DDR4_8Gb_x8`, whose 1,024 columns are 128 bursts.
const DEFAULT: &str = "1:1:4:4:65536:128";

/// The option that says how many there are of each level.
const LEVELS: FormatOption = FormatOption {
    name: "levels",
    default: DEFAULT,
    meaning: "How many there are of each level that a place names, colons between: of columns, bursts of 64 B.",
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Vectors::of(choices)?))
}

#[derive(Clone)]
struct Vectors {
    levels: Vec<u64>,
    /// Lines of all levels but the row.
    lines_of_row: u64,
}

impl Vectors {
    fn of(choices: &Choices) -> Result<Self, ChoiceError> {
        let said = choices.get(LEVELS.name).map_or(DEFAULT, String::as_str);
        let wrong = |reason: &str| ChoiceError {
            name: LEVELS.name,
            value: said.to_owned(),
            reason: reason.into(),
            mend: format!("write {DEFAULT}, with as many as the trace has"),
        };
        let levels: Option<Vec<u64>> =
            said.split(':').map(|level| level.parse().ok().filter(|count| *count > 0)).collect();
        let levels = levels.ok_or_else(|| wrong("these are no whole numbers from 1"))?;
        let lines = levels.iter().try_fold(LINE_BYTES, |all, level| all.checked_mul(*level));
        match lines {
            Some(bytes) if bytes <= 1 << 60 => {
                let mut vectors = Vectors { levels, lines_of_row: 1 };
                let row = vectors.row();
                let others = vectors.levels.iter().enumerate().filter(|(number, _)| *number != row);
                vectors.lines_of_row = others.map(|(_, level)| level).product();
                Ok(vectors)
            }
            _ => Err(wrong("that is more memory than addresses reach")),
        }
    }

    /// The level that has no bound: as far as a device lets its rows extend, they do.
    fn row(&self) -> usize {
        self.levels.len().saturating_sub(2)
    }

    fn address(&self, place: &str) -> Result<u64, String> {
        let row = self.row();
        let (mut line, mut of_row, mut number) = (0u64, 0, 0);
        let commas = place.bytes().enumerate().filter(|(_, byte)| *byte == b',').map(|(at, _)| at);
        let mut start = 0;
        for end in commas.chain([place.len()]) {
            let word = &place[start..end];
            start = end + 1;
            if let Some(level) = self.levels.get(number) {
                let at = whole(word, "a number of a level")?;
                if number == row {
                    of_row = at;
                } else if at >= *level {
                    return Err(format!(
                        "level {} is {at}, of which there are {level}; say how many with workload.levels",
                        number + 1
                    ));
                } else {
                    line = line * level + at;
                }
            }
            number += 1;
        }
        if number != self.levels.len() {
            return Err(format!(
                "it names {number} levels, not {}; say how many there are of each with workload.levels, \
                 as in --set workload.levels={DEFAULT}",
                self.levels.len()
            ));
        }
        let line = of_row.checked_mul(self.lines_of_row).and_then(|first| first.checked_add(line));
        let address = line.and_then(|line| line.checked_mul(LINE_BYTES));
        address.ok_or_else(|| "it lies beyond 2^64 - 1 bytes".into())
    }
}

impl WriteScript for Vectors {
    fn write(&self, request: &TraceRequest, to: &mut Vec<u8>) {
        let mut line = request.address / LINE_BYTES;
        let row = self.row();
        let first = line / self.lines_of_row;
        line %= self.lines_of_row;
        to.extend_from_slice(if request.is_write() { b"W " } else { b"R " });
        let mut lines = self.lines_of_row;
        for (number, level) in self.levels.iter().enumerate() {
            if number > 0 {
                to.push(b',');
            }
            if number == row {
                put_decimal(first, to);
                continue;
            }
            lines /= level;
            put_decimal(line / lines, to);
            line %= lines;
        }
        to.push(b'\n');
    }
}

impl Script for Vectors {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        let [what, place] = split(line)?;
        let write = match what {
            "R" => false,
            "W" => true,
            _ => return Err(format!("`{what}` is neither R nor W")),
        };
        out.push_back(TraceRequest::line(self.address(place)?, write, None));
        Ok(Read::Goes)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, said};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_that_is_written_is_read_again(
            levels in proptest::collection::vec(1u64..40, 1..8),
            line in 0u64..1 << 40,
            write: bool,
        ) {
            let levels: Vec<String> = levels.iter().map(u64::to_string).collect();
            let choices = Choices::from([("levels".to_owned(), levels.join(":"))]);
            let vectors = Vectors::of(&choices).unwrap();
            let mut text = Vec::new();
            vectors.write(&TraceRequest::line(line * LINE_BYTES, write, None), &mut text);
            let text = String::from_utf8(text).unwrap();
            let read = read_all("ramulator2-vector", &text, &[("levels", &choices["levels"])]);
            prop_assert_eq!(read, [TraceRequest::line(line * LINE_BYTES, write, None)]);
        }
    }

    #[test]
    fn a_place_is_a_number_of_mixed_radix() {
        let text = "R 0,0,0,0,0,1\nW 0,0,1,2,77,5\nR 0,0,0,0,70000,0\n";
        let read = read_all("ramulator2-vector", text, &[]);
        let told: Vec<_> = read.iter().map(|one| (one.is_write(), one.address)).collect();
        // Of each row there are 16 banks of 128 bursts.
        let place = (77 * 16 + 4 + 2) * 128 + 5;
        assert_eq!(told, [(false, 64), (true, place * 64), (false, 70_000 * 2048 * 64)]);
        let read = read_all("ramulator2-vector", "R 1,2,3\n", &[("levels", "4:8:16")]);
        assert_eq!(read[0].address, ((2 * 4 + 1) * 16 + 3) * 64);
        for (wrong, why) in [
            ("R 0,0,4,0,0,0", "level 3 is 4, of which there are 4"),
            ("R 0,0,0", "names 3 levels, not 6"),
            ("X 0,0,0,0,0,0", "neither R nor W"),
            ("R 0,0,0,0,0,-1", "not a number of a level"),
        ] {
            let said = said("ramulator2-vector", wrong);
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
