//! What recording costs: real programs alone, recorded to nothing, and recorded to a file.
//!
//! `cargo bench -p tierscope-record --bench recording [-- smoke]`; prints one JSON object a line.
//! Needs `qemu-x86_64` with plugins, a C compiler and sqlite3, and says so where one is missing.

mod common;

use common::{accesses, loops, record, scratch};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tierscope_record::job::SinkJob;
use tierscope_record::sink::tst::TstJob;
use tierscope_workload::trace::TstMetadata;

fn on_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing"))
}

fn alone_s(program: &Path, arguments: &[&str]) -> f64 {
    let begun = Instant::now();
    let mut command = Command::new(program);
    let status = command.args(arguments).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{} fails", program.display());
    begun.elapsed().as_secs_f64()
}

fn measure(name: &str, program: &Path, arguments: &[&str]) {
    let alone_s = alone_s(program, arguments);
    let counted = record(program, arguments, SinkJob::Discard { sites: None });
    let path = scratch().join("recording.tst");
    let sink = TstJob { path: path.clone(), metadata: TstMetadata::default() };
    let written = record(program, arguments, SinkJob::Tst(sink));
    let bytes = std::fs::metadata(&path).map_or(0, |status| status.len());
    std::fs::remove_file(&path).unwrap_or_default();
    println!(
        "{{\"name\": \"{name}\", \"accesses\": {:.0}, \"alone_s\": {alone_s:.3}, \
         \"to_nothing_s\": {:.3}, \"to_nothing_accesses_per_s\": {:.0}, \"to_file_s\": {:.3}, \
         \"to_file_accesses_per_s\": {:.0}, \"file_bytes_per_access\": {:.3}}}",
        accesses(&counted),
        counted.wall_s,
        accesses(&counted) / counted.wall_s,
        written.wall_s,
        accesses(&written) / written.wall_s,
        bytes as f64 / accesses(&written),
    );
}

fn main() {
    let scale = if std::env::args().any(|a| a == "smoke") { 100 } else { 1 };
    let loops = loops();
    measure("stores in order", &loops, &["stores", &(300 / scale).max(1).to_string()]);
    measure("random updates", &loops, &["updates", &(100_000_000 / scale).to_string()]);
    let query = format!(
        "WITH RECURSIVE row (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM row WHERE id < {}) \
         SELECT count(*), sum(x) FROM (SELECT id * 2654435761 % 1000003 AS x FROM row ORDER BY x)",
        300_000 / scale
    );
    measure("sqlite3, a sort", &on_path("sqlite3"), &[":memory:", &query]);
}
