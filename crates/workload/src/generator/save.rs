//! `save`: documents that are saved as editors and package managers do: what is new goes to another file, which is forced to
//! the store and then gets the name of the old (rename(2); `g_file_set_contents` of GLib, `vim` with `backupcopy=no`,
//! dpkg). After that the directory may be forced, too. One thread, which saves one document after the other.

use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, in_units};
use super::{Generator, Made, PAGE_BYTES, Parameter, find_value, flag, integer, size, wrong};
use crate::op::{Call, FileId, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "save",
    summary: "documents saved to new files that are renamed over the old ones, as editors do",
    dependences: "",
    parameters: &[
        Parameter { name: "documents", default: "16", meaning: "documents, in one directory" },
        Parameter {
            name: "size",
            default: "\"16KiB\"",
            meaning: "bytes of a document, up to 1GiB, written by one call; assumption: a source file",
        },
        Parameter { name: "saves", default: "1000", meaning: "how many are saved, in turn" },
        Parameter {
            name: "sync",
            default: "true",
            meaning: "each new file is forced to the store before it is renamed (`fsync`)",
        },
        Parameter {
            name: "sync_directory",
            default: "false",
            meaning: "the directory is forced to the store behind each renaming",
        },
        Parameter {
            name: "instructions",
            default: "2000",
            meaning: "the program's own instructions between two calls; assumption",
        },
    ],
    build: |parameters, _| build(parameters),
}];

const LINE_BYTES: u64 = 64;

fn build(parameters: &[(String, Value)]) -> Made {
    let bytes = size(parameters, "size")?;
    if bytes == 0 || bytes > 1 << 30 || !bytes.is_multiple_of(LINE_BYTES) {
        let reason = "not a whole number of lines of 64B, of 1GiB at most";
        return Err(wrong("size", find_value(parameters, "size"), reason, "write 16KiB"));
    }
    Ok(in_units(Save {
        documents: integer(parameters, "documents", 1..=1 << 20)?,
        bytes,
        saves: integer(parameters, "saves", 1..=1 << 40)?,
        sync: flag(parameters, "sync")?,
        sync_directory: flag(parameters, "sync_directory")?,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
    }))
}

#[derive(Clone)]
struct Save {
    documents: u64,
    bytes: u64,
    saves: u64,
    sync: bool,
    sync_directory: bool,
    instructions: u32,
}

impl Save {
    fn directory(&self) -> FileId {
        2 * self.documents as FileId
    }
}

impl Units for Save {
    fn threads(&self) -> u32 {
        1
    }

    fn prelude(&self) -> Prelude {
        let bytes = self.bytes.next_multiple_of(PAGE_BYTES);
        Prelude::default().map(BASE_ADDRESS, bytes, MAP_WRITABLE, NO_FILE)
    }

    fn units(&self, _thread: ThreadId) -> u64 {
        self.saves
    }

    fn unit(&self, _thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (turn, document) = (unit / self.documents, unit % self.documents);
        let [old, new] = [turn + 1, turn].map(|turn| (2 * document + turn % 2) as FileId);
        let (directory, address) = (self.directory(), BASE_ADDRESS);
        let mut call = |call: Call| call.encode(self.instructions, out);
        if unit == 0 {
            call(Call::MakeDirectory { file: directory, parent: NO_FILE });
        }
        if turn < 2 {
            call(Call::Within { file: new, parent: directory, size: 0 });
        }
        call(Call::Open { file: new, size: 0 });
        let lines = (0..self.bytes / LINE_BYTES).map(|line| address + line * LINE_BYTES);
        out.extend(lines.map(|line| Op::store(line, LINE_BYTES as u16, 8)));
        let mut call = |call: Call| call.encode(self.instructions, out);
        call(Call::Write { file: new, offset: 0, length: self.bytes, address });
        if self.sync {
            call(Call::Sync { file: new });
        }
        call(Call::Close { file: new });
        let replaced = if turn == 0 { NO_FILE } else { old };
        call(Call::Rename { file: new, parent: directory, replaced, size: 0, names: 0 });
        if self.sync_directory {
            call(Call::Sync { file: directory });
        }
    }

    fn footprint(&self) -> Footprint {
        // While one is saved there are the old and the new.
        let files = (self.documents.min(self.saves) + 1) * self.bytes;
        let bytes = files + self.bytes.next_multiple_of(PAGE_BYTES);
        Footprint { bytes, parameter: "documents" }
    }

    fn accesses(&self) -> Option<u64> {
        Some(self.saves * (self.bytes / LINE_BYTES))
    }

    fn files(&self) -> Vec<FileInfo> {
        let file = |number| FileInfo { name: format!("documents/{number}"), size_bytes: 0 };
        let directory = FileInfo { name: "documents/".into(), size_bytes: 0 };
        (0..2 * self.documents).map(file).chain([directory]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of_thread, stream_laws};
    use crate::generator::find;
    use std::collections::BTreeSet;

    fn sets() -> Vec<(String, Value)> {
        let sets: [(&str, Value); 4] = [
            ("documents", 3.into()),
            ("size", "1KiB".into()),
            ("saves", 20.into()),
            ("sync_directory", true.into()),
        ];
        sets.map(|(name, value)| (name.to_owned(), value)).into()
    }

    #[test]
    fn the_streams_laws_hold() {
        stream_laws(|| find("save").unwrap().make(&sets(), 0).unwrap().0);
    }

    #[test]
    fn each_save_is_written_synced_and_takes_the_name_of_the_one_before() {
        let (mut stream, _) = find("save").unwrap().make(&sets(), 0).unwrap();
        let (mut written, mut synced) = (BTreeSet::new(), BTreeSet::new());
        let mut documents = BTreeSet::new();
        let (mut saves, mut directories) = (0, 0);
        for call in calls_of_thread(stream.as_mut(), 0) {
            match call {
                Call::Write { file, offset: 0, length: 1024, .. } => drop(written.insert(file)),
                Call::Sync { file: 6 } => directories += 1,
                Call::Sync { file } => {
                    assert!(written.contains(&file));
                    synced.insert(file);
                }
                Call::Rename { file, parent: 6, replaced, .. } => {
                    assert!(synced.remove(&file) && documents.insert(file));
                    assert!(saves < 3 || documents.remove(&replaced), "it had the name");
                    assert!(replaced == NO_FILE || replaced / 2 == file / 2);
                    saves += 1;
                }
                _ => {}
            }
        }
        assert_eq!((saves, directories, documents.len()), (20, 20, 3));
    }

    #[test]
    fn wrong_sizes_are_refused() {
        let given = [("size".to_owned(), Value::from("100B"))];
        let told = find("save").unwrap().make(&given, 0).err().unwrap();
        assert!(told.to_string().contains("16KiB"), "{told}");
    }
}
