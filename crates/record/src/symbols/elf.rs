//! The functions of an ELF file, by name.
//!
//! Source: System V ABI, "Symbol Table" and "Program Header"; its supplement for x86-64 for
//! `STT_GNU_IFUNC`.

use memmap2::Mmap;
use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolFlags};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use tierscope_units::nearest;

/// Longest list of names in a message.
const MAX_LISTED: usize = 8;
/// Symbols among which a name like the one given is looked for.
const MAX_COMPARED: usize = 200_000;

/// What became of looking for a place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is at this offset in the file, in bytes.
    At(u64),
    /// The file does not have it; perhaps what is meant is this.
    Nothing {
        /// The nearest name, if one is near.
        near: Option<String>,
    },
    /// It cannot be told, or is no place: why, for people.
    Unfit(String),
}

/// A function.
pub(super) struct Function<'a> {
    pub name: &'a str,
    pub address: u64,
    /// Its length; 0 where that is not said.
    pub bytes: u64,
    /// What is at the address chooses the function that is called (`STT_GNU_IFUNC`).
    indirect: bool,
}

/// Looks for `symbol` in the ELF file at `path`. An error says why it cannot be read, for people.
pub fn find(path: &Path, symbol: &str) -> Result<Found, String> {
    read(path, |elf| find_in(elf, symbol))
}

pub(super) type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// Reads the ELF file at `path` by `take`. An error says why it cannot be read, for people.
pub(super) fn read<T>(path: &Path, take: impl FnOnce(&Elf) -> T) -> Result<T, String> {
    let told = |why: String| format!("{}: {why}", path.display());
    // What is no regular file may never answer: a pipe that nobody writes to.
    let status = std::fs::metadata(path).map_err(|error| told(error.to_string()))?;
    if !status.is_file() {
        return Err(told("it is no regular file".into()));
    }
    let file = File::open(path).map_err(|error| told(error.to_string()))?;
    // SAFETY: it is a program or a library, which whoever changes it while it is used breaks anyway.
    let data = unsafe { Mmap::map(&file) }.map_err(|error| told(error.to_string()))?;
    let elf = Elf::parse(&*data).map_err(|error| told(error.to_string()))?;
    Ok(take(&elf))
}

fn find_in(elf: &Elf, symbol: &str) -> Found {
    if let Some(digits) = symbol.strip_prefix("0x") {
        return match u64::from_str_radix(digits, 16).ok().and_then(|at| offset_of(elf, at)) {
            Some(offset) => Found::At(offset),
            None => Found::Unfit(format!("{symbol} is no address of code in it")),
        };
    }
    let functions = functions(elf);
    let mut matching: Vec<&Function> = functions.iter().filter(|f| f.name == symbol).collect();
    if matching.is_empty() {
        matching = functions.iter().filter(|f| is_called(f.name, symbol)).collect();
    }
    // Aliases are one place.
    let places: BTreeMap<u64, &Function> = matching.iter().map(|f| (f.address, *f)).collect();
    let mut places = places.into_values();
    match (places.next(), places.len()) {
        (None, _) => Found::Nothing { near: near(&functions, symbol) },
        (Some(function), 0) if function.indirect => Found::Unfit(format!(
            "{symbol} is chosen from several by the processor at run time (an indirect function); \
             name the one that is chosen"
        )),
        (Some(function), 0) => match offset_of(elf, function.address) {
            Some(offset) => Found::At(offset),
            None => Found::Unfit(format!("{symbol} is not code")),
        },
        (Some(first), others) => Found::Unfit(format!(
            "{symbol} is the name of {} functions ({}); name one by its address",
            others + 1,
            listed(std::iter::once(first).chain(places)),
        )),
    }
}

fn listed<'a>(functions: impl Iterator<Item = &'a Function<'a>>) -> String {
    let mut texts: Vec<String> =
        functions.map(|f| format!("{:#x} {}", f.address, demangled(f.name, false))).collect();
    if texts.len() > MAX_LISTED {
        texts.truncate(MAX_LISTED);
        texts.push("…".into());
    }
    texts.join(", ")
}

