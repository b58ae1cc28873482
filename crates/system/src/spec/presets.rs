//! Presets: described machines that come with the program.
//!
//! A preset is one file below `presets/` and one line here. Every value of it carries a comment
//! with its source. Devices alone are made of a list (`devices`).

mod devices;

/// How much of a machine a preset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it, or what is only a base of others.
    Machine,
    /// A processor and an operating system.
    Host,
    /// What the kernel of one time does with pages and requests, and what that costs.
    Kernel,
}

/// A preset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preset {
    /// As users write it.
    pub name: &'static str,
    /// One line for lists; empty for what is only a base of others.
    pub summary: &'static str,
    /// How much of a machine it is.
    pub part: Part,
    /// TOML.
    pub text: &'static str,
}

/// Makes a list of presets, such as [`WRITTEN`], of the lists below.
macro_rules! presets {
    ($( #[$about:meta] )* $list:ident: part = $part:ident;
     $( $name:literal = $( $file:literal )+, $summary:literal; )*) => {
        $( #[$about] )*
        static $list: &[Preset] = &[ $( Preset {
            name: $name,
            summary: $summary,
            part: Part::$part,
            text: concat!($( include_str!(concat!("../../presets/", $file)) ),+),
        } ),* ];
    };
}

// Name, file, and one line for lists; an empty one for what is only a base of others. A drive's tables are
// a file of their own, which follows that of each preset that has it.
presets! {
    /// Every preset that is a file, in the order of `tierscope show systems`.
    WRITTEN: part = Machine;
    "oracle" = "oracle.toml", "All data in 1 TiB of DRAM: the bound that no other machine passes";
    "oracle/quick" = "oracle-quick.toml", "oracle at 1/256: 4 GiB of DRAM";
    "hybrid" = "hybrid.toml",
        "64 GiB of DRAM as a hardware cache of a 1 TiB SLC flash store ([HYB15])";
    "hybrid/quick" = "hybrid-quick.toml", "hybrid at 1/256: 256 MiB of DRAM before 4 GiB of store";
    "storage" = "storage.toml",
        "64 GiB of DRAM that the kernel pages to a 1 TiB PCIe SSD of SLC flash ([HYB15])";
    "storage/quick" = "storage-quick.toml",
        "storage at 1/256: 256 MiB of DRAM before 4 GiB of store";
    "storage/z-ssd" = "storage-z-ssd.toml" "drives/z-ssd.toml",
        "storage with an 800 GB Z-SSD as its drive ([HAMS21])";
    "storage/970-pro" = "storage-970-pro.toml" "drives/970-pro.toml",
        "storage with a 512 GB Samsung 970 PRO as its drive";
    "storage/ext4" = "storage-ext4.toml",
        "storage/970-pro with ext4 on its drive: journal, commits and flushes";
    "storage/ext3" = "storage-ext3.toml",
        "storage with ext3 on its store, which [HYB15] names";
    "storage/disk-7200" = "storage-disk-7200.toml" "drives/disk-7200.toml",
        "storage with a 500 GB disk of 7200 revolutions a minute as its drive";
    "buffer-cache" = "buffer-cache.toml" "drives/disk-7200.toml",
        "20 GiB of DRAM, 4 GiB of flash beside it as a second page cache, and a disk ([EBC11])";
    "buffer-cache/quick" = "buffer-cache-quick.toml",
        "buffer-cache at 1/256: 80 MiB of DRAM and 16 MiB of flash";
    "haste" = "haste.toml" "drives/haste.toml",
        "72 GiB of DRAM that the kernel pages to HASTE, by a driver that spins ([NVM10])";
    "haste/queued" = "haste-queued.toml" "drives/haste.toml",
        "haste by the kernel's queue and interrupts ([NVM10])";
    "haste/xfs" = "haste-xfs.toml",
        "haste with XFS on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "haste/ext3" = "haste-ext3.toml",
        "haste with ext3 on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "ddr-block" = "ddr-block.toml",
        "8 GiB of DRAM that the kernel pages to 64 GiB of the same, as a delayed ramdisk ([NVM10])";
    "ddr-block/xfs" = "ddr-block-xfs.toml",
        "ddr-block with XFS on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "ddr-block/ext3" = "ddr-block-ext3.toml",
        "ddr-block with ext3 on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "fusion-io" = "fusion-io.toml" "drives/iodrive.toml",
        "72 GiB of DRAM that the kernel pages to an 80 GB Fusion-io ioDrive ([NVM10])";
    "fusion-io/xfs" = "fusion-io-xfs.toml",
        "fusion-io with XFS on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "fusion-io/ext3" = "fusion-io-ext3.toml",
        "fusion-io with ext3 on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "ssd-raid" = "ssd-raid.toml" "drives/x25-e.toml" "drives/raid-software.toml",
        "72 GiB of DRAM that the kernel pages to four Intel X25-E in RAID-0 ([NVM10])";
    "ssd-raid/xfs" = "ssd-raid-xfs.toml",
        "ssd-raid with XFS on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "ssd-raid/ext3" = "ssd-raid-ext3.toml",
        "ssd-raid with ext3 on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "disk-raid" = "disk-raid.toml" "drives/disk-7200.toml" "drives/raid-hardware.toml",
        "72 GiB of DRAM that the kernel pages to four disks in RAID-0, after [NVM10]";
    "disk-raid/xfs" = "disk-raid-xfs.toml",
        "disk-raid with XFS on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "disk-raid/ext3" = "disk-raid-ext3.toml",
        "disk-raid with ext3 on its device, as Linux 2.6.32 mounts it ([NVM10])";
    "direct" = "direct.toml",
        "64 GiB of phase-change memory as main memory, without DRAM (Lee et al., ISCA 2009)";
    "direct/optane" = "direct-optane.toml",
        "1.5 TiB of Optane DC modules as main memory, without DRAM (App Direct)";
    "hybrid/optane" = "hybrid-optane.toml",
        "64 GiB of DRAM as a cache of lines before 1.5 TiB of Optane DC modules (Memory mode)";
    "hybrid/alloy" = "hybrid-alloy.toml",
        "hybrid/optane whose lines have their tags in front of them, in their rows (Alloy cache)";
    "hybrid/alloy/quick" = "hybrid-alloy-quick.toml",
        "hybrid/alloy at 1/256: 256 MiB of DRAM, 224 MiB of data, before 6 GiB of store";
    "hams-lp" = "hams-lp.toml",
        "8 GiB of NVDIMM as cache of an 800 GB Z-SSD behind PCIe, forced commands ([HAMS21])";
    "hams-lp/quick" = "hams-lp-quick.toml", "hams-lp at 1/256: 32 MiB of NVDIMM";
    "hams-le" = "hams-le.toml",
        "8 GiB of NVDIMM as cache of an 800 GB Z-SSD behind PCIe, journalled commands ([HAMS21])";
    "hams-le/quick" = "hams-le-quick.toml", "hams-le at 1/256: 32 MiB of NVDIMM";
    "hams-tp" = "hams-tp.toml",
        "8 GiB of NVDIMM as cache of Z-NAND on its channel, forced commands ([HAMS21])";
    "hams-tp/quick" = "hams-tp-quick.toml", "hams-tp at 1/256: 32 MiB of NVDIMM";
    "hams-te" = "hams-te.toml",
        "8 GiB of NVDIMM as cache of Z-NAND on its channel, journalled commands ([HAMS21])";
    "hams-te/quick" = "hams-te-quick.toml", "hams-te at 1/256: 32 MiB of NVDIMM";
    "mmap" = "mmap.toml" "drives/z-ssd.toml",
        "8 GiB of DRAM that the kernel pages to an 800 GB Z-SSD: mapped files ([HAMS21])";
    "mmap/quick" = "mmap-quick.toml", "mmap at 1/256: 32 MiB of DRAM";
    "mmap/intel-750" = "mmap-intel-750.toml" "drives/intel-750.toml",
        "mmap with a 400 GB Intel SSD 750 (20 nm MLC, PCIe 3.0 x4), of [HAMS21] Fig 6";
    "mmap/intel-535" = "mmap-intel-535.toml" "drives/intel-535.toml",
        "mmap with a 240 GB Intel SSD 535 (MLC, SATA 6 Gbit/s), of [HAMS21] Fig 6";
    "nvdimm" = "nvdimm.toml", "512 GiB of NVDIMM and no store: the oracle of [HAMS21]";
    "nvdimm/quick" = "nvdimm-quick.toml", "nvdimm at 1/256: 2 GiB of NVDIMM";
    "flatflash-p" = "flatflash-p.toml",
        "An 800 GB Z-SSD as main memory, line by line over PCI Express (FlatFlash, [HAMS21])";
    "flatflash-p/quick" = "flatflash-p-quick.toml", "flatflash-p at 1/256";
    "flatflash-m" = "flatflash-m.toml",
        "flatflash-p with 8 GiB of DRAM in the host, to which hot pages are promoted";
    "flatflash-m/quick" = "flatflash-m-quick.toml", "flatflash-m at 1/256";
    "optane-p" = "optane-p.toml",
        "512 GiB of Optane DC as main memory, App Direct ([HAMS21])";
    "optane-p/quick" = "optane-p-quick.toml", "optane-p at 1/256";
    "optane-m" = "optane-m.toml",
        "8 GiB of DRAM as a cache of lines before 512 GiB of Optane DC, Memory mode ([HAMS21])";
    "optane-m/quick" = "optane-m-quick.toml", "optane-m at 1/256";
    "ull" = "ull.toml",
        "An 800 GB Z-SSD loaded and stored directly, of the bypass study of [HAMS21]";
    "ull/quick" = "ull-quick.toml", "ull at 1/256";
    "ull-buff" = "ull-buff.toml", "ull behind a small buffer of pages, by hardware ([HAMS21])";
    "ull-buff/quick" = "ull-buff-quick.toml", "ull-buff with 1/256 of its flash";
    "cxl-ssd" = "cxl-ssd.toml",
        "An 800 GB drive of Z-NAND behind CXL.mem as main memory, with a cache of its own";
    "cxl-ssd/quick" = "cxl-ssd-quick.toml", "cxl-ssd at 1/256";
    "cxl-ssd/switching" = "cxl-ssd-switching.toml",
        "cxl-ssd whose cores run another thread while a line comes from flash";
    "cxl-ssd/switching/quick" = "cxl-ssd-switching-quick.toml", "cxl-ssd/switching at 1/256";
    "cxl-tiering" = "cxl-tiering.toml",
        "128 GiB of DRAM and 512 GiB behind CXL.mem, between which Linux moves pages";
    "cxl-tiering/quick" = "cxl-tiering-quick.toml", "cxl-tiering at 1/256";
    "nvdimm-c" = "nvdimm-c.toml",
        "8 GiB of DRAM as a cache of flash on its module, filled in refresh windows ([HAMS21])";
    "nvdimm-c/quick" = "nvdimm-c-quick.toml", "nvdimm-c at 1/256";
    "nvdimm-f" = "nvdimm-f.toml",
        "8 GiB of DRAM that the kernel pages to flash on a module, a block device ([HAMS21])";
    "nvdimm-f/quick" = "nvdimm-f-quick.toml", "nvdimm-f at 1/256";
    "hams-ull" = "hams-ull.toml" "drives/z-ssd.toml", "";
    "hams-dram" = "hams-dram.toml", "";
    "hams-mmap" = "hams-mmap.toml", "";
    "linux" = "linux.toml", "";
    "hams-memory" = "hams-memory.toml", "";
    "hams-common" = "hams-common.toml", "";
    "hams-loose" = "hams-loose.toml" "drives/z-ssd.toml", "";
    "hams-l" = "hams-l.toml", "";
    "hams-t" = "hams-t.toml", "";
    "hyb15" = "hyb15.toml", "";
    "nvm10" = "nvm10.toml", "";
    "nvm10-xfs" = "nvm10-xfs.toml", "";
    "nvm10-ext3" = "nvm10-ext3.toml", "";
    "hyb15-store" = "hyb15-store.toml", "";
    "device" = "device.toml", "";
    "device/nvdimm-hpe-8gb" = "device-nvdimm-hpe-8gb.toml",
        "The 8 GB NVDIMM-N of [HAMS21] alone (DDR4-2133, x4), for memory traces";
    "block-device" = "block-device.toml", "";
    "device/slc" = "device-slc.toml",
        "The SLC flash store of [HYB15] alone behind its link, for block traces";
    "device/mlc" = "device-mlc.toml",
        "The MLC flash store of [HYB15] alone behind its link, for block traces";
    "device/z-ssd" = "device-z-ssd.toml" "drives/z-ssd.toml",
        "An 800 GB Z-SSD alone ([HAMS21]), for block traces";
    "device/z-ssd/quick" = "device-z-ssd-quick.toml", "device/z-ssd with 1/256 of its flash";
    "device/970-pro" = "device-970-pro.toml" "drives/970-pro.toml",
        "A 512 GB Samsung 970 PRO alone, for block traces";
    "device/970-pro/quick" = "device-970-pro-quick.toml", "device/970-pro with 1/256 of its flash";
    "device/intel-750" = "device-intel-750.toml" "drives/intel-750.toml",
        "A 400 GB Intel SSD 750 alone, for block traces";
    "device/x25-e" = "device-x25-e.toml" "drives/x25-e.toml",
        "A 32 GB Intel X25-E alone, behind Serial ATA, for block traces";
    "device/intel-535" = "device-intel-535.toml" "drives/intel-535.toml",
        "A 240 GB Intel SSD 535 alone, behind Serial ATA ([HAMS21]), for block traces";
    "device/iodrive" = "device-iodrive.toml" "drives/iodrive.toml",
        "An 80 GB Fusion-io ioDrive alone ([NVM10]), for block traces";
    "device/haste" = "device-haste.toml" "drives/haste.toml",
        "The 64 GB HASTE of [NVM10] alone, DDR2 behind PCIe 1.1 x8, for block traces";
    "device/disk-7200" = "device-disk-7200.toml" "drives/disk-7200.toml",
        "A 500 GB disk of 7200 revolutions a minute alone (Deskstar 7K500), for block traces";
    "device/ssd-raid" = "device-ssd-raid.toml" "drives/x25-e.toml" "drives/raid-software.toml",
        "Four Intel X25-E in RAID-0 by software, alone ([NVM10]), for block traces";
    "device/disk-raid" = "device-disk-raid.toml" "drives/disk-7200.toml" "drives/raid-hardware.toml",
        "Four disks in RAID-0 behind an adapter, alone, after [NVM10], for block traces";
    "nvm-dimm" = "nvm-dimm.toml", "";
    "device/nvm" = "device-nvm.toml",
        "A module of byte-addressable memory of no technology in particular";
    "device/pcm" = "device-pcm.toml",
        "A module of phase-change memory alone (Lee et al., ISCA 2009)";
    "device/stt-mram" = "device-stt-mram.toml",
        "A module of magnetic memory alone (Everspin MR2A16A, as NVMain has it)";
    "device/reram" = "device-reram.toml",
        "A module of resistive memory alone (ISSCC 2012, as NVMain has it)";
    "device/optane-dimm" = "device-optane-dimm.toml",
        "A 256 GB Optane DC module of 3D XPoint alone, with its buffer";
}

// Hosts: processor and operating system, for the bases of machines.
presets! {
    /// Every host, in the order of lists.
    HOSTS: part = Host;
    "hyb15-host" = "hyb15-host.toml", "Four cores of 2 GHz, the simulated host of [HYB15]";
    "nvm10-host" = "nvm10-host.toml", "Two sockets of Nehalem, 8 cores of 2.26 GHz ([NVM10])";
    "nvm10-host/prefetch" = "nvm10-host-prefetch.toml",
        "nvm10-host with the streamer into each core's L2";
    "ebc11-host" = "ebc11-host.toml", "Sun Fire X2200 M2, 4 cores of Opteron at 2.6 GHz ([EBC11])";
    "ebc11-host/prefetch" = "ebc11-host-prefetch.toml",
        "ebc11-host with the prefetcher into each core's L2";
    "hams-host" = "hams-host.toml", "Four ARMv8 cores of 2 GHz, the simulated host of [HAMS21]";
    "hams-testbed" = "hams-testbed.toml", "Core i7-4790K, 4 cores of 4 GHz, measured in [HAMS21]";
    "xeon-6430-host" = "xeon-6430-host.toml", "Xeon Gold 6430, 32 cores of Sapphire Rapids at 2.1 GHz";
    "xeon-6430-host/prefetch" = "xeon-6430-host-prefetch.toml",
        "xeon-6430-host with the streamer into each core's L2";
    "epyc-9005-host" = "epyc-9005-host.toml", "A die of EPYC 9005 (Turin), 8 cores of Zen 5 at 4.4 GHz";
    "epyc-9005-host/prefetch" = "epyc-9005-host-prefetch.toml",
        "epyc-9005-host with a prefetcher of streams into each core's L2";
}

// Kernels: what paging and file calls do on a machine of any processor, for the bases of machines.
presets! {
    /// Every kernel, the oldest first.
    KERNELS: part = Kernel;
    "linux-2.6.32" = "linux-2.6.32.toml", "Linux 2.6.32 of 2009: single pages, one queue, CFQ";
    "linux-4.9" = "linux-4.9.toml", "Linux 4.9 of 2016: single pages, multi-queue block layer, NVMe";
    "linux-6.18" = "linux-6.18.toml", "Linux 6.18 of 2025: large folios, multi-queue block layer, NVMe";
}

/// Every preset, those that are made of lists last.
fn all() -> impl Iterator<Item = Preset> {
    let made = devices::all().iter().map(|made| Preset {
        name: &made.name,
        summary: &made.summary,
        part: Part::Machine,
        text: &made.text,
    });
    WRITTEN.iter().copied().chain(made)
}

/// The preset of this name, among those that users see.
pub(super) fn find(name: &str) -> Option<Preset> {
    all().find(|preset| preset.name == name && !preset.summary.is_empty())
}

/// Organizations whose presets are called by something else, and the first of these.
const CALLED_OTHERWISE: [(&str, &str); 5] = [
    ("block-device", "device/slc"),
    ("device", "device/ddr4-2400"),
    ("hams", "hams-le"),
    ("tiered", "flatflash-m"),
    ("tiering", "cxl-tiering"),
];

/// The preset of the organization with this table or name, or one that has all parts.
pub(super) fn with_organization(key: &str) -> &'static str {
    let key = key.replace('_', "-");
    if let Some((_, preset)) = CALLED_OTHERWISE.iter().find(|(called, _)| *called == key) {
        return preset;
    }
    let of_kind = |preset: &Preset| preset.name.split('/').next() == Some(&key);
    let listed = |preset: &Preset| !preset.summary.is_empty();
    find(&key)
        .or_else(|| all().find(|preset| of_kind(preset) && listed(preset)))
        .map_or("hybrid", |preset| preset.name)
}

/// What another preset may be based on.
pub(super) fn find_base(name: &str) -> Option<Preset> {
    all().chain(parts()).find(|preset| preset.name == name)
}

/// Hosts and kernels.
fn parts() -> impl Iterator<Item = Preset> {
    HOSTS.iter().chain(KERNELS).copied()
}

/// What a user's file may be based on: a machine, a host, or a kernel.
pub(super) fn find_users_base(name: &str) -> Option<Preset> {
    find(name).or_else(|| parts().find(|part| part.name == name))
}

/// Name and one-line description of every host: a processor with an operating system, which is no machine by
/// itself, but may be a base of one.
pub fn hosts() -> Vec<(&'static str, &'static str)> {
    HOSTS.iter().map(|host| (host.name, host.summary)).collect()
}

/// Name and one-line description of every kernel: how it reads ahead, reclaims, writes back and hands requests over,
/// for a machine whose operating system pages to a store.
pub fn kernels() -> Vec<(&'static str, &'static str)> {
    KERNELS.iter().map(|kernel| (kernel.name, kernel.summary)).collect()
}

/// A host or a kernel as it is written, each value with its source.
pub fn part_text(name: &str) -> Option<&'static str> {
    parts().find(|part| part.name == name).map(|part| part.text)
}

/// Name and one-line description of every preset, in the order in which they are shown.
pub fn list() -> Vec<(&'static str, &'static str)> {
    let listed = all().filter(|preset| !preset.summary.is_empty());
    listed.map(|preset| (preset.name, preset.summary)).collect()
}
