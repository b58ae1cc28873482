//! What accesses have cost by where in the program's code they come from.

use super::Machine;
use super::causes::Counts;
use crate::result::{CodeCost, CodeResult};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tierscope_workload::site::{MAX_SITES, OTHER_SITES};
use tierscope_workload::{Site, SiteGrain, SiteId, SiteTable};

/// Rows of a table in a result, beside that of all others together.
pub const MOST_ROWS: usize = 1000;
/// What is not told apart.
const OTHERS: &str = "[others]";
/// What no name is known of.
const UNKNOWN: &str = "[unknown]";

/// What the accesses of a site have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteCounts {
    /// Accesses that are only counted: the core's own caches served them at once.
    hits: u64,
    pub counts: Counts,
}

impl SiteCounts {
    fn add(&mut self, other: &SiteCounts) {
        self.hits += other.hits;
        self.counts.add(&other.counts);
    }
}

/// Counts by site, in the order of their numbers: at most [`MAX_SITES`] of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sites(Vec<SiteCounts>);

impl Sites {
    /// The counts of a site.
    #[inline]
    pub fn of(&mut self, site: SiteId) -> &mut SiteCounts {
        let site = if site < MAX_SITES { site } else { OTHER_SITES };
        let index = site as usize;
        if index >= self.0.len() {
            self.grow(index);
        }
        &mut self.0[index]
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.0.resize((index + 1).next_power_of_two(), SiteCounts::default());
    }

    /// The core's own caches have served accesses at once.
    #[inline]
    pub fn hit(&mut self, site: SiteId, count: u64) {
        self.of(site).hits += count;
    }

    /// One of these had to wait before, and is recorded.
    pub fn take_hit_back(&mut self, site: SiteId) {
        self.of(site).hits -= 1;
    }

    /// Accesses in all, and the sums over all sites.
    pub fn totals(&self) -> (u64, Counts) {
        let mut totals = SiteCounts::default();
        self.0.iter().for_each(|one| totals.add(one));
        (totals.hits + totals.counts.accesses, totals.counts)
    }

    fn result(&self, table: &SiteTable, grain: SiteGrain) -> CodeResult {
        let mut functions = BTreeMap::<Place, SiteCounts>::new();
        let mut addresses = BTreeMap::<Place, SiteCounts>::new();
        for (number, counts) in (0..).zip(&self.0) {
            if *counts == SiteCounts::default() {
                continue;
            }
            let (function, address) = places(number, table.get(number));
            functions.entry(function).or_default().add(counts);
            if grain == SiteGrain::Address {
                addresses.entry(address).or_default().add(counts);
            }
        }
        CodeResult {
            functions: rows(functions),
            addresses: (grain == SiteGrain::Address).then(|| rows(addresses)),
        }
    }
}

/// A function or an address: file, name, and where it is in the file.
type Place<'a> = (&'a str, &'a str, u64);

/// The function of a site, and its address.
fn places(number: SiteId, site: Option<&Site>) -> (Place<'_>, Place<'_>) {
    match site {
        Some(site) => {
            ((&site.file, &site.function, site.start), (&site.file, &site.function, site.address))
        }
        None if number == OTHER_SITES => (("", OTHERS, 0), ("", OTHERS, 0)),
        None => (("", UNKNOWN, 0), ("", UNKNOWN, 0)),
    }
}

/// The rows of a table, those for which threads stood still longest first; what exceeds
/// [`MOST_ROWS`] is one row at the end.
fn rows(costs: BTreeMap<Place, SiteCounts>) -> Vec<CodeCost> {
    let mut costs: Vec<(Place, SiteCounts)> = costs.into_iter().collect();
    costs.sort_by_key(|(place, counts)| {
        let last = place.1 == OTHERS;
        (last, Reverse((counts.counts.stall_ps, counts.counts.latency_ps, counts.hits)))
    });
    if costs.len() > MOST_ROWS {
        let mut others = SiteCounts::default();
        costs.split_off(MOST_ROWS).iter().for_each(|(_, counts)| others.add(counts));
        costs.push((("", OTHERS, 0), others));
    }
    costs.into_iter().map(|(place, counts)| row(place, &counts)).collect()
}

fn row((file, function, address): Place, counts: &SiteCounts) -> CodeCost {
    CodeCost {
        file: file.to_owned(),
        function: function.to_owned(),
        address,
        hits: counts.hits,
        cost: counts.counts.cost(),
    }
}

impl Machine {
    /// What the accesses of each function, and of each address, have cost, where that is asked for.
    pub(super) fn code(&self) -> Option<CodeResult> {
        let sites = self.counted().causes.sites.as_ref()?;
        Some(sites.result(&self.stream.sites(), self.fixed.sites?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(count: u32) -> SiteTable {
        let mut table = SiteTable::new(SiteGrain::Address);
        for number in 2..2 + count {
            // Ten instructions to a function.
            let start = u64::from(number / 10) * 0x100;
            let function = format!("f{}", number / 10);
            let address = start + u64::from(number % 10);
            table.set(number, Site { file: "a".into(), function: function.into(), start, address });
        }
        table
    }

    #[test]
    fn what_exceeds_the_rows_and_the_sites_is_in_the_row_of_others() {
        let count = 30_000;
        let mut sites = Sites::default();
        for number in 0..2 + count {
            sites.of(number).counts.stall_ps = 1000 * u128::from(number);
            sites.hit(number, 1);
        }
        sites.hit(MAX_SITES, 5);
        sites.hit(SiteId::MAX, 5);
        let result = sites.result(&table(count), SiteGrain::Address);
        let addresses = result.addresses.unwrap();
        for rows in [&result.functions, &addresses] {
            assert_eq!(rows.len(), MOST_ROWS + 1);
            let (others, named) = rows.split_last().unwrap();
            assert_eq!(others.function, OTHERS);
            assert!(named.is_sorted_by(|a, b| a.cost.stall_ns >= b.cost.stall_ns));
            let hits: u64 = rows.iter().map(|row| row.hits).sum();
            assert_eq!(hits, u64::from(count) + 2 + 10);
            let stall_ns: f64 = rows.iter().map(|row| row.cost.stall_ns).sum();
            assert_eq!(stall_ns, (0..2 + count).map(f64::from).sum::<f64>());
        }
        assert_eq!(addresses[0].function, format!("f{}", (count + 1) / 10));
        let functions_alone = sites.result(&table(count), SiteGrain::Function);
        assert_eq!(
            (functions_alone.functions, functions_alone.addresses),
            (result.functions, None)
        );
    }

    #[test]
    fn a_function_is_the_sum_of_its_addresses() {
        let mut sites = Sites::default();
        (10..20).for_each(|number| sites.hit(number, u64::from(number)));
        sites.hit(0, 3);
        let result = sites.result(&table(30), SiteGrain::Address);
        assert_eq!(result.addresses.unwrap().len(), 11);
        let functions: Vec<_> =
            result.functions.iter().map(|row| (row.function.as_str(), row.hits)).collect();
        assert_eq!(functions, [("f1", (10..20).sum()), (UNKNOWN, 3)]);
    }
}
