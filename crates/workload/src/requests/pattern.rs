//! Requests made by a pattern and a seed: built-in workloads of devices alone.

use super::{RequestKind, RequestSource, Times, TraceRequest};
use crate::generator::{
    Parameter, ParameterError, Parameters, filled, integer, share, size, text, wrong,
};
use crate::stream::{Footprint, StreamError};
use serde_json::Value;
use tierscope_kernel::{Counter, Permutation};
use tierscope_units::{Duration, Size, nearest};

/// Bytes of a line.
const LINE_BYTES: u64 = 64;
/// Requests of a pattern at most.
const MOST_REQUESTS: u64 = 1 << 48;

/// Where each request lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere with equal chance.
    Random,
    /// One behind the other.
    Sequential,
    /// Some places much more often than others: the chance of one falls with its rank as in Zipf's
    /// law of exponent 1, each octave of ranks being as likely as the others, and equally likely
    /// within. Ranks lie scattered over the footprint.
    Zipf,
}

/// A pattern as a built-in workload of devices alone.
#[derive(Clone, Copy, Debug)]
pub struct PatternSource {
    /// Name that a user types.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// The pattern.
    pub pattern: Pattern,
}

/// Every pattern, in the order of lists.
pub const PATTERNS: [PatternSource; 3] = [
    PatternSource {
        name: "random",
        summary: "Requests anywhere with equal chance, for devices alone",
        pattern: Pattern::Random,
    },
    PatternSource {
        name: "sequential",
        summary: "Requests one behind the other, for devices alone",
        pattern: Pattern::Sequential,
    },
    PatternSource {
        name: "zipf",
        summary: "Requests by Zipf's law of exponent 1 (in octaves of ranks), for devices alone",
        pattern: Pattern::Zipf,
    },
];

/// What a pattern makes, each with its default.
const PARAMETERS: &[Parameter] = &[
    Parameter { name: "requests", default: "100000", meaning: "How many there are. Our choice." },
    Parameter {
        name: "size",
        default: "auto",
        meaning: "Bytes of each, such as 4KiB; auto is what the device moves as one, a line or a page.",
    },
    Parameter {
        name: "footprint",
        default: "256MiB",
        meaning: "What they lie in, from the device's first byte: a whole number of requests, and of \
                  zipf a power of two of them. Our choice.",
    },
    Parameter {
        name: "reads",
        default: "0.7",
        meaning: "Share of requests that read, in hundredths; all others write. Our choice.",
    },
    Parameter {
        name: "interval",
        default: "none",
        meaning: "Time from one arrival to the next, such as 100ns; none is a closed loop, in which \
                  one comes as another ends.",
    },
];

/// The pattern of this name.
pub fn find_pattern(name: &str) -> Option<&'static PatternSource> {
    PATTERNS.iter().find(|pattern| pattern.name == name)
}

impl PatternSource {
    /// What may be said of it.
    pub fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    /// Fills in defaults, refuses what is unknown or impossible, and makes the source; also gives the
    /// parameters as they are used.
    ///
    /// # Errors
    /// The first parameter that is wrong.
    pub fn make(
        &self,
        given: &[(String, Value)],
        seed: u64,
    ) -> Result<(Patterned, Parameters), ParameterError> {
        if let Some((name, value)) =
            given.iter().find(|(name, _)| PARAMETERS.iter().all(|one| one.name != name))
        {
            return Err(self.unknown(name, value));
        }
        let used = filled(PARAMETERS, given);
        let made = Patterned {
            pattern: self.pattern,
            count: integer(&used, "requests", 1..=MOST_REQUESTS)?,
            footprint_bytes: size(&used, "footprint")?,
            size_bytes: bytes_of_a_request(&used)?,
            gap: interval_ps(&used)?,
            times: Times::Ps(1),
            write_percent: write_percent(&used)?,
            seed,
            places: None,
            choices: Counter::stream(seed, "patterned requests"),
            next: 0,
        };
        let bytes = made.size_bytes.unwrap_or(LINE_BYTES);
        let size_said = given.iter().any(|(name, _)| name == "size");
        made.check(bytes).map_err(|why| match size_said {
            true => wrong_size(&used, made.footprint_bytes, bytes, &why),
            false => self.wrong_footprint(&used, &why),
        })?;
        Ok((made, used))
    }

