//! The plugin functions of QEMU that the recorder uses, found by name in the running QEMU.
//!
//! They are looked up when the plugin is loaded and not linked, because they differ between
//! versions of the interface: 1 (QEMU 6 to 8), which counts by a global word, and 2 to 6 (QEMU 9
//! to 11.0), which removed that and, from 3 on, changed how instruction bytes are read. Version 7
//! changed the signature of every callback and is refused. Source: the versions' own
//! `qemu-plugin.h`, whose comments list the changes.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Oldest version of the interface that is supported.
pub const OLDEST: i32 = 1;
/// Newest version of the interface that is supported.
pub const NEWEST: i32 = 6;

/// A plugin's number.
pub type PluginId = u64;
/// A translated block, while it is being translated.
pub type Block = *mut c_void;
/// An instruction of such a block.
pub type Instruction = *mut c_void;

/// What QEMU tells a plugin at load (`qemu_info_t`).
#[repr(C)]
pub struct Info {
    /// Name of the emulated architecture.
    pub target_name: *const c_char,
    /// Oldest version of the interface that QEMU supports.
    pub oldest: c_int,
    /// Its own version of the interface.
    pub current: c_int,
    /// Whether it emulates a whole machine and not a process.
    pub system_emulation: bool,
}

/// A callback with the running thread's number.
pub type ThreadCallback = extern "C" fn(PluginId, c_uint);
/// A callback on translation.
pub type TranslateCallback = extern "C" fn(PluginId, Block);
/// A callback on the execution of a block or an instruction.
pub type BlockCallback = extern "C" fn(c_uint, *mut c_void);
/// A callback on an access: thread, information, address, user data.
pub type AccessCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// A callback before a system call: plugin, thread, number, eight arguments.
pub type SyscallCallback =
    extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
/// A callback after a system call: plugin, thread, number, result.
pub type SyscallReturnCallback = extern "C" fn(PluginId, c_uint, i64, i64);
/// A callback at the end.
pub type ExitCallback = extern "C" fn(PluginId, *mut c_void);

/// The callback uses no registers (`QEMU_PLUGIN_CB_NO_REGS`).
pub const NO_REGISTERS: c_int = 0;
/// Reads and writes (`QEMU_PLUGIN_MEM_RW`).
pub const READS_AND_WRITES: c_int = 3;
/// Adds to a word (`QEMU_PLUGIN_INLINE_ADD_U64`).
pub const ADD: c_int = 0;

macro_rules! functions {
    ($( $field:ident: $type:ty = $name:literal ),* $(,)?) => {
        /// The functions, with the names that they have in `qemu-plugin.h` after `qemu_plugin_`.
        #[derive(Clone, Copy)]
        pub struct Api {
            $( pub $field: $type, )*
            /// Only in version 1.
            pub register_vcpu_tb_exec_inline: Option<AddInline>,
            insn_data: *const c_void,
            version: i32,
        }

        impl Api {
            fn find_all(version: i32) -> Result<Api, String> {
                Ok(Api {
                    $(
                        // SAFETY: the address is that of the function of this name, whose type in
                        // `qemu-plugin.h` is the field's.
                        $field: unsafe {
                            std::mem::transmute::<*const c_void, $type>(find_needed($name)?)
                        },
                    )*
                    register_vcpu_tb_exec_inline: find_add_inline(version),
                    insn_data: find_needed(c"qemu_plugin_insn_data")?,
                    version,
                })
            }
        }
    };
}

/// Makes a block add a number to a word as it begins: block, [`ADD`], word, number.
pub type AddInline = extern "C" fn(Block, c_int, *mut c_void, u64);

fn find_add_inline(version: i32) -> Option<AddInline> {
    let add = find(c"qemu_plugin_register_vcpu_tb_exec_inline").filter(|_| version == 1)?;
    // SAFETY: the address is that of the function, of this type in version 1.
    Some(unsafe { std::mem::transmute::<*const c_void, AddInline>(add) })
}

