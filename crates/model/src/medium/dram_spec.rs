//! What a user says of DRAM.

use super::BackupSpec;
use super::dram::{InterfaceSpec, description, mapping, standard};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size, TransferRate, nearest};

/// What becomes of an open row that no request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PagePolicy {
    /// It stays open until another row of its bank is wanted, or a refresh.
    Open,
    /// It is closed with the last column command that waits for it.
    Closed,
    /// It is closed when nobody has used it for `row_timeout`.
    Timeout,
    /// It is closed as `closed` does, or stays open as `open` does: as of its bank's last rows, by a
    /// predictor of two bits.
    Adaptive,
}

/// What is refreshed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RefreshPolicy {
    /// All banks of a rank.
    AllBank,
    /// One bank while the others work: LPDDR5, HBM2, HBM3.
    PerBank,
    /// The same bank of every bank group while the others work: DDR5.
    SameBank,
}

/// DRAM behind its controllers.
///
/// A part, how many of it, its controllers' policies, and what differs.
///
/// Its capacity is said where it is used (`hybrid.cache.capacity`, `storage.dram_capacity` …): rows
/// extend to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramSpec {
    /// The chips, by name: `ddr4-2400-8gb-x8`. Organization, timings and currents follow from it.
    pub part: String,
    /// Channels, each with its own data bus and controller.
    pub channels: u32,
    /// Ranks of each channel; pseudo-channels, where the standard has them.
    pub ranks: u32,
    /// Parts of an address above the line, from the highest down: `ro-ra-ba-bg-co-ch` (row, rank,
    /// bank, bank group, column, channel; `co3` is three bits of the column), or one letter a bit,
    /// such as `rkbbggcccccch` (k is the rank, h the channel, the first r all other bits of the row).
    pub mapping: String,
    /// What becomes of an open row that no request waits for.
    pub page_policy: PagePolicy,
    /// How long an unused row stays open, where `page_policy` is `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_timeout: Option<Duration>,
    /// What is refreshed at once.
    pub refresh: RefreshPolicy,
    /// Refreshes of a rank (of all its banks) that may wait for requests.
    pub postponed_refreshes: u32,
    /// Lines that a channel's controller reads for requests in flight, at most.
    pub read_queue_depth: u32,
    /// Lines that it writes, at most.
    pub write_queue_depth: u32,
    /// When so many lines are to be written, they go ahead of reads.
    pub write_high: u32,
    /// When so few are left, reads go ahead again.
    pub write_low: u32,
    /// A request that has waited so long is passed by no other of its bank; a write, by no read.
    pub age_cap: Duration,
    /// A rank without requests goes to power-down after so long; never, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_down_after: Option<Duration>,
    /// Energy: of what IDD3N is above IDD2N, the share that the first open row of a rank takes; the
    /// rest is taken bank by bank (the rho of DRAMPower; 1 in Micron's calculators). Where it is not said,
    /// 0.2 of HBM2 and HBM3, as measured, and 0 of others: data sheets measure IDD3N with all banks open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_standby: Option<f64>,
    /// Energy: what drivers and termination of the data bus take. Where it is not said that of the
    /// standard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceSpec>,
    /// Time of the controller itself, added to each request.
    pub controller_latency: Duration,
    /// What saves it when power fails: NVDIMM-N. DRAM forgets, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupSpec>,
    /// Data rate, in place of the part's; timings in clocks stay. 1333MT/s is 1333⅓, as the
    /// standards call their rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_rate: Option<TransferRate>,
    /// Width of the data bus of a channel in bits, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_bits: Option<u32>,
    /// Bank groups of a rank, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_groups: Option<u32>,
    /// Banks of a bank group, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banks: Option<u32>,
    /// Bytes of an open row over all chips of a rank, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<Size>,
    /// Column read to first data, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_cl: Option<u32>,
    /// Column write to first data, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_cwl: Option<u32>,
    /// Activate to column command, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rcd: Option<u32>,
    /// Precharge to activate, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rp: Option<u32>,
    /// Activate to precharge, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ras: Option<u32>,
    /// Activate to activate of a bank, in clocks; t_ras + t_rp where only these are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rc: Option<u32>,
    /// End of write data to precharge, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_wr: Option<u32>,
    /// Read to precharge, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rtp: Option<u32>,
    /// Column command to column command, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ccd_s: Option<u32>,
    /// Column command to column command of a bank group, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ccd_l: Option<u32>,
    /// Activate to activate of a rank, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rrd_s: Option<u32>,
    /// Activate to activate of a bank group, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rrd_l: Option<u32>,
    /// The time of any five activates of a rank is longer than this, in clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_faw: Option<u32>,
    /// End of write data to read of a rank, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_wtr_s: Option<u32>,
    /// End of write data to read of a bank group, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_wtr_l: Option<u32>,
    /// Read to write of a rank, in clocks; from t_cl, t_cwl and the burst where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rtw: Option<u32>,
    /// Between the data of different ranks, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rtrs: Option<u32>,
    /// End of power-down to any command, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_xp: Option<u32>,
    /// Least time in power-down, and out of it, in clocks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_cke: Option<u32>,
    /// Mean time between refreshes of a rank, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_refi: Option<Duration>,
    /// Time of a refresh of all banks, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rfc: Option<Duration>,
    /// Time of a refresh of one bank, in place of the part's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_rfc_bank: Option<Duration>,
}

