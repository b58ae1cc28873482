//! The back end: QEMU's user-mode emulation, which loads this library as a plugin.
//!
//! QEMU calls [`qemu_plugin_install`] with the job's path. From then on it reports blocks as it
//! translates them, and the code that it generates calls back for each block, access and system
//! call. Callbacks do as little as possible; whatever may fail is guarded against unwinding.

mod api;
mod death;
mod dependences;
mod flushes;
mod instruction;
mod places;
mod registers;

use crate::capture::{self, DEPENDENCE, LOAD, Recorder, STORE, Slot, guarded, slot};
use crate::exec::{self, Emulator};
use crate::family::{self, ChildSink, channel::Shared};
use crate::job::Job;
use crate::publish::{LogWriter, Urgency};
use crate::sites;
use crate::syscalls::{self, GuestMemory, Process};
use crate::{host, marker};
use api::{AccessCallback, Api, Block, BlockCallback, Info, Instruction, PluginId};
use dependences::{Access, Before, EDGE_BITS, NO_EDGE, Way};
use flushes::Place;
use instruction::{Fence, Flush, Traits};
use registers::{Registers, operand};
use serde_json::json;
use std::cell::Cell;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tierscope_workload::op::{
    FLAG_ATOMIC, FLAG_KEEP, FLAG_NON_TEMPORAL, FLAG_ORDERED, FLAG_STORES,
};
use tierscope_workload::{Call, Op, OpKind};

/// Failure of [`qemu_plugin_install`].
const FAILED: c_int = 1;

/// The version of the plugin interface that this library is for: QEMU reads it after loading the
/// library, when `DECLARE_VERSION` has run.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(api::OLDEST);

/// Runs as the library is loaded: chooses a version that the loading QEMU accepts.
#[used]
#[unsafe(link_section = ".init_array")]
static DECLARE_VERSION: extern "C" fn() = declare_version;

extern "C" fn declare_version() {
    qemu_plugin_version.store(api::declared_version(), Ordering::Relaxed);
}

static API: OnceLock<Api> = OnceLock::new();
/// The program has, or is about to have, more than one thread.
static MANY_THREADS: AtomicBool = AtomicBool::new(false);
thread_local! {
    /// First arguments of the call that runs: those of a mapping are address, length, protection and
    /// flags.
    static MAPPING: Cell<[u64; 4]> = const { Cell::new([0; 4]) };
}
/// Where the program's address 0 is in this process; `u64::MAX` until it is known.
static GUEST_BASE: AtomicU64 = AtomicU64::new(u64::MAX);

/// The entry point that QEMU calls at load. 0 for success.
///
/// # Safety
/// `info` points to what QEMU tells its plugins, `argv` to `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    let (info, arguments) = unsafe { (&*info, arguments(argc, argv)) };
    match std::panic::catch_unwind(|| install(id, info, &arguments)) {
        Ok(Ok(())) => return 0,
        // The program has taken another's place already: it runs unseen, and the host says so.
        _ if arguments.iter().any(|argument| argument.starts_with("attach=")) => return 0,
        // QEMU would say that it could not load the plugin, before the launcher says why.
        // SAFETY: the process ends, and nothing runs in it yet.
        Ok(Err(Failure::Published)) => unsafe { libc::_exit(FAILED) },
        Ok(Err(Failure::Told(message))) => eprintln!("tierscope: {message}"),
        Err(_) => eprintln!("tierscope: a broken invariant stopped the recorder; please report it"),
    }
    FAILED
}

/// Why the plugin cannot be installed.
enum Failure {
    /// The log says it.
    Published,
    /// There is no log to say it.
    Told(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Told(message)
    }
}

