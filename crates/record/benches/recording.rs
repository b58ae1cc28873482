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
use tierscope_record::launch::Report;
use tierscope_record::sink::tst::TstJob;
use tierscope_units::Size;
use tierscope_workload::filter::FilterSpec;
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

/// Records to a file, which goes; the report, and its size in bytes.
fn record_to_file(program: &Path, arguments: &[&str], filter: Option<FilterSpec>) -> (Report, u64) {
    let path = scratch().join("recording.tst");
    let metadata = TstMetadata { filter, ..TstMetadata::default() };
    let sink = TstJob { path: path.clone(), metadata, max_bytes: None };
    let report = record(program, arguments, SinkJob::Tst(sink));
    let bytes = std::fs::metadata(&path).map_or(0, |status| status.len());
    std::fs::remove_file(&path).unwrap_or_default();
    (report, bytes)
}

fn measure(name: &str, program: &Path, arguments: &[&str]) {
    let alone_s = alone_s(program, arguments);
    let counted = record(program, arguments, SinkJob::Discard { sites: None });
    let (written, bytes) = record_to_file(program, arguments, None);
    let filter = FilterSpec::new(Size::from_bytes(32 << 10)).expect("a size of such caches");
    let (filtered, filtered_bytes) = record_to_file(program, arguments, Some(filter));
    let accesses_per_s = |report: &Report| accesses(report) / report.wall_s;
    println!(
        "{{\"name\": \"{name}\", \"accesses\": {:.0}, \"alone_s\": {alone_s:.3}, \
         \"to_nothing_s\": {:.3}, \"to_nothing_accesses_per_s\": {:.0}, \"to_file_s\": {:.3}, \
         \"to_file_accesses_per_s\": {:.0}, \"file_bytes_per_access\": {:.3}, \
         \"filtered_s\": {:.3}, \"filtered_accesses_per_s\": {:.0}, \
         \"filtered_bytes_per_access\": {:.4}}}",
        accesses(&counted),
        counted.wall_s,
        accesses_per_s(&counted),
        written.wall_s,
        accesses_per_s(&written),
        bytes as f64 / accesses(&written),
        filtered.wall_s,
        accesses_per_s(&filtered),
        filtered_bytes as f64 / accesses(&filtered),
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