functions! {
    register_vcpu_init_cb: extern "C" fn(PluginId, ThreadCallback)
        = c"qemu_plugin_register_vcpu_init_cb",
    register_vcpu_tb_trans_cb: extern "C" fn(PluginId, TranslateCallback)
        = c"qemu_plugin_register_vcpu_tb_trans_cb",
    register_vcpu_tb_exec_cb: extern "C" fn(Block, BlockCallback, c_int, *mut c_void)
        = c"qemu_plugin_register_vcpu_tb_exec_cb",
    register_vcpu_insn_exec_cb: extern "C" fn(Instruction, BlockCallback, c_int, *mut c_void)
        = c"qemu_plugin_register_vcpu_insn_exec_cb",
    register_vcpu_mem_cb: extern "C" fn(Instruction, AccessCallback, c_int, c_int, *mut c_void)
        = c"qemu_plugin_register_vcpu_mem_cb",
    register_vcpu_syscall_cb: extern "C" fn(PluginId, SyscallCallback)
        = c"qemu_plugin_register_vcpu_syscall_cb",
    register_vcpu_syscall_ret_cb: extern "C" fn(PluginId, SyscallReturnCallback)
        = c"qemu_plugin_register_vcpu_syscall_ret_cb",
    register_atexit_cb: extern "C" fn(PluginId, ExitCallback, *mut c_void)
        = c"qemu_plugin_register_atexit_cb",
    tb_n_insns: extern "C" fn(Block) -> usize = c"qemu_plugin_tb_n_insns",
    tb_get_insn: extern "C" fn(Block, usize) -> Instruction = c"qemu_plugin_tb_get_insn",
    insn_size: extern "C" fn(Instruction) -> usize = c"qemu_plugin_insn_size",
    insn_vaddr: extern "C" fn(Instruction) -> u64 = c"qemu_plugin_insn_vaddr",
    insn_haddr: extern "C" fn(Instruction) -> *mut c_void = c"qemu_plugin_insn_haddr",
    mem_size_shift: extern "C" fn(u32) -> c_uint = c"qemu_plugin_mem_size_shift",
    mem_is_store: extern "C" fn(u32) -> bool = c"qemu_plugin_mem_is_store",
}

// SAFETY: `insn_data` is the address of a function.
unsafe impl Sync for Api {}
// SAFETY: as above.
unsafe impl Send for Api {}

/// Looks a function up in the running program.
fn find(name: &CStr) -> Option<*const c_void> {
    // SAFETY: the name ends in a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() { None } else { Some(address) }
}

fn find_needed(name: &CStr) -> Result<*const c_void, String> {
    find(name).ok_or_else(|| format!("this QEMU lacks {}", name.to_string_lossy()))
}

/// The version that this plugin declares: the one that the running QEMU accepts. From version 2 on
/// QEMU accepts 2 as well as its own.
pub fn declared_version() -> i32 {
    if find(c"qemu_plugin_scoreboard_new").is_some() { 2 } else { 1 }
}

impl Api {
    /// Finds the functions of version `version`. An error says what is missing, for people.
    pub fn find(version: i32) -> Result<Api, String> {
        if !(OLDEST..=NEWEST).contains(&version) {
            return Err(format!(
                "this QEMU's plugin interface has version {version}; this tierscope supports \
                 versions {OLDEST} to {NEWEST} (QEMU 7.2 to 11.0)"
            ));
        }
        Api::find_all(version)
    }

    /// Copies an instruction's first bytes to `bytes` and returns how many there are.
    pub fn instruction_bytes(&self, instruction: Instruction, bytes: &mut [u8; 16]) -> usize {
        let size = (self.insn_size)(instruction).min(bytes.len());
        if self.version >= 3 {
            type Copy = extern "C" fn(Instruction, *mut c_void, usize) -> usize;
            // SAFETY: the function's type from version 3 on; it writes at most `size` bytes.
            let copy = unsafe { std::mem::transmute::<*const c_void, Copy>(self.insn_data) };
            return copy(instruction, bytes.as_mut_ptr().cast(), size).min(size);
        }
        type Data = extern "C" fn(Instruction) -> *const u8;
        // SAFETY: the function's type before version 3; it returns the instruction's `insn_size`
        // bytes.
        unsafe {
            let data = std::mem::transmute::<*const c_void, Data>(self.insn_data)(instruction);
            if data.is_null() {
                return 0;
            }
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr(), size);
        }
        size
    }
}