/// # Safety
/// `argv` points to `argc` strings.
unsafe fn arguments(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    (0..argc.max(0) as usize)
        // SAFETY: as the caller promises.
        .map(|index| unsafe { CStr::from_ptr(*argv.add(index)) })
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

fn install(id: PluginId, info: &Info, arguments: &[String]) -> Result<(), Failure> {
    let argument = |name: &str| arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let path = argument("job=").ok_or("the plugin takes an argument: job=FILE".to_owned())?;
    let path = PathBuf::from(path);
    let job = Job::read(&path)?;
    let emulator = emulator(&job, path);
    let (places, grain) = (job.places.clone(), job.sink.sites());
    let run = argument("attach=").zip(argument("channel="));
    let attached = run.is_some();
    let api = match run {
        Some((descriptor, channel)) => attach(info, descriptor, channel)?,
        None => begin(info, job)?,
    };
    exec::follow(emulator);
    places::want(places);
    if let (Some(grain), Some(counter)) = (grain, family::site_counter()) {
        sites::begin(grain, counter);
    }
    API.set(api).map_err(|_| "the plugin is loaded twice".to_owned())?;
    if let Err(why) = death::hear_of() {
        guarded(|recorder| {
            recorder.publish_notice(&format!(
                "where a signal kills the program, the last that it did is missing: {why}"
            ));
        });
    }
    (api.register_vcpu_init_cb)(id, on_thread);
    (api.register_vcpu_tb_trans_cb)(id, on_translate);
    (api.register_vcpu_syscall_cb)(id, on_syscall);
    (api.register_vcpu_syscall_ret_cb)(id, on_syscall_return);
    (api.register_atexit_cb)(id, on_exit, std::ptr::null_mut());
    if let (true, Some(recorder)) = (attached, capture::recorder()) {
        // Whatever may fail has succeeded: from here on the program is seen.
        recorder.as_child().inspect(|child| child.begin());
    }
    Ok(())
}

/// Begins a run, whose first program is about to begin: forks the host.
fn begin(info: &Info, job: Job) -> Result<Api, Failure> {
    let mut log = LogWriter::open(&job.log)
        .map_err(|error| format!("the log {}: {error}", job.log.display()))?;
    let api = match check_emulator(info).and_then(|()| Api::find(info.current)) {
        Ok(api) => api,
        Err(message) => {
            log.append(Urgency::Needed, &json!({"type": "error", "message": message}));
            return Err(Failure::Published);
        }
    };
    let started = json!({
        "type": "started",
        "pid": std::process::id(),
        "backend": "qemu",
        "interface": info.current,
    });
    let shared = host::start(job, log, started)?.ok_or(Failure::Published)?;
    join_run(ChildSink::new(shared, 0), 0)?;
    Ok(api)
}

/// Goes on with a run, whose process runs another program now.
fn attach(info: &Info, descriptor: &str, channel: &str) -> Result<Api, Failure> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is no number"));
    let (descriptor, channel): (i32, i32) = (number(descriptor)?, number(channel)?);
    // SAFETY: the descriptor was opened for this, and nobody else uses it.
    let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let shared = Shared::map(&file).map_err(|error| format!("memory of the run: {error}"))?;
    if !family::join(shared) || channel as usize >= shared.channels.len() {
        return Err("the plugin cannot join the run".to_owned().into());
    }
    let api = Api::find(info.current)?;
    let (sink, signals) = ChildSink::of_next_image(shared, channel as usize);
    join_run(sink, signals)?;
    Ok(api)
}

fn join_run(sink: ChildSink, signals: u64) -> Result<(), String> {
    Recorder::install_in_program(sink, Process::new(Arc::new(EmulatedMemory)), signals)
        .map_err(|error| format!("cannot start the recorder: {error}"))
}

/// What runs this program, and those that it runs in its place.
fn emulator(job: &Job, path: PathBuf) -> Emulator {
    let library = job.emulator.last().map(|plugin| plugin.split(",job=").next().unwrap_or(plugin));
    let library = library.map(|library| PathBuf::from(library.replace(",,", ",")));
    let command = job.emulator.first().map(PathBuf::from);
    Emulator {
        command: job.emulator.clone(),
        files: command.into_iter().chain(library).chain([path]).collect(),
        program: own_program(),
    }
}

/// The program that this QEMU runs: what follows `-0` and a name.
fn own_program() -> Option<PathBuf> {
    let arguments = std::fs::read("/proc/self/cmdline").ok()?;
    let mut arguments = arguments.split(|byte| *byte == 0);
    arguments.find(|argument| *argument == b"-0")?;
    Path::new(OsStr::from_bytes(arguments.nth(1)?)).canonicalize().ok()
}

