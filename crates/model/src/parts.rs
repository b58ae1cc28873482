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
                not_most_recent::NotMostRecent, "Any way but the one used last, from a seed.";
                plru::Plru, "Pseudo-LRU: a binary tree over the ways.";
                clock::Clock, "A hand that passes what was used since it last came by.";
                srrip::Srrip, "Static prediction of re-reference (RRIP).";
                brrip::Brrip, "Bimodal prediction of re-reference: keeps a part of what is too large.";
                drrip::Drrip, "SRRIP or BRRIP, whichever misses less in sets that always follow one.";
            }
            media {
                paged::Paged, "Pages, each with one time to read and one to write.";
            }
            links {
                link = packet::PacketLink(LinkSpec), "What connects the store.";
                pcie = pcie::PcieLink(PcieSpec),
                    "Link: PCI Express, by generation, lanes and packets.";
                sata = sata::SataLink(SataSpec), "Link: Serial ATA behind a host adapter.";
                cxl_mem = cxl_mem::CxlMemLink(CxlMemSpec),
                    "Link: CXL.mem, by lanes, in flits of 68 bytes.";
                ddr_channel = ddr_channel::DdrChannelLink(DdrChannelSpec),
                    "Link: a channel of DRAM, which the device shares with the modules.";
                refresh_window = refresh_window::RefreshWindowLink(RefreshWindowSpec),
                    "Link: windows of time in which a module refreshes, and its device has its DRAM.";
            }
            devices {
                store = store::StoreDevice(StoreSpec), "The backing store.";
                ssd = ssd::SsdDevice(SsdSpec),
                    "Store: a solid-state drive, with translation layer, buffer and collection.";
                disk = disk::DiskDevice(DiskSpec),
                    "Store: a disk, with platters that turn, an arm, a buffer and a queue.";
                haste = haste::HasteDevice(HasteSpec),
                    "Store: memory behind controllers on a token ring, by DMA through a few buffers (HASTE).";
                nvm = nvm::NvmDevice(NvmSpec),
                    "Store: byte-addressable non-volatile memory, with banks, write pulses and wear.";
                ramdisk = ramdisk::Ramdisk(RamdiskSpec),
                    "Store: memory of the host as a block device, to which the processor copies.";
            }
            organizations {
                device = device::DeviceAlone(DeviceAloneSpec),
                    "Organization: a memory alone, which is given requests for lines.";
                block_device = block_device::BlockDevice(BlockDeviceSpec),
                    "Organization: a store alone, which is given requests of any size.";
                oracle = oracle::Oracle(OracleSpec), "Organization: all in DRAM.";
                direct = direct::Direct(DirectSpec),
                    "Organization: main memory is the store, without DRAM.";
                hybrid = hybrid::Hybrid(HybridSpec),
                    "Organization: hardware manages DRAM as a cache of the store.";
                hams = hams::Hams(HamsSpec),
                    "Organization: hardware joins an NVDIMM and a drive into one persistent memory.";
                tiered = tiered::Tiered(TieredSpec),
                    "Organization: main memory is the store, line by line; pages may be promoted to DRAM.";
                tiering = tiering::Tiering(TieringSpec),
                    "Organization: DRAM and the store are two nodes of memory; the kernel moves pages.";
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
