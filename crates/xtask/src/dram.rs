//! Long runs of the DRAM's controllers under the protocol checker, and logs of them.

use std::io::{BufRead, BufReader, BufWriter, Write};
use tierscope_model::medium::dram::checker::Checker;
use tierscope_model::medium::dram::log::Logged;
use tierscope_model::medium::dram::standard::{self, BankRefresh};
use tierscope_model::medium::dram::{Dram, description::Description};
use tierscope_model::medium::{DramSpec, PagePolicy, RefreshPolicy};
use tierscope_model::request::{Device, Request};
use tierscope_units::{Duration, Problems, nearest};

/// Bytes of each DRAM.
const CAPACITY: u64 = 64 << 30;
/// Requests between two looks at the log.
const STRETCH: u64 = 50_000;

/// Every part of every standard, one after the other, each until it has given so many commands.
pub fn soak(commands: &str) -> Result<String, String> {
    let least = number(commands)?;
    let mut said = Vec::new();
    for (index, (_, part)) in standard::parts().enumerate() {
        let spec = varied(part.name, index);
        let mut checker = Checker::new(&Description::new(&spec));
        Run::new(&spec).until(least, |command| checker.check(command))?;
        said.push(format!("{}: {} commands keep the protocol", part.name, checker.commands()));
    }
    Ok(said.join("\n"))
}

/// Writes the log of a run of a part.
pub fn log(part: &str, commands: &str, file: &str) -> Result<String, String> {
    let spec = varied(known(part)?, 0);
    let least = number(commands)?;
    let to = std::fs::File::create(file).map_err(|why| format!("{file}: {why}"))?;
    let mut to = BufWriter::new(to);
    let written = Run::new(&spec).until(least, |command| {
        writeln!(to, "{command}").map_err(|why| format!("{file}: {why}"))
    })?;
    to.flush().map_err(|why| format!("{file}: {why}"))?;
    Ok(format!("wrote {written} commands to {file}"))
}

/// Checks a log of a part, as [`log`] writes it.
pub fn check(part: &str, file: &str) -> Result<String, String> {
    let mut checker = Checker::new(&Description::new(&varied(known(part)?, 0)));
    let from = std::fs::File::open(file).map_err(|why| format!("{file}: {why}"))?;
    for (line, text) in BufReader::new(from).lines().enumerate() {
        let place = format!("{file}:{}", line + 1);
        let text = text.map_err(|why| format!("{place}: {why}"))?;
        let command = Logged::parse(&text).ok_or_else(|| {
            format!("{place}: `{text}` is no command; write `CLOCK NAME RANK BANK ROW`")
        })?;
        checker.check(command).map_err(|broken| format!("{place}: {broken}"))?;
    }
    Ok(format!("{file}: {} commands keep the protocol", checker.commands()))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number of commands; write 1000000"))
}

fn known(part: &str) -> Result<&'static str, String> {
    let names = || standard::parts().map(|(_, part)| part.name);
    names().find(|name| *name == part).ok_or_else(|| {
        let near = nearest(part, names()).map(|name| format!("; did you mean {name}?"));
        let all: Vec<_> = names().collect();
        format!("there is no part `{part}` among {}{}", all.join(", "), near.unwrap_or_default())
    })
}

/// Two ranks, bank groups next to the line, and policies by turns.
fn varied(part: &str, turn: usize) -> DramSpec {
    let ps = Duration::from_picoseconds;
    let policies =
        [PagePolicy::Open, PagePolicy::Closed, PagePolicy::Timeout, PagePolicy::Adaptive];
    let page_policy = policies[turn % 4];
    let refresh = match standard::find(part).map(|(standard, _)| standard.bank_refresh) {
        Some(BankRefresh::Single) => RefreshPolicy::PerBank,
        Some(BankRefresh::SameInEveryGroup) => RefreshPolicy::SameBank,
        _ => RefreshPolicy::AllBank,
    };
    let spec = DramSpec {
        ranks: 2,
        mapping: "ro-ra-ba-co-bg-ch".into(),
        page_policy,
        row_timeout: (page_policy == PagePolicy::Timeout).then(|| ps(200_000)),
        refresh,
        postponed_refreshes: 4,
        power_down_after: Some(ps(100_000)),
        ..DramSpec::of_part(part, 1)
    };
    let mut problems = Problems::new();
    spec.check("dram", &mut problems);
    assert!(problems.is_empty(), "{problems}");
    spec
}

/// A DRAM under random and sequential lines and pages, a third written, with pauses.
struct Run {
    dram: Dram,
    requests: u64,
    now_ps: u64,
}

impl Run {
    fn new(spec: &DramSpec) -> Self {
        let mut dram = Dram::new(spec, CAPACITY, 64);
        dram.start_log();
        Run { dram, requests: 0, now_ps: 0 }
    }

    /// Goes on until so many commands were logged, and shows each to `see`; how many there were.
    fn until(
        mut self,
        least: u64,
        mut see: impl FnMut(Logged) -> Result<(), String>,
    ) -> Result<u64, String> {
        let (mut seen, mut out) = (0, Vec::new());
        while seen < least {
            for _ in 0..STRETCH {
                self.submit(&mut out);
                out.clear();
            }
            for command in self.dram.take_log(0, false) {
                see(command)?;
                seen += 1;
            }
        }
        Ok(seen)
    }

    fn submit(&mut self, out: &mut Vec<tierscope_model::request::Completion>) {
        let value = mixed(self.requests);
        let line = if value >> 63 == 0 { self.requests } else { value >> 8 } % (CAPACITY / 64);
        let bytes = if value >> 52 & 255 == 0 { 4096 } else { 64 };
        let address = line * 64 / u64::from(bytes) * u64::from(bytes);
        let (write, background) = (value.is_multiple_of(3), value.is_multiple_of(7));
        let request = Request { id: 0, address, bytes, write, background };
        if value.is_multiple_of(5_000) {
            self.now_ps += value >> 20 & 0xff_ffff;
        }
        self.dram.advance(self.now_ps, out);
        while self.dram.submit(self.now_ps, request).is_err() {
            // A full device has something to do.
            self.now_ps = self.dram.next_event_ps().unwrap_or(self.now_ps + 1);
            self.dram.advance(self.now_ps, out);
        }
        self.requests += 1;
    }
}

/// A number as good as random: the finalizer of SplitMix64.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