fn check_emulator(info: &Info) -> Result<(), String> {
    // SAFETY: QEMU's string lives through the call.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    if info.system_emulation || target != c"x86_64" {
        return Err(format!(
            "the recorder runs under qemu-x86_64, not under an emulator of {} machines or \
             processes",
            target.to_string_lossy()
        ));
    }
    Ok(())
}

/// A thread is made, in its own context or in its creator's.
extern "C" fn on_thread(_id: PluginId, thread: c_uint) {
    guarded(|recorder| {
        if !recorder.open_slot(thread) {
            recorder.publish_error(&format!(
                "the program has more than {} threads at once",
                capture::MAX_SLOTS
            ));
            // Callbacks have nowhere to note anything: going on is impossible.
            std::process::abort();
        }
    });
}

/// A block is being translated: says what its code is to call.
extern "C" fn on_translate(_id: PluginId, block: Block) {
    let Some(api) = API.get() else { return };
    guarded(|_| instrument(api, block));
}

fn instrument(api: &Api, block: Block) {
    let count = (api.tb_n_insns)(block);
    let grain = sites::grain();
    let (mut repeated, mut code) = (None, Vec::with_capacity(count));
    let instructions: Vec<(Instruction, Traits)> = (0..count)
        .map(|index| {
            let instruction = (api.tb_get_insn)(block, index);
            if GUEST_BASE.load(Ordering::Relaxed) == u64::MAX {
                note_guest_base(api, instruction);
            }
            let mut bytes = [0; 16];
            let length = api.instruction_bytes(instruction, &mut bytes);
            let bytes = &bytes[..length];
            give_marks(api, instruction, (count - 1 - index) as u64, bytes);
            let traits = Traits::of(bytes);
            code.push(flushes::One {
                next: (api.insn_vaddr)(instruction).wrapping_add(length as u64),
                flush: traits.flush,
                operand: operand(bytes),
                registers: Registers::of(bytes),
            });
            (instruction, traits)
        })
        .collect();
    let registers: Vec<Registers> = code.iter().map(|one| one.registers).collect();
    let accesses = dependences::plan(&registers);
    let flushes = flushes::plan(&code);
    let all = instructions.into_iter().zip(&accesses).zip(flushes).enumerate();
    for (index, (((instruction, traits), access), (anchor, flushed))) in all {
        if traits.repeated && index + 1 == count {
            repeated = Some((api.insn_vaddr)(instruction));
        }
        let before_end = (count - 1 - index) as u64;
        if let Some(fence) = traits.fence {
            let flags = if fence == Fence::Stores { FLAG_STORES } else { 0 };
            let data = Noted::new(before_end, flags).data() as *mut c_void;
            (api.register_vcpu_insn_exec_cb)(instruction, on_fence, api::NO_REGISTERS, data);
        }
        let site = grain.map(|grain| {
            let address = (api.insn_vaddr)(instruction);
            sites::index_at(grain, address, GUEST_BASE.load(Ordering::Relaxed))
        });
        if let (Some(site), true) = (site, traits.system_call || traits.flush.is_some()) {
            let data = site as usize as *mut c_void;
            (api.register_vcpu_insn_exec_cb)(instruction, on_site, api::NO_REGISTERS, data);
        }
        if let (Some(flush), Some(place)) = (traits.flush, flushed) {
            note_flush(api, instruction, before_end, flush, place);
        }
        let before: Option<(BlockCallback, u32)> = match access.before() {
            Before::Nothing => None,
            Before::Moves(moves) => Some((on_moves, moves)),
            Before::Edge(edge) => Some((on_instruction, edge)),
        };
        if let Some((callback, data)) = before {
            let data = data as usize as *mut c_void;
            (api.register_vcpu_insn_exec_cb)(instruction, callback, api::NO_REGISTERS, data);
        }
        let mut noted = Noted::new(before_end, flags_of_traits(traits));
        noted.flags |= dependence(access.dependence.into());
        note_accesses(api, instruction, noted, access, anchor, site);
    }
    count_instructions(api, block, count as u64, repeated);
}

