//! Where in the program's memory the places are that give marks.

use crate::capture::guarded;
use crate::isolate;
use crate::sites::{Mapped, mapped};
use crate::symbols::{At, Found, Place, PlaceName, find};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

/// The places, as far as they are in files that are known, and names that are still looked for.
static WANTED: Mutex<Wanted> =
    Mutex::new(Wanted { places: Vec::new(), looked_at: BTreeMap::new() });
/// Addresses that give marks now.
static GIVING: RwLock<Vec<Giving>> = RwLock::new(Vec::new());

struct Wanted {
    places: Vec<Place>,
    /// By file and number of the place: the offset of its name in that file, where there is one.
    looked_at: BTreeMap<(PathBuf, usize), Option<u64>>,
}

/// An address whose execution gives a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Giving {
    address: u64,
    mark: u64,
}

/// What is looked for from now on.
pub fn want(places: Vec<Place>) {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner).places = places;
}

/// Whether anything is looked for.
pub fn any_wanted() -> bool {
    !WANTED.lock().unwrap_or_else(PoisonError::into_inner).places.is_empty()
}

/// Calls `take` with each mark that the instruction at `address` gives.
pub fn marks_at(address: u64, mut take: impl FnMut(u64)) {
    let giving = GIVING.read().unwrap_or_else(PoisonError::into_inner);
    giving.iter().filter(|giving| giving.address == address).for_each(|giving| take(giving.mark));
}

/// The program has unmapped this range of its addresses, or mapped something else there.
pub fn forget(addresses: Range<u64>) {
    let mut giving = GIVING.write().unwrap_or_else(PoisonError::into_inner);
    giving.retain(|giving| !addresses.contains(&giving.address));
}

/// Looks anew where the places are. The program's address 0 is at `base` in this process.
pub fn locate(base: u64) {
    // In a thread that opens its files in a table of its own.
    let located = isolate::spawn("places", move || {
        let mut wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.locate(&mapped(), base)
    });
    match located.map(std::thread::JoinHandle::join) {
        Ok(Ok(giving)) => *GIVING.write().unwrap_or_else(PoisonError::into_inner) = giving,
        _ => guarded(|recorder| {
            recorder.publish_error("the places of the region of interest cannot be looked for");
        }),
    }
}

impl Wanted {
    fn locate(&mut self, mapped: &[Mapped], base: u64) -> Vec<Giving> {
        let mut giving = Vec::new();
        for number in 0..self.places.len() {
            let mark = self.places[number].mark;
            for part in mapped {
                let Some(file) = &part.file else { continue };
                let Some(offset) = self.offset_in(number, file) else { continue };
                let bytes = part.addresses.end - part.addresses.start;
                if let Some(within) = offset.checked_sub(part.offset).filter(|w| *w < bytes) {
                    let address = (part.addresses.start + within).wrapping_sub(base);
                    giving.push(Giving { address, mark });
                }
            }
        }
        giving
    }

    /// Where in a file the place of this number is, if it is in that file.
    fn offset_in(&mut self, number: usize, path: &Path) -> Option<u64> {
        match &self.places[number].at {
            At::Offset { file, offset } => (file == path).then_some(*offset),
            At::Name(name) => {
                let name = PlaceName::new(name);
                if !name.may_be_in(path) {
                    return None;
                }
                let looked_at = self.looked_at.entry((path.to_owned(), number));
                *looked_at.or_insert_with(|| look_at(path, &name))
            }
        }
    }
}

/// Looks for a place in a library that was just mapped.
fn look_at(path: &Path, name: &PlaceName) -> Option<u64> {
    let why = match find(path, &name.symbol) {
        Ok(Found::At(offset)) => return Some(offset),
        Ok(Found::Unfit(why)) => why,
        Ok(Found::Nothing { near: Some(near) }) => {
            format!("it has no such function; did you mean {near}?")
        }
        Ok(Found::Nothing { near: None }) => "it has no such function".into(),
        Err(why) => why,
    };
    guarded(|recorder| {
        recorder.publish_error(&format!("{name}, looked for in {}: {why}", path.display()));
    });
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_where_its_part_of_the_file_is_mapped() {
        let file = Some("/lib/a b.so".into());
        let part = Mapped { addresses: 0x4000..0x6000, offset: 0x1000, file };
        let anonymous = Mapped { addresses: 0x6000..0x7000, offset: 0, file: None };
        let place =
            |offset| Place { mark: 1, at: At::Offset { file: "/lib/a b.so".into(), offset } };
        let places = vec![place(0x1010), place(0x2fff), place(0x3000), place(0xfff)];
        let mut wanted = Wanted { places, looked_at: BTreeMap::new() };
        let addresses: Vec<u64> =
            wanted.locate(&[part, anonymous], 0x1000).iter().map(|giving| giving.address).collect();
        assert_eq!(addresses, vec![0x3010, 0x4fff]);
    }
}