    fn unknown(&self, name: &str, value: &Value) -> ParameterError {
        let names: Vec<&str> = PARAMETERS.iter().map(|one| one.name).collect();
        ParameterError {
            unknown: true,
            name: name.to_owned(),
            value: value.to_string(),
            reason: format!("the workload {} has no such parameter", self.name),
            mend: match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", names.join(", ")),
            },
        }
    }

    fn wrong_footprint(&self, used: &[(String, Value)], why: &str) -> ParameterError {
        let value = used.iter().find(|(name, _)| name == "footprint").map(|(_, value)| value);
        wrong("footprint", value.unwrap_or(&Value::Null), why, "write a size such as 256MiB")
    }
}

/// The mistake of a size of requests that a footprint is not made of.
fn wrong_size(
    used: &[(String, Value)],
    footprint_bytes: u64,
    bytes: u64,
    why: &str,
) -> ParameterError {
    let value = used.iter().find(|(name, _)| name == "size").map(|(_, value)| value);
    let footprint = Size::from_bytes(footprint_bytes);
    let near =
        Size::from_bytes(bytes.next_power_of_two().min(1 << footprint_bytes.trailing_zeros()));
    let reason = format!("the footprint is {footprint}: {why}");
    let mend = format!("write {near}, or another workload.footprint");
    wrong("size", value.unwrap_or(&Value::Null), &reason, &mend)
}

fn bytes_of_a_request(used: &[(String, Value)]) -> Result<Option<u64>, ParameterError> {
    if text(used, "size") == Some("auto") {
        return Ok(None);
    }
    let bytes = size(used, "size")?;
    if (1..=u64::from(super::MOST_REQUEST_BYTES)).contains(&bytes) {
        return Ok(Some(bytes));
    }
    let value = Value::from(Size::from_bytes(bytes).to_string());
    Err(wrong("size", &value, "a request has from 1B to 1GiB", "write 4KiB, or auto"))
}

fn interval_ps(used: &[(String, Value)]) -> Result<Option<u64>, ParameterError> {
    const MOST_PS: u64 = 1_000_000_000_000;
    let given = text(used, "interval").unwrap_or_default();
    if given == "none" {
        return Ok(None);
    }
    match given.parse::<Duration>() {
        Ok(interval) if interval.picoseconds() <= MOST_PS => Ok(Some(interval.picoseconds())),
        _ => {
            let value = used.iter().find(|(name, _)| name == "interval").map(|(_, value)| value);
            let reason = "it is no time with its unit, of 1s at most";
            Err(wrong("interval", value.unwrap_or(&Value::Null), reason, "write 100ns, or none"))
        }
    }
}

fn write_percent(used: &[(String, Value)]) -> Result<u64, ParameterError> {
    let percent = 100.0 * share(used, "reads")?;
    if (percent - percent.round()).abs() < 1e-9 {
        return Ok(100 - percent.round() as u64);
    }
    let value = used.iter().find(|(name, _)| name == "reads").map(|(_, value)| value);
    let reason = "shares are told in hundredths";
    Err(wrong("reads", value.unwrap_or(&Value::Null), reason, "write a number such as 0.67"))
}

/// Requests of a pattern, one every so often, or as fast as they are taken. Equal fields give equal
/// requests on every computer: everything is made of integers.
#[derive(Clone, Debug)]
pub struct Patterned {
    pattern: Pattern,
    /// How many there are.
    count: u64,
    footprint_bytes: u64,
    /// Bytes of each; `None` for what the device moves as one.
    size_bytes: Option<u64>,
    /// Ticks from one to the next, if they have times.
    gap: Option<u64>,
    times: Times,
    /// How many of a hundred are writes.
    write_percent: u64,
    seed: u64,
    choices: Counter,
    /// Where each rank lies, once the size of a request is known.
    places: Option<(u64, Permutation)>,
    next: u64,
}

