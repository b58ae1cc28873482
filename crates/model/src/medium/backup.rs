//! NVDIMM-N: DRAM that its module saves to flash of its own when power fails, from an energy source,
//! and restores when power returns (JEDEC JESD245, byte-addressable energy-backed interface: arm, save,
//! restore, erase).
//!
//! [`Backup`] is a state machine without I/O: it takes (event, now) and says what follows when. It
//! moves no data; what it says is what a model of power failure needs: what is saved by when, whether
//! it is whole, and from when on the memory may be read, and written. `docs/models/dram.md` says what
//! is modelled.

use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Energy, Power, Problems, Size};

/// How the modules of a memory are backed by flash. All work at the same time, each with its own flash,
/// controller and energy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupSpec {
    /// DRAM of a module. The memory is a whole number of modules.
    pub module: Size,
    /// Flash of a module.
    pub flash: Size,
    /// From DRAM to flash, of a module.
    pub save_bandwidth: Bandwidth,
    /// From flash to DRAM, of a module.
    pub restore_bandwidth: Bandwidth,
    /// What a module takes while it saves: DRAM, controller and flash.
    pub save_power: Power,
    /// What a module takes while it restores.
    pub restore_power: Power,
    /// What the energy source of a module holds when it is charged: a supercapacitor, or its share of
    /// a battery.
    pub energy: Energy,
    /// What charges the energy source.
    pub charge_power: Power,
}

/// Least power of a module that works, and of a charger: weaker ones would not end in simulated time.
const LEAST_POWER: Power = Power::from_nanowatts(1_000_000);

impl BackupSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "module", self.module, Size::from_bytes(1 << 20));
        for (key, bandwidth) in
            [("save_bandwidth", self.save_bandwidth), ("restore_bandwidth", self.restore_bandwidth)]
        {
            crate::link::check_bandwidth(&format!("{path}.{key}"), bandwidth, problems);
        }
        for (key, power) in [
            ("save_power", self.save_power),
            ("restore_power", self.restore_power),
            ("charge_power", self.charge_power),
        ] {
            problems.at_least(path, key, power, LEAST_POWER);
        }
        if self.flash < self.module {
            problems.add(
                "contradiction",
                format!("{path}.flash"),
                self.flash.to_string(),
                format!("a module has {} of DRAM to save", self.module),
                format!("write \"{}\" or more", self.module),
            );
        }
    }

    /// What saving and restoring take, of a description that has been checked.
    pub fn costs(&self) -> BackupCosts {
        let save_ps = time_ps(self.module, self.save_bandwidth);
        let restore_ps = time_ps(self.module, self.restore_bandwidth);
        let full_zj = zeptojoules(self.energy);
        let enough_ps = full_zj / u128::from(self.save_power.nanowatts());
        let enough_ps = u64::try_from(enough_ps).unwrap_or(u64::MAX);
        BackupCosts {
            save_ps,
            restore_ps,
            charge_ps: charge_ps(full_zj, self.charge_power),
            save_j: self.save_power.joules(save_ps),
            restore_j: self.restore_power.joules(restore_ps),
            energy_j: full_zj as f64 * 1e-21,
            saved_bytes: if enough_ps >= save_ps {
                self.module.bytes()
            } else {
                moved_bytes(self.save_bandwidth, enough_ps)
            },
        }
    }
}

/// What saving and restoring take, of one module. Modules work at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackupCosts {
    /// Time of a save.
    pub save_ps: u64,
    /// Time of a restore.
    pub restore_ps: u64,
    /// Time to charge the energy source from nothing.
    pub charge_ps: u64,
    /// Energy of a save, in joules.
    pub save_j: f64,
    /// Energy of a restore, in joules.
    pub restore_j: f64,
    /// Energy at hand when the source is charged, in joules.
    pub energy_j: f64,
    /// Bytes that are saved before the energy at hand is used up: all of the module where it suffices.
    pub saved_bytes: u64,
}

const PS_PER_S: u128 = 1_000_000_000_000;

/// An energy in zeptojoules, 10⁻²¹ J: what a nanowatt is in a picosecond, so that nothing is rounded.
fn zeptojoules(energy: Energy) -> u128 {
    u128::from(energy.femtojoules()) * 1_000_000
}

fn charge_ps(missing_zj: u128, power: Power) -> u64 {
    let ps = missing_zj.div_ceil(u128::from(power.nanowatts()));
    u64::try_from(ps).unwrap_or(u64::MAX)
}

