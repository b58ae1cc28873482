# Generated from the Rust types by `cargo run -p tierscope-xtask -- generate`. Do not edit.
"""Descriptions of machines, typed. None means: as the base has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from tierscope import _check

__all__ = [
    "Arm",
    "Backup",
    "Balancing",
    "BlockDevice",
    "BlockLayer",
    "BufferCache",
    "Cfq",
    "Coherence",
    "Collection",
    "Controllers",
    "CxlMem",
    "DdrChannel",
    "Deadline",
    "DeviceAlone",
    "Direct",
    "Disk",
    "DiskBuffer",
    "DiskPower",
    "Dram",
    "DramCache",
    "Driver",
    "FileSystem",
    "Hams",
    "Haste",
    "Hybrid",
    "Idle",
    "Interface",
    "KernelPaths",
    "LargePageTlb",
    "LinePrefetch",
    "Link",
    "LinkEnergy",
    "Log",
    "LongReads",
    "Map",
    "Nand",
    "NandPower",
    "Nvm",
    "NvmArray",
    "NvmBuffer",
    "NvmEnergy",
    "NvmWear",
    "Nvme",
    "NvmeCoalescing",
    "NvmePriorities",
    "OnChipCache",
    "Oracle",
    "Os",
    "PageTimes",
    "Path",
    "Pcie",
    "Platters",
    "Processor",
    "ProcessorEnergy",
    "Promotion",
    "Raid",
    "RaidCache",
    "Ramdisk",
    "RefreshWindow",
    "Sata",
    "Ssd",
    "SsdBuffer",
    "SsdDramPower",
    "SsdFirmware",
    "Storage",
    "Store",
    "StorePower",
    "TagCache",
    "Tiered",
    "Tiering",
    "Tlb",
    "Tmpfs",
    "Wear",
]


def _plain(value: object) -> object:
    if isinstance(value, _Spec):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, kw_only=True)
class _Spec:
    """A part of a description."""

    if not TYPE_CHECKING:

        def __new__(cls, *given: object, **said: object) -> _Spec:
            _check.keys(cls.__name__, given, said, [field.name for field in fields(cls)])
            return super().__new__(cls)

    def to_dict(self) -> dict[str, Any]:
        """What is said, as plain dictionaries, lists, texts and numbers; None is left out."""
        said = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: _plain(value) for name, value in said if value is not None}


@dataclass(frozen=True, kw_only=True)
class OnChipCache(_Spec):
    """One level of on-chip cache."""

    name: str | None = None
    """Name in results, such as `L1D`."""

    capacity: str | None = None
    """Capacity of one such cache.

    The number of sets need not be a power of two; what is left over beyond whole sets is not used.
    A size such as ``"64GiB"``.
    """

    ways: int | None = None
    """Associativity."""

    line: str | None = None
    """Line size: the same at every level. A size such as ``"64GiB"``."""

    latency_cycles: int | None = None
    """Cycles from an access's issue to its data on a hit in this level, look-ups of the levels
    before it included.
    """

    shared: bool | None = None
    """Whether all cores share one such cache. Shared levels come after private ones."""

    inclusive: bool | None = None
    """Whether it holds all that the levels before it hold, those of all its cores: what it drops,
    they give up (back-invalidation).
    """

    access_energy: str | None = None
    """Energy of a look-up, where `processor.energy` is given and does not hold it already.

    An energy such as ``"2.47pJ"``.
    """


@dataclass(frozen=True, kw_only=True)
class LargePageTlb(_Spec):
    """Entries of a TLB for pages of a size."""

    page: str | None = None
    """Size of the pages. A size such as ``"64GiB"``."""

    entries: int | None = None
    """Entries of the first level."""

    ways: int | None = None
    """Associativity of the first level."""

    second_level_entries: int | None = None
    """Entries of the second level, 0 for none."""

    second_level_ways: int | None = None
    """Associativity of the second level."""

    shares_second_level: bool | None = None
    """Its entries of the second level are those of the smallest pages, which both sizes share: it
    matters where huge pages lie beside small ones (`os.transparent_huge_pages`).
    """


@dataclass(frozen=True, kw_only=True)
class Tlb(_Spec):
    """Translation look-aside buffers of a core, and page walks."""

    entries: int | None = None
    """Entries of the first level; a hit costs nothing beyond the first-level cache's latency."""

    ways: int | None = None
    """Associativity of the first level."""

    second_level_entries: int | None = None
    """Entries of the second level, 0 for none."""

    second_level_ways: int | None = None
    """Associativity of the second level."""

    second_level_latency_cycles: int | None = None
    """Cycles until the second level has answered: a hit there adds them, and a page walk begins
    behind them.
    """

    walk_cache_entries: int | None = None
    """Entries of the cache of upper page-table levels: with a hit there, a walk reads the last
    level only.
    """

    levels: int | None = None
    """Levels of the page table."""

    address_spaces: int | None = None
    """Processes whose translations it tells apart: those of others go as a core switches to a
    further one.

    1: all go at each switch to another process.
    """

    large: Sequence[LargePageTlb] | None = None
    """Entries for larger pages than the smallest, where `os.page` is one or
    `os.transparent_huge_pages` makes some.

    For a size that is not here, entries are those above.
    """


@dataclass(frozen=True, kw_only=True)
class Coherence(_Spec):
    """What it takes to keep the private caches of several cores coherent (MESI)."""

    transfer_cycles: int | None = None
    """Cycles from an access's issue to its data, where another core's private caches have them:
    written there, or in no shared cache.
    """

    invalidation_cycles: int | None = None
    """Cycles from a store's issue until other cores have given up their copies of its line."""


@dataclass(frozen=True, kw_only=True)
class LinePrefetch(_Spec):
    """A hardware prefetcher of each core, into the shared caches or its own."""

    kind: Literal["next-line", "stride", "stream"] | None = None
    """What it follows: `next-line`, `stride` or `stream`.

    ``"next-line"``: The lines behind each line that is asked for. ``"stride"``: A constant distance
    between accesses to a page, once it has come twice. ``"stream"``: A direction of accesses to a
    page, once two have gone the same way.
    """

    degree: int | None = None
    """Lines that it asks for at most upon each access."""

    distance: int | None = None
    """How far ahead of the access they may be, in lines; of `stride` in strides."""

    trackers: int | None = None
    """Pages that it follows at once."""

    outstanding: int | None = None
    """Lines that it may be waiting for at once."""

    into: Literal["shared", "private"] | None = None
    """Which caches take the lines: `shared`, or `private`, those of the core.

    ``"shared"``: The shared ones; it sees what they are asked for. ``"private"``: The core's own
    behind its first level, or the only one, and those that the line passes on its way; it sees what
    the first level has not.
    """


@dataclass(frozen=True, kw_only=True)
class ProcessorEnergy(_Spec):
    """Powers of a processor, and energies of what it does."""

    uncore_power: str | None = None
    """Power of what all cores share, whatever they do. A power such as ``"25W"``."""

    running_power: str | None = None
    """Power of a core that has a thread to run, whether its instructions are done or wait for
    memory.

    A power such as ``"25W"``.
    """

    halted_power: str | None = None
    """Power of a core that has none, and is halted. A power such as ``"25W"``."""

    instruction_energy: str | None = None
    """Energy of an instruction, of the program or of the kernel, beyond that; look-ups in caches
    that have an `access_energy` not included.

    An energy such as ``"2.47pJ"``.
    """

    clock: str | None = None
    """Clock at which `running_power` is so.

    At another, what a running core takes beyond a halted one is as much more as that clock is
    higher: dynamic power is capacitance × voltage² × frequency (Hennessy and Patterson, Computer
    Architecture, 5th edition, §1.5). Where it is missing the power is that of any clock, as leakage
    is. A frequency such as ``"2GHz"``.
    """

    voltage: float | None = None
    """The cores' voltage, as a multiple of that at which all this is so: dynamic power, and
    energies of instructions and look-ups, grow with its square.

    Where it is missing, 1.
    """


@dataclass(frozen=True, kw_only=True)
class Processor(_Spec):
    """The processor: cores, reorder window, on-chip caches and TLB."""

    cores: int | None = None
    """Number of cores."""

    threads_per_core: int | None = None
    """Hardware threads of each core.

    They share its private caches and TLB, and those that have instructions to run its pace, evenly.
    """

    width: int | None = None
    """Instructions that a core issues in a cycle at most."""

    clock: str | None = None
    """Clock frequency of the cores. A frequency such as ``"2GHz"``."""

    base_cpi: float | None = None
    """Cycles per instruction when nothing waits for memory (branches, dependences, functional
    units), at least 1/width.
    """

    reorder_window: int | None = None
    """Instructions that may be in flight behind the oldest unfinished load."""

    load_queue: int | None = None
    """Loads that may be in flight from the oldest unfinished one on, those that have been served
    included, of which one instruction counts once.

    Where it is missing there are no bounds beside the reorder window.
    """

    store_queue: int | None = None
    """Stores that may wait, in order, to come into the caches: for older loads, and for lines; of
    one instruction it is one.

    Where it is missing there are no bounds beside miss registers.
    """

    miss_registers: int | None = None
    """Lines that a hardware thread may be waiting for at once beyond its first-level cache."""

    partitioned: bool | None = None
    """Whether reorder window, queues and miss registers are a core's, of which each of its hardware
    threads that has a software thread may use an even part; else each hardware thread has as many.
    """

    caches: Sequence[OnChipCache] | None = None
    """On-chip caches for data, from the first level outwards."""

    tlb: Tlb | None = None
    """Translation look-aside buffer and page walks."""

    coherence: Coherence | None = None
    """How private caches are kept coherent. A processor of one core needs none."""

    prefetch: LinePrefetch | None = None
    """A prefetcher of each core, into the shared caches or its own.

    Where it is missing there is none.
    """

    energy: ProcessorEnergy | None = None
    """Powers and energies. Where they are missing, the processor's energy is not counted."""


@dataclass(frozen=True, kw_only=True)
class Path(_Spec):
    """One path through the kernel: processor work, and lines of kernel data that it touches."""

    instructions: int | None = None
    """Instructions executed."""

    lines: int | None = None
    """Lines of kernel data touched, which displace the program's in the on-chip caches."""


@dataclass(frozen=True, kw_only=True)
class KernelPaths(_Spec):
    """The kernel's paths, each charged to the stage of its name."""

    fault: Path | None = None
    """Exception entry, look-up of the mapping, and return."""

    page_cache: Path | None = None
    """Look-up in, insertion into and removal from the page cache or swap cache, for a page."""

    file_system: Path | None = None
    """File system: from file offset to block, for a request."""

    block_layer: Path | None = None
    """Block layer: building, queueing and completing a request."""

    driver: Path | None = None
    """Driver: command set-up and doorbell, for a request."""

    interrupt: Path | None = None
    """Interrupt entry, completion and return."""

    completion_interrupt: Path | None = None
    """Passing a completion on to the hardware thread that asked, by an interrupt there, where the
    device's comes to another (`storage.driver.rq_affinity`).

    Nothing where it is not said.
    """

    wake_up: Path | None = None
    """Making a blocked thread ready."""

    context_switch: Path | None = None
    """Switching a core to another thread."""

    system_call: Path | None = None
    """Entry to and return from a system call, its own work not included."""

    path_lookup: Path | None = None
    """Looking up a name that a call gives: its copy, and the walk through the directory cache
    (`filename_lookup`, fs/namei.c), charged to the file system.

    Nothing where it is not said.
    """

    fork: Path | None = None
    """Making a process, but for its page table's entries."""

    fork_page: Path | None = None
    """Copying a page-table entry to a process that is made."""

    free_page: Path | None = None
    """Freeing a page of memory that a call gives back: unmapped, cut off a file, or said to be of
    no more use (`free_pages_and_swap_cache`, mm/swap_state.c).

    Nothing where it is not said.
    """

    shootdown: Path | None = None
    """Telling other cores that run the process to forget translations, until all have answered;
    once for what is unmapped together (`flush_tlb_mm_range`, `try_to_unmap_flush`).

    Nothing where it is not said.
    """

    shootdown_interrupt: Path | None = None
    """What that costs each of the others that runs a thread."""


