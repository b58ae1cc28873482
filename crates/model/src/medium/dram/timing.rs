//! The timing table of one DRAM: its description in clocks.

use super::super::DramSpec;
use super::bus::User;
use tierscope_kernel::Clock;

/// Clocks between the data of a read and those of a write behind it: the strobe's post-amble and
/// pre-amble (JEDEC JESD79-3F, a read followed by a write: RL + tCCD + 2 − WL).
const READ_TO_WRITE_CLOCKS: u64 = 2;

/// Times of one DRAM, in its clocks but where the name says otherwise.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The command clock.
    pub clock: Clock,
    /// Column read to first data.
    pub cl: u64,
    /// Column write to first data.
    pub cwl: u64,
    /// Activate to column command.
    pub rcd: u64,
    /// Precharge to activate.
    pub rp: u64,
    /// Activate to precharge.
    pub ras: u64,
    /// End of write data to precharge.
    pub wr: u64,
    /// The data bus is taken for so long by a line, which may need several bursts.
    pub line_clocks: u64,
    /// One refresh, rounded up to whole clocks.
    pub rfc: u64,
    /// Between refreshes of a rank, on average.
    pub refi_ps: u64,
    /// The controller's own time, before it looks at banks.
    pub controller_ps: u64,
    /// From the first command to the first data of a request at a bank whose open row is another:
    /// background requests are started so far ahead of the end of what the bus has to do.
    pub lookahead: u64,
}

impl Timing {
    /// The table for lines of `line_bytes`, by the clock of the description.
    pub fn new(spec: &DramSpec, line_bytes: u64) -> Self {
        Timing::with_clock(spec, Clock::from_period_ps(spec.clock_period.picoseconds()), line_bytes)
    }

    /// The table by a clock whose period need not be whole picoseconds.
    pub fn with_clock(spec: &DramSpec, clock: Clock, line_bytes: u64) -> Self {
        let burst_bytes = u64::from(spec.bus_bits / 8) * u64::from(spec.burst_length);
        let burst_clocks = u64::from(spec.burst_length.div_ceil(2));
        let [cl, cwl, rcd, rp] = [spec.t_cl, spec.t_cwl, spec.t_rcd, spec.t_rp].map(u64::from);
        Timing {
            clock,
            cl,
            cwl,
            rcd,
            rp,
            ras: u64::from(spec.t_ras),
            wr: u64::from(spec.t_wr),
            line_clocks: line_bytes.div_ceil(burst_bytes.max(1)).max(1) * burst_clocks,
            rfc: clock.ps_to_cycles_ceil(spec.t_rfc.picoseconds()),
            refi_ps: spec.t_refi.picoseconds(),
            controller_ps: spec.controller_latency.picoseconds(),
            lookahead: rp + rcd + cl.max(cwl),
        }
    }

    /// Column command to first data.
    #[inline]
    pub fn column_to_data(&self, write: bool) -> u64 {
        if write { self.cwl } else { self.cl }
    }

    /// Clocks that the data bus must rest between the data of two users. A read's command follows
    /// the last data written to its rank.
    #[inline]
    pub fn turnaround(&self, before: User, after: User) -> u64 {
        // Without branches: nothing about random requests can be predicted.
        let to_read = before.write & !after.write & (before.rank == after.rank);
        let to_write = !before.write & after.write;
        u64::from(to_read) * self.cl + u64::from(to_write) * READ_TO_WRITE_CLOCKS
    }
}
