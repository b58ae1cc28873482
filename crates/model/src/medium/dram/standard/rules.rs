//! Rules that the standards share, in the words of JEDEC's timing parameters.

use super::Command::*;
use super::Scope::*;
use super::{Command, Constraint, Next, Scope, Timings};

/// A line of a table.
pub const fn rule(
    scope: Scope,
    after: &'static [Command],
    next: &'static [Next],
    clocks: fn(&Timings) -> u64,
) -> Constraint {
    Constraint { scope, after, next, clocks }
}

const READS: &[Command] = &[Read, ReadPrecharge];
const WRITES: &[Command] = &[Write, WritePrecharge];
const PRECHARGES: &[Command] = &[Precharge, PrechargeAll];
const OPENS: &[Next] = &[Next::Activate, Next::RefreshBank];

/// The first clock after the data of a write.
const fn end_of_write(t: &Timings) -> u64 {
    t.cwl + t.burst
}

/// One bank: rows open, are used, and close.
pub const BANK: &[Constraint] = &[
    rule(Bank, &[Activate], OPENS, |t| t.rc),
    rule(Bank, &[Activate], &[Next::Read], |t| t.rcd),
    rule(Bank, &[Activate], &[Next::Write], |t| t.rcd_wr),
    rule(Bank, &[Activate], &[Next::Precharge], |t| t.ras),
    rule(Bank, &[Precharge], OPENS, |t| t.rp),
    rule(Bank, &[Read], &[Next::Precharge], |t| t.rtp),
    rule(Bank, &[Write], &[Next::Precharge], |t| end_of_write(t) + t.wr),
    rule(Bank, &[ReadPrecharge], OPENS, |t| t.rtp + t.rp),
    rule(Bank, &[WritePrecharge], OPENS, |t| end_of_write(t) + t.wr + t.rp),
];

/// A rank: its data bus both ways, activates close together, refresh of all banks.
pub const RANK: &[Constraint] = &[
    rule(Rank, READS, &[Next::Read], |t| if t.ccd_s > t.burst { t.ccd_s } else { t.burst }),
    rule(Rank, WRITES, &[Next::Write], |t| if t.ccd_s > t.burst { t.ccd_s } else { t.burst }),
    rule(Rank, READS, &[Next::Write], |t| t.rtw),
    rule(Rank, WRITES, &[Next::Read], |t| end_of_write(t) + t.wtr_s),
    rule(Rank, &[Activate], &[Next::Activate, Next::RefreshBank], |t| t.rrd_s),
    rule(Rank, &[PrechargeAll], OPENS, |t| t.rp_all),
    rule(Rank, PRECHARGES, &[Next::Precharge], |t| t.ppd),
    rule(Rank, &[Activate], &[Next::Refresh], |t| t.rc),
    rule(Rank, &[Precharge], &[Next::Refresh], |t| t.rp),
    rule(Rank, &[PrechargeAll], &[Next::Refresh], |t| t.rp_all),
    rule(Rank, &[ReadPrecharge], &[Next::Refresh], |t| t.rtp + t.rp),
    rule(Rank, &[WritePrecharge], &[Next::Refresh], |t| end_of_write(t) + t.wr + t.rp),
    rule(Rank, &[Refresh], &[Next::Activate, Next::Refresh, Next::RefreshBank], |t| t.rfc),
];

/// Bank groups: what goes to one group in a row takes longer.
pub const GROUPS: &[Constraint] = &[
    rule(Group, READS, &[Next::Read], |t| t.ccd_l),
    rule(Group, WRITES, &[Next::Write], |t| t.ccd_l_wr),
    rule(Group, WRITES, &[Next::Read], |t| end_of_write(t) + t.wtr_l),
    rule(Group, &[Activate], &[Next::Activate], |t| t.rrd_l),
];

/// Ranks on one data bus: their data do not meet, and tRTRS lies between.
pub const SHARED_BUS: &[Constraint] = &[
    rule(OtherRank, READS, &[Next::Read], |t| t.burst + t.rtrs),
    rule(OtherRank, WRITES, &[Next::Write], |t| t.burst + t.rtrs),
    rule(OtherRank, READS, &[Next::Write], |t| (t.cl + t.burst + t.rtrs).saturating_sub(t.cwl)),
    rule(OtherRank, WRITES, &[Next::Read], |t| (end_of_write(t) + t.rtrs).saturating_sub(t.cl)),
];

/// Power-down, of banks with open rows and of closed ones. It begins when what was begun is over.
pub const POWER_DOWN: &[Constraint] = &[
    rule(Rank, &[Activate], &[Next::PowerDown], |_| 1),
    rule(Rank, PRECHARGES, &[Next::PowerDown], |_| 1),
    rule(Rank, READS, &[Next::PowerDown], |t| t.cl + t.burst + 1),
    rule(Rank, &[Write], &[Next::PowerDown], |t| end_of_write(t) + t.wr),
    rule(Rank, &[WritePrecharge], &[Next::PowerDown], |t| end_of_write(t) + t.wr + 1),
    rule(Rank, &[Refresh], &[Next::PowerDown], |t| t.rfc),
    rule(Rank, &[RefreshBank], &[Next::PowerDown], |t| t.rfc_bank),
    rule(Rank, &[PowerDown], &[Next::PowerUp], |t| t.cke),
    rule(Rank, &[PowerUp], &[Next::PowerDown], |t| t.cke),
    rule(
        Rank,
        &[PowerUp],
        &[
            Next::Activate,
            Next::Precharge,
            Next::Read,
            Next::Write,
            Next::Refresh,
            Next::RefreshBank,
        ],
        |t| t.xp,
    ),
];

/// Refresh of a bank (or of one in each group) while the others of the rank work.
pub const BANK_REFRESH: &[Constraint] = &[
    rule(Bank, &[RefreshBank], OPENS, |t| t.rfc_bank),
    rule(Rank, &[RefreshBank], &[Next::Refresh], |t| t.rfc_bank),
    rule(Rank, &[RefreshBank], &[Next::Activate], |t| t.rrefd),
    rule(Rank, &[RefreshBank], &[Next::RefreshBank], |t| t.rfc_to_rfc_bank),
];