fn time_ps(size: Size, bandwidth: Bandwidth) -> u64 {
    let ps = u128::from(size.bytes()) * PS_PER_S;
    u64::try_from(ps.div_ceil(u128::from(bandwidth.bytes_per_second()))).unwrap_or(u64::MAX)
}

fn moved_bytes(bandwidth: Bandwidth, time_ps: u64) -> u64 {
    (u128::from(bandwidth.bytes_per_second()) * u128::from(time_ps) / PS_PER_S) as u64
}

/// What happens to a memory with a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerEvent {
    /// The host's power fails, or it asks for a save (SAVE_n).
    Fails,
    /// The host's power is there again.
    Returns,
}

/// What a memory with a backup says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupAction {
    /// From now on the host does not reach the memory: it is being saved, restored, or without power.
    Isolated,
    /// All of it has been saved.
    Saved,
    /// The energy was used up before all was saved: there is no image. Of each module the first bytes
    /// stand in flash, which nobody restores.
    Lost {
        /// How many.
        saved_bytes: u64,
    },
    /// It holds again what it held when power failed, and may be read. It must not be written before
    /// [`BackupAction::Armed`]: what is written would be lost if power failed now.
    Restored,
    /// It holds nothing, since no image was there to restore.
    Empty,
    /// The energy source is charged, and the old image is erased: it may be read and written, and what
    /// it holds is saved when power fails.
    Armed,
}

/// What a module does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Power is there; what is held is saved when it fails.
    Armed,
    /// A save, whole or until the energy is used up.
    Saving {
        since_ps: u64,
        until_ps: u64,
        whole: bool,
    },
    /// Without power, and done.
    Off,
    Restoring {
        until_ps: u64,
    },
    /// Power is there, and the memory has what the image has, or nothing; the source is being charged.
    Charging {
        until_ps: u64,
    },
}

/// A memory of modules with a backup: a state machine that a model of power failure drives.
///
/// Law: it says [`BackupAction::Saved`] only of what was held when power failed, and only where the
/// energy sufficed; an image stays until the memory is armed again, whatever happens meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    spec: Timing,
    state: State,
    /// Flash holds a whole image.
    image: bool,
    /// The host's power is there.
    powered: bool,
    /// Energy in the source, at `charged_at_ps`; since then the host has charged it, or a save taken it.
    held_zj: u128,
    charged_at_ps: u64,
}

/// The description in the state machine's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timing {
    save_ps: u64,
    restore_ps: u64,
    save_bandwidth: Bandwidth,
    save_power: Power,
    charge_power: Power,
    full_zj: u128,
    module_bytes: u64,
}

impl Backup {
    /// A memory whose source is charged, and which is armed. The description has been checked.
    pub fn new(spec: &BackupSpec) -> Self {
        let BackupCosts { save_ps, restore_ps, .. } = spec.costs();
        let full_zj = zeptojoules(spec.energy);
        Backup {
            spec: Timing {
                save_ps,
                restore_ps,
                save_bandwidth: spec.save_bandwidth,
                save_power: spec.save_power,
                charge_power: spec.charge_power,
                full_zj,
                module_bytes: spec.module.bytes(),
            },
            state: State::Armed,
            image: false,
            powered: true,
            held_zj: full_zj,
            charged_at_ps: 0,
        }
    }

    /// Power fails or returns at `now_ps`, which never goes back between calls of any kind. What is due
    /// by then is done first. An event that changes nothing is passed over.
    pub fn power(&mut self, now_ps: u64, event: PowerEvent, out: &mut Vec<(u64, BackupAction)>) {
        self.advance(now_ps, out);
        match event {
            PowerEvent::Fails if self.powered => self.fail(now_ps, out),
            PowerEvent::Returns if !self.powered => self.return_to(now_ps, out),
            _ => {}
        }
    }

    /// When something happens next, if anything will without a further event.
    pub fn next_event_ps(&self) -> Option<u64> {
        match self.state {
            State::Saving { until_ps, .. }
            | State::Restoring { until_ps }
            | State::Charging { until_ps } => Some(until_ps),
            State::Armed | State::Off => None,
        }
    }

    /// Does all that is due until `now_ps` and appends it with its time.
    pub fn advance(&mut self, now_ps: u64, out: &mut Vec<(u64, BackupAction)>) {
        while let Some(at_ps) = self.next_event_ps().filter(|at_ps| *at_ps <= now_ps) {
            match self.state {
                State::Saving { whole, .. } => self.end_save(at_ps, whole, out),
                State::Restoring { .. } => {
                    out.push((at_ps, BackupAction::Restored));
                    self.charge_on(at_ps);
                }
                State::Charging { .. } => {
                    self.settle(at_ps);
                    self.image = false;
                    self.state = State::Armed;
                    out.push((at_ps, BackupAction::Armed));
                }
                State::Armed | State::Off => {}
            }
        }
    }

