//! Machines sized to a workload: DRAM for a part of what it touches, the rest at the machine's own
//! ratios; and how much DRAM a machine has.

use super::SystemSpec;
use tierscope_model::organization::OrganizationDescription;
use tierscope_units::{Problem, Problems, Size};

/// The least that a first level of on-chip caches shrinks to.
const LEAST_CACHE: Size = Size::from_bytes(4 << 10);

/// The least DRAM that any organization takes.
const LEAST: Size = Size::from_bytes(1 << 20);

/// Path and value of each change to a machine, as `--set` takes them.
pub type Sets = Vec<(String, String)>;

/// How much DRAM a machine has.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DramSizes {
    /// Path of the value that says so, of each controller where there are several.
    pub path: String,
    /// How much, of all controllers.
    pub bytes: u64,
    /// Whether it stands before a store; else it is all the memory that there is.
    pub before_store: bool,
}

impl SystemSpec {
    /// The DRAM of a description that has been checked.
    pub fn dram_sizes(&self) -> Option<DramSizes> {
        let (table, organization) = self.only_organization()?;
        let size = organization.dram_size()?;
        Some(DramSizes {
            path: format!("{table}.{}", size.key),
            bytes: size.capacity.bytes().saturating_mul(self.controllers()),
            before_store: organization.needs_store(),
        })
    }

    fn only_organization(&self) -> Option<(&'static str, &dyn OrganizationDescription)> {
        match self.organizations().as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// DRAM of a controller that makes all of this machine nearest to `bytes`: whole parts, at least one.
    fn nearest_dram_bytes(&self, bytes: u64) -> Option<u64> {
        let (_, organization) = self.only_organization()?;
        let part = common_multiple(
            organization.dram_size()?.part.bytes(),
            self.os.as_ref().map_or(1, |os| os.page.bytes()),
        );
        let own = bytes / self.controllers();
        Some((own.saturating_add(part / 2) / part).max(1) * part)
    }

    fn least_dram_bytes(&self) -> u64 {
        let rows = self.dram.as_ref().and_then(|dram| dram.banks_and_row());
        let rows_bytes = rows.map_or(0, |(banks, row)| banks.saturating_mul(row.bytes()));
        rows_bytes.max(LEAST.bytes())
    }

    /// What makes on-chip caches `factor` (below 1) of what they are, in whole sets, but no level smaller
    /// than [`LEAST_CACHE`], four times as much with each level: a core with less is of another kind.
    fn smaller_caches(&self, factor: f64) -> Sets {
        let caches = self.processor.iter().flat_map(|processor| &processor.caches);
        let least_bytes = std::iter::successors(Some(LEAST_CACHE.bytes()), |bytes| Some(bytes * 4));
        caches
            .zip(least_bytes)
            .map(|(cache, least_bytes)| {
                let set_bytes = cache.line.bytes() * u64::from(cache.ways);
                let bytes = (cache.capacity.bytes() as f64 * factor) as u64;
                let bytes = bytes.max(least_bytes).min(cache.capacity.bytes());
                let capacity = Size::from_bytes((bytes / set_bytes).max(1) * set_bytes);
                (format!("processor.caches.{}.capacity", cache.name), capacity.to_string())
            })
            .collect()
    }

    /// What makes the buffer of a drive `factor` (below 1) of what it is, in whole pages: it would else
    /// hold what the scaled DRAM does not.
    fn smaller_buffer(&self, factor: f64) -> Sets {
        let Some(ssd) = &self.ssd else { return Sets::new() };
        let page_bytes = ssd.page.bytes();
        let scaled = |size: Size, least: u64| {
            let pages = (size.bytes() as f64 * factor / page_bytes as f64) as u64;
            Size::from_bytes(pages.max(least).min(size.bytes() / page_bytes) * page_bytes)
                .to_string()
        };
        let buffer = &ssd.buffer;
        // What is being programmed at once has room in any case.
        let programmed = ssd.nand.all_dies() * 2;
        [
            ("capacity", scaled(buffer.capacity, programmed)),
            ("dirty", scaled(buffer.dirty, programmed)),
            ("flush_above", scaled(buffer.flush_above, 0)),
        ]
        .map(|(key, size)| (format!("ssd.buffer.{key}"), size))
        .into()
    }

    /// What makes the store, or the memory of a machine without one, `times` as large.
    fn larger(&self, times: u64) -> Sets {
        let larger = |bytes: u64| Size::from_bytes(bytes.saturating_mul(times)).to_string();
        let sizes = self.dram_sizes();
        match (self.stores().first(), sizes) {
            (Some((table, store)), _) => {
                vec![(format!("{table}.capacity"), larger(store.capacity().bytes()))]
            }
            (None, Some(sizes)) => vec![(sizes.path, larger(sizes.bytes / self.controllers()))],
            (None, None) => Vec::new(),
        }
    }
}

/// What gives each machine that has DRAM before a store `dram_bytes` of it, as nearly as it can.
///
/// Where that is less than it had, its on-chip caches and the buffer of its drive shrink in proportion,
/// though not to less than a core and a drive work with, and so do the caches of machines without a store;
/// their memory, and stores, stay. Where it is more, stores and the
/// memory of machines without one grow as much, at least, and on-chip caches stay.
///
/// # Errors
/// A mistake for each machine that cannot have so little, or one if no machine has such DRAM.
pub fn scale(systems: &[SystemSpec], dram_bytes: u64) -> Result<Vec<Sets>, Problems> {
    let mut problems = Problems::new();
    let mut factors = Vec::new();
    let mut all = Vec::new();
    for system in systems {
        let sized = system.dram_sizes().filter(|sizes| sizes.before_store);
        let Some((sizes, bytes)) = sized.zip(system.nearest_dram_bytes(dram_bytes)) else {
            all.push(None);
            continue;
        };
        if bytes < system.least_dram_bytes() {
            problems.push(too_little(system, &sizes, bytes));
        }
        let factor = (bytes * system.controllers()) as f64 / sizes.bytes as f64;
        factors.push(factor);
        all.push(Some((sizes.path, bytes, factor)));
    }
    if factors.is_empty() {
        problems.push(no_store());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let (least, most) = factors
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), factor| (least.min(*factor), most.max(*factor)));
    let sets = systems.iter().zip(all).map(|(system, own)| match own {
        Some((path, bytes, factor)) => {
            let mut sets = vec![(path, Size::from_bytes(bytes).to_string())];
            sets.extend(in_proportion(system, factor, factor));
            sets
        }
        None => in_proportion(system, least, most),
    });
    Ok(sets.collect())
}

