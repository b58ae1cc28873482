//! Presets: described machines that come with the program.
//!
//! A preset is one file below `presets/` and one line here. Every value of it carries a comment
//! with its source.

/// A preset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preset {
    /// As users write it.
    pub name: &'static str,
    /// One line for lists; empty for what is only a base of others.
    pub summary: &'static str,
    /// TOML.
    pub text: &'static str,
}

/// Every preset, in the order of `tierscope show systems`.
static PRESETS: &[Preset] = &[
    Preset {
        name: "oracle",
        summary: "All data in 1 TiB of DRAM: the bound that no other machine passes",
        text: include_str!("../../presets/oracle.toml"),
    },
    Preset {
        name: "oracle/quick",
        summary: "oracle at 1/256: 4 GiB of DRAM",
        text: include_str!("../../presets/oracle-quick.toml"),
    },
    Preset {
        name: "hybrid",
        summary: "64 GiB of DRAM as a hardware cache of a 1 TiB SLC flash store ([HYB15])",
        text: include_str!("../../presets/hybrid.toml"),
    },
    Preset {
        name: "hybrid/quick",
        summary: "hybrid at 1/256: 256 MiB of DRAM before 4 GiB of store",
        text: include_str!("../../presets/hybrid-quick.toml"),
    },
    Preset {
        name: "storage",
        summary: "64 GiB of DRAM that the kernel pages to a 1 TiB PCIe SSD of SLC flash ([HYB15])",
        text: include_str!("../../presets/storage.toml"),
    },
    Preset {
        name: "storage/quick",
        summary: "storage at 1/256: 256 MiB of DRAM before 4 GiB of store",
        text: include_str!("../../presets/storage-quick.toml"),
    },
    Preset { name: "hyb15", summary: "", text: include_str!("../../presets/hyb15.toml") },
    Preset {
        name: "hyb15-store",
        summary: "",
        text: include_str!("../../presets/hyb15-store.toml"),
    },
];

/// The preset of this name, among those that users see.
pub(super) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name && !preset.summary.is_empty())
}

/// The preset of the organization with this table, or one that has all parts.
pub(super) fn with_organization(key: &str) -> &'static str {
    find(key).map_or("hybrid", |preset| preset.name)
}

/// What another preset may be based on.
pub(super) fn find_base(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Name and one-line description of every preset, in the order in which they are shown.
pub fn list() -> Vec<(&'static str, &'static str)> {
    let listed = PRESETS.iter().filter(|preset| !preset.summary.is_empty());
    listed.map(|preset| (preset.name, preset.summary)).collect()
}