impl Patterned {
    /// `count` requests for lines within `memory_bytes`, one every `gap_cycles`, of which
    /// `write_percent` of a hundred are writes.
    ///
    /// # Panics
    /// Where the memory is no power of two of lines.
    pub fn new(
        pattern: Pattern,
        count: u64,
        memory_bytes: u64,
        gap_cycles: u64,
        write_percent: u64,
        seed: u64,
    ) -> Self {
        let lines = memory_bytes / LINE_BYTES;
        assert!(lines.is_power_of_two(), "{memory_bytes} bytes are no power of two of lines");
        Patterned {
            pattern,
            count,
            footprint_bytes: memory_bytes,
            size_bytes: None,
            gap: Some(gap_cycles),
            times: Times::Cycles,
            write_percent,
            seed,
            choices: Counter::stream(seed, "patterned requests"),
            places: None,
            next: 0,
        }
    }

    /// What is wrong with the footprint where each request has so many bytes, if anything is.
    fn check(&self, bytes: u64) -> Result<(), String> {
        let places = self.footprint_bytes / bytes;
        if places == 0 || !self.footprint_bytes.is_multiple_of(bytes) {
            let size = Size::from_bytes(bytes);
            return Err(format!("it is not a whole number of requests of {size}"));
        }
        if self.pattern == Pattern::Zipf && !places.is_power_of_two() {
            return Err(format!("it has {places} places for a request, which is no power of two"));
        }
        Ok(())
    }

    /// Bytes from one place to the next, how many places there are, and where each rank lies.
    fn places(&mut self) -> (u64, u64, &Permutation) {
        let bytes = self.size_bytes.unwrap_or(LINE_BYTES);
        let count = (self.footprint_bytes / bytes).max(1);
        let seed = self.seed;
        if self.places.as_ref().is_none_or(|(known, _)| *known != count) {
            let made = Permutation::new(seed, "places of patterned requests", count);
            self.places = Some((count, made));
        }
        let (_, places) = self.places.as_ref().expect("it has just been made");
        (bytes, count, places)
    }

    fn address(&mut self, number: u64) -> u64 {
        let (pattern, choices) = (self.pattern, self.choices);
        let (bytes, count, places) = self.places();
        let place = match pattern {
            Pattern::Random => choices.below_at(3 * number, count),
            Pattern::Sequential => number % count,
            // One place has no ranks.
            Pattern::Zipf if count == 1 => 0,
            Pattern::Zipf => {
                let octaves = u64::from(count.trailing_zeros());
                let octave = choices.below_at(3 * number, octaves);
                let rank = (1 << octave) + choices.below_at(3 * number + 1, 1 << octave);
                places.at(rank)
            }
        };
        place * bytes
    }
}