@dataclass(frozen=True, kw_only=True)
class Os(_Spec):
    """The operating system: pages, scheduler, and what its paths cost."""

    page: str | None = None
    """Page size of translation and of the page cache. A size such as ``"64GiB"``."""

    transparent_huge_pages: Literal["never", "madvise", "always"] | None = None
    """Whether anonymous memory gets huge pages, of 512 pages each, where it can.

    ``"never"``: Nowhere. ``"madvise"``: Where the program has asked for them (madvise(2),
    `MADV_HUGEPAGE`). ``"always"``: Wherever the program has not refused them (`MADV_NOHUGEPAGE`).
    """

    allocation: Literal["contiguous", "fragmented"] | None = None
    """How frames are given out on first touch.

    ``"contiguous"``: In ascending order, as on a machine just started. ``"fragmented"``: In a
    seeded random order, as on a machine that has run for long.
    """

    time_slice: str | None = None
    """A thread runs this long at most while others are ready. A duration such as ``"25us"``."""

    kernel_cpi: float | None = None
    """Cycles per instruction of kernel code."""

    paths: KernelPaths | None = None
    """What each path through the kernel costs."""


@dataclass(frozen=True, kw_only=True)
class Interface(_Spec):
    """What drivers and termination take, for each line of the data bus, while data move on it."""

    read_power: str | None = None
    """A data line or strobe that a chip drives, to be read. A power such as ``"25W"``."""

    write_power: str | None = None
    """A data line, strobe or mask that the written chip terminates. A power such as ``"25W"``."""

    other_read_power: str | None = None
    """A data line or strobe that another rank terminates while one is read, where a channel has
    several.

    A power such as ``"25W"``.
    """

    other_write_power: str | None = None
    """A data line, strobe or mask that another rank terminates while one is written.

    A power such as ``"25W"``.
    """


@dataclass(frozen=True, kw_only=True)
class Backup(_Spec):
    """How the modules of a memory are backed by flash.

    All work at the same time, each with its own flash, controller and energy.
    """

    module: str | None = None
    """DRAM of a module. The memory is a whole number of modules. A size such as ``"64GiB"``."""

    flash: str | None = None
    """Flash of a module. A size such as ``"64GiB"``."""

    save_bandwidth: str | None = None
    """From DRAM to flash, of a module. A bandwidth such as ``"16GB/s"``."""

    restore_bandwidth: str | None = None
    """From flash to DRAM, of a module. A bandwidth such as ``"16GB/s"``."""

    save_power: str | None = None
    """What a module takes while it saves: DRAM, controller and flash. A power such as ``"25W"``."""

    restore_power: str | None = None
    """What a module takes while it restores. A power such as ``"25W"``."""

    energy: str | None = None
    """What the energy source of a module holds when it is charged: a supercapacitor, or its share
    of a battery.

    An energy such as ``"2.47pJ"``.
    """

    charge_power: str | None = None
    """What charges the energy source. A power such as ``"25W"``."""


@dataclass(frozen=True, kw_only=True)
class Dram(_Spec):
    """DRAM behind its controllers.

    A part, how many of it, its controllers' policies, and what differs. Its capacity is said where
    it is used (`hybrid.cache.capacity`, `storage.dram_capacity` …): rows extend to it.
    """

    part: str | None = None
    """The chips, by name: `ddr4-2400-8gb-x8`. Organization, timings and currents follow from it."""

    channels: int | None = None
    """Channels, each with its own data bus and controller."""

    ranks: int | None = None
    """Ranks of each channel; pseudo-channels, where the standard has them."""

    mapping: str | None = None
    """Parts of an address above the line, from the highest down: `ro-ra-ba-bg-co-ch` (row, rank,
    bank, bank group, column, channel; `co3` is three bits of the column), or one letter a bit, such
    as `rkbbggcccccch` (k is the rank, h the channel, the first r all other bits of the row).
    """

    page_policy: Literal["open", "closed", "timeout", "adaptive"] | None = None
    """What becomes of an open row that no request waits for.

    ``"open"``: It stays open until another row of its bank is wanted, or a refresh. ``"closed"``:
    It is closed with the last column command that waits for it. ``"timeout"``: It is closed when
    nobody has used it for `row_timeout`. ``"adaptive"``: It is closed as `closed` does, or stays
    open as `open` does: as of its bank's last rows, by a predictor of two bits.
    """

    row_timeout: str | None = None
    """How long an unused row stays open, where `page_policy` is `timeout`.

    A duration such as ``"25us"``.
    """

    refresh: Literal["all-bank", "per-bank", "same-bank"] | None = None
    """What is refreshed at once.

    ``"all-bank"``: All banks of a rank. ``"per-bank"``: One bank while the others work: LPDDR5,
    HBM2, HBM3. ``"same-bank"``: The same bank of every bank group while the others work: DDR5.
    """

    postponed_refreshes: int | None = None
    """Refreshes of a rank (of all its banks) that may wait for requests."""

    read_queue_depth: int | None = None
    """Lines that a channel's controller reads for requests in flight, at most."""

    write_queue_depth: int | None = None
    """Lines that it writes, at most."""

    write_high: int | None = None
    """When so many lines are to be written, they go ahead of reads."""

    write_low: int | None = None
    """When so few are left, reads go ahead again."""

    age_cap: str | None = None
    """A request that has waited so long is passed by no other of its bank; a write, by no read.

    A duration such as ``"25us"``.
    """

    power_down_after: str | None = None
    """A rank without requests goes to power-down after so long; never, where it is not said.

    A duration such as ``"25us"``.
    """

    shared_standby: float | None = None
    """Energy: of what IDD3N is above IDD2N, the share that the first open row of a rank takes; the
    rest is taken bank by bank (the rho of DRAMPower; 1 in Micron's calculators).

    Where it is not said, 0.2 of HBM2 and HBM3, as measured, and 0 of others: data sheets measure
    IDD3N with all banks open.
    """

    interface: Interface | None = None
    """Energy: what drivers and termination of the data bus take.

    Where it is not said that of the standard.
    """

    controller_latency: str | None = None
    """Time of the controller itself, added to each request. A duration such as ``"25us"``."""

    backup: Backup | None = None
    """What saves it when power fails: NVDIMM-N. DRAM forgets, where it is not said."""

    data_rate: str | None = None
    """Data rate, in place of the part's; timings in clocks stay.

    1333MT/s is 1333⅓, as the standards call their rates. A transfer-rate such as ``"1333MT/s"``.
    """

    bus_bits: int | None = None
    """Width of the data bus of a channel in bits, in place of the part's."""

    bank_groups: int | None = None
    """Bank groups of a rank, in place of the part's."""

    banks: int | None = None
    """Banks of a bank group, in place of the part's."""

    row: str | None = None
    """Bytes of an open row over all chips of a rank, in place of the part's.

    A size such as ``"64GiB"``.
    """

    t_cl: int | None = None
    """Column read to first data, in clocks, in place of the part's."""

    t_cwl: int | None = None
    """Column write to first data, in clocks, in place of the part's."""

    t_rcd: int | None = None
    """Activate to column command, in clocks, in place of the part's."""

    t_rp: int | None = None
    """Precharge to activate, in clocks, in place of the part's."""

    t_ras: int | None = None
    """Activate to precharge, in clocks, in place of the part's."""

    t_rc: int | None = None
    """Activate to activate of a bank, in clocks; t_ras + t_rp where only these are given."""

    t_wr: int | None = None
    """End of write data to precharge, in clocks, in place of the part's."""

    t_rtp: int | None = None
    """Read to precharge, in clocks, in place of the part's."""

    t_ccd_s: int | None = None
    """Column command to column command, in clocks, in place of the part's."""

    t_ccd_l: int | None = None
    """Column command to column command of a bank group, in clocks, in place of the part's."""

    t_rrd_s: int | None = None
    """Activate to activate of a rank, in clocks, in place of the part's."""

    t_rrd_l: int | None = None
    """Activate to activate of a bank group, in clocks, in place of the part's."""

    t_faw: int | None = None
    """The time of any five activates of a rank is longer than this, in clocks."""

    t_wtr_s: int | None = None
    """End of write data to read of a rank, in clocks, in place of the part's."""

    t_wtr_l: int | None = None
    """End of write data to read of a bank group, in clocks, in place of the part's."""

    t_rtw: int | None = None
    """Read to write of a rank, in clocks; from t_cl, t_cwl and the burst where it is not given."""

    t_rtrs: int | None = None
    """Between the data of different ranks, in clocks, in place of the part's."""

    t_xp: int | None = None
    """End of power-down to any command, in clocks, in place of the part's."""

    t_cke: int | None = None
    """Least time in power-down, and out of it, in clocks, in place of the part's."""

    t_refi: str | None = None
    """Mean time between refreshes of a rank, in place of the part's.

    A duration such as ``"25us"``.
    """

    t_rfc: str | None = None
    """Time of a refresh of all banks, in place of the part's. A duration such as ``"25us"``."""

    t_rfc_bank: str | None = None
    """Time of a refresh of one bank, in place of the part's. A duration such as ``"25us"``."""


@dataclass(frozen=True, kw_only=True)
class Controllers(_Spec):
    """Several memory controllers.

    Each has DRAM, store and link as the tables of the machine say, so that memory is so many times
    as large.
    """

    count: int | None = None
    """How many."""

    interleave: str | None = None
    """Bytes that lie side by side at one controller, before the next has as many: a power of two.

    A size such as ``"64GiB"``.
    """


@dataclass(frozen=True, kw_only=True)
class StorePower(_Spec):
    """What a unit of a store takes."""

    read: str | None = None
    """While its medium reads. A power such as ``"25W"``."""

    write: str | None = None
    """While its medium writes. A power such as ``"25W"``."""

    standby: str | None = None
    """At all times, whatever it does. A power such as ``"25W"``."""


@dataclass(frozen=True, kw_only=True)
class Store(_Spec):
    """A backing store: parallel units of a medium behind a controller."""

    capacity: str | None = None
    """Capacity. A size such as ``"64GiB"``."""

    page: str | None = None
    """Bytes read or written as one: a power of two. A size such as ``"64GiB"``."""

    read_latency: str | None = None
    """Time of the medium to read a page, transfers not included. A duration such as ``"25us"``."""

    write_latency: str | None = None
    """Time of the medium to write a page, transfers not included. A duration such as ``"25us"``."""

    units: int | None = None
    """Units (packages, dies) that work in parallel; pages are dealt to them in turn."""

    unit_bandwidth: str | None = None
    """Bandwidth between one unit and the device's controller. A bandwidth such as ``"16GB/s"``."""

    controller_latency: str | None = None
    """Time of the device's controller for each command. A duration such as ``"25us"``."""

    queue_depth: int | None = None
    """Page requests that the device holds at most."""

    power: StorePower | None = None
    """What its units take; without it their energy is not counted."""


