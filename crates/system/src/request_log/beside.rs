//! A file that stands beside its place until it is complete.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tierscope_units::reason;

/// A text file being written, with `.partial` after its name until it is complete.
#[derive(Debug)]
pub(crate) struct Beside {
    what: &'static str,
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    parts: u64,
}

impl Beside {
    /// Begins the file. `what` says what is in it, for errors.
    ///
    /// # Errors
    /// Where it cannot be written, for people.
    pub fn create(path: &Path, what: &'static str) -> Result<Self, String> {
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        // Only what is not there yet: it may be a link to something else, or of another run.
        let file = File::create_new(&partial).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => format!(
                "{what} cannot be written to {}: {} is there, of a run that is under way or that \
                 was ended; remove it, or name another file",
                path.display(),
                partial.display()
            ),
            _ => failed(what, path, &error),
        })?;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(Beside { what, path: path.to_owned(), partial, file, parts: 0 })
    }

    /// Writes a part of it.
    ///
    /// # Errors
    /// Where it cannot be written, for people.
    pub fn write(
        &mut self,
        part: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), String> {
        self.parts = self.parts.saturating_add(1);
        part(&mut self.file).map_err(|error| failed(self.what, &self.path, &error))
    }

    /// The file is complete: it takes its place.
    ///
    /// # Errors
    /// Where it cannot, for people.
    pub fn finish(&mut self) -> Result<(), String> {
        self.parts = u64::MAX;
        let done = self.file.flush().and_then(|()| std::fs::rename(&self.partial, &self.path));
        done.map_err(|error| failed(self.what, &self.path, &error))
    }
}

impl Drop for Beside {
    /// A file with nothing but its head, of a run that did not begin, is nobody's: it goes.
    fn drop(&mut self) {
        if self.parts <= 1 && self.partial.exists() {
            std::fs::remove_file(&self.partial).ok();
        }
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("{what} cannot be written to {}: {}", path.display(), reason(error))
}
