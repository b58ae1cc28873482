//! The program's code: what is mapped where, and which function is there.

use crate::symbols::Functions;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use tierscope_workload::Site;

/// What code is called that is in no file: the program has made it.
const ANONYMOUS: &str = "[anonymous code]";
/// What stands for the function of code of a file that does not even tell where functions begin.
const NO_SYMBOLS: &str = "[no symbols]";

/// A mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its addresses in this process.
    pub addresses: Range<u64>,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file; `None` for anonymous memory.
    pub file: Option<PathBuf>,
}

/// The mappings of this process.
pub fn mapped() -> Vec<Mapped> {
    let text = std::fs::read("/proc/self/maps").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// A line of `/proc/PID/maps` (proc(5)): addresses, protection, offset, device, inode, path.
fn parse(line: &[u8]) -> Option<Mapped> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let (addresses, offset) = (fields.next()?, fields.nth(1)?);
    let (start, end) = std::str::from_utf8(addresses).ok()?.split_once('-')?;
    let offset = hexadecimal(std::str::from_utf8(offset).ok()?)?;
    let path = fields.nth(2).unwrap_or_default().trim_ascii_start();
    let file = path.starts_with(b"/").then(|| unescaped(path));
    Some(Mapped { addresses: hexadecimal(start)?..hexadecimal(end)?, offset, file })
}

/// A path in which the kernel has written line ends as `\012`, and nothing else in another way
/// (`show_map_vma` in fs/proc/task_mmu.c). A file that has those four characters in its name is told
/// from that by being there.
fn unescaped(path: &[u8]) -> PathBuf {
    const LINE_END: &[u8] = b"\\012";
    let as_written = PathBuf::from(OsStr::from_bytes(path));
    if !path.windows(LINE_END.len()).any(|four| four == LINE_END) || as_written.exists() {
        return as_written;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, others)) = rest.split_first() {
        let after = rest.strip_prefix(LINE_END);
        bytes.push(if after.is_some() { b'\n' } else { *first });
        rest = after.unwrap_or(others);
    }
    OsString::from_vec(bytes).into()
}

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Which of [`Code`]'s modules it is in.
    pub module: u32,
    /// Where its function begins: see [`Site::start`].
    pub start: u64,
    /// Where it is itself.
    pub address: u64,
}

/// A piece of the program's memory that holds code.
struct Region {
    end: u64,
    offset: u64,
    module: u32,
}

/// A file with code, or all code that is in none.
struct Module {
    file: Arc<str>,
    /// `None` where the file cannot be read, or there is none.
    functions: Option<Functions>,
}

/// The program's code, as far as it was translated.
#[derive(Default)]
pub struct Code {
    /// By the program's addresses.
    regions: BTreeMap<u64, Region>,
    modules: Vec<Module>,
    by_file: HashMap<Option<PathBuf>, u32>,
}

impl Code {
    fn region(&self, address: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        (address < region.end).then_some((*start, region))
    }

    /// Whether it is known what is mapped at an address of the program.
    pub fn knows(&self, address: u64) -> bool {
        self.region(address).is_some()
    }

    /// Learns what is mapped there. The program's address 0 is at `base` in this process.
    pub fn learn(&mut self, address: u64, base: u64, mapped: &[Mapped]) {
        let here = base.wrapping_add(address);
        let found = mapped.iter().find(|one| one.addresses.contains(&here));
        // Code that is mapped nowhere is emulated by the emulator itself.
        let (addresses, offset, file) = match found {
            Some(one) => {
                let start = one.addresses.start.wrapping_sub(base);
                let end = one.addresses.end.wrapping_sub(base);
                (start..end, one.offset, one.file.clone())
            }
            None => (address..address.saturating_add(1), 0, None),
        };
        // What was there before is not there any more, or has grown.
        self.forget(addresses.clone());
        let module = self.module(file);
        self.regions.insert(addresses.start, Region { end: addresses.end, offset, module });
    }

    fn module(&mut self, file: Option<PathBuf>) -> u32 {
        if let Some(module) = self.by_file.get(&file) {
            return *module;
        }
        let functions = file.as_deref().and_then(|path| Functions::read(path).ok());
        let name = file.as_ref().map_or(ANONYMOUS.into(), |path| path.to_string_lossy());
        self.modules.push(Module { file: name.into(), functions });
        let module = (self.modules.len() - 1) as u32;
        self.by_file.insert(file, module);
        module
    }

