//! Queues of NVM Express: submission queues and their arbitration, lists of the host's pages, completion
//! entries and interrupts.
//!
//! Source: NVM Express, revision 1.3: §4.1 (queues), §4.3 (physical region page entries and lists), §4.11
//! (arbitration), §5.21.1.1 and §5.21.1.8 (features Arbitration and Interrupt Coalescing), §7.5
//! (interrupts).

use super::{Kind, Leg};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// Bytes of an entry of a submission queue.
pub const COMMAND_BYTES: u64 = 64;
/// Bytes of an entry of a list of pages.
const POINTER_BYTES: u64 = 8;
/// The unit of the time by which interrupts may be held back, in picoseconds: 100 us.
const TIME_UNIT_PS: u64 = 100_000_000;
/// Reads that a device has under way at most: PCI Express Base Specification 6.0, tags of 14 bits.
const MOST_READS: u32 = 1 << 14;
/// Entries of a table of MSI-X at most: PCI Express Base Specification 5.0, §7.7.2.2 (Table Size has 11 bits).
const MOST_VECTORS: u32 = 2_048;

/// Queues of NVM Express. Without them, each command is fetched as soon as the device is told of it, its data
/// lie in one place of the host's memory, and each completion interrupts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmeSpec {
    /// Submission queues of each class that requests are of, to which they are dealt in turn.
    pub queues: u32,
    /// Entries of each queue, 2 to 65536. One stays empty.
    pub entries: u32,
    /// Commands that are fetched from a queue before the next has its turn: a power of two, up to 64.
    pub burst: u32,
    /// Reads of submission queues that the device has under way at once, 1 to 16384; each is for as many commands
    /// as wait, up to a burst.
    pub fetches: u32,
    /// A page of the host's memory: a list of pages is fetched for a command whose data lie in more than two.
    /// A power of two from 4KiB to 128MiB.
    pub memory_page: Size,
    /// Interrupts (MSI-X vectors), which queues have in turn, 1 to 2048; what is completed with the same one is
    /// held back together.
    pub vectors: u32,
    /// Weighted round robin with urgent priority; without it queues have their turns alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priorities: Option<NvmePrioritiesSpec>,
    /// Interrupts held back until several completions are told of at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<NvmeCoalescingSpec>,
}

/// A class of submission queues.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NvmePriority {
    /// Before all others.
    Urgent,
    /// By its weight.
    High,
    /// By its weight.
    Medium,
    /// By its weight.
    Low,
}

/// Weighted round robin with urgent priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmePrioritiesSpec {
    /// The class of reads that somebody waits for.
    pub reads: NvmePriority,
    /// The class of writes that somebody waits for, of flushes and of trims.
    pub writes: NvmePriority,
    /// The class of what nobody waits for.
    pub background: NvmePriority,
    /// Commands of the class `high` in a round, 1 to 256.
    pub high_weight: u32,
    /// Commands of the class `medium` in a round, 1 to 256.
    pub medium_weight: u32,
    /// Commands of the class `low` in a round, 1 to 256.
    pub low_weight: u32,
}

/// Interrupts held back until several completions are told of at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmeCoalescingSpec {
    /// Completions of a vector with which it interrupts: 2 to 256.
    pub threshold: u32,
    /// Time from the first of them after which it interrupts in any case: up to 25.5ms, in steps of 100us.
    pub time: Duration,
}

impl NvmePrioritiesSpec {
    /// The class of a request.
    pub fn class(&self, write: bool, background: bool) -> NvmePriority {
        match (background, write) {
            (true, _) => self.background,
            (false, true) => self.writes,
            (false, false) => self.reads,
        }
    }

    /// Commands of a class in a round; of the urgent one, as many as there are.
    pub fn weight(&self, class: NvmePriority) -> u32 {
        match class {
            NvmePriority::Urgent => u32::MAX,
            NvmePriority::High => self.high_weight,
            NvmePriority::Medium => self.medium_weight,
            NvmePriority::Low => self.low_weight,
        }
    }
}

