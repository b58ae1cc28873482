//! The machine around an organization, and what organizations ask of it.

use crate::cache::Modulo;
use crate::device::{AnyDevice, DeviceDescription, InDram};
use crate::link::LinkDescription;
use crate::medium::dram::description::three_transfers_per_second;
use crate::medium::{DramSpec, RefreshPolicy};
use crate::os::OsSpec;
use tierscope_units::{Problems, Size, TransferRate};

/// The machine around an organization, as it is described.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The operating system, where there is one.
    pub os: Option<&'a OsSpec>,
    /// DRAM, where there is any.
    pub dram: Option<&'a DramSpec>,
    /// The store and the table that describes it, where there is one.
    pub store: Option<(&'static str, &'a dyn DeviceDescription)>,
    /// What connects the store, where there is one.
    pub link: Option<&'a dyn LinkDescription>,
    /// A line of the on-chip caches, where there are any.
    pub line: Option<Size>,
    /// Whether versions of data are carried and checked.
    pub check_data: bool,
}

impl Surroundings<'_> {
    /// A page of the operating system, where there is one.
    pub fn page(&self) -> Option<Size> {
        self.os.map(|os| os.page)
    }

    /// The store behind its link, where there are both, or in DRAM.
    pub fn build_store(&self) -> Option<AnyDevice> {
        let (_, store) = self.store?;
        store.build_in_dram().or_else(|| Some(store.build(self.link?)))
    }

    /// That the store lies in DRAM, where it does.
    pub fn store_in_dram(&self) -> Option<InDram> {
        self.store.and_then(|(_, store)| store.lies_in_dram())
    }

    /// What the operating system sees as memory is whole pages, and DRAM has a row in each bank:
    /// adds a mistake at `path` if a memory of `capacity` is not so.
    pub fn check_memory(&self, path: &str, capacity: Size, problems: &mut Problems) {
        if let Some(page) = self.page() {
            whole(path, capacity, "pages (os.page)", page, problems);
        }
        self.check_rows(path, capacity, problems);
    }

    /// DRAM of `capacity` has a row in each bank: adds a mistake at `path` if it has not.
    pub fn check_rows(&self, path: &str, capacity: Size, problems: &mut Problems) {
        if let Some(backup) = self.dram.and_then(|dram| dram.backup.as_ref())
            && backup.module.bytes() > 0
            && !capacity.bytes().is_multiple_of(backup.module.bytes())
        {
            problems.add(
                "contradiction",
                path.into(),
                capacity.to_string(),
                format!(
                    "it is not a whole number of modules of {} (dram.backup.module)",
                    backup.module
                ),
                format!("write a multiple of {}, or another module", backup.module),
            );
        }
        let Some((banks, row)) = self.dram.and_then(DramSpec::banks_and_row) else { return };
        let least = banks.saturating_mul(row.bytes());
        if capacity.bytes() < least {
            problems.add(
                "contradiction",
                path.into(),
                capacity.to_string(),
                format!("{banks} banks with a row of {row} need more"),
                format!("write at least \"{}\", or fewer channels", Size::from_bytes(least)),
            );
        }
    }

    /// The DRAM that a link of a table shares a channel with: that there are both.
    fn dram_of(&self, link: &str, channel: u32, problems: &mut Problems) -> Option<&DramSpec> {
        let Some(dram) = self.dram else {
            problems.add(
                "contradiction",
                link.into(),
                String::new(),
                "the device is on a channel of the DRAM, and there is none".into(),
                "connect it by another link, such as [pcie], or add [dram]".into(),
            );
            return None;
        };
        if channel >= dram.channels {
            problems.add(
                "contradiction",
                format!("{link}.channel"),
                channel.to_string(),
                format!("the DRAM has {} channels, counted from 0", dram.channels),
                format!("write {} or less", dram.channels.saturating_sub(1)),
            );
        }
        Some(dram)
    }

    /// A device on a channel of the DRAM is on one that there is, and drives no more of it than there is.
    pub fn check_shared_channel(&self, problems: &mut Problems) {
        let shared = self.link.and_then(LinkDescription::shared_channel);
        let Some(shared) = shared else { return };
        let Some(dram) = self.dram_of("ddr_channel", shared.channel, problems) else { return };
        let Some((rate, bits)) = dram.bus() else { return };
        if three_transfers_per_second(shared.data_rate) > rate {
            // As people write it: 1333 MT/s are 1333⅓.
            let mega = rate / 3_000_000 * 1_000_000;
            let whole = TransferRate::from_transfers_per_second(mega);
            problems.add(
                "contradiction",
                "ddr_channel.data_rate".into(),
                shared.data_rate.to_string(),
                format!("the DRAM's channel makes {whole}"),
                "write that, or less for a device that is slower".into(),
            );
        }
        if shared.bus_bits > bits {
            problems.add(
                "contradiction",
                "ddr_channel.bus_bits".into(),
                shared.bus_bits.to_string(),
                format!("the DRAM's data bus is {bits} bits wide"),
                format!("write {bits} or less"),
            );
        }
    }

    /// A device that has a module of the DRAM while that refreshes is on a channel that there is, whose ranks are
    /// refreshed as a whole, and has some of the time.
    pub fn check_refresh_windows(&self, problems: &mut Problems) {
        let Some(windows) = self.link.and_then(LinkDescription::refresh_windows) else { return };
        let Some(dram) = self.dram_of("refresh_window", windows.channel, problems) else { return };
        let in_parts = match dram.refresh {
            RefreshPolicy::AllBank => None,
            RefreshPolicy::PerBank => Some("per-bank"),
            RefreshPolicy::SameBank => Some("same-bank"),
        };
        if let Some(word) = in_parts {
            problems.add(
                "contradiction",
                "dram.refresh".into(),
                word.into(),
                "a device has the module ([refresh_window]) while all of its banks refresh".into(),
                "write \"all-bank\", or connect the device by another link".into(),
            );
        } else if let Some(busy) = dram.refresh_of_ranks()
            && busy.picoseconds() < windows.chips.picoseconds().saturating_add(1_000)
        {
            problems.add(
                "contradiction",
                "refresh_window.chips".into(),
                windows.chips.to_string(),
                format!("a refresh takes {busy} (dram.t_rfc), and leaves the device nothing"),
                "write less, or a longer dram.t_rfc".into(),
            );
        }
    }

    /// The store is whole pages of those who use it: of `page`, which are called `what`, and of the
    /// operating system's. Of its own pages it is, or that is said already.
    pub fn check_store(&self, page: Size, what: &str, problems: &mut Problems) {
        let Some((key, store)) = self.store else { return };
        let own = self.page().filter(|own| *own >= page);
        let (what, largest) = own.map_or((what, page), |own| ("pages (os.page)", own));
        if largest > store.page() {
            whole(&format!("{key}.capacity"), store.capacity(), what, largest, problems);
        }
    }
}

