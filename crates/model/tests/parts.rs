//! Every part that is listed has tests that call the suite of its kind.

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

tierscope_model::parts!(files);

/// The module's file and those of its folder, at any depth.
fn text_of(folder: &str, module: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    texts_in(&folder.join(module)) + &read(folder.join(format!("{module}.rs")))
}

fn texts_in(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let text = |path: PathBuf| if path.is_dir() { texts_in(&path) } else { read(path) };
    entries.map(|entry| text(entry.path())).collect()
}

fn read(file: PathBuf) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
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