impl RequestSource for Patterned {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        if self.next >= self.count {
            return Ok(None);
        }
        let number = self.next;
        self.next += 1;
        let write = self.choices.below_at(3 * number + 2, 100) < self.write_percent;
        Ok(Some(TraceRequest {
            address: self.address(number),
            bytes: self.size_bytes.map_or(0, |bytes| bytes as u32),
            kind: RequestKind::of(write),
            ticks: self.gap.map(|gap| number.saturating_mul(gap)),
        }))
    }

    fn fit(&mut self, unit_bytes: u64) -> Result<(), StreamError> {
        let bytes = *self.size_bytes.get_or_insert(unit_bytes);
        self.check(bytes).map_err(|why| {
            let footprint = Size::from_bytes(self.footprint_bytes);
            StreamError::Damaged(format!("workload.footprint = {footprint}: {why}"))
        })
    }

    fn count(&self) -> Option<u64> {
        Some(self.count)
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(Footprint { bytes: self.footprint_bytes, parameter: "footprint" })
    }

    fn share(&self) -> Option<f64> {
        Some(self.next as f64 / self.count.max(1) as f64)
    }

    fn times(&self) -> Times {
        if self.gap.is_some() { self.times } else { Times::Absent }
    }

    fn place(&self) -> String {
        format!("request {}", self.next)
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const ALL: [Pattern; 3] = [Pattern::Random, Pattern::Sequential, Pattern::Zipf];

    fn all(mut source: Patterned) -> Vec<TraceRequest> {
        std::iter::from_fn(|| source.next().unwrap()).collect()
    }

    #[test]
    fn requests_are_as_many_as_asked_for_within_memory_and_at_their_cycles() {
        for pattern in ALL {
            let requests = all(Patterned::new(pattern, 10_000, 1 << 20, 7, 30, 1));
            assert_eq!(requests.len(), 10_000);
            for (number, one) in requests.iter().enumerate() {
                assert!(one.address < 1 << 20 && one.address % 64 == 0);
                assert_eq!(one.ticks, Some(7 * number as u64));
            }
            let writes = requests.iter().filter(|one| one.is_write()).count();
            assert!((2_850..3_150).contains(&writes), "{writes}");
            assert_eq!(requests, all(Patterned::new(pattern, 10_000, 1 << 20, 7, 30, 1)));
        }
    }

    #[test]
    fn memory_of_one_line_takes_every_pattern() {
        for pattern in ALL {
            let requests = all(Patterned::new(pattern, 100, LINE_BYTES, 1, 50, 1));
            assert_eq!(requests.len(), 100);
            assert!(requests.iter().all(|one| one.address == 0), "{pattern:?}");
        }
    }

    #[test]
    fn octaves_of_ranks_are_equally_likely() {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for one in all(Patterned::new(Pattern::Zipf, 100_000, 1 << 20, 1, 0, 3)) {
            *counts.entry(one.address).or_default() += 1;
        }
        let mut often: Vec<u64> = counts.into_values().collect();
        often.sort_unstable_by(|a, b| b.cmp(a));
        // Fourteen octaves: the first rank alone has a fourteenth, and so have the next two.
        assert!((6_800..7_500).contains(&often[0]), "{}", often[0]);
        assert!((6_800..7_500).contains(&(often[1] + often[2])), "{often:?}");
    }

    fn made(name: &str, given: &[(&str, Value)]) -> Result<Patterned, String> {
        let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let made = find_pattern(name).unwrap().make(&given, 1);
        made.map(|(source, _)| source).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_decide_what_is_made() {
        let given = [
            ("requests", 1000.into()),
            ("size", "4KiB".into()),
            ("footprint", "1MiB".into()),
            ("reads", 0.0.into()),
            ("interval", "2us".into()),
        ];
        for PatternSource { name, .. } in PATTERNS {
            let requests = all(made(name, &given).unwrap());
            assert_eq!(requests.len(), 1000);
            for (number, one) in (0..).zip(&requests) {
                assert!(one.is_write() && one.bytes == 4096 && one.end() <= 1 << 20, "{one:?}");
                assert_eq!((one.address % 4096, one.ticks), (0, Some(number * 2_000_000)));
            }
        }
        let mut fitted = made("sequential", &[("reads", 1.into())]).unwrap();
        fitted.fit(4096).unwrap();
        let second = all(fitted)[1];
        assert_eq!((second.address, second.bytes, second.ticks), (4096, 4096, None));
    }

    #[test]
    fn parameters_that_make_no_sense_are_told_with_the_mend() {
        for (name, value, said) in [
            ("request", 5.into(), "did you mean `requests`?"),
            ("requests", 0.into(), "write a whole number from 1"),
            ("size", "0B".into(), "a request has from 1B to 1GiB"),
            ("size", "3KiB".into(), "not a whole number of requests of 3KiB; write 4KiB, or"),
            ("size", "100B".into(), "workload.size = \"100B\": the footprint is 256MiB"),
            ("footprint", "32B".into(), "not a whole number of requests"),
            ("footprint", "192KiB".into(), "no power of two"),
            ("reads", 1.5.into(), "write a number from 0 to 1"),
            ("reads", 0.333.into(), "hundredths"),
            ("interval", "5".into(), "no time with its unit"),
        ] {
            let told = made("zipf", &[(name, value)]).unwrap_err();
            assert!(told.contains(said), "{name}: {told}");
        }
    }
}