@dataclass(frozen=True, kw_only=True)
class PageTimes(_Spec):
    """How long a page of one type takes."""

    read_latency: str | None = None
    """Time from the array into the page register (tR). A duration such as ``"25us"``."""

    program_latency: str | None = None
    """Time from the page register into the array (tPROG). A duration such as ``"25us"``."""


@dataclass(frozen=True, kw_only=True)
class NandPower(_Spec):
    """What a die takes, as data sheets of flash say it.

    Energy is current times voltage times time.
    """

    voltage: str | None = None
    """Supply voltage (VCC). A voltage such as ``"3.3V"``."""

    read_current: str | None = None
    """Current of a die while its array reads (ICC1). A current such as ``"25mA"``."""

    program_current: str | None = None
    """Current of a die while its array programs (ICC2). A current such as ``"25mA"``."""

    erase_current: str | None = None
    """Current of a die while its array erases (ICC3). A current such as ``"25mA"``."""

    transfer_current: str | None = None
    """Current of the die whose data cross the channel (ICC4R, ICC4W).

    A current such as ``"25mA"``.
    """

    standby_current: str | None = None
    """Current of every die, whatever it does (ISB). A current such as ``"25mA"``."""


@dataclass(frozen=True, kw_only=True)
class Nand(_Spec):
    """An array of NAND flash: channels, and what hangs on each."""

    channels: int | None = None
    """Channels: buses that work at the same time."""

    ways: int | None = None
    """Ways: packages on each channel."""

    dies: int | None = None
    """Dies (logical units) of a package, each of which works by itself."""

    planes: int | None = None
    """Planes of a die, which do the same thing at the same time. At most 16."""

    blocks: int | None = None
    """Blocks of a plane."""

    pages: int | None = None
    """Pages of a block."""

    page: str | None = None
    """Bytes of a page, without its spare bytes: a power of two from 512B to 64KiB.

    A size such as ``"64GiB"``.
    """

    lower: PageTimes | None = None
    """Times of the lower pages of the cells (least significant bit); of all pages where a cell
    holds one bit.
    """

    middle: PageTimes | None = None
    """Times of the middle pages, where a cell holds three bits."""

    upper: PageTimes | None = None
    """Times of the upper pages (most significant bit), where a cell holds two or three bits."""

    erase_latency: str | None = None
    """Time to erase a block (tBERS). A duration such as ``"25us"``."""

    bus_rate: str | None = None
    """Transfers a second of each channel (ONFI: up to 50MT/s asynchronous, to 200 NV-DDR, 533
    NV-DDR2, 1600 NV-DDR3, 2400 NV-LPDDR4).

    A transfer-rate such as ``"1333MT/s"``.
    """

    bus_bits: int | None = None
    """Bits of each transfer: 8 or 16."""

    command_cycle: str | None = None
    """Time of each command and address cycle on the channel. A duration such as ``"25us"``."""

    multi_plane_reads: Literal["none", "same-page", "any-page"] | None = None
    """Which pages one command reads.

    ``"none"``: One page at a time. ``"same-page"``: Pages of the same block and page number.
    ``"any-page"``: Any pages, one of each plane.
    """

    multi_plane_programs: bool | None = None
    """Whether one command programs a page in each plane, and one erases a block in each."""

    cache_read: bool | None = None
    """Whether a die reads its next page while one crosses the channel."""

    cache_program: bool | None = None
    """Whether the data of the next page cross the channel while a die programs one."""

    suspends: int | None = None
    """How often reads may suspend a program or an erase; 0 for never."""

    suspend_latency: str | None = None
    """Time that a die takes to suspend, and again to resume. A duration such as ``"25us"``."""

    reads_ahead: int | None = None
    """Reads that may pass what has waited longer, at a die and at a channel; 0 for first come,
    first served.
    """

    power: NandPower | None = None
    """What dies take; without it their energy is not counted."""


@dataclass(frozen=True, kw_only=True)
class SsdBuffer(_Spec):
    """The drive's own DRAM, as far as it holds data."""

    capacity: str | None = None
    """What it holds in all. A size such as ``"64GiB"``."""

    dirty: str | None = None
    """What of it may wait to be programmed; writes wait beyond that. A size such as ``"64GiB"``."""

    flush_above: str | None = None
    """Data that were written stay in it until there is more than this; then the oldest are
    programmed.

    A size such as ``"64GiB"``.
    """

    write_back: bool | None = None
    """Whether a write is done when it is in the buffer, or when it is in flash."""

    capacitors: bool | None = None
    """Whether capacitors keep what is in it when power fails: flushes end at once then."""

    capacitor_energy: str | None = None
    """What they hold when they are charged, for flash, controller, memory and interface; without
    it, enough for all that may wait in the buffer.

    An energy such as ``"2.47pJ"``.
    """

    hold_up_time: str | None = None
    """For how long they hold the drive up; without it, as long as it takes.

    A duration such as ``"25us"``.
    """

    read_cache: bool | None = None
    """Whether data that were read or programmed are kept while there is room."""

    replacement: Literal["lru", "fifo", "clock", "srrip"] | None = None
    """Which of these data give way to others: `lru`, `fifo`, `clock` or `srrip`; without it, `lru`.

    ``"lru"``: What was used least recently. ``"fifo"``: What came first. ``"clock"``: What came
    first, of what has not been used since it was passed over last. ``"srrip"``: What is expected to
    be used last, by two bits of each, hit priority (Jaleel et al., "High performance cache
    replacement using re-reference interval prediction (RRIP)", ISCA 2010).
    """

    latency: str | None = None
    """Time of each access to it, besides that of the data. A duration such as ``"25us"``."""

    bandwidth: str | None = None
    """Bandwidth. A bandwidth such as ``"16GB/s"``."""


@dataclass(frozen=True, kw_only=True)
class SsdFirmware(_Spec):
    """The processors of the drive."""

    cores: int | None = None
    """Processors that work at the same time."""

    page_time: str | None = None
    """Time for which each page of a request occupies one of them. A duration such as ``"25us"``."""

    read_latency: str | None = None
    """Time that a read takes besides, which occupies none. A duration such as ``"25us"``."""

    write_latency: str | None = None
    """Time that a write takes besides, which occupies none. A duration such as ``"25us"``."""

    decode_latency: str | None = None
    """Time to decode the error-correcting code of what was read from flash.

    A duration such as ``"25us"``.
    """


@dataclass(frozen=True, kw_only=True)
class Idle(_Spec):
    """Collection ahead of need, while the host wants nothing."""

    after: str | None = None
    """Time from the end of the host's last command until it begins.

    A duration such as ``"25us"``.
    """

    free_blocks: int | None = None
    """Erased blocks of each die with which it ends: more than `ssd.collection.free_blocks`, below
    which blocks are collected in any case.
    """


@dataclass(frozen=True, kw_only=True)
class Collection(_Spec):
    """How space is won back."""

    policy: Literal["greedy", "cost-benefit"] | None = None
    """By what blocks are chosen.

    ``"greedy"``: The fewest valid units; of those with as few, the one that has waited longest.
    ``"cost-benefit"``: The greatest gain for its cost, weighed by age: (1 - u) / 2u × time since it
    was filled, for a share u of valid units (Kawaguchi, Nishioka and Motoda, "A flash-memory based
    file system", USENIX 1995).
    """

    window: int | None = None
    """Among how many of those that were filled first; 0 for all.

    With 1, the one filled first is taken, whatever the policy.
    """

    free_blocks: int | None = None
    """Erased blocks of each die below which one is collected. At least 2."""

    copies: int | None = None
    """Pages that a die's collection has under way at once."""

    idle: Idle | None = None
    """Collection ahead of need, while the host wants nothing; without it there is none."""


@dataclass(frozen=True, kw_only=True)
class Wear(_Spec):
    """How flash wears."""

    endurance: int | None = None
    """Erases that a block stands."""

    difference: int | None = None
    """By how many erases two blocks of a die may differ before the one with fewer is collected,
    whatever it holds (static levelling); 0 for never.
    """

    factory_bad: float | None = None
    """Share of blocks that are bad from the factory."""


@dataclass(frozen=True, kw_only=True)
class Map(_Spec):
    """The map of pages, in flash, of which the drive's memory has a part (DFTL)."""

    cache: str | None = None
    """What of the map is in memory at once, in whole pages: the page used least recently gives way.

    A size such as ``"64GiB"``.
    """

    entry: str | None = None
    """What the map has of each page of the drive: a power of two, at most a page.

    A size such as ``"64GiB"``.
    """


@dataclass(frozen=True, kw_only=True)
class Log(_Spec):
    """A map of blocks with logs (FAST): what is written out of order waits in logs to be merged."""

    blocks: int | None = None
    """Log blocks of each die for pages out of order, besides one for pages in order."""


@dataclass(frozen=True, kw_only=True)
class SsdDramPower(_Spec):
    """What the drive's own DRAM takes, by Micron's method (TN-41-01).

    Its chips take something at all times, and each bit that moves through the buffer something
    beyond that.
    """

    standby: str | None = None
    """All of its chips at all times, whatever moves: standby and refresh.

    A power such as ``"25W"``.
    """

    read_per_bit: str | None = None
    """Each bit that is read from it, with its share of opening a row.

    An energy such as ``"2.47pJ"``.
    """

    write_per_bit: str | None = None
    """Each bit that is written to it, with its share of opening a row.

    An energy such as ``"2.47pJ"``.
    """


@dataclass(frozen=True, kw_only=True)
class RaidCache(_Spec):
    """The cache of an adapter."""

    capacity: str | None = None
    """Bytes of it. A size such as ``"64GiB"``."""

    write_back: bool | None = None
    """Whether a write is done once it is in the cache, which a battery keeps if power fails:
    flushes are done at once then, and what goes to the drives is forced past their buffers.

    Else it is done once the drives have it, and flushes go to them.
    """

    write_backs: int | None = None
    """Runs of pages that each drive is given to write at once, at most."""


@dataclass(frozen=True, kw_only=True)
class Raid(_Spec):
    """Several of the drive side by side: data are dealt to them in stripes."""

    drives: int | None = None
    """Drives."""

    stripe: str | None = None
    """What lies on one drive before the next one has its turn: a power of two.

    A size such as ``"64GiB"``.
    """

    queue_depth: int | None = None
    """Requests that are under way at most."""

    latency: str | None = None
    """Time to divide a request: the host's, or that of an adapter.

    A duration such as ``"25us"``.
    """

    bandwidth: str | None = None
    """Bandwidth of what an adapter has for the data of all drives; without it, there is no adapter,
    and the host divides.

    A bandwidth such as ``"16GB/s"``.
    """

    cache: RaidCache | None = None
    """The cache of an adapter; without it, all goes to the drives."""


