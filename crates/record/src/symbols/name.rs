//! What people call a place in a program's code.

use std::fmt;
use std::path::Path;

/// A place by name: `[FILE:]SYMBOL` or `[FILE:]0xADDRESS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceName {
    /// The file that it is in, by its path or its name without directories. `libx.so` also stands
    /// for `libx.so.1` and the like.
    pub file: Option<String>,
    /// A symbol's name, mangled or not, or an address as the file has it.
    pub symbol: String,
}

impl PlaceName {
    /// Reads what a user wrote. A file ends at the first colon that is not one of `::`.
    pub fn new(text: &str) -> PlaceName {
        let bytes = text.as_bytes();
        let alone = |at: usize| {
            bytes[at] == b':'
                && bytes.get(at + 1) != Some(&b':')
                && at.checked_sub(1).is_none_or(|before| bytes[before] != b':')
        };
        match (0..bytes.len()).find(|at| alone(*at)) {
            Some(at) if at > 0 => {
                PlaceName { file: Some(text[..at].into()), symbol: text[at + 1..].into() }
            }
            _ => PlaceName { file: None, symbol: text.into() },
        }
    }

    /// Whether the name is of a place in the file at `path`, if it is there.
    pub fn may_be_in(&self, path: &Path) -> bool {
        let Some(wanted) = &self.file else { return true };
        if wanted.contains('/') {
            return path == Path::new(wanted);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(wanted.as_str());
        rest.is_some_and(|rest| rest.is_empty() || wanted.contains(".so") && is_version(rest))
    }
}

/// Whether a file name's end is a library's version: `.6`, `.1.2.3`.
fn is_version(end: &str) -> bool {
    end.starts_with('.') && end.chars().all(|c| c == '.' || c.is_ascii_digit())
}

impl fmt::Display for PlaceName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{}", self.symbol),
            None => write!(f, "{}", self.symbol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_ends_at_a_colon_that_stands_alone() {
        for (text, file, symbol) in [
            ("main", None, "main"),
            ("a::b", None, "a::b"),
            ("libm.so.6:frexp", Some("libm.so.6"), "frexp"),
            ("libx.so:ns::f(int)", Some("libx.so"), "ns::f(int)"),
            ("./a:0x1189", Some("./a"), "0x1189"),
            ("<a::B as c::D>::e", None, "<a::B as c::D>::e"),
            (":f", None, ":f"),
        ] {
            let name = PlaceName::new(text);
            assert_eq!((name.file.as_deref(), name.symbol.as_str()), (file, symbol));
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn a_library_is_known_without_its_version() {
        let is_in = |name: &str, path: &str| PlaceName::new(name).may_be_in(Path::new(path));
        assert!(is_in("f", "/lib/libm.so.6"));
        assert!(is_in("libm.so:f", "/lib/libm.so.6") && is_in("libm.so.6:f", "/lib/libm.so.6"));
        assert!(is_in("/lib/libm.so.6:f", "/lib/libm.so.6"));
        assert!(!is_in("libm.so:f", "/lib/libmvec.so.1"));
        assert!(!is_in("libm.so:f", "/lib/libm.so.backup"));
        assert!(!is_in("app:f", "/bin/app.1") && is_in("app:f", "/bin/app"));
        assert!(!is_in("/usr/lib/libm.so.6:f", "/lib/libm.so.6"));
    }
}