/// What the callback of an access is told in any case, in the lowest bits of its user data.
#[derive(Clone, Copy)]
struct Noted {
    /// Instructions to the block's end, which has 512 at most (`TCG_MAX_INSNS` in QEMU's `tcg.h`).
    before_end: u64,
    /// Flags, where the low half of an operation's `meta` has them.
    flags: u32,
}

/// Where the low half of `meta` has its flags.
const META_SHIFT: u32 = 8;

/// In user data, flags of accesses begin here.
const FLAGS_SHIFT: u32 = 9;
/// Behind the flags are, either, registers of the address.
const REGISTERS_SHIFT: u32 = FLAGS_SHIFT + 8;
/// Or an edge ([`dependences`]), a site, and the number of an anchor ([`flushes`]) from 1 on.
const EDGE_SHIFT: u32 = FLAGS_SHIFT + 8;
const SITE_SHIFT: u32 = EDGE_SHIFT + EDGE_BITS;
const ANCHOR_SHIFT: u32 = SITE_SHIFT + 24;

impl Noted {
    fn new(before_end: u64, flags: u8) -> Noted {
        Noted { before_end, flags: u32::from(flags) << META_SHIFT }
    }

    fn data(self) -> u64 {
        debug_assert!(self.before_end >> FLAGS_SHIFT == 0 && self.flags >> META_SHIFT < 256);
        self.before_end | u64::from(self.flags) << (FLAGS_SHIFT - META_SHIFT)
    }

    #[inline(always)]
    fn of(data: u64) -> Noted {
        Noted {
            before_end: data & ((1 << FLAGS_SHIFT) - 1),
            flags: (data >> (FLAGS_SHIFT - META_SHIFT)) as u32 & 255 << META_SHIFT,
        }
    }
}

#[inline(always)]
fn site_of(data: u64) -> u32 {
    (data >> SITE_SHIFT) as u32 & ((1 << (ANCHOR_SHIFT - SITE_SHIFT)) - 1)
}

#[inline(always)]
fn edge_of(data: u64) -> u32 {
    (data >> EDGE_SHIFT) as u32 & ((1 << EDGE_BITS) - 1)
}

/// Makes an instruction note its accesses, with its site where there is one.
fn note_accesses(
    api: &Api,
    instruction: Instruction,
    noted: Noted,
    access: &Access,
    anchor: Option<usize>,
    site: Option<u32>,
) {
    let way = if site.is_some() || anchor.is_some() { access.edge_way() } else { access.way() };
    let (callback, further): (AccessCallback, u64) = match way {
        Way::None => (on_access, 0),
        Way::Set(edge) => (on_setting_access, u64::from(edge) << EDGE_SHIFT),
        Way::Edge(edge) => (on_followed_access, u64::from(edge) << EDGE_SHIFT),
        Way::Read(registers) => (on_reading_access, u64::from(registers) << REGISTERS_SHIFT),
    };
    let callback = match (anchor, site) {
        (Some(_), _) => on_anchored_access,
        (None, Some(_)) => on_sited_access,
        (None, None) => callback,
    };
    let anchor = anchor.map_or(0, |anchor| (anchor as u64 + 1) << ANCHOR_SHIFT);
    let site = u64::from(site.unwrap_or(sites::NO_INDEX)) << SITE_SHIFT;
    let data = (noted.data() | further | site | anchor) as *mut c_void;
    // One callback for both: QEMU 7.2 confuses callbacks for reads with those for writes.
    let (none, both) = (api::NO_REGISTERS, api::READS_AND_WRITES);
    (api.register_vcpu_mem_cb)(instruction, callback, none, both, data);
}