@dataclass(frozen=True, kw_only=True)
class Ssd(_Spec):
    """A solid-state drive: flash, a translation layer, a buffer, and firmware."""

    capacity: str | None = None
    """What it offers to the host. A size such as ``"64GiB"``."""

    page: str | None = None
    """Bytes that are mapped as one: a power of two.

    At most a page of flash, times `split`. A size such as ``"64GiB"``.
    """

    queue_depth: int | None = None
    """Pages that it is asked for at most at once."""

    split: int | None = None
    """Channels over which each page is split, so that they move parts of it at the same time."""

    striping: str | None = None
    """In which order pages that are written are dealt to channels (c), ways (w), dies (d) and
    planes (p): what changes first stands first, as in `c-w-d-p`.
    """

    initial: Literal["erased", "written", "steady"] | None = None
    """What flash holds when a run starts.

    ``"erased"``: Nothing: every block is erased. ``"written"``: All of the capacity, written once
    from its beginning to its end. ``"steady"``: All of the capacity, overwritten at random for so
    long that collection has come to its steady state: every block but the free ones has been
    written, and holds as many valid pages as greedy collection leaves; of each die two are being
    filled, one by the host and one by collection, and have come so far as chance has it.
    """

    nand: Nand | None = None
    """Flash."""

    buffer: SsdBuffer | None = None
    """The drive's own DRAM, as far as it holds data."""

    firmware: SsdFirmware | None = None
    """The processors of the drive."""

    collection: Collection | None = None
    """How space is won back."""

    wear: Wear | None = None
    """How flash wears."""

    map: Map | None = None
    """The map of pages in flash; without it the drive's memory has all of the map."""

    log: Log | None = None
    """A map of blocks with logs; without it the map is one of pages."""

    controller_power: str | None = None
    """What controller and interface take at all times, and all else that a figure of the whole
    drive has in it; without it their energy is not counted.

    A power such as ``"25W"``.
    """

    dram_power: SsdDramPower | None = None
    """What the drive's own DRAM takes; without it its energy is not counted."""

    raid: Raid | None = None
    """Several of it side by side, over which data are dealt in stripes (RAID-0)."""


@dataclass(frozen=True, kw_only=True)
class Platters(_Spec):
    """The platters of a disk, and how they are divided into tracks and sectors."""

    rpm: int | None = None
    """Revolutions a minute."""

    heads: int | None = None
    """Surfaces with data, each with a head."""

    cylinders: int | None = None
    """Tracks of a surface."""

    zones: int | None = None
    """Zones of as many cylinders each: from the outermost to the innermost, their tracks have fewer
    and fewer sectors, in equal steps.
    """

    outer_sectors: int | None = None
    """Sectors of a track of the outermost zone."""

    inner_sectors: int | None = None
    """Sectors of a track of the innermost zone."""

    sector: str | None = None
    """Bytes of a sector. A size such as ``"64GiB"``."""

    track_skew: str | None = None
    """By how much later than on the track before it on its cylinder a track's first sector comes
    below its head, so that there is time to switch heads.

    A duration such as ``"25us"``.
    """

    cylinder_skew: str | None = None
    """The same, of the first track of a cylinder behind the last of the one before.

    A duration such as ``"25us"``.
    """


@dataclass(frozen=True, kw_only=True)
class Arm(_Spec):
    """The arm of a disk.

    The time of a seek, by its distance, is a curve through the three that are given.
    """

    single_seek: str | None = None
    """Time of a seek to the next cylinder, settling included. A duration such as ``"25us"``."""

    average_seek: str | None = None
    """The same, the mean over all pairs of cylinders. A duration such as ``"25us"``."""

    full_seek: str | None = None
    """The same, from the first cylinder to the last. A duration such as ``"25us"``."""

    write_settle: str | None = None
    """What seeks take longer before writes, but for those to the next cylinder.

    A duration such as ``"25us"``.
    """

    head_switch: str | None = None
    """Time to switch to another head of the same cylinder. A duration such as ``"25us"``."""


@dataclass(frozen=True, kw_only=True)
class DiskBuffer(_Spec):
    """The buffer of a disk."""

    capacity: str | None = None
    """What it has for data that are read. A size such as ``"64GiB"``."""

    segments: int | None = None
    """Parts of it, each for a stream of reads."""

    read_ahead: str | None = None
    """How far a disk with nothing else to do reads on behind the last page that was asked for; at
    most a segment.

    A size such as ``"64GiB"``.
    """

    write_cache: bool | None = None
    """Whether a write is done when it is in the buffer, or when it is on the platter."""

    dirty: str | None = None
    """What it has for data that wait to be written; further writes wait.

    Only with a write cache. A size such as ``"64GiB"``.
    """


@dataclass(frozen=True, kw_only=True)
class DiskPower(_Spec):
    """What a disk takes, as its specification says it: motors and electronics together."""

    idle: str | None = None
    """While the platters turn and nothing is asked for. A power such as ``"25W"``."""

    seek: str | None = None
    """While arm and heads are positioned; not less than when idle. A power such as ``"25W"``."""

    transfer: str | None = None
    """While the heads wait for a sector, or sectors pass below them; not less than when idle.

    A power such as ``"25W"``.
    """


@dataclass(frozen=True, kw_only=True)
class Disk(_Spec):
    """A disk: platters, an arm with heads, a buffer, and the choice of what is done next."""

    capacity: str | None = None
    """Capacity. A size such as ``"64GiB"``."""

    page: str | None = None
    """Bytes that its buffer holds as one: a power of two, and whole sectors.

    Part of a page takes as long as the page. A size such as ``"64GiB"``.
    """

    queue_depth: int | None = None
    """Commands that it holds at most."""

    controller_latency: str | None = None
    """Time of its controller for each command. A duration such as ``"25us"``."""

    window: int | None = None
    """Of so many of those that wait longest, the one whose first sector is reached first is done
    next; with 1, they are done in the order of their coming.
    """

    age_limit: str | None = None
    """What has waited for longer is done first, whatever the way to it.

    A duration such as ``"25us"``.
    """

    platters: Platters | None = None
    """The platters, and how they are divided."""

    arm: Arm | None = None
    """The arm."""

    buffer: DiskBuffer | None = None
    """The buffer."""

    power: DiskPower | None = None
    """What it takes; without it its energy is not counted."""

    raid: Raid | None = None
    """Several of it side by side, over which data are dealt in stripes (RAID-0)."""


@dataclass(frozen=True, kw_only=True)
class Haste(_Spec):
    """Memory behind controllers on a token ring, reached through a few buffers by DMA."""

    capacity: str | None = None
    """Capacity. A size such as ``"64GiB"``."""

    page: str | None = None
    """Bytes that a controller reads or writes as one, and that a buffer holds: a power of two.

    A size such as ``"64GiB"``.
    """

    queue_depth: int | None = None
    """Requests in flight at most, which are taken in order."""

    scheduler_latency: str | None = None
    """Time of the scheduler and of the buffers, for each page. A duration such as ``"25us"``."""

    buffers: int | None = None
    """DMA buffers: pages that are between host and ring at most."""

    nodes: int | None = None
    """Nodes of the ring; the first has link and buffers, and controllers are spread over all."""

    ring_bandwidth: str | None = None
    """Bandwidth of the ring, which sends one page at a time. A bandwidth such as ``"16GB/s"``."""

    ring_latency: str | None = None
    """Time once around the ring. A duration such as ``"25us"``."""

    controllers: int | None = None
    """Memory controllers; pages are dealt to them in turn."""

    controller_bandwidth: str | None = None
    """Bandwidth of the memory of one controller. A bandwidth such as ``"16GB/s"``."""

    read_latency: str | None = None
    """Time until a row gives data: of the emulated memory between row and column access, once a
    page.

    A duration such as ``"25us"``.
    """

    write_latency: str | None = None
    """Time after a write until the controller can go on: the precharge of the emulated memory, once
    a page.

    A duration such as ``"25us"``.
    """


@dataclass(frozen=True, kw_only=True)
class NvmArray(_Spec):
    """The cells and their controller: channels of banks, row buffers, write pulses, and queues."""

    line: str | None = None
    """Bytes read or written as one: a power of two from 64B to 4KiB. A size such as ``"64GiB"``."""

    channels: int | None = None
    """Channels, each with its own bus and queues."""

    banks: int | None = None
    """Banks of each channel."""

    row: str | None = None
    """Bytes that a read brings from the array into a row buffer: a power of two, whole lines.

    A size such as ``"64GiB"``.
    """

    row_buffers: int | None = None
    """Row buffers of each bank."""

    channel_interleave: str | None = None
    """Bytes that follow each other in a channel before the next has its turn: whole lines.

    A size such as ``"64GiB"``.
    """

    bank_interleave: str | None = None
    """Bytes that follow each other in a bank before the next of the channel has its turn: whole
    lines.

    A size such as ``"64GiB"``.
    """

    read_latency: str | None = None
    """Time to bring a row from the array into a row buffer (tRCD).

    A duration such as ``"25us"``.
    """

    column_latency: str | None = None
    """Time from a column command to its data, of reads and of writes (tCL, tCWL).

    A duration such as ``"25us"``.
    """

    write_latency: str | None = None
    """Time of the pulse that writes a line, behind its data. A duration such as ``"25us"``."""

    preemption: Literal["none", "pause", "cancel"] | None = None
    """What becomes of a pulse when a read comes for its bank, while writes are not drained.

    ``"none"``: It goes on to its end. ``"pause"``: It stops at the end of the iteration under way,
    and goes on when no read waits. ``"cancel"``: It is given up, unless much of it is done, and
    begins anew when no read waits.
    """

    write_iterations: int | None = None
    """Iterations of a pulse, after each of which it may pause, where `preemption` is `pause`."""

    cancel_below: float | None = None
    """Share of a pulse after which it is no longer given up, where `preemption` is `cancel`."""

    bus_rate: str | None = None
    """Data rate of the bus of a channel. A transfer-rate such as ``"1333MT/s"``."""

    bus_bits: int | None = None
    """Width of that bus in bits."""

    read_queue_depth: int | None = None
    """Lines that a channel's controller reads at most."""

    write_queue_depth: int | None = None
    """Lines that it writes at most."""

    write_high: int | None = None
    """When so many lines are to be written, they go ahead of reads."""

    write_low: int | None = None
    """When so few are left, reads go ahead again."""


@dataclass(frozen=True, kw_only=True)
class NvmBuffer(_Spec):
    """A buffer of whole lines of the array, which is asked for parts of them.

    Reads bring a line into it, writes are combined in it, and a line that leaves it incomplete is
    read before it is written.
    """

    capacity: str | None = None
    """What it holds: whole lines of the array. A size such as ``"64GiB"``."""

    access: str | None = None
    """What it is asked for: a power of two, less than a line of the array.

    A size such as ``"64GiB"``.
    """

    latency: str | None = None
    """Time of each look-up. A duration such as ``"25us"``."""


@dataclass(frozen=True, kw_only=True)
class NvmWear(_Spec):
    """How lines wear, and how that is levelled."""

    endurance: int | None = None
    """Writes that a cell stands."""

    gap_interval: int | None = None
    """Writes of a bank between two moves of its gap (Start-Gap); 0 for no levelling."""

    randomized: bool | None = None
    """Whether lines of a bank are dealt to their places by a fixed random order, before the gap
    moves them (randomized Start-Gap).

    Neighbours then lie in different rows.
    """


@dataclass(frozen=True, kw_only=True)
class NvmEnergy(_Spec):
    """What operations take, for each bit, and what the whole memory takes when nothing is done."""

    array_read: str | None = None
    """Of each bit of a row that is read from the array. An energy such as ``"2.47pJ"``."""

    array_write: str | None = None
    """Of each bit of a line that is written to the array. An energy such as ``"2.47pJ"``."""

    buffer_read: str | None = None
    """Of each bit of a line that is read from a row buffer. An energy such as ``"2.47pJ"``."""

    buffer_write: str | None = None
    """Of each bit of a line that is written to a row buffer. An energy such as ``"2.47pJ"``."""

    standby: str | None = None
    """Of all channels, when nothing is done. A power such as ``"25W"``."""