impl DramSpec {
    /// Channels of a part, of one rank (of two pseudo-channels), with a controller as in gem5: queues
    /// of 64, watermarks of 85 % and 50 % (gem5/gem5@1db206b:src/mem/MemCtrl.py); open rows; no
    /// refresh is postponed; no power-down.
    pub fn of_part(part: &str, channels: u32) -> Self {
        let pseudo = standard::find(part).is_some_and(|(std, _)| std.rank_is_pseudo_channel);
        DramSpec {
            part: part.to_owned(),
            channels,
            ranks: if pseudo { 2 } else { 1 },
            mapping: "ro-ra-ba-bg-co-ch".into(),
            page_policy: PagePolicy::Open,
            row_timeout: None,
            refresh: RefreshPolicy::AllBank,
            postponed_refreshes: 0,
            read_queue_depth: 64,
            write_queue_depth: 64,
            write_high: 54,
            write_low: 32,
            age_cap: Duration::from_picoseconds(1_000_000),
            power_down_after: None,
            shared_standby: None,
            interface: None,
            controller_latency: Duration::from_picoseconds(10_000),
            backup: None,
            data_rate: None,
            bus_bits: None,
            bank_groups: None,
            banks: None,
            row: None,
            t_cl: None,
            t_cwl: None,
            t_rcd: None,
            t_rp: None,
            t_ras: None,
            t_rc: None,
            t_wr: None,
            t_rtp: None,
            t_ccd_s: None,
            t_ccd_l: None,
            t_rrd_s: None,
            t_rrd_l: None,
            t_faw: None,
            t_wtr_s: None,
            t_wtr_l: None,
            t_rtw: None,
            t_rtrs: None,
            t_xp: None,
            t_cke: None,
            t_refi: None,
            t_rfc: None,
            t_rfc_bank: None,
        }
    }

    /// Banks of all channels, and the bytes of a row of one; `None` where the part is not known.
    pub fn banks_and_row(&self) -> Option<(u64, Size)> {
        standard::find(&self.part)?;
        let d = description::Description::new(self);
        let counts = [d.channels, d.ranks, d.groups, d.banks];
        let banks = counts.iter().fold(1u64, |all, n| all.saturating_mul(u64::from(*n)));
        Some((banks, Size::from_bytes(d.row_bytes)))
    }