/// Makes a flush note itself, where its address is known, and that it was there, where not.
fn note_flush(api: &Api, instruction: Instruction, before_end: u64, flush: Flush, place: Place) {
    let flags = match flush {
        Flush::InOrder => FLAG_ORDERED,
        Flush::InNoOrder => 0,
        Flush::Keeping => FLAG_KEEP,
    };
    let noted = Noted::new(before_end, flags);
    let (callback, data): (BlockCallback, u64) = match place {
        // An address of a program has no more bits than there are left.
        Place::At(address) if address >> (64 - FLUSHED_SHIFT) == 0 => {
            (on_flush_at, noted.data() | address << FLUSHED_SHIFT)
        }
        Place::Behind { anchor, bytes } => {
            let bytes = u64::from(bytes as u32) << BEHIND_SHIFT;
            (on_flush_behind, noted.data() | (anchor as u64) << FLUSHED_SHIFT | bytes)
        }
        _ => (on_flush, Noted::new(before_end, flush as u8).data()),
    };
    let data = data as *mut c_void;
    (api.register_vcpu_insn_exec_cb)(instruction, callback, api::NO_REGISTERS, data);
}

/// In a flush's user data its address begins here, or the number of an anchor, and further above how far behind it is.
const FLUSHED_SHIFT: u32 = FLAGS_SHIFT + 8;
const BEHIND_SHIFT: u32 = 32;

/// Flags of an instruction's accesses. Those of loads mean nothing where it stores past the caches: it has none.
fn flags_of_traits(traits: Traits) -> u8 {
    let atomic = if traits.atomic { FLAG_ATOMIC } else { 0 };
    let non_temporal = if traits.non_temporal { FLAG_NON_TEMPORAL } else { 0 };
    atomic | non_temporal
}

/// An access happens, at a site.
extern "C" fn on_sited_access(thread: c_uint, info: u32, address: u64, data: *mut c_void) {
    let data = data as u64;
    // SAFETY: the slot is the running thread's own.
    unsafe { Slot::enter_site(slot(thread), site_of(data)) };
    if edge_of(data) == NO_EDGE {
        note(slot(thread), info, address, Noted::of(data));
    } else {
        on_followed_access(thread, info, address, data as *mut c_void);
    }
}

/// An access happens from which flushes behind it are reckoned.
extern "C" fn on_anchored_access(thread: c_uint, info: u32, address: u64, data: *mut c_void) {
    let bits = data as u64;
    let anchor = (bits >> ANCHOR_SHIFT) as usize - 1;
    // SAFETY: the slot is the running thread's own.
    unsafe {
        let slot = slot(thread);
        // Of the pieces of an access the first is where it begins.
        if !Slot::has_noted(slot, Noted::of(bits).before_end)
            && let Some(known) = (*slot).anchors.get_mut(anchor)
        {
            *known = address;
        }
    }
    match (site_of(bits), edge_of(bits)) {
        (sites::NO_INDEX, NO_EDGE) => note(slot(thread), info, address, Noted::of(bits)),
        (sites::NO_INDEX, _) => on_followed_access(thread, info, address, data),
        _ => on_sited_access(thread, info, address, data),
    }
}

/// An access happens that changes what is known of registers, in a way that an edge says.
extern "C" fn on_followed_access(thread: c_uint, info: u32, address: u64, data: *mut c_void) {
    let mut noted = Noted::of(data as u64);
    let (slot, edge) = (slot(thread), edge_of(data as u64));
    // SAFETY: the slot is the running thread's own.
    let followed = unsafe { &mut (*slot).followed };
    // SAFETY: as above.
    if !unsafe { Slot::has_noted(slot, noted.before_end) } {
        noted.flags |= dependence(followed.access(edge));
    } else if let Some(loads_back) = followed.further(edge) {
        noted.flags |= dependence(loads_back);
    } else {
        noted.flags &= !DEPENDENCE;
    }
    note(slot, info, address, noted);
}

/// The same, where no value moves from register to register.
extern "C" fn on_setting_access(thread: c_uint, info: u32, address: u64, data: *mut c_void) {
    let mut noted = Noted::of(data as u64);
    let slot = slot(thread);
    // SAFETY: the slot is the running thread's own.
    let loads_back = unsafe {
        let is_first = !Slot::has_noted(slot, noted.before_end);
        is_first.then(|| (*slot).followed.set(edge_of(data as u64))).flatten()
    };
    let Some(loads_back) = loads_back else {
        return on_followed_access(thread, info, address, data);
    };
    noted.flags |= dependence(loads_back);
    note(slot, info, address, noted);
}