@dataclass(frozen=True, kw_only=True)
class Nvm(_Spec):
    """Byte-addressable non-volatile memory: cells, their controller, and what combines writes."""

    capacity: str | None = None
    """Capacity. A size such as ``"64GiB"``."""

    controller_latency: str | None = None
    """Time of the controller for each access. A duration such as ``"25us"``."""

    queue_depth: int | None = None
    """Accesses that it holds at most."""

    array: NvmArray | None = None
    """The cells, and the queues before them."""

    buffer: NvmBuffer | None = None
    """What combines writes before the cells, where something does."""

    wear: NvmWear | None = None
    """How lines wear."""

    energy: NvmEnergy | None = None
    """What operations take, where that is known."""

    raid: Raid | None = None
    """Several such modules side by side, over which data are dealt in stripes (interleaving)."""


@dataclass(frozen=True, kw_only=True)
class Ramdisk(_Spec):
    """Memory of the host as a block device."""

    capacity: str | None = None
    """Capacity, of DRAM beside main memory. A size such as ``"64GiB"``."""

    page: str | None = None
    """Bytes that it is asked for as one: a power of two. A size such as ``"64GiB"``."""

    read_latency: str | None = None
    """Latency of the memory that it stands for, in reading. A duration such as ``"25us"``."""

    write_latency: str | None = None
    """The same in writing. A duration such as ``"25us"``."""

    dram_latency: str | None = None
    """What of either DRAM takes by itself; a line takes the rest longer.

    A duration such as ``"25us"``.
    """

    delays: Literal["memory", "driver"] | None = None
    """Who waits for that.

    ``"memory"``: Memory: lines that on-chip caches do not have, as many at once as a core has
    misses under way. ``"driver"``: The driver: each line that it copies, one after the other,
    whether caches have it or not.
    """

    lines: int | None = None
    """Lines of it that are read and written at once; more push back."""


@dataclass(frozen=True, kw_only=True)
class LinkEnergy(_Spec):
    """What both ends of a link take."""

    per_bit: str | None = None
    """For each bit that the link moves, in either direction: of data, and of all that packets,
    frames and protocol have around them; before encoding.

    An energy such as ``"2.47pJ"``.
    """

    idle_power: str | None = None
    """As long as the machine runs, whatever is moved: the power of the link while it is idle.

    A power such as ``"25W"``.
    """


@dataclass(frozen=True, kw_only=True)
class Link(_Spec):
    """A link: bandwidth is a resource in time, each direction its own."""

    bandwidth: str | None = None
    """Bandwidth of each direction, encoding already taken off. A bandwidth such as ``"16GB/s"``."""

    payload: str | None = None
    """Bytes of payload in each packet at most. A size such as ``"64GiB"``."""

    packet_overhead: str | None = None
    """Bytes that each packet adds. A size such as ``"64GiB"``."""

    latency: str | None = None
    """Time from one end to the other (root complex, switches), added to each transfer.

    A duration such as ``"25us"``.
    """

    energy: LinkEnergy | None = None
    """What it takes; not counted, where it is not said."""


@dataclass(frozen=True, kw_only=True)
class NvmePriorities(_Spec):
    """Weighted round robin with urgent priority."""

    reads: Literal["urgent", "high", "medium", "low"] | None = None
    """The class of reads that somebody waits for.

    ``"urgent"``: Before all others. ``"high"``: By its weight. ``"medium"``: By its weight.
    ``"low"``: By its weight.
    """

    writes: Literal["urgent", "high", "medium", "low"] | None = None
    """The class of writes that somebody waits for, of flushes and of trims.

    ``"urgent"``: Before all others. ``"high"``: By its weight. ``"medium"``: By its weight.
    ``"low"``: By its weight.
    """

    background: Literal["urgent", "high", "medium", "low"] | None = None
    """The class of what nobody waits for.

    ``"urgent"``: Before all others. ``"high"``: By its weight. ``"medium"``: By its weight.
    ``"low"``: By its weight.
    """

    high_weight: int | None = None
    """Commands of the class `high` in a round, 1 to 256."""

    medium_weight: int | None = None
    """Commands of the class `medium` in a round, 1 to 256."""

    low_weight: int | None = None
    """Commands of the class `low` in a round, 1 to 256."""


@dataclass(frozen=True, kw_only=True)
class NvmeCoalescing(_Spec):
    """Interrupts held back until several completions are told of at once."""

    threshold: int | None = None
    """Completions of a vector with which it interrupts: 2 to 256."""

    time: str | None = None
    """Time from the first of them after which it interrupts in any case: up to 25.5ms, in steps of
    100us.

    A duration such as ``"25us"``.
    """


@dataclass(frozen=True, kw_only=True)
class Nvme(_Spec):
    """Queues of NVM Express.

    Without them, each command is fetched as soon as the device is told of it, its data lie in one
    place of the host's memory, and each completion interrupts.
    """

    queues: int | None = None
    """Submission queues of each class that requests are of, to which they are dealt in turn."""

    entries: int | None = None
    """Entries of each queue, 2 to 65536. One stays empty."""

    burst: int | None = None
    """Commands that are fetched from a queue before the next has its turn: a power of two, up to
    64.
    """

    fetches: int | None = None
    """Reads of submission queues that the device has under way at once, 1 to 16384; each is for as
    many commands as wait, up to a burst.
    """

    memory_page: str | None = None
    """A page of the host's memory: a list of pages is fetched for a command whose data lie in more
    than two.

    A power of two from 4KiB to 128MiB. A size such as ``"64GiB"``.
    """

    vectors: int | None = None
    """Interrupts (MSI-X vectors), which queues have in turn, 1 to 2048; what is completed with the
    same one is held back together.
    """

    priorities: NvmePriorities | None = None
    """Weighted round robin with urgent priority; without it queues have their turns alike."""

    coalescing: NvmeCoalescing | None = None
    """Interrupts held back until several completions are told of at once."""


@dataclass(frozen=True, kw_only=True)
class Pcie(_Spec):
    """PCI Express: two directions, each of its own, of so many lanes."""

    generation: int | None = None
    """Generation: 1 to 6, for 2.5, 5, 8, 16, 32 or 64 GT/s a lane."""

    lanes: int | None = None
    """Lanes: 1, 2, 4, 8 or 16."""

    max_payload: str | None = None
    """Bytes that a write carries at most: a power of two from 128B to 4KiB.

    A size such as ``"64GiB"``.
    """

    max_read_request: str | None = None
    """Bytes that a read asks for at most: a power of two from 128B to 4KiB.

    A size such as ``"64GiB"``.
    """

    read_completion: str | None = None
    """Bytes of each completion of a read: a multiple of 64B, up to the payload.

    Root complexes that answer line by line send 64B (the read completion boundary). A size such as
    ``"64GiB"``.
    """

    protocol: Literal["nvme", "memory", "registers"] | None = None
    """What drives the device.

    ``"nvme"``: NVM Express: a doorbell; the device fetches the command and moves the data by
    itself, writes a completion entry, and interrupts. ``"memory"``: Reads and writes of the
    device's memory: a request and its completions, or posted writes. ``"registers"``: Registers:
    the driver writes a request into them; the device moves the data by itself and interrupts; the
    driver reads from a register which request is done (HASTE, [NVM10] §III-A).
    """

    latency: str | None = None
    """Time from one end to the other, added to each message. A duration such as ``"25us"``."""

    root_complex_latency: str | None = None
    """Time of the root complex: until it answers a read of the device from memory, or sends on a
    read of the host.

    A duration such as ``"25us"``.
    """

    nvme: Nvme | None = None
    """Queues of NVM Express, their arbitration and interrupts."""

    energy: LinkEnergy | None = None
    """What it takes; not counted, where it is not said."""


@dataclass(frozen=True, kw_only=True)
class Sata(_Spec):
    """Serial ATA: one frame at a time, in either direction."""

    generation: int | None = None
    """Generation: 1, 2 or 3, for 1.5, 3 or 6 Gbit/s."""

    adapter_latency: str | None = None
    """Time of the host adapter for each command: its register is written, and it fetches command
    header, command table and the list of where the data lie.

    A duration such as ``"25us"``.
    """

    handshake: str | None = None
    """Time that each frame takes the link beyond its own bytes: both ends agree before it (X_RDY,
    R_RDY), and the receiver answers after it (WTRM, R_OK).

    A duration such as ``"25us"``.
    """

    latency: str | None = None
    """Time from one end to the other, added to each frame. A duration such as ``"25us"``."""

    energy: LinkEnergy | None = None
    """What it takes; not counted, where it is not said."""


@dataclass(frozen=True, kw_only=True)
class CxlMem(_Spec):
    """CXL.mem on PCI Express: two directions, each of its own, in flits of 68 bytes."""

    generation: int | None = None
    """Generation of PCI Express below: 3, 4 or 5, for 8, 16 or 32 GT/s a lane."""

    lanes: int | None = None
    """Lanes: 1, 2, 4, 8 or 16."""

    latency: str | None = None
    """Time from one end to the other, through the ports of both, added to each message.

    A duration such as ``"25us"``.
    """

    energy: LinkEnergy | None = None
    """What it takes; not counted, where it is not said."""


@dataclass(frozen=True, kw_only=True)
class DdrChannel(_Spec):
    """A channel of DRAM that a device shares."""

    channel: int | None = None
    """The channel of the DRAM, from 0."""

    data_rate: str | None = None
    """Data rate: at most that of the DRAM.

    A device may be slower, and holds the bus the longer. A transfer-rate such as ``"1333MT/s"``.
    """

    bus_bits: int | None = None
    """Width in bits of the data bus that the device drives: at most that of the DRAM."""

    hand_over: str | None = None
    """Time in which nobody drives the bus each time that it is handed over, from modules to device
    or back: the other is deselected, and drivers and termination turn (as tRTRS between ranks).

    A duration such as ``"25us"``.
    """

    lock_latency: str | None = None
    """Time of the controller to set the lock register before data of the device, and of the device
    to clear it: the bus is held meanwhile.

    A duration such as ``"25us"``.
    """

    energy: LinkEnergy | None = None
    """What it takes; not counted, where it is not said."""


@dataclass(frozen=True, kw_only=True)
class RefreshWindow(_Spec):
    """Windows of time, after refreshes, in which a device on the module reaches its DRAM."""

    channel: int | None = None
    """The channel of the DRAM whose first rank is the module's, counted from 0."""

    chips: str | None = None
    """What the chips need of each tRFC; the device has the rest. A duration such as ``"25us"``."""

    bandwidth: str | None = None
    """Bandwidth of the device in a window. A bandwidth such as ``"16GB/s"``."""

    latency: str | None = None
    """Time from one end to the other, added to each message. A duration such as ``"25us"``."""


@dataclass(frozen=True, kw_only=True)
class DeviceAlone(_Spec):
    """`device`: a memory alone."""

    capacity: str | None = None
    """Its capacity. A request beyond it is an error. A size such as ``"64GiB"``."""

    line: str | None = None
    """What a request moves: the line that holds its address. A size such as ``"64GiB"``."""


@dataclass(frozen=True, kw_only=True)
class BlockDevice(_Spec):
    """`block-device`: a store alone."""

    host_queue_depth: int | None = None
    """Requests that the host has under way at the device at once (NCQ tags, NVMe queue)."""


@dataclass(frozen=True, kw_only=True)
class Oracle(_Spec):
    """`oracle`: all in DRAM, however large."""

    capacity: str | None = None
    """Main memory. A workload that needs more is an error. A size such as ``"64GiB"``."""


@dataclass(frozen=True, kw_only=True)
class Direct(_Spec):
    """`direct`: main memory is the store."""

    host_queue_depth: int | None = None
    """Lines that the processor's memory controller has under way at once.

    What concerns a line that is being written waits for it there.
    """


