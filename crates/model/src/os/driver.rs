//! How the driver of the store hands requests to it, and learns that they are done.
//!
//! A thread waits for an interrupt, and another runs on its core meanwhile; or it asks again and again, and
//! keeps its core, at once or when it has slept for a while (polling; `blk_poll`, block/blk-mq.c; Yang, Minturn,
//! Hady, "When Poll is Better than Interrupt", FAST 2012). A driver may let one thread at a time hand a request over, as
//! that of HASTE does (\[NVM10\] §III-A).
//!
//! An interrupt comes to the hardware thread that its vector is bound to (`/proc/irq/N/smp_affinity`): a device with a
//! vector for each queue has it at one of those that use the queue (`irq_create_affinity_masks`, kernel/irq/affinity.c), one
//! with a single vector at the same always. The block layer completes the request there, or passes it on to who asked
//! (`rq_affinity`, Documentation/block/queue-sysfs.txt; `__blk_complete_request`, block/blk-softirq.c;
//! `blk_mq_complete_need_ipi`, block/blk-mq.c).

use super::PathSpec;
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems};

/// The driver of the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverSpec {
    /// How a thread learns that what it waits for is done.
    #[serde(default)]
    pub completion: CompletionKind,
    /// Which hardware thread the device interrupts.
    #[serde(default, skip_serializing_if = "InterruptSteering::is_default")]
    pub interrupts: InterruptSteering,
    /// The hardware thread that takes all interrupts, where `interrupts` is "one": a number from 0 on, those of a core
    /// behind each other. By default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_thread: Option<u32>,
    /// Whether a completion that has come to another hardware thread is passed on to the one that asked, by an
    /// interrupt between the two (`os.paths.completion_interrupt`).
    #[serde(default, skip_serializing_if = "RequestAffinity::is_default")]
    pub rq_affinity: RequestAffinity,
    /// How long a lock that all share is held for each request that is handed over; 0 where there is none.
    #[serde(default)]
    pub lock: Duration,
    /// What it costs to find a request done by polling, and to complete it, in place of an interrupt; by
    /// default 500 instructions and 8 lines, an assumption.
    #[serde(default = "found_by_polling")]
    pub poll: PathSpec,
}

/// How a thread learns that what it waits for is done.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CompletionKind {
    /// By an interrupt: another thread runs meanwhile.
    #[default]
    Interrupt,
    /// It asks the device until its own requests are done, and keeps its hardware thread. What other threads,
    /// or the kernel's own, have handed over is told by an interrupt.
    Polling,
    /// It sleeps for half of the time that requests of the same size and direction took on average in the last
    /// 100 ms in which somebody polled, while another thread runs, and polls then (`blk_mq_poll_hybrid`,
    /// block/blk-mq.c, Linux 4.10 to 6.3).
    Hybrid,
}

/// Which hardware thread the device interrupts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptSteering {
    /// The one that has handed the request over: the device has a vector for each.
    #[default]
    Submitter,
    /// The first of those that use the same queue of the device (`storage.block_layer.hardware_queues`), each of which has
    /// a vector.
    Queue,
    /// The same always: the device has one vector.
    One,
}

/// Where a request is completed: waiters are made ready there.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RequestAffinity {
    /// Where the interrupt comes (`rq_affinity` of 0).
    Off,
    /// There where it shares a cache with the hardware thread that asked, else at that (1, the default since 2.6.32).
    #[default]
    Group,
    /// At the hardware thread that asked (2).
    Core,
}

impl InterruptSteering {
    fn is_default(&self) -> bool {
        *self == InterruptSteering::default()
    }
}

impl RequestAffinity {
    fn is_default(&self) -> bool {
        *self == RequestAffinity::default()
    }
}

fn found_by_polling() -> PathSpec {
    PathSpec { instructions: 500, lines: 8 }
}

impl DriverSpec {
    /// Whether threads poll, at once or having slept.
    pub fn polls(&self) -> bool {
        self.completion != CompletionKind::Interrupt
    }

    /// Whether they sleep before.
    pub fn sleeps_first(&self) -> bool {
        self.completion == CompletionKind::Hybrid
    }

    /// How long its lock is held for a request, in picoseconds; 0 where there is none.
    pub fn lock_ps(&self) -> u64 {
        self.lock.picoseconds()
    }

    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        // Longer, and simulated time would overflow before a workload of some size is done.
        problems.at_most(path, "lock", self.lock, Duration::from_picoseconds(1_000_000_000_000));
        if let Some(thread) =
            self.interrupt_thread.filter(|_| self.interrupts != InterruptSteering::One)
        {
            problems.add(
                "contradiction",
                format!("{path}.interrupt_thread"),
                thread.to_string(),
                format!("no hardware thread takes all interrupts unless {path}.interrupts says so"),
                format!("remove it, or write {path}.interrupts = \"one\""),
            );
        }
    }
}