/// The functions that the file defines, exported or not.
pub(super) fn functions<'a>(elf: &Elf<'a>) -> Vec<Function<'a>> {
    elf.symbols().chain(elf.dynamic_symbols()).filter_map(|symbol| function(elf, &symbol)).collect()
}

fn function<'a>(elf: &Elf<'a>, symbol: &ElfSymbol64<'a, '_, LittleEndian>) -> Option<Function<'a>> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return None };
    let kind = st_info.st_type();
    let is_code = match kind {
        object::elf::STT_FUNC | object::elf::STT_GNU_IFUNC => true,
        // A label of assembly.
        object::elf::STT_NOTYPE => is_in_code(elf, symbol),
        _ => false,
    };
    if !is_code || symbol.is_undefined() {
        return None;
    }
    let name = symbol.name().ok()?;
    // A static symbol table may carry versions: `name@@VERSION`.
    let name = name.split('@').next().filter(|name| !name.is_empty())?;
    let indirect = kind == object::elf::STT_GNU_IFUNC;
    Some(Function { name, address: symbol.address(), bytes: symbol.size(), indirect })
}

fn is_in_code(elf: &Elf, symbol: &ElfSymbol64<LittleEndian>) -> bool {
    let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
    section.is_some_and(|section| section.kind() == object::SectionKind::Text)
}

/// Where in the file an address of its code is.
fn offset_of(elf: &Elf, address: u64) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let (offset, bytes) = segment.file_range();
        let within = address.checked_sub(segment.address())?;
        let object::SegmentFlags::Elf { p_flags, .. } = segment.flags() else { return None };
        (within < bytes && (p_flags & object::elf::PF_X).0 != 0).then_some(offset + within)
    })
}

/// Whether people call the function with the mangled name `mangled` so: with its parameters or
/// without, in Rust without the hash.
fn is_called(mangled: &str, name: &str) -> bool {
    // Demangling takes long: most names are of neither language.
    (mangled.starts_with("_Z") || mangled.starts_with("_R"))
        && (demangled(mangled, false) == name || demangled(mangled, true) == name)
}

/// What people call a function; `short` is without parameters and what it returns.
pub(super) fn demangled(mangled: &str, short: bool) -> Cow<'_, str> {
    if let Ok(name) = rustc_demangle::try_demangle(mangled) {
        return format!("{name:#}").into();
    }
    let options = cpp_demangle::DemangleOptions::new();
    let options = if short { options.no_params().no_return_type() } else { options };
    cpp_demangle::Symbol::new(mangled)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .map_or(Cow::Borrowed(mangled), Cow::Owned)
}

fn near(functions: &[Function], symbol: &str) -> Option<String> {
    let names: Vec<Cow<str>> =
        functions.iter().take(MAX_COMPARED).map(|f| demangled(f.name, true)).collect();
    nearest(symbol, names.iter().map(AsRef::as_ref)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_called_by_its_name_in_any_form() {
        let cpp = "_ZN8geometry4areaEd";
        assert!(is_called(cpp, "geometry::area(double)") && is_called(cpp, "geometry::area"));
        assert!(!is_called(cpp, "area"));
        let rust = "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE";
        assert!(is_called(rust, "core::fmt::Write::write_fmt"));
        assert!(is_called("_RNvCs1234_7mycrate3foo", "mycrate::foo"));
        assert!(!is_called("main", "main"), "a name that is not mangled is compared as it is");
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(find(&path, "main").unwrap_err().contains("Cargo.toml: "));
        assert!(find(Path::new("/nonexistent"), "main").is_err());
    }

    #[inline(never)]
    fn to_be_found() {
        std::hint::black_box(());
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let here = std::env::current_exe().unwrap();
        let found = find(&here, "main").unwrap();
        assert!(matches!(found, Found::At(_)), "{found:?}");
        let named = concat!(module_path!(), "::to_be_found");
        assert!(matches!(find(&here, named).unwrap(), Found::At(_)), "{:p}", to_be_found as fn());
        let Found::Unfit(why) = find(&here, "0x0").unwrap() else { panic!("that is no code") };
        assert_eq!(why, "0x0 is no address of code in it");
    }
}
