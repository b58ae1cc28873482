//! The energy of a processor: static power by the state of its cores, and so much for each instruction
//! and each look-up in a cache. The role of McPAT (Li et al., MICRO 2009), whose results are such numbers.

use crate::activity::EnergyPart;
use serde::{Deserialize, Serialize};
use tierscope_units::{Energy, Frequency, Power, Problems};

/// Powers of a processor, and energies of what it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorEnergySpec {
    /// Power of what all cores share, whatever they do.
    pub uncore_power: Power,
    /// Power of a core that has a thread to run, whether its instructions are done or wait for memory.
    pub running_power: Power,
    /// Power of a core that has none, and is halted.
    pub halted_power: Power,
    /// Energy of an instruction, of the program or of the kernel, beyond that; look-ups in caches that
    /// have an `access_energy` not included.
    pub instruction_energy: Energy,
    /// Clock at which `running_power` is so. At another, what a running core takes beyond a halted one is as much more
    /// as that clock is higher: dynamic power is capacitance × voltage² × frequency (Hennessy and Patterson, Computer
    /// Architecture, 5th edition, §1.5). Where it is missing the power is that of any clock, as leakage is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Frequency>,
    /// The cores' voltage, as a multiple of that at which all this is so: dynamic power, and energies of instructions and
    /// look-ups, grow with its square. Where it is missing, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voltage: Option<f64>,
}

/// What a processor did in some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorUse {
    /// The time.
    pub time_ps: u64,
    /// Cores.
    pub cores: u64,
    /// Their clock.
    pub clock_hertz: u64,
    /// The time in which cores had threads to run, summed over cores.
    pub running_ps: u128,
    /// Instructions, of program and kernel.
    pub instructions: u64,
    /// Look-ups in caches, summed up as energy.
    pub lookups_j: f64,
}

impl ProcessorEnergySpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        for (key, power) in [
            ("uncore_power", self.uncore_power),
            ("running_power", self.running_power),
            ("halted_power", self.halted_power),
        ] {
            problems.at_most(path, key, power, Power::MOST_OF_A_PART);
        }
        let most = Energy::from_femtojoules(1_000_000_000_000);
        problems.at_most(path, "instruction_energy", self.instruction_energy, most);
        if self.running_power < self.halted_power {
            problems.add(
                "contradiction",
                format!("{path}.running_power"),
                self.running_power.to_string(),
                format!("a halted core takes {}, and one that runs no less", self.halted_power),
                "raise it, or lower halted_power".into(),
            );
        }
        let least = Frequency::from_hertz(1_000_000);
        self.clock.into_iter().for_each(|clock| problems.at_least(path, "clock", clock, least));
        if let Some(voltage) = self.voltage
            && !(0.1..=10.0).contains(&voltage)
        {
            problems.add(
                "impossible-value",
                format!("{path}.voltage"),
                voltage.to_string(),
                "it is a multiple of the voltage at which powers and energies are so".into(),
                "write one from 0.1 to 10, such as 1.1".into(),
            );
        }
    }

    /// Where energy went, in joules. The parts are all there is.
    pub fn parts(&self, used: &ProcessorUse) -> [EnergyPart; 5] {
        let seconds = |time_ps: u128| time_ps as f64 * 1e-12;
        let all_ps = u128::from(used.time_ps) * u128::from(used.cores);
        let halted_ps = all_ps.saturating_sub(used.running_ps);
        let squared = self.voltage.unwrap_or(1.0).powi(2);
        let instruction_j = self.instruction_energy.joules() * squared;
        let times = self.clock.map_or(1.0, |clock| used.clock_hertz as f64 / clock.hertz() as f64);
        let (running_w, halted_w) = (self.running_power.watts(), self.halted_power.watts());
        let running_w = halted_w + (running_w - halted_w) * times * squared;
        [
            ("uncore", self.uncore_power.watts() * seconds(u128::from(used.time_ps))),
            ("running_cores", running_w * seconds(used.running_ps)),
            ("halted_cores", halted_w * seconds(halted_ps)),
            ("instructions", instruction_j * used.instructions as f64),
            ("caches", used.lookups_j * squared),
        ]
        .map(|(part, energy_j)| EnergyPart { component: "processor", part, energy_j })
    }
}

