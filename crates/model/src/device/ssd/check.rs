//! What of the description of a drive is wrong, all of it at once.
//!
//! Each check asks for what it needs to be right by itself, and is silent where that is said already.

use super::spec::{MOST_BLOCKS, SsdBufferSpec, SsdSpec};
use super::translation::{self, Geometry, InitialFlash};
use crate::link::check_bandwidth;
use crate::medium::NandSpec;
use tierscope_units::{Energy, Power, Problems, Size};

/// Pages that a page of flash holds at most.
const MOST_PAGES: u64 = 32;
const LEAST_PAGE: u64 = 512;

impl SsdSpec {
    /// Collects every semantic mistake below `path`.
    pub(super) fn check_all(&self, path: &str, problems: &mut Problems) {
        let before = problems.len();
        self.nand.check(&format!("{path}.nand"), problems);
        let nand_is_right = problems.len() == before;
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        self.check_parts(path, problems);
        let collection_before = problems.len();
        self.check_collection(path, problems);
        let collection_is_right = problems.len() == collection_before;
        if !translation::is_order(&self.striping) {
            problems.add(
                "impossible-value",
                format!("{path}.striping"),
                self.striping.clone(),
                "an order has each of c, w, d and p once".into(),
                "write \"c-w-d-p\"".into(),
            );
        }
        self.check_buffer(path, problems);
        let map_before = problems.len();
        self.check_map(path, problems);
        self.check_log(path, problems);
        let map_is_right = problems.len() == map_before;
        let shape_before = problems.len();
        self.check_page(path, problems);
        if self.nand.channels > 0 {
            self.check_split(path, nand_is_right, problems);
        }
        if nand_is_right {
            self.check_fit(path, problems);
        }
        self.check_capacity(path, problems);
        let shape_is_right = problems.len() == shape_before;
        if nand_is_right && collection_is_right && map_is_right && shape_is_right {
            self.check_space(path, problems);
        } else if nand_is_right && u128::from(self.capacity.bytes()) > self.nand.bytes() {
            self.tell_too_little_flash(path, problems);
        }
    }

    fn check_parts(&self, path: &str, problems: &mut Problems) {
        let firmware = format!("{path}.firmware");
        problems.at_least(&firmware, "cores", self.firmware.cores, 1);
        problems.at_most(&firmware, "cores", self.firmware.cores, 256);
        let wear = format!("{path}.wear");
        problems.at_least(&wear, "endurance", self.wear.endurance, 1);
        if let Some(power) = &self.dram_power {
            let path = format!("{path}.dram_power");
            problems.at_most(&path, "standby", power.standby, Power::MOST_OF_A_PART);
            let most = Energy::from_femtojoules(1_000_000_000_000);
            problems.at_most(&path, "read_per_bit", power.read_per_bit, most);
            problems.at_most(&path, "write_per_bit", power.write_per_bit, most);
        }
    }

    /// What decides how many blocks a die needs.
    fn check_collection(&self, path: &str, problems: &mut Problems) {
        let collection = format!("{path}.collection");
        problems.at_least(&collection, "free_blocks", self.collection.free_blocks, 2);
        problems.at_least(&collection, "copies", self.collection.copies, 1);
        if let Some(idle) = &self.collection.idle
            && idle.free_blocks <= self.collection.free_blocks
        {
            let free = self.collection.free_blocks;
            problems.add(
                "contradiction",
                format!("{collection}.idle.free_blocks"),
                idle.free_blocks.to_string(),
                format!("as many are erased in any case ({collection}.free_blocks = {free})"),
                format!("write {} or more", free.max(2).saturating_add(1)),
            );
        }
        let wear = format!("{path}.wear");
        problems.at_least(&wear, "factory_bad", self.wear.factory_bad, 0.0);
        problems.at_most(&wear, "factory_bad", self.wear.factory_bad, 0.5);
    }

    fn page_is_right(&self) -> bool {
        self.page.bytes().is_power_of_two() && self.page.bytes() >= LEAST_PAGE
    }

