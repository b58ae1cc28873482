//! Sites: where in a program's code its accesses come from.
//!
//! A workload that knows its sites says so by operations of kind [`crate::OpKind::Site`]: what
//! follows in the thread comes from there. Sites are numbered; number 0 is what no site is known of.
//! What is at each is in a table, by number ([`SiteTable`]).

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of a site.
pub type SiteId = u32;

/// No site is known: what precedes a thread's first one.
pub const UNKNOWN_SITE: SiteId = 0;
/// All sites beyond [`MAX_SITES`].
pub const OTHER_SITES: SiteId = 1;
/// The first number that a site gets.
pub const FIRST_SITE: SiteId = 2;
/// Sites, and numbers, that are told apart at most: what a machine counts for each is bounded.
pub const MAX_SITES: u32 = 1 << 20;

/// How finely a workload tells its sites apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SiteGrain {
    /// A site is a function.
    Function,
    /// A site is an instruction.
    Address,
}

/// What is at a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    /// The file that the code is from, or what it is instead, in brackets.
    pub file: Arc<str>,
    /// The function's name for people; empty where it has none.
    pub function: Arc<str>,
    /// Where the function begins, as the file has it; of code that is in no file, its address in the
    /// program's memory.
    pub start: u64,
    /// Where the instruction is, likewise. The same as `start` where a site is a function.
    pub address: u64,
}

/// The sites of a workload, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTable {
    /// How finely they are told apart; `None` where the workload knows none.
    pub grain: Option<SiteGrain>,
    sites: Vec<Option<Site>>,
    /// One copy of each text.
    texts: HashMap<Arc<str>, ()>,
}

impl SiteTable {
    /// A table for sites of this grain.
    pub fn new(grain: SiteGrain) -> SiteTable {
        SiteTable { grain: Some(grain), ..SiteTable::default() }
    }

    /// Says what is at the site of this number. Numbers may come in any order; one that cannot be
    /// is left out, and false.
    pub fn set(&mut self, number: SiteId, mut site: Site) -> bool {
        if !(FIRST_SITE..MAX_SITES).contains(&number) {
            return false;
        }
        site.file = self.one_copy(site.file);
        site.function = self.one_copy(site.function);
        let index = number as usize;
        if self.sites.len() <= index {
            self.sites.resize(index + 1, None);
        }
        self.sites[index] = Some(site);
        true
    }

    /// What is at a site, where that is known.
    pub fn get(&self, number: SiteId) -> Option<&Site> {
        self.sites.get(number as usize)?.as_ref()
    }

    /// All sites, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (SiteId, &Site)> {
        let numbered = (0..).zip(&self.sites);
        numbered.filter_map(|(number, site)| Some((number, site.as_ref()?)))
    }

    /// Sites in it.
    pub fn len(&self) -> usize {
        self.sites.iter().flatten().count()
    }

    /// Whether it has no site.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn one_copy(&mut self, text: Arc<str>) -> Arc<str> {
        if let Some((known, ())) = self.texts.get_key_value(&text) {
            return known.clone();
        }
        self.texts.insert(text.clone(), ());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(function: &str, address: u64) -> Site {
        Site { file: "/bin/app".into(), function: function.into(), start: 0x1000, address }
    }

    #[test]
    fn sites_are_found_by_number_in_whatever_order_they_came() {
        let mut table = SiteTable::new(SiteGrain::Address);
        assert!(table.set(5, site("f", 0x1004)) && table.set(FIRST_SITE, site("f", 0x1000)));
        assert_eq!(table.get(5), Some(&site("f", 0x1004)));
        assert_eq!((table.get(3), table.get(99), table.len()), (None, None, 2));
        let (first, second) = (table.get(5).unwrap(), table.get(FIRST_SITE).unwrap());
        assert!(Arc::ptr_eq(&first.function, &second.function), "a text is there once");
    }

    #[test]
    fn numbers_that_no_site_has_are_refused() {
        let mut table = SiteTable::new(SiteGrain::Function);
        for number in [UNKNOWN_SITE, OTHER_SITES, MAX_SITES, SiteId::MAX] {
            assert!(!table.set(number, site("f", 0)), "{number}");
        }
        assert!(table.is_empty());
    }
}