/// How long a core has had something to run. Its hardware threads begin and end in order of time, each
/// by itself; an end may be told that lies before a beginning told already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Hardware threads that have something to run.
    busy: u32,
    since_ps: u64,
    /// Up to here the last is counted.
    until_ps: u64,
    total_ps: u64,
}

impl Occupancy {
    /// A hardware thread gets a thread to run.
    #[inline]
    pub fn begin(&mut self, at_ps: u64) {
        if self.busy == 0 {
            self.since_ps = at_ps.max(self.until_ps);
        }
        self.busy += 1;
    }

    /// A hardware thread has none any more.
    #[inline]
    pub fn end(&mut self, at_ps: u64) {
        self.busy -= 1;
        self.until_ps = self.until_ps.max(at_ps);
        if self.busy == 0 {
            self.total_ps += self.until_ps.saturating_sub(self.since_ps);
        }
    }

    /// Nothing before `start_ps` counts any more.
    pub fn restart(&mut self, start_ps: u64) {
        self.total_ps = 0;
        self.since_ps = start_ps;
        self.until_ps = self.until_ps.max(start_ps);
    }

    /// As if it had run so long by `now_ps`.
    pub fn restart_with(&mut self, now_ps: u64, total_ps: u64) {
        self.restart(now_ps);
        self.total_ps = total_ps;
    }

    /// The time up to `now_ps`.
    pub fn running_ps(&self, now_ps: u64) -> u64 {
        let open_ps = if self.busy > 0 { now_ps.saturating_sub(self.since_ps) } else { 0 };
        self.total_ps + open_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_runs_while_any_of_its_threads_does() {
        let mut core = Occupancy::default();
        core.begin(10);
        core.begin(20);
        assert_eq!(core.running_ps(25), 15);
        core.end(30);
        core.end(50);
        assert_eq!((core.running_ps(50), core.running_ps(90)), (40, 40));
        core.begin(40);
        core.end(60);
        assert_eq!(core.running_ps(90), 50, "from 50 to 60: before, it was counted");
        core.begin(100);
        core.restart(120);
        assert_eq!(core.running_ps(150), 30);
        core.end(160);
        assert_eq!(core.running_ps(900), 40);
        core.restart(1000);
        assert_eq!(core.running_ps(2000), 0);
        core.restart_with(2500, 7);
        core.begin(2600);
        assert_eq!((core.running_ps(2500), core.running_ps(2650)), (7, 57));
    }

    /// By hand: 2 s of 10 W; of 4 cores 3 s of 3 W and 5 s of 1 W; 1e9 instructions of 2 nJ.
    #[test]
    fn energies_are_those_of_a_hand_calculation() {
        let spec = ProcessorEnergySpec {
            uncore_power: Power::from_nanowatts(10_000_000_000),
            running_power: Power::from_nanowatts(3_000_000_000),
            halted_power: Power::from_nanowatts(1_000_000_000),
            instruction_energy: Energy::from_femtojoules(2_000_000),
            clock: None,
            voltage: None,
        };
        let used = ProcessorUse {
            time_ps: 2_000_000_000_000,
            cores: 4,
            clock_hertz: 3_000_000_000,
            running_ps: 3_000_000_000_000,
            instructions: 1_000_000_000,
            lookups_j: 0.25,
        };
        let of = |spec: &ProcessorEnergySpec, expected: [f64; 5]| {
            let found = spec.parts(&used).map(|part| part.energy_j);
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
            }
        };
        of(&spec, [20.0, 9.0, 5.0, 2.0, 0.25]);
        // 2 W of the 3 are of 2 GHz, and 3 of 3 GHz; with 1.1 times the voltage, 3.63.
        let clock = Some(Frequency::from_hertz(2_000_000_000));
        let scaled = ProcessorEnergySpec { clock, ..spec };
        of(&scaled, [20.0, 12.0, 5.0, 2.0, 0.25]);
        let voltage = Some(1.1);
        of(&ProcessorEnergySpec { voltage, ..scaled }, [20.0, 13.89, 5.0, 2.42, 0.3025]);
    }
}
