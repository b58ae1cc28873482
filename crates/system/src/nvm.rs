//! What byte-addressable non-volatile memory did, as results tell it.

use crate::distributions::wear_of_lines;
use crate::result::{NvmBufferResult, NvmResult};
use tierscope_model::activity::Activity;
use tierscope_model::device::nvm::NvmReport;

/// What the memory did in `time_ps`, if there is any.
pub(crate) fn nvm_result(activity: &Activity, time_ps: u64) -> Option<NvmResult> {
    let report: &NvmReport = activity.nvm.as_deref()?;
    let NvmReport { array, wear, .. } = report;
    let buffer = report.buffer.map(|it| NvmBufferResult {
        read_hits: it.read_hits,
        read_misses: it.read_misses,
        write_hits: it.write_hits,
        write_misses: it.write_misses,
        full_evictions: it.full_evictions,
        partial_evictions: it.partial_evictions,
    });
    Some(NvmResult {
        access_bytes: report.access_bytes,
        line_bytes: report.line_bytes,
        host_writes: report.host_writes,
        buffer,
        read_lines: array.read_lines,
        written_lines: array.write_lines,
        forwarded_lines: array.forwarded_lines,
        merged_lines: array.merged_lines,
        row_hits: array.row_hits,
        row_reads: array.row_reads,
        line_writes: array.line_writes,
        paused_writes: array.paused_writes,
        cancelled_writes: array.cancelled_writes,
        gap_moves: array.gap_moves,
        write_amplification: report.write_amplification(),
        most_writes_of_a_line: u64::from(wear.most),
        worn_lines: wear.lines,
        wear: wear_of_lines(&wear.lines_by_writes),
        endurance: report.endurance,
        worst_line_years: report.worst_line_years(),
        levelled_years: report.levelled_years(time_ps),
    })
}