    fn check_page(&self, path: &str, problems: &mut Problems) {
        if !self.page_is_right() {
            problems.add(
                "impossible-value",
                format!("{path}.page"),
                self.page.to_string(),
                "what is mapped as one is a power of two of at least 512B".into(),
                "write 4KiB".into(),
            );
        }
    }

    /// Whether pages may be split over so many channels, and a page of flash then holds whole ones.
    fn fits(&self, split: u32) -> bool {
        let flash_bytes = self.nand.page.bytes() * u64::from(split);
        let page_bytes = self.page.bytes().max(1);
        self.nand.channels.is_multiple_of(split)
            && flash_bytes.is_multiple_of(page_bytes)
            && (1..=MOST_PAGES).contains(&(flash_bytes / page_bytes))
    }

    /// The split nearest to the one written with which everything fits, if there is one.
    fn split_that_fits(&self) -> Option<u32> {
        let fitting = (1..=self.nand.channels).filter(|split| self.fits(*split));
        fitting.min_by_key(|split| split.abs_diff(self.split))
    }

    fn check_split(&self, path: &str, nand_is_right: bool, problems: &mut Problems) {
        if self.split > 0 && self.nand.channels.is_multiple_of(self.split) {
            return;
        }
        let reason = match self.split {
            0 => "a page lies on one channel or more".to_owned(),
            _ => format!("it does not divide {path}.nand.channels = {}", self.nand.channels),
        };
        let mend = match self.split_that_fits() {
            Some(split) => format!("write {split}"),
            None if nand_is_right => format!("write 1, and {path}.page = \"{}\"", self.nand.page),
            None => "write 1".into(),
        };
        let code = if self.split == 0 { "impossible-value" } else { "contradiction" };
        problems.add(code, format!("{path}.split"), self.split.to_string(), reason, mend);
    }

    /// A page holds whole entries of the map, and memory whole pages of it.
    fn check_map(&self, path: &str, problems: &mut Problems) {
        let Some(map) = &self.map else { return };
        let path = format!("{path}.map");
        let entry_bytes = map.entry.bytes();
        if !entry_bytes.is_power_of_two() || self.page_is_right() && map.entry > self.page {
            problems.add(
                "impossible-value",
                format!("{path}.entry"),
                map.entry.to_string(),
                format!(
                    "a page of {} holds whole entries: their size is a power of two",
                    self.page
                ),
                "write 4B".into(),
            );
        }
        // What is programmed at once leaves the memory at once.
        let least = self.nand.page.max(self.page);
        if map.cache < least {
            problems.add(
                "impossible-value",
                format!("{path}.cache"),
                map.cache.to_string(),
                format!("the memory has as much of the map as a page of flash, {least}, at least"),
                format!("write {least} or more"),
            );
        }
    }

    /// Blocks are mapped as they are written: page by page, in one kind of map.
    fn check_log(&self, path: &str, problems: &mut Problems) {
        let Some(log) = &self.log else { return };
        problems.at_least(&format!("{path}.log"), "blocks", log.blocks, 1);
        problems.at_most(&format!("{path}.log"), "blocks", log.blocks, NandSpec::MOST_BLOCKS);
        let mut refuse = |key: &str, value: String, reason: &str, mend: String| {
            let place = format!("{path}.{key}");
            problems.add("contradiction", place, value, reason.into(), mend);
        };
        if self.map.is_some() {
            let reason = "a map of blocks and logs is in memory whole";
            refuse("map", "a table".into(), reason, format!("leave out {path}.map, or {path}.log"));
        }
        if self.collection.idle.is_some() {
            let reason = "logs are merged when they are full";
            let mend = format!("leave it out, or {path}.log");
            refuse("collection.idle", "a table".into(), reason, mend);
        }
        if self.initial == InitialFlash::Steady {
            let reason = "the steady state is known of a map of pages only";
            refuse("initial", "steady".into(), reason, "write \"written\"".into());
        }
        let flash_bytes = self.nand.page.bytes() * u64::from(self.split);
        if self.page_is_right() && self.split > 0 && flash_bytes != self.page.bytes() {
            let reason = "a map of blocks has pages of flash, over all channels of a page";
            let page = Size::from_bytes(flash_bytes);
            refuse("page", self.page.to_string(), reason, format!("write {page}"));
        }
    }