    /// Bytes of each module that stand in flash at `now_ps`: of a save under way those that have been
    /// written by then, in order of their addresses; else all, or none that anybody could restore.
    pub fn saved_bytes(&self, now_ps: u64) -> u64 {
        match self.state {
            State::Saving { since_ps, until_ps, whole } => {
                if now_ps >= until_ps && whole {
                    return self.spec.module_bytes;
                }
                let spent_ps = now_ps.min(until_ps).saturating_sub(since_ps);
                moved_bytes(self.spec.save_bandwidth, spent_ps).min(self.spec.module_bytes)
            }
            _ if self.image => self.spec.module_bytes,
            _ => 0,
        }
    }

    /// Energy in the source of a module at `now_ps`, in joules.
    pub fn energy_j(&self, now_ps: u64) -> f64 {
        let mut then = self.clone();
        then.settle(now_ps.max(self.charged_at_ps));
        then.held_zj as f64 * 1e-21
    }

    /// Counts what has come into the source, or gone from it, up to `now_ps`.
    fn settle(&mut self, now_ps: u64) {
        let time_ps = u128::from(now_ps - self.charged_at_ps);
        self.charged_at_ps = now_ps;
        if self.powered {
            let more_zj = time_ps * u128::from(self.spec.charge_power.nanowatts());
            self.held_zj = (self.held_zj + more_zj).min(self.spec.full_zj);
        } else if let State::Saving { .. } = self.state {
            let taken_zj = time_ps * u128::from(self.spec.save_power.nanowatts());
            self.held_zj = self.held_zj.saturating_sub(taken_zj);
        }
    }

    fn fail(&mut self, now_ps: u64, out: &mut Vec<(u64, BackupAction)>) {
        self.settle(now_ps);
        self.powered = false;
        let since_ps = match self.state {
            State::Armed => now_ps,
            // The host's power had come back while this save went on.
            State::Saving { since_ps, .. } => since_ps,
            // The image is still there, and nothing has been written since.
            State::Off | State::Restoring { .. } | State::Charging { .. } => {
                let reached = matches!(self.state, State::Charging { .. });
                self.state = State::Off;
                if reached {
                    out.push((now_ps, BackupAction::Isolated));
                }
                return;
            }
        };
        let enough_ps = self.held_zj / u128::from(self.spec.save_power.nanowatts());
        let enough_ps = now_ps.saturating_add(u64::try_from(enough_ps).unwrap_or(u64::MAX));
        let end_ps = since_ps.saturating_add(self.spec.save_ps);
        if self.state == State::Armed {
            out.push((now_ps, BackupAction::Isolated));
        }
        let (until_ps, whole) = (end_ps.min(enough_ps), enough_ps >= end_ps);
        self.state = State::Saving { since_ps, until_ps, whole };
    }

    fn return_to(&mut self, now_ps: u64, out: &mut Vec<(u64, BackupAction)>) {
        self.settle(now_ps);
        self.powered = true;
        match self.state {
            // It goes on, on the host's power.
            State::Saving { since_ps, .. } => {
                let until_ps = since_ps.saturating_add(self.spec.save_ps);
                self.state = State::Saving { since_ps, until_ps, whole: true };
            }
            _ => self.start(now_ps, out),
        }
    }

    /// Power is there, and no save is under way.
    fn start(&mut self, now_ps: u64, out: &mut Vec<(u64, BackupAction)>) {
        if self.image {
            self.state = State::Restoring { until_ps: now_ps + self.spec.restore_ps };
        } else {
            out.push((now_ps, BackupAction::Empty));
            self.charge_on(now_ps);
        }
    }

    fn end_save(&mut self, at_ps: u64, whole: bool, out: &mut Vec<(u64, BackupAction)>) {
        let saved_bytes = self.saved_bytes(at_ps);
        self.settle(at_ps);
        self.image = whole;
        let end = if whole { BackupAction::Saved } else { BackupAction::Lost { saved_bytes } };
        out.push((at_ps, end));
        self.state = State::Off;
        if self.powered {
            self.start(at_ps, out);
        }
    }

    fn charge_on(&mut self, now_ps: u64) {
        self.settle(now_ps);
        let missing_zj = self.spec.full_zj - self.held_zj;
        let until_ps = now_ps.saturating_add(charge_ps(missing_zj, self.spec.charge_power));
        self.state = State::Charging { until_ps };
    }
}

#[cfg(test)]
pub(crate) mod tests;
