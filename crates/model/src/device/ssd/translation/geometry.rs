//! Numbers of units, pages and blocks.

use crate::medium::NandSpec;

/// The shape of what the translation layer maps to. A *lane* of dies is what programs a page
/// together: one die, or as many as a page is split over. A *block* is here a block of each plane of
/// a lane, which are erased together; a *page* a page of one plane of each die of the lane; a
/// *unit* what is mapped, of which a page holds one or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Lanes.
    pub lanes: u32,
    /// Planes of a lane.
    pub planes: u32,
    /// Blocks of a lane.
    pub blocks: u32,
    /// Pages of a block and plane.
    pub rows: u32,
    /// Units of a page.
    pub page_units: u32,
}

/// A page by lane, block and number in the block: first those of all planes with the lowest row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The lane.
    pub lane: u32,
    /// The block in the lane.
    pub block: u32,
    /// The page in the block.
    pub page: u32,
}

/// A place that holds one unit: its number among all.
pub type Place = u32;

impl Geometry {
    /// Of `nand`, with pages split over `split` channels, for units of `unit_bytes`. All of them
    /// have been checked.
    pub fn new(nand: &NandSpec, split: u32, unit_bytes: u64) -> Self {
        Geometry {
            lanes: nand.all_dies() as u32 / split,
            planes: nand.planes,
            blocks: nand.blocks,
            rows: nand.pages,
            page_units: (nand.page.bytes() * u64::from(split) / unit_bytes) as u32,
        }
    }

    /// Pages of a block.
    #[inline]
    pub fn block_pages(&self) -> u32 {
        self.planes * self.rows
    }

    /// Whether a page is the last of its block.
    #[inline]
    pub fn is_last(&self, page: Page) -> bool {
        page.page + 1 == self.block_pages()
    }

    /// Units of a block.
    #[inline]
    pub fn block_units(&self) -> u32 {
        self.block_pages() * self.page_units
    }

    /// The most valid units with which a block is worth collecting: moved, they leave at least one of
    /// its pages free. Pages are programmed once, so that units which only leave gaps win nothing.
    #[inline]
    pub fn most_gaining(&self) -> u32 {
        self.block_units() - self.page_units
    }

    /// Units of all.
    pub fn units(&self) -> u64 {
        u64::from(self.lanes) * u64::from(self.blocks) * u64::from(self.block_units())
    }

    /// The number of a block among those of all lanes.
    #[inline]
    pub fn block_number(&self, lane: u32, block: u32) -> u32 {
        lane * self.blocks + block
    }

    /// The place of the n-th unit of a page.
    #[inline]
    pub fn place(&self, page: Page, unit: u32) -> Place {
        let block = self.block_number(page.lane, page.block);
        block * self.block_units() + page.page * self.page_units + unit
    }

    /// The number of the block of a place, and the unit in the block.
    #[inline]
    pub fn block_of(&self, place: Place) -> (u32, u32) {
        (place / self.block_units(), place % self.block_units())
    }

    /// The page of a place.
    #[inline]
    pub fn page_of(&self, place: Place) -> Page {
        let (number, unit) = self.block_of(place);
        Page {
            lane: number / self.blocks,
            block: number % self.blocks,
            page: unit / self.page_units,
        }
    }
}