    /// What is mapped in this range is not there any more.
    pub fn forget(&mut self, addresses: Range<u64>) {
        let before = self.regions.range(..addresses.end).rev();
        let gone: Vec<u64> = before
            .take_while(|(_, region)| region.end > addresses.start)
            .map(|(start, _)| *start)
            .collect();
        for start in gone {
            self.regions.remove(&start);
        }
    }

    /// What is at an address of the program that it [`Code::knows`].
    pub fn spot(&self, address: u64) -> Spot {
        let Some((start, region)) = self.region(address) else {
            return Spot { module: 0, start: address, address };
        };
        let module = region.module;
        let offset = address - start + region.offset;
        let one = &self.modules[module as usize];
        match &one.functions {
            Some(functions) => {
                let (start, address) = functions.place(offset);
                Spot { module, start, address }
            }
            // An address of memory, or a place in a file that nothing is known of.
            None if &*one.file == ANONYMOUS => Spot { module, start, address },
            None => Spot { module, start: region.offset, address: offset },
        }
    }

    /// What there is to tell of a spot.
    pub fn site(&self, spot: &Spot) -> Site {
        let Some(module) = self.modules.get(spot.module as usize) else {
            let (start, address) = (spot.start, spot.address);
            return Site { file: ANONYMOUS.into(), function: "".into(), start, address };
        };
        let function = match &module.functions {
            Some(functions) if functions.begins(spot.start) => functions.name(spot.start),
            None if &*module.file == ANONYMOUS => None,
            _ => Some(NO_SYMBOLS.into()),
        };
        Site {
            file: module.file.clone(),
            function: function.unwrap_or_default().into(),
            start: spot.start,
            address: spot.address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_of_a_file_or_anonymous() {
        let line = "4000-6000 r--p 00001000 fe:01 1234                       /lib/a b.so";
        let file = Some("/lib/a b.so".into());
        let expected = Mapped { addresses: 0x4000..0x6000, offset: 0x1000, file };
        assert_eq!(parse(line.as_bytes()), Some(expected));
        for line in ["7000-8000 rw-p 00000000 00:00 0 ", "7000-8000 rw-p 00000000 00:00 0 [stack]"]
        {
            let expected = Mapped { addresses: 0x7000..0x8000, offset: 0, file: None };
            assert_eq!(parse(line.as_bytes()), Some(expected));
        }
        assert_eq!(parse(b"nonsense"), None);
    }

    #[test]
    fn a_path_has_its_own_bytes() {
        let file =
            |path: &[u8]| parse(&[b"1-2 r--p 0 fe:01 1 ", path].concat()).unwrap().file.unwrap();
        assert_eq!(file(b"/lib/\xff.so").as_os_str().as_bytes(), b"/lib/\xff.so");
        assert_eq!(file(b"/lib/a\\012b\\0.so").as_os_str().as_bytes(), b"/lib/a\nb\\0.so");
        let real = std::env::temp_dir().join(format!("a\\012b-{}", std::process::id()));
        std::fs::write(&real, "").unwrap();
        assert_eq!(file(real.as_os_str().as_bytes()), real);
        std::fs::remove_file(real).unwrap();
    }

    #[test]
    fn code_is_in_files_or_in_anonymous_memory_and_is_forgotten_with_its_mapping() {
        let here = std::env::current_exe().unwrap();
        let mapped = [
            Mapped { addresses: 0x4000..0x6000, offset: 0x1000, file: Some(here.clone()) },
            Mapped { addresses: 0x6000..0x7000, offset: 0, file: None },
            Mapped { addresses: 0x7000..0x8000, offset: 0x200, file: Some("/none".into()) },
        ];
        let base = 0x1000;
        let mut code = Code::default();
        for address in [0x3800, 0x5100, 0x6010, 0xffff_0000] {
            assert!(!code.knows(address));
            code.learn(address, base, &mapped);
            assert!(code.knows(address));
        }
        assert_eq!(&*code.site(&code.spot(0x3800)).file, here.to_str().unwrap());
        let anonymous = code.site(&code.spot(0x5100));
        assert_eq!((&*anonymous.file, &*anonymous.function), (ANONYMOUS, ""));
        assert_eq!((anonymous.start, anonymous.address), (0x5000, 0x5100));
        let unreadable = code.site(&code.spot(0x6010));
        assert_eq!(
            (&*unreadable.file, &*unreadable.function, unreadable.start, unreadable.address),
            ("/none", NO_SYMBOLS, 0x200, 0x210)
        );
        assert_eq!(&*code.site(&code.spot(0xffff_0000)).file, ANONYMOUS);
        code.forget(0x5fff..0x6001);
        assert!(code.knows(0x3800) && !code.knows(0x5100) && !code.knows(0x6010));
    }
}
