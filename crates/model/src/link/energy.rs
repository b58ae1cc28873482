//! What a link takes, where its description says so.
//!
//! A serial link drives its lanes whether it has something to say or not, and so takes a power as long as
//! it is up; what it moves costs beyond that. No standard says how much: it depends on the process, the
//! length of the traces and the equalization. `docs/models/link.md` has published figures.

use super::LINK;
use crate::activity::{Energy as Taken, EnergyPart};
use serde::{Deserialize, Serialize};
use tierscope_units::{Energy, Power};

/// What both ends of a link take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkEnergySpec {
    /// For each bit that the link moves, in either direction: of data, and of all that packets, frames
    /// and protocol have around them; before encoding.
    pub per_bit: Energy,
    /// As long as the machine runs, whatever is moved: the power of the link while it is idle.
    pub idle_power: Power,
}

impl LinkEnergySpec {
    /// What a link that has moved so many bytes took up to `now_ps`.
    pub fn taken(&self, moved_bytes: u64, now_ps: u64) -> Taken {
        let moved_j = moved_bytes as f64 * 8.0 * self.per_bit.joules();
        let idle_j = self.idle_power.joules(now_ps);
        let part = |part, energy_j| EnergyPart { component: LINK, part, energy_j };
        Taken::default().with([part("moved", moved_j), part("idle", idle_j)])
    }
}