@dataclass(frozen=True, kw_only=True)
class TagCache(_Spec):
    """A cache of tags that lie in DRAM, LRU and written back (Meza et al., IEEE CAL 2012)."""

    capacity: str | None = None
    """Capacity.

    Its lines are those of the on-chip caches, or a set's tags where these are larger. A size such
    as ``"64GiB"``.
    """

    ways: int | None = None
    """Associativity, 1 to 64."""


@dataclass(frozen=True, kw_only=True)
class DramCache(_Spec):
    """DRAM as a set-associative cache of pages."""

    capacity: str | None = None
    """Capacity, of the data alone. A size such as ``"64GiB"``."""

    ways: int | None = None
    """Associativity, 1 to 64."""

    page: str | None = None
    """Page: the unit of tags, and of fills where it has no sectors. A size such as ``"64GiB"``."""

    sector: str | None = None
    """Sector: the part of a page that comes and goes back by itself, a 64th of the page or more.

    Without it, pages come and go as a whole. A size such as ``"64GiB"``.
    """

    replacement: (
        Literal[
            "lru", "fifo", "random", "not-most-recent", "plru", "clock", "srrip", "brrip", "drrip"
        ]
        | None
    ) = None
    """Which page of a set goes for a new one.

    ``"lru"``: Least recently used, exactly. ``"fifo"``: First in, first out: a hit changes nothing.
    ``"random"``: Any way with equal chance, from a seed. ``"not-most-recent"``: Any way but the one
    used last, from a seed. ``"plru"``: Pseudo-LRU: a binary tree over the ways. ``"clock"``: A hand
    that passes what was used since it last came by. ``"srrip"``: Static prediction of re-reference
    (RRIP). ``"brrip"``: Bimodal prediction of re-reference: keeps a part of what is too large.
    ``"drrip"``: SRRIP or BRRIP, whichever misses less in sets that always follow one.
    """

    tags: Literal["sram", "with-data", "tad", "dram"] | None = None
    """Where the tags are.

    ``"sram"``: In SRAM beside the controller. ``"with-data"``: With the data, in the bits for error
    correction: tag and data come in one DRAM access, of the bytes of the data. Direct-mapped caches
    only. ``"tad"``: In front of each line of 64 bytes, eight bytes of the row that has the line
    (TAD, of an Alloy cache: Qureshi & Loh, MICRO 2012): tag and data come in one DRAM access, of
    one burst more. Direct-mapped caches of such lines only; `dram.mapping` ends in the column.
    ``"dram"``: In DRAM behind the data, those of a set together, with a tag cache on chip: a
    look-up that does not find them there reads them from DRAM first.
    """

    miss_predictor: Literal["none", "global", "region", "perfect"] | None = None
    """How misses are guessed, where tags are with the data; the store is asked beside DRAM where
    one is expected (Qureshi & Loh, MICRO 2012).

    ``"none"``: They are not: the store is asked once the tag has come. ``"global"``: By one counter
    of three bits for each core, which a miss raises and a hit lowers (MAP-G). ``"region"``: By 256
    such counters, each of some regions of 4 KiB. MAP-I has one for each instruction, which no
    memory controller is told; this needs the address alone (our reading). ``"perfect"``: Every
    guess is right: a bound that nobody can build.
    """

    fill: Literal["misses", "reads", "writes", "victims"] | None = None
    """Which requests bring what they miss into DRAM.

    All but `misses` are of sectors, or pages without them, of a line of the on-chip caches.
    ``"misses"``: All: reads, and writes, for which the rest of the sector is read (fetch on write:
    Jouppi, "Cache write policies and performance", ISCA 1993). ``"reads"``: Reads: a line that is
    written and missed goes to the store around the cache (write-around, there). ``"writes"``:
    Writes, which are the dirty lines that on-chip caches give up, without being read
    (write-validate, there); reads that miss go past the cache. ``"victims"``: All lines that the
    last on-chip cache gives up, clean ones too, and no others: the cache is a victim cache of that
    one (Jouppi, ISCA 1990; Hammarlund et al., IEEE Micro 2014, of such a cache in DRAM).
    """

    tag_latency: str | None = None
    """Time of a look-up in a tag store of SRAM, or in the tag cache; nothing where tags are with
    the data.

    A duration such as ``"25us"``.
    """

    tag_cache: TagCache | None = None
    """The tags that are kept on chip where all lie in DRAM."""

    initial: Literal["empty", "prefilled"] | None = None
    """What the cache holds at the start.

    ``"empty"``: Nothing: every frame is invalid. ``"prefilled"``: Unrelated clean pages in every
    frame.
    """


@dataclass(frozen=True, kw_only=True)
class Hybrid(_Spec):
    """`hybrid`: hardware manages DRAM as a cache of the store ([HYB15] §2.2)."""

    cache: DramCache | None = None
    """The DRAM cache."""

    controller_latency: str | None = None
    """Time of the controller for each request, tag look-up not included.

    A duration such as ``"25us"``.
    """

    queue_depth: int | None = None
    """Requests that the controller holds at most."""

    fills: int | None = None
    """Pages in flight from the store at most, demand and prefetch."""

    write_back_buffer_pages: int | None = None
    """Dirty victims that wait for the store at most. When it is full, misses wait."""

    prefetcher: Literal["sequential", "streams", "stride", "best-offset"] | None = None
    """What is prefetched.

    ``"sequential"``: The pages behind each demand miss ([HYB15] §2.4). ``"streams"``: Pages behind
    the misses of several streams, and one more with each that is used (Jouppi, ISCA 1990).
    ``"stride"``: Pages at the distance that was seen twice, of several streams (minimum delta:
    Palacharla & Kessler, ISCA 1994). ``"best-offset"``: The page at the offset that would have been
    in time most often (Michaud, HPCA 2016).
    """

    prefetch_pages: int | None = None
    """Pages, or sectors, that prefetching goes ahead; 0 for none.

    `best-offset` brings one at a time, however many this says.
    """

    prefetch_streams: int | None = None
    """Streams that `streams` and `stride` follow at most."""

    eager_write_back: bool | None = None
    """Whether the page that would go next is written back ahead of need where it is dirty: when a
    page has come into its set, and the write-back buffer is at most half full.
    """

    critical_line_first: bool | None = None
    """Whether the requested line goes ahead of the rest of its page."""

    flush_at_sync: bool | None = None
    """Whether a sync of a file (fsync, fdatasync, msync, sync) has the whole cache flushed, and
    waits until the store has it, where the cache does not save itself.

    Without it such a call takes its path through the kernel only, as one on tmpfs does
    (`noop_fsync`, fs/libfs.c).
    """


@dataclass(frozen=True, kw_only=True)
class Hams(_Spec):
    """`hams`: hardware joins an NVDIMM and a drive into one persistent memory ([HAMS21])."""

    coupling: Literal["loose", "tight"] | None = None
    """How the drive is connected.

    ``"loose"``: Behind a link of its own, with a memory of its own ([HAMS21] §IV-B). ``"tight"``:
    On the NVDIMM's channel, without a memory of its own: commands go into its registers, and its
    table of pages lies in the NVDIMM ([HAMS21] §IV-C).
    """

    mode: Literal["persist", "extend"] | None = None
    """What a command may rely on when power fails.

    ``"persist"``: Every command carries force unit access, and one is under way at a time.
    ``"extend"``: Commands are under way together, each with a journal tag until it is complete.
    """

    capacity: str | None = None
    """The NVDIMM: the cache, the pinned region behind it, and the drive's table where that lies
    there.

    A size such as ``"64GiB"``.
    """

    page: str | None = None
    """Page: the unit of tags, of fills and of evictions.

    A power of two from 4 KiB to 1 MiB. A size such as ``"64GiB"``.
    """

    pinned: str | None = None
    """The pinned region: queues, PRP pool, interrupts, wait queue.

    A whole number of pages. A size such as ``"64GiB"``.
    """

    queue_entries: int | None = None
    """Entries of the submission queue, and of the completion queue; one stays free."""

    prp_slots: int | None = None
    """Slots of the PRP pool, each of which holds the clone of a page."""

    wait_entries: int | None = None
    """Requests that may wait for a busy entry."""

    controller_latency: str | None = None
    """Time of the address manager for each request. A duration such as ``"25us"``."""

    queue_depth: int | None = None
    """Requests that the address manager holds at most."""

    tag_before_write: bool | None = None
    """Whether a write reads the tag first even where its page is there."""

    initial: Literal["empty", "prefilled"] | None = None
    """What the cache holds at the start.

    ``"empty"``: Nothing: every frame is invalid. ``"prefilled"``: Unrelated clean pages in every
    frame.
    """


@dataclass(frozen=True, kw_only=True)
class LongReads(_Spec):
    """Reads that the device tells to take long (SkyByte's coordinated context switch)."""

    above: str | None = None
    """The wait for flash, as the device estimates it, above which a read takes long.

    A duration such as ``"25us"``.
    """

    latency: str | None = None
    """Time from the request of a line to when its host knows: the protocol both ways, and the
    device's look-up.

    A duration such as ``"25us"``.
    """


@dataclass(frozen=True, kw_only=True)
class Promotion(_Spec):
    """Promotion of pages by their number of accesses (FlatFlash's adaptive threshold)."""

    capacity: str | None = None
    """DRAM that holds promoted pages. A size such as ``"64GiB"``."""

    ways: int | None = None
    """Frames of DRAM among which the page that was used least recently leaves for another, 1 to 64.
    """

    page: str | None = None
    """Page that is promoted: up to 64 lines, whole pages of the operating system.

    A size such as ``"64GiB"``.
    """

    most_threshold: int | None = None
    """Accesses after which a page is promoted, at first and at most."""

    low_ratio: float | None = None
    """Share of accesses, those that promoted pages had had, up to which the threshold rises."""

    high_ratio: float | None = None
    """The share from which each promotion lowers it."""

    epoch: int | None = None
    """Accesses to the store after which the threshold and the share begin anew."""

    counted_pages: int | None = None
    """Pages of the store whose accesses are counted, those that were used last: up to 64, or a
    multiple.
    """

    lookaside_entries: int | None = None
    """Pages on their way to DRAM at once."""

    mapping_latency: str | None = None
    """Time to change a page's entry in the page table and in the TLBs.

    A duration such as ``"25us"``.
    """


@dataclass(frozen=True, kw_only=True)
class Tiered(_Spec):
    """`tiered`: main memory is the store, line by line; pages of it may be promoted to DRAM."""

    host_queue_depth: int | None = None
    """Lines that the host has under way at once, in the store and in DRAM."""

    read_latency: str | None = None
    """Time of the host for each line that it reads from the store, besides link and store.

    A duration such as ``"25us"``.
    """

    write_latency: str | None = None
    """The same for each line that it writes. A duration such as ``"25us"``."""

    long_reads: LongReads | None = None
    """Reads that the device tells to take long, so that a core switches to another thread; without
    it the core waits.
    """

    promotion: Promotion | None = None
    """How pages are promoted to DRAM; without it there is no DRAM."""


