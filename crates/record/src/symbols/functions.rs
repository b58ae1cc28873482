//! Which function of an ELF file a place in it belongs to.
//!
//! Named functions come from the symbol tables. Where they do not reach, as in a program that was
//! stripped, functions are told by where they begin: unwinding needs that, so that it is there in
//! nearly every file, in the table of `.eh_frame_hdr`. Source: Linux Standard Base Core 5.0, section
//! 10.6.2, and `Elf64_Phdr` in the System V ABI.

use super::elf::{self, Elf};
use object::LittleEndian;
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSegment};
use std::ops::Range;
use std::path::Path;

/// Characters of a name at most: those of templates may be very long.
const MOST_CHARACTERS: usize = 300;

/// A function with a name.
struct Named {
    start: u64,
    /// Zero where the symbol does not say.
    bytes: u64,
    mangled: Box<str>,
}

/// The functions of a file, by where they are.
pub struct Functions {
    /// Of each loaded segment: its place in the file, and its address.
    segments: Vec<(Range<u64>, u64)>,
    /// By address, one for each.
    named: Vec<Named>,
    /// Where functions begin, named or not, in order.
    starts: Vec<u64>,
}

impl Functions {
    /// Reads the functions of the ELF file at `path`. An error says why it cannot be read, for people.
    pub fn read(path: &Path) -> Result<Functions, String> {
        elf::read(path, |elf| Functions {
            segments: segments(elf),
            named: named(elf),
            starts: starts(elf),
        })
    }

    /// Where the function of the code at an offset in the file begins, and where the code is itself:
    /// as addresses that the file has. Code of no known function counts to the one before it, or to
    /// its segment.
    pub fn place(&self, offset: u64) -> (u64, u64) {
        let segment = self.segments.iter().find(|(range, _)| range.contains(&offset));
        let Some((range, first)) = segment else { return (offset, offset) };
        let address = first + (offset - range.start);
        let named = self.named.partition_point(|f| f.start <= address).checked_sub(1);
        let named = named.map(|at| &self.named[at]).filter(|f| f.start >= *first);
        if let Some(named) = named.filter(|f| address - f.start < f.bytes) {
            return (named.start, address);
        }
        let start = self.starts.partition_point(|start| *start <= address).checked_sub(1);
        let start = start.map(|at| self.starts[at]).filter(|start| start >= first);
        // A label of assembly says no length.
        let label = named.filter(|f| f.bytes == 0).map(|f| f.start);
        (start.max(label).unwrap_or(*first), address)
    }

    /// Whether a function begins at an address that [`Functions::place`] gave: otherwise it is where the
    /// segment begins, of code that is in no function as far as the file tells.
    pub fn begins(&self, start: u64) -> bool {
        self.starts.binary_search(&start).is_ok()
            || self.named.binary_search_by_key(&start, |f| f.start).is_ok()
    }

    /// The name of the function that begins at an address, as people write it.
    pub fn name(&self, start: u64) -> Option<String> {
        let at = self.named.binary_search_by_key(&start, |f| f.start).ok()?;
        let name = elf::demangled(&self.named[at].mangled, true);
        if name.chars().count() <= MOST_CHARACTERS {
            return Some(name.into_owned());
        }
        Some(name.chars().take(MOST_CHARACTERS).chain(['…']).collect())
    }
}

fn segments(elf: &Elf) -> Vec<(Range<u64>, u64)> {
    let place = |(offset, bytes): (u64, u64)| offset..offset.saturating_add(bytes);
    elf.segments().map(|segment| (place(segment.file_range()), segment.address())).collect()
}

/// The functions with names. Of several names of one place the one that tells most is kept: one
/// with a length, then one without underscores before it, then the shortest.
fn named(elf: &Elf) -> Vec<Named> {
    let mut named: Vec<Named> = elf::functions(elf)
        .into_iter()
        .map(|f| Named { start: f.address, bytes: f.bytes, mangled: f.name.into() })
        .collect();
    named.sort_by(|one, other| {
        let rank = |f: &Named| {
            let underscores = f.mangled.bytes().take_while(|byte| *byte == b'_').count();
            // Those are of names that are mangled.
            let mangled = f.mangled.starts_with("_Z") || f.mangled.starts_with("_R");
            (f.start, f.bytes == 0, if mangled { 0 } else { underscores }, f.mangled.len())
        };
        rank(one).cmp(&rank(other)).then_with(|| one.mangled.cmp(&other.mangled))
    });
    named.dedup_by_key(|f| f.start);
    named
}