/// Adds a mistake if `value` is not a whole number of `part`s. Zero is one. Pages that are no power
/// of two are a mistake themselves, and all others follow from it.
pub(super) fn whole(path: &str, value: Size, what: &str, part: Size, problems: &mut Problems) {
    if part.bytes().is_power_of_two() && !value.bytes().is_multiple_of(part.bytes()) {
        problems.add(
            "contradiction",
            path.into(),
            value.to_string(),
            format!("it is not a whole number of {what} of {part}"),
            format!("write a multiple of {part}"),
        );
    }
}

/// Adds a mistake at `path` if a cache of `capacity` has more sets of `set_bytes` than numbers of 32 bits tell apart.
/// `what` names sets, and `larger` says how to make
/// them larger.
pub(super) fn check_number_of_sets(
    path: &str,
    capacity: Size,
    (what, set): (&str, Size),
    larger: &str,
    problems: &mut Problems,
) {
    let most = Size::from_bytes(set.bytes().saturating_mul(Modulo::MOST));
    if set.bytes() > 0 && capacity > most {
        problems.add(
            "impossible-value",
            path.into(),
            capacity.to_string(),
            format!("{what} of {set} are numbered with 32 bits, which reaches to {most}"),
            format!("write {most} or less, or {larger}"),
        );
    }
}
