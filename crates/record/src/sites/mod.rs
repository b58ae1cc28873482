//! Where in the program's code accesses come from, for recordings that tell it.
//!
//! The back end asks as it translates an instruction ([`index_at`]), and gives the answer, an index,
//! with each access. An index becomes a site, with a number that all processes of the program agree
//! on, when the first access comes from there ([`number`]): of most instructions none ever does.

mod code;

use crate::capture::{guarded, recorder};
use crate::isolate;
use code::{Code, Spot};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tierscope_workload::site::{FIRST_SITE, MAX_SITES, OTHER_SITES};
use tierscope_workload::{SiteGrain, SiteId};

pub use code::{Mapped, mapped};

/// No site: what a thread that has just begun is at.
pub const NO_INDEX: u32 = 0;
/// All code beyond [`MAX_INDICES`].
const OTHERS: u32 = 1;
/// Instructions, or functions, of code that was translated, whether or not it accesses memory.
const MAX_INDICES: usize = 1 << 22;

/// Numbers by index; 0 where no access has come from there.
static NUMBERS: [AtomicU32; MAX_INDICES] = [const { AtomicU32::new(0) }; MAX_INDICES];
/// Sites so far, in memory that all processes of the program share.
static COUNTED: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
/// How finely sites are told apart: 0 not at all, 1 by function, 2 by address.
static GRAIN: AtomicU8 = AtomicU8::new(0);
static SITES: Mutex<Option<Sites>> = Mutex::new(None);

/// The code that was translated.
#[derive(Default)]
pub struct Sites {
    code: Code,
    indices: HashMap<(u32, u64), u32>,
    /// By index, from 2 on.
    spots: Vec<Spot>,
}

/// Sites are told apart so finely from now on. All processes of the program count them by `counted`.
pub fn begin(grain: SiteGrain, counted: &'static AtomicU32) {
    COUNTED.store(std::ptr::from_ref(counted).cast_mut(), Ordering::Relaxed);
    NUMBERS[OTHERS as usize].store(OTHER_SITES, Ordering::Relaxed);
    *hold() = Some(Sites::default());
    let grain = match grain {
        SiteGrain::Function => 1,
        SiteGrain::Address => 2,
    };
    GRAIN.store(grain, Ordering::Release);
}

/// How finely sites are told apart, if they are.
pub fn grain() -> Option<SiteGrain> {
    match GRAIN.load(Ordering::Acquire) {
        1 => Some(SiteGrain::Function),
        2 => Some(SiteGrain::Address),
        _ => None,
    }
}

/// What is known of sites, held: a fork must find it whole.
pub fn hold() -> MutexGuard<'static, Option<Sites>> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index of the instruction at `address`, where sites are told apart. The program's address 0 is
/// at `base` in this process.
pub fn index_at(grain: SiteGrain, address: u64, base: u64) -> u32 {
    let mut held = hold();
    let Some(sites) = held.as_mut() else { return NO_INDEX };
    if !sites.code.knows(address) {
        // In a thread that opens its files in a table of its own. Nobody translates meanwhile.
        let mut code = std::mem::take(&mut sites.code);
        let learned = isolate::spawn("sites", move || {
            code.learn(address, base, &mapped());
            code
        });
        match learned.map(std::thread::JoinHandle::join) {
            Ok(Ok(code)) => sites.code = code,
            _ => {
                // What was known is lost, and with it what indices stand for.
                *held = None;
                return OTHERS;
            }
        }
    }
    let spot = sites.code.spot(address);
    sites.index(grain, spot)
}

/// The program has unmapped this range of its addresses, or mapped something else there.
pub fn forget(addresses: Range<u64>) {
    if recorder().is_some()
        && let Some(sites) = hold().as_mut()
    {
        sites.code.forget(addresses);
    }
}

/// The number of the site at an index that [`index_at`] gave.
#[inline]
pub fn number(index: u32) -> SiteId {
    match NUMBERS[index as usize % MAX_INDICES].load(Ordering::Relaxed) {
        0 => assign(index),
        number => number,
    }
}

/// The first access from there: gives it a number and tells what is there.
#[cold]
#[inline(never)]
fn assign(index: u32) -> SiteId {
    if recorder().is_none() {
        // In a process that is not recorded, whoever held this may not exist.
        return OTHER_SITES;
    }
    let mut held = hold();
    let Some(sites) = held.as_mut() else { return OTHER_SITES };
    let slot = &NUMBERS[index as usize % MAX_INDICES];
    let known = slot.load(Ordering::Relaxed);
    let spot = (index as usize).checked_sub(OTHERS as usize + 1).and_then(|at| sites.spots.get(at));
    let (0, Some(spot)) = (known, spot) else { return known.max(OTHER_SITES) };
    // SAFETY: set before there was any index, and never removed.
    let counted = unsafe { &*COUNTED.load(Ordering::Relaxed) };
    let before = counted.fetch_add(1, Ordering::Relaxed);
    if before >= MAX_SITES - FIRST_SITE {
        // So that it never comes round.
        counted.store(MAX_SITES, Ordering::Relaxed);
        slot.store(OTHER_SITES, Ordering::Relaxed);
        return OTHER_SITES;
    }
    let number = FIRST_SITE + before;
    let site = sites.code.site(spot);
    guarded(|recorder| recorder.announce_site(number, &site));
    slot.store(number, Ordering::Relaxed);
    number
}

impl Sites {
    fn index(&mut self, grain: SiteGrain, spot: Spot) -> u32 {
        let spot = match grain {
            SiteGrain::Function => Spot { address: spot.start, ..spot },
            SiteGrain::Address => spot,
        };
        let next = self.spots.len() + OTHERS as usize + 1;
        if let Some(index) = self.indices.get(&(spot.module, spot.address)) {
            return *index;
        }
        if next >= MAX_INDICES {
            return OTHERS;
        }
        self.indices.insert((spot.module, spot.address), next as u32);
        self.spots.push(spot);
        next as u32
    }
}