    /// Pages of the drive and of flash fit each other.
    fn check_fit(&self, path: &str, problems: &mut Problems) {
        let splits = self.split > 0 && self.nand.channels.is_multiple_of(self.split);
        if !splits || !self.page_is_right() || self.fits(self.split) {
            return;
        }
        let flash_bytes = self.nand.page.bytes() * u64::from(self.split);
        // Powers of two, but for what the channels are split into.
        let whole_bytes = 1 << flash_bytes.trailing_zeros();
        let page_bytes = self.page.bytes();
        let nearest_bytes = page_bytes.clamp(flash_bytes.div_ceil(MOST_PAGES), whole_bytes);
        let nearest = Size::from_bytes(nearest_bytes.next_power_of_two());
        let or_split = self.split_that_fits().map(|split| format!(", or {path}.split = {split}"));
        problems.add(
            "contradiction",
            format!("{path}.page"),
            self.page.to_string(),
            format!(
                "a page of flash, {} over {path}.split = {} channels, holds 1 to {MOST_PAGES} of them",
                self.nand.page, self.split
            ),
            format!("write {nearest}{}", or_split.unwrap_or_default()),
        );
    }

    fn check_capacity(&self, path: &str, problems: &mut Problems) {
        if !self.page_is_right() {
            return;
        }
        let (capacity, page) = (self.capacity.bytes(), self.page.bytes());
        if capacity == 0 || !capacity.is_multiple_of(page) {
            let nearest = (capacity / page).max(1) * page;
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("the capacity is not a whole number of pages of {}", self.page),
                format!("write \"{}\", or another multiple of the page", Size::from_bytes(nearest)),
            );
        }
    }

    fn tell_too_little_flash(&self, path: &str, problems: &mut Problems) {
        let bytes = u64::try_from(self.nand.bytes()).unwrap_or(u64::MAX);
        problems.add(
            "contradiction",
            format!("{path}.capacity"),
            self.capacity.to_string(),
            format!("all pages of {path}.nand together hold {}", Size::from_bytes(bytes)),
            format!("write less, or more {path}.nand.blocks"),
        );
    }

    /// Flash is enough for the capacity, and numbers of 32 bits for flash.
    fn check_space(&self, path: &str, problems: &mut Problems) {
        let units = self.nand.bytes() / u128::from(self.page.bytes());
        if units > u128::from(translation::MOST_PLACES) {
            problems.add(
                "impossible-value",
                format!("{path}.nand"),
                format!("{units} pages of {}", self.page),
                "places in flash are numbered with 32 bits".into(),
                format!("write a larger {path}.page, or less flash"),
            );
            return;
        }
        let geometry = Geometry::new(&self.nand, self.split, self.page.bytes());
        let blocks = u64::from(geometry.lanes) * u64::from(geometry.blocks);
        if blocks > MOST_BLOCKS
            || u64::from(geometry.lanes) * u64::from(geometry.block_units()) > MOST_BLOCKS
        {
            problems.add(
                "impossible-value",
                format!("{path}.nand"),
                format!("{blocks} blocks of all planes of a die"),
                "what is kept of each would not fit into memory".into(),
                format!("write fewer {path}.nand.blocks, or fewer dies"),
            );
            return;
        }
        self.check_blocks(path, &geometry, problems);
    }

    /// Every die has blocks enough for its share, and for collection to go on.
    fn check_blocks(&self, path: &str, geometry: &Geometry, problems: &mut Problems) {
        let least = self.least_blocks(geometry);
        let usable = self.usable(geometry).into_iter().min().unwrap_or(0);
        if usable >= least {
            return;
        }
        let most = self.most_capacity(geometry, usable).map(|most| format!("{most} or less"));
        let more = self.blocks_that_suffice(geometry);
        let more = more.map(|more| format!("{path}.nand.blocks = {more} or more"));
        let mend = match [most, more] {
            [Some(most), Some(more)] => format!("write {most}, or {more}"),
            [Some(one), None] | [None, Some(one)] => format!("write {one}"),
            [None, None] => format!("write more {path}.nand.blocks, and a smaller capacity"),
        };
        problems.add(
            "contradiction",
            format!("{path}.capacity"),
            self.capacity.to_string(),
            format!(
                "each die needs {least} blocks for its share, for those that are filled or collected \
                 and for {path}.collection.free_blocks, and the worst has {usable}"
            ),
            mend,
        );
    }

    /// The largest capacity for which so many blocks of each die suffice, if there is one.
    fn most_capacity(&self, geometry: &Geometry, usable: u32) -> Option<Size> {
        let fits = |pages: u64| {
            let capacity = Size::from_bytes(pages * self.page.bytes());
            SsdSpec { capacity, ..self.clone() }.least_blocks(geometry) <= usable
        };
        let (mut fitting, mut not) = (0, self.capacity.bytes() / self.page.bytes());
        while not - fitting > 1 {
            let middle = fitting.midpoint(not);
            if fits(middle) { fitting = middle } else { not = middle }
        }
        (fitting > 0).then(|| Size::from_bytes(fitting * self.page.bytes()))
    }

    /// So many blocks that every die has enough, bad ones among them, if there may be as many.
    fn blocks_that_suffice(&self, geometry: &Geometry) -> Option<u32> {
        let mut geometry = *geometry;
        loop {
            let usable = self.usable(&geometry).into_iter().min().unwrap_or(0);
            let missing = self.least_blocks(&geometry).saturating_sub(usable);
            if missing == 0 {
                return Some(geometry.blocks);
            }
            geometry.blocks = geometry.blocks.checked_add(missing)?;
            let blocks = u64::from(geometry.lanes) * u64::from(geometry.blocks);
            let fits = geometry.units() <= translation::MOST_PLACES && blocks <= MOST_BLOCKS;
            if !fits || geometry.blocks > NandSpec::MOST_BLOCKS {
                return None;
            }
        }
    }

    /// What bounds capacitors says something only of a drive that has them, and energy only where it is known what it is
    /// for.
    fn check_capacitors(&self, path: &str, problems: &mut Problems) {
        let SsdBufferSpec { capacitors, capacitor_energy, hold_up_time, .. } = &self.buffer;
        let energy = capacitor_energy.map(|energy| ("capacitor_energy", energy.to_string()));
        let time = hold_up_time.map(|time| ("hold_up_time", time.to_string()));
        for (field, value) in energy.iter().chain(&time).filter(|_| !capacitors) {
            problems.add(
                "contradiction",
                format!("{path}.{field}"),
                value.clone(),
                format!("the drive has no capacitors ({path}.capacitors)"),
                format!("leave it out, or write {path}.capacitors = true"),
            );
        }
        if let Some((field, value)) = energy.filter(|_| *capacitors && self.nand.power.is_none()) {
            problems.add(
                "contradiction",
                format!("{path}.{field}"),
                value,
                "what the flash takes while it is programmed is not described (nand.power)".into(),
                format!("describe that, or write {path}.hold_up_time"),
            );
        }
    }

    fn check_buffer(&self, path: &str, problems: &mut Problems) {
        let buffer = &self.buffer;
        let path = format!("{path}.buffer");
        check_bandwidth(&format!("{path}.bandwidth"), buffer.bandwidth, problems);
        problems.at_least(&path, "dirty", buffer.dirty, self.page);
        self.check_capacitors(&path, problems);
        if buffer.capacity < self.page {
            let enough = self.page.max(buffer.dirty).max(buffer.flush_above);
            problems.add(
                "impossible-value",
                format!("{path}.capacity"),
                buffer.capacity.to_string(),
                format!("a buffer holds one page of {} at least", self.page),
                format!("write {enough} or more"),
            );
            return;
        }
        for (field, size) in [("dirty", buffer.dirty), ("flush_above", buffer.flush_above)] {
            if size > buffer.capacity {
                problems.add(
                    "contradiction",
                    format!("{path}.{field}"),
                    size.to_string(),
                    format!("the buffer holds {} ({path}.capacity)", buffer.capacity),
                    format!("write {} or less, or {path}.capacity = \"{size}\"", buffer.capacity),
                );
            }
        }
    }
}