/// An access happens whose address may have been made of a load before the block.
extern "C" fn on_reading_access(thread: c_uint, info: u32, address: u64, data: *mut c_void) {
    let data = data as u64;
    let mut noted = Noted::of(data);
    let slot = slot(thread);
    // SAFETY: the slot is the running thread's own.
    let followed = unsafe { &(*slot).followed };
    noted.flags |= dependence(followed.read((data >> REGISTERS_SHIFT) as u8));
    note(slot, info, address, noted);
}

/// In `meta`, that an access depends on the load so many loads back.
#[inline(always)]
fn dependence(loads_back: u64) -> u32 {
    Op::compute(0).depending_on(loads_back).meta as u32
}

/// An instruction is about to run, of a block in which values move between registers.
extern "C" fn on_moves(thread: c_uint, data: *mut c_void) {
    // SAFETY: the slot is the running thread's own.
    unsafe { (*slot(thread)).followed.pass(data as usize as u32) };
}

/// The same, in which there is more than that.
extern "C" fn on_instruction(thread: c_uint, data: *mut c_void) {
    // SAFETY: the slot is the running thread's own.
    unsafe { (*slot(thread)).followed.access(data as usize as u32) };
}

/// A call of the system is about to be made, at a site.
extern "C" fn on_site(thread: c_uint, data: *mut c_void) {
    // SAFETY: the slot is the running thread's own.
    unsafe { Slot::enter_site(slot(thread), data as usize as u32) };
}

/// Makes an instruction give its marks: those of its place, before it, and the one that it is.
fn give_marks(api: &Api, instruction: Instruction, before_end: u64, bytes: &[u8]) {
    let give = |mark: u64, before_end: u64| {
        let data = (mark << MARK_SHIFT | before_end) as *mut c_void;
        (api.register_vcpu_insn_exec_cb)(instruction, on_mark, api::NO_REGISTERS, data);
    };
    places::marks_at((api.insn_vaddr)(instruction), |mark| give(mark, before_end + 1));
    if let Some(mark) = marker::given_by(bytes) {
        give(mark, before_end);
    }
}

/// In a mark's user data, the mark begins here; below is the distance to the block's end.
const MARK_SHIFT: u32 = 32;

/// An instruction that gives a mark is about to run.
extern "C" fn on_mark(thread: c_uint, data: *mut c_void) {
    let data = data as u64;
    let (mark, before_end) = (data >> MARK_SHIFT, u64::from(data as u32));
    capture::with_slot(thread, |_, slot| slot.mark_at(before_end, &Call::Marker { mark }));
}

/// Makes the block count its instructions. `repeated` is the address of a repeated string
/// instruction that ends it.
fn count_instructions(api: &Api, block: Block, count: u64, repeated: Option<u64>) {
    let none = api::NO_REGISTERS;
    if let Some(place) = repeated {
        let begins = u64::from(count == 1);
        let data = count | begins << 31 | place << 32;
        return (api.register_vcpu_tb_exec_cb)(block, on_repeated, none, data as *mut c_void);
    }
    match api.register_vcpu_tb_exec_inline {
        // The word that inline code adds to is one for all threads; so that is for programs that
        // have one. As it makes its second thread, QEMU translates everything anew.
        Some(add) if !MANY_THREADS.load(Ordering::Relaxed) => {
            // SAFETY: the address of a field of a slot that exists; nothing is read.
            let word = unsafe { &raw mut (*slot(0)).retired };
            add(block, api::ADD, word.cast(), count);
        }
        _ => (api.register_vcpu_tb_exec_cb)(block, on_block, none, count as *mut c_void),
    }
}

/// A block begins to run.
extern "C" fn on_block(thread: c_uint, data: *mut c_void) {
    // SAFETY: the slot is the running thread's own.
    unsafe { (*slot(thread)).retired += data as u64 };
}

/// A block that ends with a repeated string instruction begins to run.
extern "C" fn on_repeated(thread: c_uint, data: *mut c_void) {
    let data = data as u64;
    let (count, begins) = (data as u32 & 0x7fff_ffff, data as u32 >> 31 == 1);
    // SAFETY: the slot is the running thread's own.
    unsafe { (*slot(thread)).retire_repeated(count, begins, (data >> 32) as u32) };
}