fn in_proportion(system: &SystemSpec, least: f64, most: f64) -> Sets {
    let mut sets = Sets::new();
    if least < 1.0 {
        sets.extend(system.smaller_caches(least));
        sets.extend(system.smaller_buffer(least));
    }
    if most > 1.0 {
        sets.extend(system.larger(most.ceil() as u64));
    }
    sets
}

fn too_little(system: &SystemSpec, sizes: &DramSizes, bytes: u64) -> Problem {
    Problem {
        code: "contradiction",
        path: sizes.path.clone(),
        value: Size::from_bytes(bytes).to_string(),
        reason: format!(
            "scaled to the footprint, {} has less DRAM than it must, {}",
            system.name,
            Size::from_bytes(system.least_dram_bytes())
        ),
        mend: "scale by less, or run a workload that touches more".into(),
        place: String::new(),
    }
}

fn no_store() -> Problem {
    Problem {
        code: "contradiction",
        path: "systems".into(),
        value: String::new(),
        reason: "no system has DRAM before a store, which could be scaled to a footprint".into(),
        mend: "name one that has, such as hybrid or storage".into(),
        place: String::new(),
    }
}

fn common_multiple(one: u64, other: u64) -> u64 {
    let (mut a, mut b) = (one.max(1), other.max(1));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (one.max(1) / a).saturating_mul(other.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load;

    fn systems(names: &[&str]) -> Vec<SystemSpec> {
        names.iter().map(|name| load(name, &[]).unwrap().spec).collect()
    }

    /// The machine of that name, scaled beside a `hybrid/quick`.
    fn scaled(name: &str, dram_bytes: u64) -> SystemSpec {
        let sets = scale(&systems(&["hybrid/quick", name]), dram_bytes).unwrap();
        load(name, &sets[1]).unwrap().spec
    }

    fn caches_bytes(spec: &SystemSpec) -> Vec<u64> {
        spec.processor.iter().flat_map(|p| &p.caches).map(|cache| cache.capacity.bytes()).collect()
    }

    #[test]
    fn every_machine_with_a_store_gets_the_dram_and_the_others_keep_theirs() {
        for (name, expected) in
            [("hybrid/quick", 64 << 20), ("storage/quick", 64 << 20), ("oracle/quick", 4 << 30)]
        {
            assert_eq!(scaled(name, 64 << 20).dram_sizes().unwrap().bytes, expected, "{name}");
        }
    }

    #[test]
    fn on_chip_caches_shrink_with_the_dram_on_all_machines_alike() {
        let before = caches_bytes(&systems(&["oracle/quick"])[0]);
        let after: Vec<_> = ["hybrid/quick", "storage/quick", "oracle/quick"]
            .map(|name| caches_bytes(&scaled(name, 64 << 20)))
            .into();
        assert!(after.windows(2).all(|pair| pair[0] == pair[1]), "{after:?}");
        for (before, after) in before.iter().zip(&after[0]) {
            let quarter = before / 4;
            assert!(*after <= quarter && after + 20 * 64 > quarter, "{before} became {after}");
        }
    }

    #[test]
    fn what_grows_takes_the_store_along_and_leaves_on_chip_caches_alone() {
        let grown = scaled("hybrid/quick", 640 << 20);
        assert_eq!(grown.dram_sizes().unwrap().bytes, 640 << 20);
        assert_eq!(grown.stores()[0].1.capacity().bytes(), 12 << 30, "three times 4 GiB");
        assert_eq!(caches_bytes(&grown), caches_bytes(&systems(&["hybrid/quick"])[0]));
        assert_eq!(scaled("oracle/quick", 640 << 20).dram_sizes().unwrap().bytes, 12 << 30);
    }

    #[test]
    fn dram_is_rounded_to_whole_sets_and_pages() {
        let odd = (64 << 20) + 40_000;
        // A set of hybrid/quick is 16 pages of 4 KiB, of which 40,000 bytes are more than half.
        assert_eq!(scaled("hybrid/quick", odd).dram_sizes().unwrap().bytes, (64 << 20) + 65_536);
        assert_eq!(scaled("storage/quick", odd).dram_sizes().unwrap().bytes, (64 << 20) + 40_960);
    }

    #[test]
    fn caches_stay_caches_and_the_buffer_of_a_drive_shrinks_along() {
        let sets = scale(&systems(&["storage/z-ssd"]), 16 << 20).unwrap();
        let scaled = load("storage/z-ssd", &sets[0]).unwrap().spec;
        let plain = &systems(&["storage/z-ssd"])[0];
        for (n, (now, before)) in caches_bytes(&scaled).iter().zip(caches_bytes(plain)).enumerate()
        {
            let least = (4096u64 << (2 * n)).min(before);
            // In whole sets, of 20 lines at most.
            assert!(*now <= least && *now > least - 20 * 64, "level {n} has {now}, not {least}");
        }
        let buffer = |spec: &SystemSpec| spec.ssd.as_ref().unwrap().buffer.capacity.bytes();
        // 512 MiB at 1/4096 are 128 KiB, and 128 dies program two pages each.
        assert_eq!((buffer(plain), buffer(&scaled)), (512 << 20, 256 * 4096));
        let half = scale(&systems(&["storage/z-ssd"]), 32 << 30).unwrap();
        let half = load("storage/z-ssd", &half[0]).unwrap().spec;
        assert_eq!(buffer(&half), 256 << 20);
    }

    #[test]
    fn too_little_and_nothing_to_scale_are_refused() {
        let told = scale(&systems(&["hybrid/quick", "storage/quick"]), 1000).unwrap_err();
        assert_eq!(told.to_string().lines().count(), 2, "{told}");
        assert!(told.to_string().contains("scaled to the footprint, hybrid/quick has less DRAM"));
        let told = scale(&systems(&["oracle/quick"]), 1 << 30).unwrap_err().to_string();
        assert!(told.contains("no system has DRAM before a store"), "{told}");
    }
}