    /// Transfers of a data bus in three seconds, which are whole, and its width in bits; `None` where
    /// the part is not known.
    pub fn bus(&self) -> Option<(u64, u32)> {
        let (_, part) = standard::find(&self.part)?;
        let rate = self.data_rate.map(description::three_transfers_per_second);
        let rate = rate.unwrap_or(part.three_transfers_per_second);
        Some((rate, self.bus_bits.unwrap_or(part.bus_bits)))
    }

    /// How long the memory controller keeps away from a rank for a refresh of all of it; `None` where ranks are not
    /// refreshed so, or the part is not known.
    pub fn refresh_of_ranks(&self) -> Option<Duration> {
        standard::find(&self.part)?;
        let d = description::Description::new(self);
        let busy_ps = d.clock.cycles_to_ps(d.timings.rfc);
        (d.refresh_units == 1).then_some(Duration::from_picoseconds(busy_ps))
    }

    /// Bytes that a column command moves; `None` where the part is not known.
    pub fn burst_bytes(&self) -> Option<u64> {
        standard::find(&self.part)?;
        Some(description::Description::new(self).burst_bytes)
    }

    /// Whether each row holds bytes that follow each other, asked for in lines of `line` bytes that
    /// fit; of a description that is right.
    pub fn rows_follow_each_other(&self, line: u64) -> bool {
        let d = description::Description::new(self);
        let mapping = mapping::Mapping::new(self, &d, line);
        let first = mapping.place(0);
        (1..d.row_bytes / line).all(|other| mapping.place(other) == first)
    }

