//! What a disk did, as results tell it.

use crate::result::DiskResult;
use crate::spec::SystemSpec;
use tierscope_model::activity::Activity;

/// What the disk did in `time_ps`, if there is one; of several side by side the sum, and shares in the mean.
pub(crate) fn disk_result(
    spec: &SystemSpec,
    activity: &Activity,
    time_ps: u64,
) -> Option<DiskResult> {
    let disk = activity.disk?;
    // What has begun is booked to its end, which may lie behind that of the run.
    let raid = spec.disk.as_ref().and_then(|disk| disk.raid.as_ref());
    let drives = raid.map_or(1.0, |raid| f64::from(raid.drives));
    let share = |busy_ps: u64| (busy_ps as f64 / time_ps.max(1) as f64 / drives).min(1.0);
    Some(DiskResult {
        host_read_pages: disk.read_pages,
        buffer_hits: disk.buffer_hits,
        host_written_pages: disk.written_pages,
        flushes: disk.flushes,
        platter_reads: disk.platter_reads,
        read_ahead: disk.read_ahead,
        platter_writes: disk.platter_writes,
        seeks: disk.seeks,
        aged: disk.aged,
        positioning_share: share(disk.positioning_ps),
        rotation_share: share(disk.rotation_ps),
        transfer_share: share(disk.transfer_ps),
    })
}