impl NvmeSpec {
    /// The classes that requests are of, the first to be served first; one, where all are alike.
    pub fn classes(&self) -> Vec<NvmePriority> {
        let Some(it) = &self.priorities else { return vec![NvmePriority::Medium] };
        let mut classes = vec![it.reads, it.writes, it.background];
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// Entries of the list of pages that a command with so many bytes of data has, which begin with a page; 0
    /// where the command itself has room for them.
    pub fn listed_pages(&self, bytes: u64) -> u64 {
        let pages = bytes.div_ceil(self.memory_page.bytes());
        if pages > 2 { pages - 1 } else { 0 }
    }

    /// Bytes of the first page of a list of so many entries, and the entries that are left for the next. A full
    /// page ends with where the next one lies.
    pub fn list_page(&self, entries: u64) -> (u64, u64) {
        let room = self.memory_page.bytes() / POINTER_BYTES;
        if entries <= room {
            (entries * POINTER_BYTES, 0)
        } else {
            (room * POINTER_BYTES, entries - (room - 1))
        }
    }

    /// Collects every semantic mistake below `path`.
    pub(super) fn check(&self, path: &str, problems: &mut Problems) {
        const MOST_QUEUES: u32 = 65_535;
        problems.at_least(path, "queues", self.queues, 1);
        problems.at_most(path, "queues", self.queues, MOST_QUEUES / self.classes().len() as u32);
        problems.at_least(path, "entries", self.entries, 2);
        problems.at_most(path, "entries", self.entries, 65_536);
        problems.at_least(path, "fetches", self.fetches, 1);
        problems.at_most(path, "fetches", self.fetches, MOST_READS);
        let mut impossible = |key: &str, value: String, reason: String, mend: &str| {
            problems.add("impossible-value", format!("{path}.{key}"), value, reason, mend.into());
        };
        if !self.burst.is_power_of_two() || self.burst > 64 {
            let reason = "a burst is a power of two up to 64".into();
            impossible("burst", self.burst.to_string(), reason, "write 1");
        }
        let page = self.memory_page.bytes();
        if !page.is_power_of_two() || !(4 << 10..=128 << 20).contains(&page) {
            let reason = "pages are powers of two from 4KiB to 128MiB (CC.MPS)".into();
            impossible("memory_page", self.memory_page.to_string(), reason, "write 4KiB");
        }
        if let Some(it) = &self.coalescing {
            let time_ps = it.time.picoseconds();
            if !time_ps.is_multiple_of(TIME_UNIT_PS)
                || !(1..=255).contains(&(time_ps / TIME_UNIT_PS))
            {
                let reason = "the time is a multiple of 100us up to 25.5ms".into();
                impossible("coalescing.time", it.time.to_string(), reason, "write 100us");
            }
        }
        let queues = self.queues.saturating_mul(self.classes().len() as u32);
        problems.at_least(path, "vectors", self.vectors, 1);
        if queues >= MOST_VECTORS {
            problems.at_most(path, "vectors", self.vectors, MOST_VECTORS);
        } else if self.vectors > queues.max(1) {
            problems.add(
                "contradiction",
                format!("{path}.vectors"),
                self.vectors.to_string(),
                format!("there are {queues} queues ({path}.queues of each class) to have them"),
                format!("write {} or less", queues.max(1)),
            );
        }
        self.check_tables(path, problems);
    }

    fn check_tables(&self, path: &str, problems: &mut Problems) {
        if let Some(it) = &self.priorities {
            let path = format!("{path}.priorities");
            for (key, weight) in [
                ("high_weight", it.high_weight),
                ("medium_weight", it.medium_weight),
                ("low_weight", it.low_weight),
            ] {
                problems.at_least(&path, key, weight, 1);
                problems.at_most(&path, key, weight, 256);
            }
        }
        if let Some(it) = &self.coalescing {
            let path = format!("{path}.coalescing");
            problems.at_least(&path, "threshold", it.threshold, 2);
            problems.at_most(&path, "threshold", it.threshold, 256);
        }
    }
}

counters! {
    /// What NVM Express has sent.
    pub struct NvmeCounts {
        /// Writes of doorbells by the host: one for each command, and one for each interrupt.
        pub doorbells,
        /// Reads of submission queues by the device, each of one or more commands.
        pub command_fetches,
        /// Reads of pages of lists of the host's pages by the device.
        pub list_fetches,
        /// Interrupts by the device.
        pub interrupts,
        /// Time from completion entries until their interrupts were raised, of all commands, in picoseconds.
        pub held_back_ps,
    }
}

/// Queues of a device, and the messages by which they are served.
#[derive(Clone, Debug)]
pub struct NvmeQueues {
    /// What was said of them.
    pub spec: NvmeSpec,
    /// The host tells of an entry, in a submission queue or behind those that it has seen in a completion
    /// queue.
    pub doorbell: [Leg; 1],
    /// The device reads from memory: commands, or a list of pages.
    pub fetch: [Leg; 2],
    /// It writes a completion entry.
    pub entry: [Leg; 1],
    /// It interrupts.
    pub interrupt: [Leg; 1],
}

impl NvmeQueues {
    /// Behind a root complex that takes so many picoseconds to answer a read of memory.
    pub fn new(spec: NvmeSpec, root_complex_ps: u64) -> Self {
        NvmeQueues {
            spec,
            doorbell: [Leg::down(Kind::Control, Some(4))],
            fetch: [
                Leg::up(Kind::Request, None),
                Leg::down(Kind::Answer, None).after(root_complex_ps),
            ],
            entry: [Leg::up(Kind::Control, Some(16)).posted()],
            interrupt: [Leg::up(Kind::Control, Some(4))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> NvmeSpec {
        NvmeSpec {
            queues: 1,
            entries: 2,
            burst: 1,
            fetches: 1,
            memory_page: Size::from_bytes(4096),
            vectors: 1,
            priorities: None,
            coalescing: None,
        }
    }

    #[test]
    fn a_command_names_two_pages_and_a_list_the_others() {
        let listed = |pages: u64| spec().listed_pages(pages * 4096);
        assert_eq!([1, 2, 3, 8, 513].map(listed), [0, 0, 2, 7, 512]);
        assert_eq!(spec().listed_pages(2 * 4096 + 1), 2);
        let large = NvmeSpec { memory_page: Size::from_bytes(64 << 10), ..spec() };
        assert_eq!(large.listed_pages(128 << 10), 0);
    }

    #[test]
    fn a_full_page_of_a_list_ends_with_where_the_next_one_lies() {
        assert_eq!(spec().list_page(512), (4096, 0));
        // 511 pages and the next list, which has two.
        assert_eq!(spec().list_page(513), (4096, 2));
        let (mut left, mut fetched_bytes, mut pages) = (1_500, 0, 0);
        while left > 0 {
            let (bytes, rest) = spec().list_page(left);
            (left, fetched_bytes, pages) = (rest, fetched_bytes + bytes, pages + 1);
        }
        // As many as entries, and one for each page of the list beyond the first.
        assert_eq!((fetched_bytes, pages), (8 * (1_500 + 2), 3));
    }

    #[test]
    fn wrong_descriptions_are_refused_with_place_and_mend() {
        let wrong = NvmeSpec {
            queues: 0,
            entries: 1,
            burst: 3,
            fetches: 0,
            memory_page: Size::from_bytes(2048),
            vectors: 9,
            priorities: Some(NvmePrioritiesSpec {
                reads: NvmePriority::Urgent,
                writes: NvmePriority::High,
                background: NvmePriority::Low,
                high_weight: 0,
                medium_weight: 257,
                low_weight: 1,
            }),
            coalescing: Some(NvmeCoalescingSpec {
                threshold: 1,
                time: Duration::from_picoseconds(150_000_000),
            }),
        };
        let mut problems = Problems::new();
        wrong.check("nvme", &mut problems);
        let told: Vec<_> = problems.iter().map(|one| one.path.as_str()).collect();
        let all = [
            "nvme.queues",
            "nvme.entries",
            "nvme.fetches",
            "nvme.burst",
            "nvme.memory_page",
            "nvme.coalescing.time",
            "nvme.vectors",
            "nvme.priorities.high_weight",
            "nvme.priorities.medium_weight",
            "nvme.coalescing.threshold",
        ];
        assert_eq!(told, all);
        let mut problems = Problems::new();
        spec().check("nvme", &mut problems);
        assert!(problems.is_empty(), "{problems}");
    }
}
