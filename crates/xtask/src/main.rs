//! Chores that the build does not do by itself.
//!
//! - `generate` writes what is made from the Rust types and presets: JSON schemas, reference pages, pages
//!   of drives and the Python classes of descriptions;
//! - `check` fails if one of those files is not what `generate` would write;
//! - `licences` fails if the recorder's library, which is loaded into QEMU (GPLv2), depends on a
//!   crate whose licence does not allow that;
//! - `dram-soak COMMANDS` drives every part of DRAM until it has given so many commands, under the
//!   protocol checker;
//! - `dram-log PART COMMANDS FILE` writes such a run's log, and `dram-check PART FILE` checks one;
//! - `memory-trace PATTERN COUNT GAP FILE` writes a memory trace, for comparisons with other
//!   simulators.

mod dram;
mod generated;
mod licences;
mod presets;
mod python;
mod reference;
mod requests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p tierscope-xtask -- generate|check|licences|\
    dram-soak COMMANDS|dram-log PART COMMANDS FILE|dram-check PART FILE|\
    memory-trace random|sequential|zipf COUNT GAP FILE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["generate"] => generated::write(&root()),
        ["check"] => generated::check(&root()),
        ["licences"] => licences::check(&root()),
        ["dram-soak", commands] => dram::soak(commands),
        ["dram-log", part, commands, file] => dram::log(part, commands, file),
        ["dram-check", part, file] => dram::check(part, file),
        ["memory-trace", pattern, count, gap, file] => requests::write(pattern, count, gap, file),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let here = Path::new(&here);
    here.parent().and_then(Path::parent).unwrap_or(here).to_owned()
}