/// A fence is about to run.
extern "C" fn on_fence(thread: c_uint, data: *mut c_void) {
    let Noted { before_end, flags } = Noted::of(data as u64);
    let low = u32::from(OpKind::Fence as u8) | flags;
    // SAFETY: the slot is the running thread's own.
    unsafe { Slot::access(slot(thread), before_end as u32, low, 0) };
}

/// A flush of a line is about to run whose address is not known: it becomes an instruction that tells the host.
extern "C" fn on_flush(thread: c_uint, data: *mut c_void) {
    let Noted { before_end, flags } = Noted::of(data as u64);
    let low = u32::from(OpKind::Compute as u8) | flags;
    // SAFETY: the slot is the running thread's own.
    unsafe { Slot::access(slot(thread), before_end as u32, low, 0) };
}

/// A flush of the line at an address that its instruction has is about to run.
extern "C" fn on_flush_at(thread: c_uint, data: *mut c_void) {
    let data = data as u64;
    note_flushed(thread, Noted::of(data), data >> FLUSHED_SHIFT);
}

/// A flush of a line that is so far behind an access is about to run.
extern "C" fn on_flush_behind(thread: c_uint, data: *mut c_void) {
    let data = data as u64;
    let anchor = data >> FLUSHED_SHIFT & ((1 << (BEHIND_SHIFT - FLUSHED_SHIFT)) - 1);
    // SAFETY: the slot is the running thread's own.
    let known = unsafe { (*slot(thread)).anchors.get(anchor as usize).copied() };
    let bytes = (data >> BEHIND_SHIFT) as i32;
    note_flushed(thread, Noted::of(data), known.unwrap_or(0).wrapping_add_signed(bytes.into()));
}

fn note_flushed(thread: c_uint, noted: Noted, address: u64) {
    let low = u32::from(OpKind::Flush as u8) | noted.flags;
    // SAFETY: the slot is the running thread's own.
    unsafe { Slot::access(slot(thread), noted.before_end as u32, low, address) };
}

/// An access happens.
extern "C" fn on_access(thread: c_uint, info: u32, address: u64, data: *mut c_void) {
    note(slot(thread), info, address, Noted::of(data as u64));
}

/// Notes an access. The usual case makes no call, so that it needs no registers saved.
#[inline(always)]
fn note(slot: *mut Slot, info: u32, address: u64, noted: Noted) {
    let known = KINDS_AND_SIZES.get(info as usize).map_or(0, |k| k.load(Ordering::Relaxed));
    let (before_end, flags) = (noted.before_end as u32, noted.flags);
    if known == 0 || known & STORES_TOO != 0 {
        return unusual_access(slot, info, address, before_end, flags);
    }
    // SAFETY: the slot is the running thread's own.
    unsafe { Slot::access(slot, before_end, known | flags, address) };
}

/// An access of a sort that comes for the first time, or that is a load and a store.
#[cold]
#[inline(never)]
fn unusual_access(slot: *mut Slot, info: u32, address: u64, before_end: u32, flags: u32) {
    let kind_and_size = kind_and_size(info);
    let low = kind_and_size & !STORES_TOO | flags;
    // SAFETY: the slot is the running thread's own.
    unsafe {
        Slot::access(slot, before_end, low, address);
        if kind_and_size & STORES_TOO != 0 {
            // It comes behind its own load, which has waited.
            let low = low & !DEPENDENCE;
            Slot::access(slot, before_end, low ^ u32::from(LOAD ^ STORE), address);
        }
    }
}

/// Kind and size, as in the low half of an operation's `meta`, by the information that QEMU gives
/// with an access, which is opaque but takes few values; 0 where it has not been asked yet.
static KINDS_AND_SIZES: [AtomicU32; 1 << 18] = [const { AtomicU32::new(0) }; 1 << 18];
/// Beside kind and size: the access, a load, also stores. An operation's size never has this bit.
const STORES_TOO: u32 = 1 << 31;
/// Where the information has reads and writes, as `QEMU_PLUGIN_MEM_RW`, in all versions so far.
const DIRECTION_SHIFT: u32 = 16;

