//! The parts that a machine can be made of: one line each.
//!
//! A part is one file, which holds its code, its description and its source, and one line here.
//! From the line follow its module, its place in lists and reference pages, its table in a
//! description (`key`), and the dispatch to it. `CONTRIBUTING.md` says how to add one.

/// Calls the macro `$then` with the list of all parts.
///
/// A policy or a medium is `module::Type, "what it is";`. A link, a device or an organization is
/// `key = module::Type(Description), "what its table says";`: the table `[key]` of a machine's
/// description holds the fields of its description.
#[macro_export]
macro_rules! parts {
    ($then:ident) => {
        $then! {
            policies {
                lru::Lru, "Least recently used, exactly.";
                fifo::Fifo, "First in, first out: a hit changes nothing.";
                random::Random, "Any way with equal chance, from a seed.";
            }
            media {
                paged::Paged, "Pages, each with one time to read and one to write.";
            }
            links {
                link = packet::PacketLink(LinkSpec), "What connects the store.";
            }
            devices {
                store = store::StoreDevice(StoreSpec), "The backing store.";
            }
            organizations {
                oracle = oracle::Oracle(OracleSpec), "Organization: all in DRAM.";
                hybrid = hybrid::Hybrid(HybridSpec),
                    "Organization: hardware manages DRAM as a cache of the store.";
                storage = storage::Storage(StorageSpec),
                    "Organization: the operating system pages between DRAM and the store.";
            }
        }
    };
}

/// A part that can be named in a description, for lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of its table in a description, or its name as a value.
    pub key: &'static str,
    /// What it is, in a sentence.
    pub summary: &'static str,
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    /// Folder and module of each part, and the suite of its kind.
    macro_rules! files {
        (
            policies { $( $policy:ident::$policy_type:ident, $policy_summary:literal; )* }
            media { $( $medium:ident::$medium_type:ident, $medium_summary:literal; )* }
            links {
                $( $link_key:ident = $link:ident::$link_type:ident($link_spec:ident),
                    $link_summary:literal; )*
            }
            devices {
                $( $device_key:ident = $device:ident::$device_type:ident($device_spec:ident),
                    $device_summary:literal; )*
            }
            organizations {
                $( $key:ident = $organization:ident::$type:ident($spec:ident), $summary:literal; )*
            }
        ) => {
            const FILES: &[(&str, &str, &str)] = &[
                $( ("replacement", stringify!($policy), "policy_laws"), )*
                $( ("medium", stringify!($medium), "medium_laws"), )*
                $( ("link", stringify!($link), "link_laws"), )*
                $( ("device", stringify!($device), "device_laws"), )*
                $( ("organization", stringify!($organization), "organization_laws"), )*
            ];
        };
    }

    crate::parts!(files);

    /// The module's file and those of its folder.
    fn text_of(folder: &str, module: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
        let own = std::fs::read_dir(folder.join(module)).into_iter().flatten().flatten();
        let files = own.map(|entry| entry.path()).chain([folder.join(format!("{module}.rs"))]);
        files.map(|file: PathBuf| std::fs::read_to_string(file).unwrap_or_default()).collect()
    }

    #[test]
    fn every_part_calls_the_laws_of_its_kind() {
        assert!(FILES.len() >= 9);
        for (folder, module, laws) in FILES {
            let text = text_of(folder, module);
            let calls = text.contains(&format!("{laws}(")) || text.contains(&format!("{laws}::<"));
            assert!(calls, "no test of {folder}/{module} calls conformance::{laws}");
        }
    }
}