    /// Collects what does not fit lines of `line` bytes, of a description that is right otherwise.
    pub fn check_line(&self, path: &str, line: u64, problems: &mut Problems) {
        if standard::find(&self.part).is_none() || !line.is_power_of_two() {
            return; // Said already.
        }
        let d = description::Description::new(self);
        if line < d.burst_bytes || !line.is_multiple_of(d.burst_bytes) {
            problems.add(
                "contradiction",
                format!("{path}.bus_bits"),
                self.bus_bits.map(|bits| bits.to_string()).unwrap_or_default(),
                format!(
                    "a burst of {} moves {} bytes, and a line of {line} is no whole number of it",
                    self.part, d.burst_bytes
                ),
                "change the line, the part or the bus".into(),
            );
        }
        if d.row_bytes < line {
            problems.add(
                "contradiction",
                format!("{path}.row"),
                self.row.map(|row| row.to_string()).unwrap_or_default(),
                format!("a row must hold a line of {line} bytes"),
                format!("write at least \"{}\"", Size::from_bytes(line)),
            );
            return;
        }
        mapping::check(self, line, path, problems);
    }

    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        let known = problems.len();
        self.check_numbers(path, problems);
        let Some((standard, _)) = standard::find(&self.part) else {
            self.unknown_part(path, problems);
            return;
        };
        self.check_policies(path, standard, problems);
        if let Some(backup) = &self.backup {
            backup.check(&format!("{path}.backup"), problems);
        }
        if problems.len() == known {
            description::check(self, path, problems);
        }
    }

    fn unknown_part(&self, path: &str, problems: &mut Problems) {
        let names: Vec<_> = standard::parts().map(|(_, part)| part.name).collect();
        let mend = match nearest(&self.part, names.iter().copied()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => "write one of them".into(),
        };
        problems.add(
            "unknown-value",
            format!("{path}.part"),
            format!("\"{}\"", self.part.escape_debug()),
            format!("the parts are {}", names.join(", ")),
            mend,
        );
    }

    fn check_numbers(&self, path: &str, problems: &mut Problems) {
        // Refreshes that fall due on a request's way through the controller are done one by one.
        let longest = Duration::from_picoseconds(1_000_000_000);
        problems.at_most(path, "controller_latency", self.controller_latency, longest);
        for (name, value, most) in [
            // Each bank has a state of its own: more than any machine has would only fill memory.
            ("channels", Some(self.channels), 1024),
            ("ranks", Some(self.ranks), 16),
            ("bank_groups", self.bank_groups, 16),
            ("banks", self.banks, 64),
            ("read_queue_depth", Some(self.read_queue_depth), 1 << 16),
            ("write_queue_depth", Some(self.write_queue_depth), 1 << 16),
            ("write_high", Some(self.write_high), self.write_queue_depth),
            ("t_cl", self.t_cl, 1 << 20),
            ("t_cwl", self.t_cwl, 1 << 20),
            ("t_rcd", self.t_rcd, 1 << 20),
            ("t_rp", self.t_rp, 1 << 20),
            ("t_ras", self.t_ras, 1 << 20),
            ("t_ccd_s", self.t_ccd_s, 1 << 20),
        ] {
            if let Some(value) = value {
                problems.at_least(path, name, value, 1);
                problems.at_most(path, name, value, most.max(1));
            }
        }
        if self.write_low >= self.write_high {
            problems.add(
                "contradiction",
                format!("{path}.write_low"),
                self.write_low.to_string(),
                format!("writes go ahead at write_high = {}, until write_low", self.write_high),
                format!("write less than {}", self.write_high),
            );
        }
        if self.bus_bits.is_some_and(|bits| !bits.is_multiple_of(8) || bits == 0 || bits > 1024) {
            problems.add(
                "impossible-value",
                format!("{path}.bus_bits"),
                self.bus_bits.unwrap_or(0).to_string(),
                "a data bus is a whole number of bytes wide, at most 1024 bits".into(),
                "write 64".into(),
            );
        }
        let row = self.row.map(Size::bytes);
        if row.is_some_and(|row| !row.is_power_of_two() || row < 64) {
            problems.add(
                "impossible-value",
                format!("{path}.row"),
                self.row.map(|row| row.to_string()).unwrap_or_default(),
                "a row is a power of two of at least 64B".into(),
                "write 1KiB".into(),
            );
        }
        if let Some(share) = self.shared_standby {
            problems.at_least(path, "shared_standby", share, 0.0);
            problems.at_most(path, "shared_standby", share, 1.0);
        }
        if let Some(rate) = self.data_rate {
            let least = TransferRate::from_transfers_per_second(1_000_000);
            problems.at_least(path, "data_rate", rate, least);
        }
    }

    fn check_policies(&self, path: &str, standard: &standard::Standard, problems: &mut Problems) {
        let has = match self.refresh {
            RefreshPolicy::AllBank => true,
            RefreshPolicy::PerBank => standard.bank_refresh == standard::BankRefresh::Single,
            RefreshPolicy::SameBank => {
                standard.bank_refresh == standard::BankRefresh::SameInEveryGroup
            }
        };
        if !has {
            let other = match standard.bank_refresh {
                standard::BankRefresh::None => "",
                standard::BankRefresh::Single => " or \"per-bank\"",
                standard::BankRefresh::SameInEveryGroup => " or \"same-bank\"",
            };
            problems.add(
                "contradiction",
                format!("{path}.refresh"),
                String::new(),
                format!("{} has no such refresh", standard.name),
                format!("write \"all-bank\"{other}"),
            );
        }
        let most = standard.most_postponed;
        problems.at_most(path, "postponed_refreshes", self.postponed_refreshes, most);
        if standard.rank_is_pseudo_channel {
            problems.at_most(path, "ranks", self.ranks, 2);
        }
        match (self.page_policy, self.row_timeout) {
            (PagePolicy::Timeout, None) => problems.add(
                "missing-key",
                format!("{path}.row_timeout"),
                String::new(),
                "page_policy is \"timeout\"".into(),
                "add row_timeout = \"100ns\", or write page_policy = \"open\"".into(),
            ),
            (PagePolicy::Open | PagePolicy::Closed | PagePolicy::Adaptive, Some(timeout)) => {
                problems.add(
                    "contradiction",
                    format!("{path}.row_timeout"),
                    timeout.to_string(),
                    "page_policy is not \"timeout\"".into(),
                    "remove it, or write page_policy = \"timeout\"".into(),
                )
            }
            _ => {}
        }
    }
}