fn kind_and_size(info: u32) -> u32 {
    let Some(api) = API.get() else { return u32::from(LOAD) | 1 << 16 };
    let size = 1u32 << (api.mem_size_shift)(info).min(6);
    let stores = (api.mem_is_store)(info);
    // An atomic operation is one access that reads and writes.
    let also_loads = stores && info >> DIRECTION_SHIFT == api::READS_AND_WRITES as u32;
    let kind = match (stores, also_loads) {
        (false, _) => u32::from(LOAD),
        (true, false) => u32::from(STORE),
        (true, true) => u32::from(LOAD) | STORES_TOO,
    };
    let value = kind | size << 16;
    if let Some(known) = KINDS_AND_SIZES.get(info as usize) {
        known.store(value, Ordering::Relaxed);
    }
    value
}

/// A system call is about to run.
extern "C" fn on_syscall(
    _id: PluginId,
    thread: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _a7: u64,
    _a8: u64,
) {
    if matches!(number, libc::SYS_clone | libc::SYS_clone3) {
        MANY_THREADS.store(true, Ordering::Relaxed);
    }
    MAPPING.set([a1, a2, a3, a4]);
    capture::with_slot(thread, |recorder, slot| {
        syscalls::enter(recorder, slot, number, [a1, a2, a3, a4, a5, a6]);
    });
}

/// A system call has returned.
extern "C" fn on_syscall_return(_id: PluginId, thread: c_uint, number: i64, result: i64) {
    capture::with_slot(thread, |recorder, slot| {
        syscalls::leave(recorder, slot, number, result);
    });
    if let Ok(result) = u64::try_from(result) {
        follow_mappings(number, result);
    }
}

/// The program has ended, and its threads report nothing any more.
extern "C" fn on_exit(_id: PluginId, _data: *mut c_void) {
    guarded(|recorder| {
        // From 8.1 on QEMU calls this too where a signal kills the program, and tells which one
        // later.
        if death::is_heard_of() && recorder.ends_uncalled() {
            recorder.end_all_threads();
        } else {
            recorder.finish();
        }
    });
}

/// Learns where the program's memory is from one of its instructions.
fn note_guest_base(api: &Api, instruction: Instruction) {
    let here = (api.insn_haddr)(instruction) as u64;
    if here != 0 {
        let base = here.wrapping_sub((api.insn_vaddr)(instruction));
        GUEST_BASE.store(base, Ordering::Relaxed);
        if places::any_wanted() {
            places::locate(base);
        }
    }
}

/// Keeps up with the files of code that the program maps.
fn follow_mappings(number: i64, result: u64) {
    if !matches!(number, libc::SYS_mmap | libc::SYS_munmap) {
        return;
    }
    let sited = sites::grain().is_some();
    if !sited && !places::any_wanted() {
        return;
    }
    let [address, length, protection, flags] = MAPPING.take();
    let address = if number == libc::SYS_mmap { result } else { address };
    let range = address..address.saturating_add(length);
    if sited {
        sites::forget(range.clone());
    }
    if !places::any_wanted() {
        return;
    }
    places::forget(range);
    let of_a_file = flags as i32 & libc::MAP_ANONYMOUS == 0;
    let of_code = protection as i32 & libc::PROT_EXEC != 0;
    if number == libc::SYS_mmap && of_a_file && of_code {
        places::locate(GUEST_BASE.load(Ordering::Relaxed));
    }
}

/// The program's memory, which is mapped in this process.
struct EmulatedMemory;

impl GuestMemory for EmulatedMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let base = GUEST_BASE.load(Ordering::Relaxed);
        if base == u64::MAX {
            return false;
        }
        let length = bytes.len();
        let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
        let from =
            libc::iovec { iov_base: base.wrapping_add(address) as *mut c_void, iov_len: length };
        // SAFETY: the kernel checks the other address, and `to` is `bytes`.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        usize::try_from(read) == Ok(length)
    }
}
