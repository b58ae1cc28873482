//! Memory traces of a pattern, for comparisons with other simulators.

use std::io::{BufWriter, Write};
use tierscope_workload::requests::{Pattern, Patterned, RequestSource};

/// Memory that a trace lies in: 1 GiB, which every device of the comparison has.
const MEMORY_BYTES: u64 = 1 << 30;

/// Writes a trace in the format of DRAMsim3: so many requests, one every `gap` cycles, of a pattern;
/// seed 1. What is Zipf's has 30 % of writes, all else reads.
pub fn write(pattern: &str, count: &str, gap: &str, file: &str) -> Result<String, String> {
    let (pattern, write_percent) = match pattern {
        "random" => (Pattern::Random, 0),
        "sequential" => (Pattern::Sequential, 0),
        "zipf" => (Pattern::Zipf, 30),
        _ => {
            return Err(format!(
                "there is no pattern `{pattern}`; write random, sequential or zipf"
            ));
        }
    };
    let number =
        |text: &str| text.parse().map_err(|_| format!("`{text}` is no whole number; write 200000"));
    let (count, gap) = (number(count)?, number(gap)?);
    let mut requests = Patterned::new(pattern, count, MEMORY_BYTES, gap, write_percent, 1);
    let failed = |why: std::io::Error| format!("{file}: {why}");
    let mut to = BufWriter::new(std::fs::File::create(file).map_err(failed)?);
    while let Some(one) = requests.next().map_err(|why| why.to_string())? {
        let what = if one.is_write() { "WRITE" } else { "READ" };
        let cycle = one.ticks.unwrap_or(0);
        writeln!(to, "{:#x} {what} {cycle}", one.address).map_err(failed)?;
    }
    to.flush().map_err(failed)?;
    Ok(format!("wrote {count} requests to {file}"))
}
