//! What a drive did, as results tell it.

use crate::distributions::wear_of_blocks;
use crate::result::{DriveResult, SettlingResult};
use tierscope_model::activity::Activity;
use tierscope_model::device::ssd::SsdReport;

/// What the drive did in `time_ps`, in which it was given so many bytes to write, if there is one. Shares of the time may be
/// above 1 ([`bound_shares`]).
pub(crate) fn drive_result(
    activity: &Activity,
    host_written_bytes: u64,
    time_ps: u64,
) -> Option<DriveResult> {
    let report: &SsdReport = activity.drive.as_deref()?;
    let share = |busy_ps: &u64| *busy_ps as f64 / time_ps.max(1) as f64;
    let SsdReport { host, nand, translation, map, log, idle, erases, .. } = report;
    let (erases_min, erases_mean, erases_max) = *erases;
    Some(DriveResult {
        page_bytes: report.page_bytes,
        host_read_pages: host.read_pages,
        buffer_hits: host.buffer_hits,
        host_written_pages: host.written_pages,
        flushes: host.flushes,
        trimmed_pages: translation.trimmed_units,
        flushed_pages: translation.host_units,
        moved_pages: translation.moved_units,
        map_writes: map.writes,
        map_reads: map.reads,
        map_hits: map.hits,
        map_misses: map.misses,
        switch_merges: log.switch_merges,
        partial_merges: log.partial_merges,
        full_merges: log.full_merges,
        padded_pages: translation.padded_units,
        write_amplification: report.write_amplification(),
        flash_bytes_per_host_byte: (host_written_bytes > 0)
            .then(|| report.programmed_bytes() as f64 / host_written_bytes as f64),
        flash_reads: nand.reads,
        flash_programs: nand.programs,
        flash_erases: nand.erases,
        suspends: nand.suspends,
        collections: translation.collections,
        idle_collections: idle.collections,
        idle_erases: idle.erases,
        levelled: translation.levelled,
        erases_min: u64::from(erases_min),
        erases_mean,
        erases_max: u64::from(erases_max),
        wear: wear_of_blocks(u64::from(erases_min), &report.blocks_by_erases),
        endurance: u64::from(report.endurance),
        worn_blocks: translation.worn_blocks,
        overworn_blocks: translation.overworn_blocks,
        lifetime_years: report.lifetime_years(time_ps),
        first_block_lifetime_years: report.first_block_lifetime_years(time_ps),
        channels_busy: report.channels_busy_ps.iter().map(share).collect(),
        dies_busy: report.dies_busy_ps.iter().map(share).collect(),
    })
}

/// Shares of the time are 1 at most: what has begun is booked to its end, which may lie behind that of the run.
pub(crate) fn bound_shares(drive: &mut DriveResult) {
    let shares = drive.channels_busy.iter_mut().chain(&mut drive.dies_busy);
    shares.for_each(|share| *share = share.min(1.0));
}

/// What a store did in the `time_ps` after its last answer.
pub(crate) fn settling_result(activity: &Activity, time_ps: u64) -> SettlingResult {
    let nand = activity.drive.as_ref().map(|drive| drive.nand).unwrap_or_default();
    SettlingResult {
        time_s: time_ps as f64 / 1e12,
        flash_reads: nand.reads,
        flash_programs: nand.programs,
        flash_erases: nand.erases,
        energy_j: activity.energy.total_j(),
    }
}