@dataclass(frozen=True, kw_only=True)
class Balancing(_Spec):
    """How the kernel moves pages between DRAM and the slower memory.

    Pages of the slower memory have their entries taken away now and then, so that the next access
    to each faults. How long that takes says how hot the page is. A page that is hot moves to DRAM;
    where DRAM is full, the kernel's thread for reclaim makes room by moving pages to the slower
    memory that have not been used of late.
    """

    scan_delay: str | None = None
    """Time until the first scan (`scan_delay_ms`). A duration such as ``"25us"``."""

    scan_period: str | None = None
    """Time between two scans of memory of no more than `scan_size`; of more the shorter, so that
    all of it is looked at in this time (`scan_period_min_ms`).

    A duration such as ``"25us"``.
    """

    scan_size: str | None = None
    """Memory whose entries a scan looks at (`scan_size_mb`). A size such as ``"64GiB"``."""

    scan_limit: str | None = None
    """What scans look at in a second, at most (`MAX_SCAN_WINDOW`).

    A bandwidth such as ``"16GB/s"``.
    """

    hot_threshold: str | None = None
    """A page is hot if it is accessed sooner than this after its entry was taken away; adapted to
    the rate of candidates, between an eighth and twice of it (`hot_threshold_ms`).

    A duration such as ``"25us"``.
    """

    threshold_period: str | None = None
    """Time after which the threshold is adapted (`scan_period_max_ms`).

    A duration such as ``"25us"``.
    """

    promote_rate_limit: str | None = None
    """Pages that become candidates in a second, in bytes, after which none is moved to DRAM until
    the second is over (`numa_balancing_promote_rate_limit_MBps`).

    A bandwidth such as ``"16GB/s"``.
    """

    free_enough: str | None = None
    """DRAM that is free beyond its watermarks, or a sixteenth of it if that is more, from which on
    each page that is accessed moves there, however hot (`pgdat_free_space_enough`).

    A size such as ``"64GiB"``.
    """

    demotion: bool | None = None
    """Pages that have not been used of late are moved out of DRAM where it gets full
    (`demotion_enabled`).
    """

    watermark_scale: float | None = None
    """Share of DRAM between two of its watermarks, if that is more than a quarter of the lowest
    (`watermark_scale_factor`).
    """

    scan_entry: Path | None = None
    """What looking at a page's entry costs."""

    migrate: Path | None = None
    """What moving a page costs whoever moves it, besides copying it."""

    shootdown: Path | None = None
    """What telling all cores to forget translations costs the one that tells."""

    shootdown_interrupt: Path | None = None
    """What it costs each of the others that runs a thread."""


@dataclass(frozen=True, kw_only=True)
class Tiering(_Spec):
    """`tiering`: DRAM and the store are two nodes of main memory; the kernel may move pages."""

    capacity: str | None = None
    """DRAM, the first node: memory is it and the store together. A size such as ``"64GiB"``."""

    host_queue_depth: int | None = None
    """Lines that the host has under way at once in the store."""

    read_latency: str | None = None
    """Time of the host for each line that it reads from the store, besides link and store.

    A duration such as ``"25us"``.
    """

    write_latency: str | None = None
    """The same for each line that it writes. A duration such as ``"25us"``."""

    copy_lines: int | None = None
    """Lines of a page that the kernel's thread for reclaim has under way at once while it moves the
    page to the store.
    """

    balancing: Balancing | None = None
    """How the kernel moves pages between the two; without it each stays where it came first."""


@dataclass(frozen=True, kw_only=True)
class BufferCache(_Spec):
    """A second level of the page cache, in flash on the memory bus ([EBC11])."""

    capacity: str | None = None
    """What it holds; 0 for none, which is the unmodified kernel. A size such as ``"64GiB"``."""

    ways: int | None = None
    """Pages of a set."""

    replacement: (
        Literal[
            "lru", "fifo", "random", "not-most-recent", "plru", "clock", "srrip", "brrip", "drrip"
        ]
        | None
    ) = None
    """Which page of a set goes when another comes.

    ``"lru"``: Least recently used, exactly. ``"fifo"``: First in, first out: a hit changes nothing.
    ``"random"``: Any way with equal chance, from a seed. ``"not-most-recent"``: Any way but the one
    used last, from a seed. ``"plru"``: Pseudo-LRU: a binary tree over the ways. ``"clock"``: A hand
    that passes what was used since it last came by. ``"srrip"``: Static prediction of re-reference
    (RRIP). ``"brrip"``: Bimodal prediction of re-reference: keeps a part of what is too large.
    ``"drrip"``: SRRIP or BRRIP, whichever misses less in sets that always follow one.
    """

    read_slowdown: float | None = None
    """Time to read a page, as a multiple of what the DRAM takes to move as much at its peak rate.
    """

    program_slowdown: float | None = None
    """Time to program a page, as a multiple of the same."""

    read_time: str | None = None
    """Time to read a page, in place of what `read_slowdown` says. A duration such as ``"25us"``."""

    program_time: str | None = None
    """Time to program a page, in place of what `program_slowdown` says.

    A duration such as ``"25us"``.
    """

    on_hit: Literal["move", "copy"] | None = None
    """What becomes of a page that is found.

    ``"move"``: It leaves for the page cache. ``"copy"``: It stays, too, as in the L2ARC of ZFS: if
    it is not written it need not be programmed again.
    """

    insertion: Literal["synchronous", "asynchronous"] | None = None
    """Who waits while a page is programmed.

    ``"synchronous"``: Whoever evicts it from the page cache. ``"asynchronous"``: Nobody: pages are
    programmed one after the other, from a queue.
    """

    queue_pages: int | None = None
    """Pages that may wait to be programmed, where nobody waits for them; others do not enter."""

    readahead: Literal["ignore", "consult"] | None = None
    """Whether readahead asks what is held.

    ``"ignore"``: It reads them from the store, as it does not know. ``"consult"``: It passes over
    them.
    """


@dataclass(frozen=True, kw_only=True)
class FileSystem(_Spec):
    """A file system with a journal."""

    kind: Literal["ext4", "ext3", "xfs"] | None = None
    """Which it is.

    ``"ext4"``: Blocks are allocated when they are written back, in extents. ``"ext3"``: Blocks are
    allocated when a call writes them, one by one; a commit writes the data of all files that it
    concerns. ``"xfs"``: Blocks are allocated when they are written back, in extents and ahead of
    the file's end, and are the file's once they are written; the log has changes of metadata, not
    blocks.
    """

    journal: Literal["ordered", "writeback", "data"] | None = None
    """What the journal orders.

    ``"ordered"``: New blocks of files are written before the transaction commits that has them in
    their files. ``"writeback"``: Data and metadata have no order. ``"data"``: Data go through the
    log as metadata do, and to their places when that has been committed.
    """

    commit_interval: str | None = None
    """How long a transaction takes up changes before it is committed; 0 for until it is asked for.

    A duration such as ``"25us"``.
    """

    journal_capacity: str | None = None
    """Size of the journal, a ring. A size such as ``"64GiB"``."""

    barrier: Literal["force-unit-access", "flush", "none"] | None = None
    """How a commit makes sure of its order in a drive that buffers writes.

    ``"force-unit-access"``: A flush, and a commit record with force unit access. ``"flush"``: A
    flush before and one behind the commit record: of drives without force unit access. ``"none"``:
    Not at all.
    """

    timestamp_interval: str | None = None
    """Time between two changes of the kernel's time stamps: a file that is written again within it
    is not changed but for its data.

    A duration such as ``"25us"``.
    """

    discard: bool | None = None
    """Whether the drive is told what a commit has freed (mount option `discard`, TRIM)."""


@dataclass(frozen=True, kw_only=True)
class Tmpfs(_Spec):
    """A file system whose files are in memory and swap."""

    capacity: str | None = None
    """What its files may hold (mount option `size`). A size such as ``"64GiB"``."""


@dataclass(frozen=True, kw_only=True)
class Driver(_Spec):
    """The driver of the store."""

    completion: Literal["interrupt", "polling", "hybrid"] | None = None
    """How a thread learns that what it waits for is done.

    ``"interrupt"``: By an interrupt: another thread runs meanwhile. ``"polling"``: It asks the
    device until its own requests are done, and keeps its hardware thread. What other threads, or
    the kernel's own, have handed over is told by an interrupt. ``"hybrid"``: It sleeps for half of
    the time that requests of the same size and direction took on average in the last 100 ms in
    which somebody polled, while another thread runs, and polls then (`blk_mq_poll_hybrid`,
    block/blk-mq.c, Linux 4.10 to 6.3).
    """

    interrupts: Literal["submitter", "queue", "one"] | None = None
    """Which hardware thread the device interrupts.

    ``"submitter"``: The one that has handed the request over: the device has a vector for each.
    ``"queue"``: The first of those that use the same queue of the device
    (`storage.block_layer.hardware_queues`), each of which has a vector. ``"one"``: The same always:
    the device has one vector.
    """

    interrupt_thread: int | None = None
    """The hardware thread that takes all interrupts, where `interrupts` is "one": a number from 0
    on, those of a core behind each other.

    By default 0.
    """

    rq_affinity: Literal["off", "group", "core"] | None = None
    """Whether a completion that has come to another hardware thread is passed on to the one that
    asked, by an interrupt between the two (`os.paths.completion_interrupt`).

    ``"off"``: Where the interrupt comes (`rq_affinity` of 0). ``"group"``: There where it shares a
    cache with the hardware thread that asked, else at that (1, the default since 2.6.32).
    ``"core"``: At the hardware thread that asked (2).
    """

    lock: str | None = None
    """How long a lock that all share is held for each request that is handed over; 0 where there is
    none.

    A duration such as ``"25us"``.
    """

    poll: Path | None = None
    """What it costs to find a request done by polling, and to complete it, in place of an
    interrupt; by default 500 instructions and 8 lines, an assumption.
    """


@dataclass(frozen=True, kw_only=True)
class Deadline(_Spec):
    """What the deadline scheduler is set to (/sys/block/…/queue/iosched); by default as Linux."""

    read_expire: str | None = None
    """After which time a read goes before others (`read_expire`, 500 ms).

    A duration such as ``"25us"``.
    """

    write_expire: str | None = None
    """After which time a write does (`write_expire`, 5 s). A duration such as ``"25us"``."""

    writes_starved: int | None = None
    """How often reads go before writes that wait (`writes_starved`, 2 batches)."""

    fifo_batch: int | None = None
    """Requests that go in one direction before deadlines are looked at again (`fifo_batch`, 16)."""

    front_merges: bool | None = None
    """Whether a page may join in front of a request (`front_merges`)."""


@dataclass(frozen=True, kw_only=True)
class Cfq(_Spec):
    """What CFQ is set to (/sys/block/…/queue/iosched); by default as Linux."""

    slice_sync: str | None = None
    """How long a thread has the device (`slice_sync`, 100 ms). A duration such as ``"25us"``."""

    slice_async: str | None = None
    """How long writes in the background have it (`slice_async`, 40 ms).

    A duration such as ``"25us"``.
    """

    slice_idle: str | None = None
    """How long a disk is left idle for the next request of a thread whose slice it is
    (`slice_idle`, 8 ms; 2 ms at most of one that seeks far); not for a device that does not rotate.

    A duration such as ``"25us"``.
    """

    quantum: int | None = None
    """Requests of a queue that the device has at most, while other queues wait (`quantum`, 8; 4
    before 2.6.33).
    """

    fifo_expire_sync: str | None = None
    """After which time the oldest of a thread goes first in its slice (`fifo_expire_sync`, 125 ms).

    A duration such as ``"25us"``.
    """

    fifo_expire_async: str | None = None
    """The same of writes in the background (`fifo_expire_async`, 250 ms).

    A duration such as ``"25us"``.
    """

    back_seek_max: str | None = None
    """How far back the head may go to the next request (`back_seek_max`, 16 MiB).

    A size such as ``"64GiB"``.
    """

    back_seek_penalty: int | None = None
    """A way back is so many times as long (`back_seek_penalty`, 2)."""


