//! Marks at places in a program's code that the user names: a region of interest without a change of
//! the program.
//!
//! The launcher looks the names up before anything runs. A library that the program loads by itself
//! later is looked at by the recorder when it is mapped.

mod elf;
mod functions;
mod name;

pub use elf::{Found, find};
pub use functions::Functions;
pub use name::PlaceName;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tierscope_system::run::mark;

/// The region of interest, by the places where it begins and ends: see [`PlaceName`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// It begins before the instruction here is executed.
    pub start: Option<String>,
    /// It ends before the instruction here is executed.
    pub stop: Option<String>,
}

/// A place whose execution gives a mark, each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The mark.
    pub mark: u64,
    /// Where it is given.
    pub at: At,
}

/// Where a place is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum At {
    /// In a file.
    Offset {
        /// Its path, without symbolic links.
        file: PathBuf,
        /// Bytes from its beginning.
        offset: u64,
    },
    /// In a library that is yet to be mapped: a [`PlaceName`] with a file.
    Name(String),
}

/// What a program consists of when it begins: files without symbolic links in their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The program.
    pub program: PathBuf,
    /// The libraries that it is linked with, in the order in which they are searched.
    pub libraries: Vec<PathBuf>,
    /// The program that loads them, where there is one.
    pub loader: Option<PathBuf>,
}

/// Refuses what is no name: what is empty, not to be shown, or beyond any symbol's length.
fn check_name(name: &str) -> Result<(), String> {
    const MOST: usize = 4096;
    let start: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    if name.is_empty() {
        return Err("the name is empty; name a function".into());
    }
    if name.len() > MOST {
        return Err(format!("`{start}…` has {} bytes, and a name at most {MOST}", name.len()));
    }
    if name.chars().any(char::is_control) {
        return Err(format!("`{start}` holds control characters, and a name none"));
    }
    Ok(())
}

/// Looks the places of a region up. An error says which name is wrong and why, for people.
pub fn resolve(region: &Region, parts: &Parts) -> Result<Vec<Place>, String> {
    // At one place that is both, a region ends before the next begins.
    let ends = [(mark::STOP, "ends", &region.stop), (mark::START, "begins", &region.start)];
    let mut places = Vec::new();
    for (mark, does, name) in ends {
        let Some(name) = name else { continue };
        check_name(name).map_err(|why| format!("where the region of interest {does}: {why}"))?;
        let at = resolve_name(&PlaceName::new(name), parts)
            .map_err(|why| format!("`{name}`, where the region of interest {does}: {why}"))?;
        places.push(Place { mark, at });
    }
    Ok(places)
}

fn resolve_name(name: &PlaceName, parts: &Parts) -> Result<At, String> {
    if name.symbol.is_empty() {
        return Err("there is no name; write a function's, or FILE:NAME".into());
    }
    match &name.file {
        Some(file) => resolve_in(name, file, parts),
        None => resolve_anywhere(&name.symbol, parts),
    }
}

/// A place in a file that the user names.
fn resolve_in(name: &PlaceName, file: &str, parts: &Parts) -> Result<At, String> {
    let known = parts.all().find(|path| name.may_be_in(path)).cloned();
    let given = || file.contains('/').then(|| PathBuf::from(file));
    let Some(path) = known.or_else(given) else {
        // A library that may be loaded later; a program would be known.
        return if file.contains(".so") {
            Ok(At::Name(name.to_string()))
        } else {
            Err(format!(
                "{file} is neither the program nor a library that it is linked with; name a \
                 library that it loads later with its .so"
            ))
        };
    };
    let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    match find(&path, &name.symbol)? {
        Found::At(offset) => Ok(At::Offset { file: path, offset }),
        Found::Unfit(why) => Err(format!("in {}, {why}", path.display())),
        Found::Nothing { near } => {
            let nobody_has = format!("{} has no such function", path.display());
            Err(with_near(nobody_has, near.as_deref()))
        }
    }
}

fn with_near(message: String, near: Option<&str>) -> String {
    match near {
        Some(near) => format!("{message}; did you mean {near}?"),
        None => message,
    }
}

/// A place in the program, or else in one of its libraries.
fn resolve_anywhere(symbol: &str, parts: &Parts) -> Result<At, String> {
    let mut nears = Vec::new();
    let mut found = Vec::new();
    let mut unfit = None;
    for path in parts.searched() {
        match find(path, symbol)? {
            Found::At(offset) => found.push(At::Offset { file: path.clone(), offset }),
            Found::Unfit(why) => {
                unfit.get_or_insert(format!("in {}, {why}", path.display()));
            }
            Found::Nothing { near } => nears.extend(near),
        }
        // What the program has itself hides what libraries have.
        if *path == parts.program && (unfit.is_some() || !found.is_empty()) {
            break;
        }
    }
    match (found.len(), unfit) {
        (1, None) => Ok(found.remove(0)),
        (0, Some(why)) => Err(why),
        (0, None) => Err(unknown(symbol, parts, &nears)),
        (_, _) => Err(format!(
            "several libraries have one ({}); name one of them, as in {}",
            shown(found.iter().filter_map(At::file)),
            found.first().and_then(At::file).map_or_else(String::new, |file| {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                format!("{name}:{symbol}")
            }),
        )),
    }
}

fn shown<'a>(paths: impl Iterator<Item = &'a Path>) -> String {
    paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn unknown(symbol: &str, parts: &Parts, nears: &[String]) -> String {
    let near = tierscope_units::nearest(symbol, nears.iter().map(String::as_str));
    let program = parts.program.display();
    let nobody_has = match parts.libraries.len() {
        0 => format!("{program} has no such function"),
        1 => {
            format!("neither {program} nor the library that it is linked with has such a function")
        }
        count => format!(
            "neither {program} nor any of the {count} libraries that it is linked with has such a \
             function"
        ),
    };
    let mut message = with_near(nobody_has, near);
    if near.is_none() {
        message.push_str(
            ". A program that was stripped has lost the names of its own; one in a library that is \
             loaded later is named LIBRARY:NAME",
        );
    }
    message
}

impl Parts {
    /// All files.
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.program).chain(&self.libraries).chain(&self.loader)
    }

    /// Files where a name without a file is looked for: the loader is not the program's.
    fn searched(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.program).chain(&self.libraries)
    }
}

impl At {
    fn file(&self) -> Option<&Path> {
        match self {
            At::Offset { file, .. } => Some(file),
            At::Name(_) => None,
        }
    }
}
