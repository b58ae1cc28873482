//! What accesses have cost by what of the address space they concern.

use super::causes::Counts;
use super::thread::{Access, Place};
use super::{Context, Fixed, Machine};
use crate::result::Cost;
use std::collections::BTreeMap;
use tierscope_model::os::paging::{Area, Paging};

impl Context {
    /// The area that an access of the program concerns.
    #[inline]
    pub(super) fn area_of(&mut self, paging: &Paging, fixed: &Fixed, access: &Access) -> u32 {
        let Place::Virtual(address) = access.place else { return Area::REST };
        let page = address >> fixed.page_shift;
        if !self.area.pages.contains(&page) {
            self.area = paging.area(page);
        }
        self.area.index
    }
}

impl Machine {
    /// Mappings have changed: what was seen of areas may be so no more.
    pub(super) fn forget_areas(&mut self) {
        for context in &mut self.contexts {
            context.area = Area::default();
        }
    }

    /// What the accesses to each area have cost, by its name. Files of one name are one.
    pub(super) fn areas(&self) -> BTreeMap<String, Cost> {
        let files = self.stream.files();
        let mut areas: BTreeMap<String, Counts> = BTreeMap::new();
        for (index, counts) in self.counted().causes.by_area() {
            if *counts == Counts::default() {
                continue;
            }
            let name = match Area::file(index) {
                Some(file) => files
                    .get(file as usize)
                    .map_or_else(|| format!("file {file}"), |file| file.name.clone()),
                None => Area::NAMES[index as usize].to_owned(),
            };
            areas.entry(name).or_default().add(counts);
        }
        areas.into_iter().map(|(name, counts)| (name, counts.cost())).collect()
    }
}