@dataclass(frozen=True, kw_only=True)
class BlockLayer(_Spec):
    """The block layer of the kernel."""

    scheduler: Literal["none", "noop", "mq-deadline", "cfq"] | None = None
    """In which order requests go that wait for the device.

    ``"none"``: In order of arrival; of those that wait the last eight are looked at for merges
    (`none`, block/blk-mq-sched.c). ``"noop"``: In order of arrival; all that wait may be merged
    with (`noop` of the older kernels, block/noop-iosched.c). ``"mq-deadline"``: By address in one
    direction, in batches, none later than its deadline as long as the device keeps up; reads before
    writes (block/mq-deadline.c, and block/deadline-iosched.c before). ``"cfq"``: Each thread in
    turn has the device for a slice, by address; what is written in the background shares one
    (block/cfq-iosched.c, Linux 2.6.18 to 4.20).
    """

    merges: bool | None = None
    """Whether what lies side by side becomes one request; where not, pages of several bios stay
    apart (`nomerges`).
    """

    segments: int | None = None
    """Most runs of adjacent frames in a request: entries of the device's scatter-gather list
    (`max_segments`).

    By default 127, that of Linux's NVMe driver (`NVME_MAX_SEGS`, drivers/nvme/host/pci.c, Linux 4.x
    to 6.x).
    """

    requests: int | None = None
    """Requests that may wait in each queue; a thread that asks for more waits for room
    (`nr_requests`).

    By default 128, `BLKDEV_MAX_RQ` (include/linux/blkdev.h).
    """

    hardware_queues: int | None = None
    """Queues of the device, each with a scheduler and `host_queue_depth` commands of its own; a
    core uses the one of its number.
    """

    lock: str | None = None
    """How long the lock of a queue is held for each request that is handed over; 0 where nothing is
    serialized.

    A duration such as ``"25us"``.
    """

    deadline: Deadline | None = None
    """What the deadline scheduler is set to."""

    cfq: Cfq | None = None
    """What CFQ is set to."""


@dataclass(frozen=True, kw_only=True)
class Storage(_Spec):
    """`storage`: the operating system pages between DRAM and the store ([HYB15] §2.2)."""

    dram_capacity: str | None = None
    """Main memory. A size such as ``"64GiB"``."""

    memory_limit: str | None = None
    """What the program may have of it, with the pages of files that it uses: the limit of its
    memory control group (`memory.max`); none, where it is not said.

    A size such as ``"64GiB"``.
    """

    initial: Literal["empty", "prefilled"] | None = None
    """What DRAM holds at the start.

    ``"empty"``: Nothing: every frame is invalid. ``"prefilled"``: Unrelated clean pages in every
    frame.
    """

    readahead: str | None = None
    """Largest readahead window for files; 0 for none. A size such as ``"64GiB"``."""

    readahead_release: Literal["2.6.32", "4.9", "6.18"] | None = None
    """The release of Linux by whose rules files are read ahead, and have calls past the page cache
    side by side; where it is not said, 6.18.

    Before it no call is given more than the window, and with 2.6.32 faults in a row are read ahead
    of as calls are. ``"2.6.32"``: 2.6.32, of December 2009. ``"4.9"``: 4.9, of December 2016.
    ``"6.18"``: 6.18, of November 2025.
    """

    largest_folio: str | None = None
    """Largest folio of the page cache; a page or less where it has single pages only.

    A size such as ``"64GiB"``.
    """

    largest_request: str | None = None
    """Largest request of the block layer; a read call that asks for more than the readahead window
    gets up to this.

    A size such as ``"64GiB"``.
    """

    fault_around: str | None = None
    """Pages of a file that are mapped at once by a fault, where they are in the page cache; a page
    or less for none but its own.

    A size such as ``"64GiB"``.
    """

    swap_cluster_pages: int | None = None
    """Pages read at once from swap, a power of two (`page_cluster`); 1 for no readahead."""

    swap_readahead: Literal["fixed-cluster", "cluster", "virtual-address"] | None = None
    """Which slots are read with one that is needed.

    ``"fixed-cluster"``: All slots around its own, as many as `swap_cluster_pages` says, however few
    of them were used (`swapin_readahead`, mm/swap_state.c): Linux before 3.14. ``"cluster"``: The
    slots around its own, the more of them were used the more of them (`swap_cluster_readahead`,
    mm/swap_state.c): all of Linux from 3.14 to 4.13, and later Linux where a swap device is a disk.
    ``"virtual-address"``: The pages around it in its mapping (`swap_vma_readahead`).
    """

    swap_capacity: str | None = None
    """Size of swap, at the end of the store; where it is not said, swap takes of the store's free
    room what it needs, and a slot that is given up is the next to be used.

    A size such as ``"64GiB"``.
    """

    swap_discard: bool | None = None
    """Whether the device is told of swap that has become free (`swapon --discard=pages`, TRIM)."""

    reclaim: (
        Literal[
            "active-inactive",
            "active-inactive-4.9",
            "active-inactive-2.6.32",
            "generations",
            "lru",
            "clock",
            "fifo",
        ]
        | None
    ) = None
    """Which pages leave memory when it gets full.

    ``"active-inactive"``: As Linux without generations: active and inactive lists of files and of
    anonymous memory, refault distances, and `swappiness` (mm/vmscan.c, mm/workingset.c, as of Linux
    6.18). ``"active-inactive-4.9"``: The same as of Linux 4.9, of 2016: anonymous memory is active
    when it comes, and again as soon as it was used; of files alone it is known when they left; what
    of a kind was used again says how much the kind gives; dirty pages of files wait for the flusher
    where they are, unless nothing else is found. ``"active-inactive-2.6.32"``: The same as of Linux
    2.6.32, of 2009: nobody knows what left; whatever was used becomes active, where its file is
    mapped; what comes back from swap is inactive; reclaim writes dirty pages of files itself.
    ``"generations"``: As Linux with generations, the multi-generational LRU (CONFIG_LRU_GEN,
    mm/vmscan.c and mm/workingset.c, as of Linux 6.18): up to four of files and of anonymous memory,
    walks of page tables that find what was used, tiers by uses of file calls, refaults of each, and
    `swappiness`. ``"lru"``: The page used longest ago, whatever it is. ``"clock"``: The page that
    came longest ago, but one that was used since is passed over once. ``"fifo"``: The page that
    came longest ago.
    """

    swappiness: int | None = None
    """How readily anonymous memory leaves: 0 hardly, 100 as readily as files, 200 alone."""

    watermark_scale: float | None = None
    """Share of DRAM between one watermark of free memory and the next (`watermark_scale_factor`);
    not less than a quarter of the lowest watermark, which is that of Linux before 4.6.
    """

    dirty_ratio: float | None = None
    """Share of what is free or holds files that may be dirty file pages.

    Writers are held back from the middle between this and `dirty_background_ratio` on.
    """

    dirty_background_ratio: float | None = None
    """Share of what is free or holds files above which dirty file pages are written in the
    background.
    """

    dirty_writeback: str | None = None
    """Time between two looks for file pages that have been dirty for long, 1 us at least; 0 for
    none.

    A duration such as ``"25us"``.
    """

    dirty_expire: str | None = None
    """How long a file may have dirty pages before they are written.

    A duration such as ``"25us"``.
    """

    host_queue_depth: int | None = None
    """Page requests that the host has at the device at once (NCQ tags, NVMe queue)."""

    buffer_cache: BufferCache | None = None
    """A second level of the page cache, in flash on the memory bus; none, where it is not said."""

    file_system: FileSystem | None = None
    """The file system; none, where it is not said: then metadata costs nothing, and a sync is done
    once the data are written.
    """

    tmpfs: Tmpfs | None = None
    """A tmpfs that has all files, which then are in memory and in swap; none, where it is not said.
    """

    driver: Driver | None = None
    """The driver of the store; where it is not said, one that waits for interrupts, without a lock.
    """

    block_layer: BlockLayer | None = None
    """The block layer, which makes requests of several pages; where it is not said, each page goes
    to the store by itself, in order.
    """


@dataclass(frozen=True, kw_only=True)
class System(_Spec):
    """A machine, and how it is organized.

    It has a processor, an operating system, DRAM, a store behind a link where the organization has
    one, and exactly one organization. A device alone has neither processor nor operating system,
    and a store alone no DRAM.
    """

    name: str | None = None
    """Name in results. A file that has a base and gives no name is called as the file."""

    description: str | None = None
    """What it is, in a line."""

    seed: int | None = None
    """Seed of every random choice that the machine makes."""

    check_data: bool | None = None
    """Whether every line carries the version last written to it, so that a stale or lost read is
    found as it happens.
    """

    processor: Processor | None = None
    """Cores, on-chip caches and TLB. A device alone has none."""

    os: Os | None = None
    """The operating system. A device alone has none."""

    dram: Dram | None = None
    """DRAM behind its controllers. A store alone has none."""

    controllers: Controllers | None = None
    """Several memory controllers, each with DRAM, store and link as the tables say, over which
    memory is interleaved.

    Without it there is one.
    """

    store: Store | None = None
    """The backing store."""

    ssd: Ssd | None = None
    """Store: a solid-state drive, with translation layer, buffer and collection."""

    disk: Disk | None = None
    """Store: a disk, with platters that turn, an arm, a buffer and a queue."""

    haste: Haste | None = None
    """Store: memory behind controllers on a token ring, by DMA through a few buffers (HASTE)."""

    nvm: Nvm | None = None
    """Store: byte-addressable non-volatile memory, with banks, write pulses and wear."""

    ramdisk: Ramdisk | None = None
    """Store: memory of the host as a block device, to which the processor copies."""

    link: Link | None = None
    """What connects the store."""

    pcie: Pcie | None = None
    """Link: PCI Express, by generation, lanes and packets."""

    sata: Sata | None = None
    """Link: Serial ATA behind a host adapter."""

    cxl_mem: CxlMem | None = None
    """Link: CXL.mem, by lanes, in flits of 68 bytes."""

    ddr_channel: DdrChannel | None = None
    """Link: a channel of DRAM, which the device shares with the modules."""

    refresh_window: RefreshWindow | None = None
    """Link: windows of time in which a module refreshes, and its device has its DRAM."""

    device: DeviceAlone | None = None
    """Organization: a memory alone, which is given requests for lines."""

    block_device: BlockDevice | None = None
    """Organization: a store alone, which is given requests of any size."""

    oracle: Oracle | None = None
    """Organization: all in DRAM."""

    direct: Direct | None = None
    """Organization: main memory is the store, without DRAM."""

    hybrid: Hybrid | None = None
    """Organization: hardware manages DRAM as a cache of the store."""

    hams: Hams | None = None
    """Organization: hardware joins an NVDIMM and a drive into one persistent memory."""

    tiered: Tiered | None = None
    """Organization: main memory is the store, line by line; pages may be promoted to DRAM."""

    tiering: Tiering | None = None
    """Organization: DRAM and the store are two nodes of memory; the kernel moves pages."""

    storage: Storage | None = None
    """Organization: the operating system pages between DRAM and the store."""


ORGANIZATIONS: dict[str, type[_Spec]] = {
    "device": DeviceAlone,
    "block_device": BlockDevice,
    "oracle": Oracle,
    "direct": Direct,
    "hybrid": Hybrid,
    "hams": Hams,
    "tiered": Tiered,
    "tiering": Tiering,
    "storage": Storage,
}