/// Where functions begin, by the table for unwinding; nothing where there is none, or it is of
/// another form than linkers write.
fn starts(elf: &Elf) -> Vec<u64> {
    let found = elf
        .elf_program_headers()
        .iter()
        .find(|header| header.p_type(LittleEndian) == object::elf::PT_GNU_EH_FRAME);
    let table = found.and_then(|header| {
        let bytes = header.data(LittleEndian, elf.data()).ok()?;
        table_for_unwinding(bytes, header.p_vaddr(LittleEndian))
    });
    table.unwrap_or_default()
}

/// The starts in a table for unwinding that lies at `address`, in order.
fn table_for_unwinding(bytes: &[u8], address: u64) -> Option<Vec<u64>> {
    /// Version 1, the pointer to the frames in four bytes, their number in four, and a table of pairs
    /// of four, relative to its beginning: `DW_EH_PE_pcrel|sdata4`, `udata4`, `datarel|sdata4`.
    const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let rest = bytes.strip_prefix(&FORM)?;
    let count = u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?) as usize;
    let pairs = rest.get(8..)?.chunks_exact(8).take(count);
    let start = |pair: &[u8]| {
        let relative = i32::from_le_bytes(pair[..4].try_into().unwrap_or_default());
        address.wrapping_add_signed(relative.into())
    };
    let mut starts: Vec<u64> = pairs.map(start).collect();
    starts.sort_unstable();
    Some(starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::{Found, find};

    /// Does what no other does: the compiler may make one of functions that are alike.
    #[inline(never)]
    fn to_be_found() {
        std::hint::black_box("a function of functions.rs");
    }

    #[test]
    fn code_of_this_program_is_in_its_functions() {
        let here = std::env::current_exe().unwrap();
        let functions = Functions::read(&here).unwrap();
        let named = concat!(module_path!(), "::to_be_found");
        let Ok(Found::At(offset)) = find(&here, named) else { panic!("{:p}", to_be_found as fn()) };
        let (start, address) = functions.place(offset);
        assert_eq!((start, functions.name(start).as_deref()), (address, Some(named)));
        assert_eq!(functions.place(offset + 1), (start, address + 1));
        assert!(functions.starts.binary_search(&start).is_ok(), "unwinding knows it too");
    }

    #[test]
    fn functions_without_names_are_told_by_their_beginnings() {
        let named = |start, bytes| Named { start, bytes, mangled: format!("f{start:x}").into() };
        let functions = Functions {
            segments: vec![(0x0..0x800, 0x10_0000), (0x1000..0x2000, 0x40_1000)],
            named: vec![named(0x40_1100, 0x10), named(0x40_1400, 0)],
            starts: vec![0x40_1080, 0x40_1100, 0x40_1200],
        };
        for (offset, start) in [
            (0x1000, 0x40_1000),
            (0x1090, 0x40_1080),
            (0x1105, 0x40_1100),
            (0x1115, 0x40_1100),
            (0x1250, 0x40_1200),
            (0x1410, 0x40_1400),
            (0x10, 0x10_0000),
        ] {
            let (found, address) = functions.place(offset);
            assert_eq!(found, start, "{offset:#x}");
            assert_eq!(address & 0xfff, offset & 0xfff);
        }
        assert_eq!(functions.place(0x9000), (0x9000, 0x9000), "no segment has it");
        assert_eq!(
            (functions.name(0x40_1400), functions.name(0x40_1200)),
            (Some("f401400".into()), None)
        );
    }

    #[test]
    fn a_damaged_table_for_unwinding_gives_what_is_there() {
        let mut bytes = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 3, 0, 0, 0];
        for relative in [0x20i32, -0x10] {
            bytes.extend(relative.to_le_bytes());
            bytes.extend([0; 4]);
        }
        assert_eq!(table_for_unwinding(&bytes, 0x1000), Some(vec![0xff0, 0x1020]));
        assert_eq!(table_for_unwinding(&bytes[..13], 0x1000), Some(vec![]));
        assert_eq!(table_for_unwinding(&bytes[..7], 0x1000), None);
        assert_eq!(table_for_unwinding(&[1, 0xff, 0xff, 0xff, 0, 0, 0, 0], 0), None);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(Functions::read(&source).is_err());
    }
}
