//! One operation of a thread: what every stream carries and every machine consumes.
//!
//! An [`Op`] has a fixed size of 16 bytes, so that streams can be copied, spilled and stored as
//! they are. A call on the operating system is one header operation followed by its arguments,
//! two to an operation, in the same format (see [`Call`]).

use crate::site::SiteId;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OpKind {
    /// Instructions without an access to memory; `word` is unused.
    Compute = 0,
    /// A load of `size` bytes from the virtual address `word`.
    Load = 1,
    /// A store of `size` bytes to the virtual address `word`.
    Store = 2,
    /// A header of a [`Call`]; `word` is the call's code, `size` the number of argument operations.
    Call = 3,
    /// Two arguments of the call before it: `word` and `meta` are both arguments.
    /// Never seen as a kind of its own, because `meta` carries no kind here.
    Argument = 4,
    /// What follows in the thread comes from the site of the program's code with the number `word`:
    /// see [`crate::site`]. It does nothing.
    Site = 5,
    /// A line of memory, that of the address `word`, was used in a part of the program that is not
    /// recorded: see [`crate::windows`]. It warms machines, and is no access of the program.
    Used = 6,
    /// The line of the address `word` goes from all on-chip caches, to memory where it was written
    /// (CLFLUSHOPT, DC CIVAC); it stays there, clean, with [`FLAG_KEEP`] (CLWB, DC CVAC). Flushes come in no
    /// order among themselves, but with [`FLAG_ORDERED`] (CLFLUSH).
    Flush = 7,
    /// Accesses and flushes behind it wait until those before it are done (MFENCE, DSB); with
    /// [`FLAG_STORES`], stores and flushes alone for stores and flushes (SFENCE, DSB ST).
    Fence = 8,
}

/// The address of this access depends on the value of an earlier load of the thread: of the one before it, or of one
/// further back, as [`Op::dependence`] tells.
pub const FLAG_DEPENDENT: u8 = 1;
/// Loads back, at most, to that on which an access depends.
pub const MOST_DEPENDENCE: u8 = 16;
/// Bits of the flags below those that tell how many loads further back than the last that is.
const DEPENDENCE_SHIFT: u32 = 4;
/// The access is atomic (a locked read-modify-write).
pub const FLAG_ATOMIC: u8 = 2;
/// What was used was written, once at least.
pub const FLAG_WRITTEN: u8 = 4;
/// The store passes the on-chip caches by, whose copies go: what is stored to a line is combined in a buffer,
/// and goes to memory at once (MOVNTI, MOVNTDQ, STNP).
pub const FLAG_NON_TEMPORAL: u8 = 8;
/// A flush keeps the line in the caches, clean.
pub const FLAG_KEEP: u8 = 1;
/// A flush comes in the order of stores and other such flushes.
pub const FLAG_ORDERED: u8 = 2;
/// A fence is one of stores and flushes alone.
pub const FLAG_STORES: u8 = 1;

/// One operation: 16 bytes.
///
/// `meta` holds, from the low bits: kind (8), flags (8), size in bytes (16), instructions (32).
/// `instructions` counts those retired since the previous operation, this one included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Op {
    /// Virtual address, call code or argument.
    pub word: u64,
    /// Kind, flags, size and instructions, or a second argument.
    pub meta: u64,
}

impl Op {
    /// Packs an operation.
    #[inline]
    pub const fn new(kind: OpKind, flags: u8, size: u16, instructions: u32, word: u64) -> Self {
        let meta =
            kind as u64 | (flags as u64) << 8 | (size as u64) << 16 | (instructions as u64) << 32;
        Op { word, meta }
    }

    /// A load; `instructions` includes the load itself.
    #[inline]
    pub const fn load(address: u64, size: u16, instructions: u32) -> Self {
        Op::new(OpKind::Load, 0, size, instructions, address)
    }

    /// A store; `instructions` includes the store itself.
    #[inline]
    pub const fn store(address: u64, size: u16, instructions: u32) -> Self {
        Op::new(OpKind::Store, 0, size, instructions, address)
    }

    /// Instructions that do not access memory.
    #[inline]
    pub const fn compute(instructions: u32) -> Self {
        Op::new(OpKind::Compute, 0, 0, instructions, 0)
    }

    /// What follows comes from this site.
    #[inline]
    pub const fn site(number: SiteId) -> Self {
        Op::new(OpKind::Site, 0, 0, 0, number as u64)
    }

    /// A line was used in what is not recorded, and perhaps written.
    #[inline]
    pub const fn used(address: u64, written: bool) -> Self {
        let flags = if written { FLAG_WRITTEN } else { 0 };
        Op::new(OpKind::Used, flags, 0, 0, address)
    }

    /// A store past the caches; `instructions` includes the store itself.
    #[inline]
    pub const fn non_temporal_store(address: u64, size: u16, instructions: u32) -> Self {
        Op::new(OpKind::Store, FLAG_NON_TEMPORAL, size, instructions, address)
    }

    /// A flush of the line of an address; `instructions` includes the flush itself.
    #[inline]
    pub const fn flush(address: u64, flags: u8, instructions: u32) -> Self {
        Op::new(OpKind::Flush, flags, 0, instructions, address)
    }

    /// A fence, of all or, with [`FLAG_STORES`], of stores; `instructions` includes the fence itself.
    #[inline]
    pub const fn fence(flags: u8, instructions: u32) -> Self {
        Op::new(OpKind::Fence, flags, 0, instructions, 0)
    }

    /// The kind's code; compare with `OpKind::… as u8`.
    #[inline]
    pub const fn kind_code(self) -> u8 {
        self.meta as u8
    }

    /// The kind, or `None` where the code is unknown (a corrupted stream).
    #[inline]
    pub const fn kind(self) -> Option<OpKind> {
        match self.meta as u8 {
            0 => Some(OpKind::Compute),
            1 => Some(OpKind::Load),
            2 => Some(OpKind::Store),
            3 => Some(OpKind::Call),
            4 => Some(OpKind::Argument),
            5 => Some(OpKind::Site),
            6 => Some(OpKind::Used),
            7 => Some(OpKind::Flush),
            8 => Some(OpKind::Fence),
            _ => None,
        }
    }

    /// Flags, of accesses [`FLAG_DEPENDENT`], [`FLAG_ATOMIC`] and [`FLAG_NON_TEMPORAL`], and what [`Op::dependence`] reads.
    #[inline]
    pub const fn flags(self) -> u8 {
        (self.meta >> 8) as u8
    }

    /// How many loads of the thread back the one lies of whose value the address of this access is made: 1 for the last, at most
    /// [`MOST_DEPENDENCE`]; 0 where it depends on none. Loads are counted as operations.
    #[inline]
    pub const fn dependence(self) -> u8 {
        let flags = self.flags();
        if flags & FLAG_DEPENDENT == 0 { 0 } else { (flags >> DEPENDENCE_SHIFT) + 1 }
    }

    /// The same access, whose address is made of the value of the load so many loads back; of none where that is 0 or more than
    /// [`MOST_DEPENDENCE`].
    #[inline]
    #[must_use]
    pub const fn depending_on(self, loads_back: u64) -> Self {
        let of_dependence = (FLAG_DEPENDENT | u8::MAX << DEPENDENCE_SHIFT) as u64;
        let op = Op { word: self.word, meta: self.meta & !(of_dependence << 8) };
        if loads_back == 0 || loads_back > MOST_DEPENDENCE as u64 {
            return op;
        }
        op.with_flags(FLAG_DEPENDENT | (loads_back as u8 - 1) << DEPENDENCE_SHIFT)
    }

    /// Bytes accessed, or the number of argument operations of a call.
    #[inline]
    pub const fn size(self) -> u16 {
        (self.meta >> 16) as u16
    }

    /// Instructions since the previous operation, this one included.
    #[inline]
    pub const fn instructions(self) -> u32 {
        (self.meta >> 32) as u32
    }

    /// The same operation with further flags.
    #[inline]
    pub const fn with_flags(self, flags: u8) -> Self {
        Op { word: self.word, meta: self.meta | (flags as u64) << 8 }
    }
}

/// Accesses whose addresses are made of the value of one load, while others come between them.
#[derive(Clone, Copy, Debug)]
pub struct MadeOf {
    loads_back: u64,
}

impl MadeOf {
    /// That load is the last.
    pub const LAST: MadeOf = MadeOf::loads(1);

    /// There is no such load.
    pub const NONE: MadeOf = MadeOf::loads(u64::MAX);

    /// That load lies so many loads back.
    pub const fn loads(loads_back: u64) -> MadeOf {
        MadeOf { loads_back }
    }

    /// An access whose address is made of it.
    pub fn next(&mut self, op: Op) -> Op {
        let next = op.depending_on(self.loads_back);
        self.pass(op);
        next
    }

    /// An access comes that has nothing to do with it.
    pub fn pass(&mut self, op: Op) {
        let loads = u64::from(op.kind_code() == OpKind::Load as u8);
        self.loads_back = self.loads_back.saturating_add(loads);
    }
}

/// A thread of a workload, numbered from 0 in the order of creation.
pub type ThreadId = u32;
/// A file of a workload, numbered from 0 in the order of first use.
pub type FileId = u32;

/// A mapping is shared with its file: stores reach the file.
pub const MAP_SHARED: u64 = 1;
/// Stores to the mapping are allowed.
pub const MAP_WRITABLE: u64 = 2;

/// The mapping is the program's heap (brk): it behaves like other anonymous memory.
pub const MAP_HEAP: u64 = 4;

/// The mapping is locked in memory (`MAP_LOCKED`): its pages come at once, and stay.
pub const MAP_LOCKED: u64 = 8;

/// The mapping's pages come at once (`MAP_POPULATE`).
pub const MAP_POPULATE: u64 = 16;

/// Nothing may be done with the mapping yet (`PROT_NONE`).
pub const MAP_NO_ACCESS: u64 = 32;

/// `file` of a mapping that has none.
pub const NO_FILE: FileId = FileId::MAX;

/// Advice on a mapping, as `madvise` gives it, or on a file (`posix_fadvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Advice {
    /// No special treatment.
    Normal = 0,
    /// Expect random references: no readahead.
    Random = 1,
    /// Expect sequential references.
    Sequential = 2,
    /// Expect access soon.
    WillNeed = 3,
    /// The pages may be dropped.
    DontNeed = 4,
    /// Huge pages are wanted (`MADV_HUGEPAGE`).
    Huge = 5,
    /// No huge pages are wanted (`MADV_NOHUGEPAGE`).
    NoHuge = 6,
    /// What is used will not be used again (`POSIX_FADV_NOREUSE`).
    NoReuse = 7,
    /// Pages are given back once memory is short, unless they are written before (`MADV_FREE`).
    Free = 8,
    /// Pages are not used soon (`MADV_COLD`).
    Cold = 9,
    /// Pages go at once, to swap or to their file (`MADV_PAGEOUT`).
    PageOut = 10,
    /// What a range of a shared mapping holds goes, with the blocks behind it (`MADV_REMOVE`).
    Remove = 11,
}

/// A flag of [`Call::Lock`]: pages stay once they are touched, and are not brought to memory before
/// (`MLOCK_ONFAULT`, include/uapi/asm-generic/mman-common.h).
pub const LOCK_ON_FAULT: u64 = 1;

/// The flags of [`Call::LockAll`] (include/uapi/asm-generic/mman.h): what is mapped is locked, what will be is, and
/// either once it is touched only.
pub const LOCK_ALL: [u64; 3] = [1, 2, 4];

/// How [`Call::Populate`] brings pages to memory, as loads or as stores would (`MADV_POPULATE_READ`,
/// `MADV_POPULATE_WRITE`).
pub const POPULATE: [u64; 2] = [0, 1];

/// The flags of sync_file_range (linux/fs.h): to wait for pages that are being written, to begin to write those
/// that are dirty, and to wait for what is being written then.
pub const SYNC_FILE_RANGE: [u64; 3] = [1, 2, 4];

macro_rules! calls {
    ($( $(#[$doc:meta])* $name:ident = $code:literal { $( $(#[$fdoc:meta])* $field:ident : $ty:ty ),* } ),* $(,)?) => {
        /// A call on the operating system, or a mark of the partial order of synchronization.
        ///
        /// All offsets and lengths are in bytes, all addresses virtual; fields are as the system
        /// calls name them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "fields bear the names of the system calls' arguments")]
        pub enum Call {
            $( $(#[$doc])* $name { $( $(#[$fdoc])* $field: $ty ),* } ),*
        }

        impl Call {
            /// Appends the header and the argument operations to `out`.
            ///
            /// `instructions` counts those retired since the previous operation, the call included.
            pub fn encode(&self, instructions: u32, out: &mut Vec<Op>) {
                self.encode_with(&[], instructions, out);
            }

            /// The same of a read or write that has further buffers behind its first: their addresses and lengths,
            /// at most [`MOST_FURTHER_BUFFERS`] of them. The call's `length` is that of all buffers together.
            pub fn encode_with(&self, further: &[Buffer], instructions: u32, out: &mut Vec<Op>) {
                let (code, arguments): (u64, Vec<u64>) = match *self {
                    $( Call::$name { $( $field ),* } => ($code, vec![$( $field as u64 ),*]) ),*
                };
                let further = &further[..further.len().min(MOST_FURTHER_BUFFERS)];
                let pairs = arguments.len().div_ceil(2) + further.len();
                out.push(Op::new(OpKind::Call, 0, pairs as u16, instructions, code));
                for pair in arguments.chunks(2) {
                    out.push(Op { word: pair[0], meta: pair.get(1).copied().unwrap_or(0) });
                }
                out.extend(further.iter().map(|buffer| Op { word: buffer.address, meta: buffer.length }));
            }

            /// Argument operations that a call of its kind has, but for further buffers.
            fn pairs(&self) -> usize {
                match self {
                    $( Call::$name { .. } => <[&str]>::len(&[$( stringify!($field) ),*]).div_ceil(2) ),*
                }
            }

            /// Reads a call from its header and the `header.size()` operations that follow it.
            ///
            /// `None` where the code is unknown or arguments are missing (a corrupted stream).
            pub fn decode(header: Op, arguments: &[Op]) -> Option<Call> {
                let words: Vec<u64> = arguments
                    .iter()
                    .take(header.size() as usize)
                    .flat_map(|op| [op.word, op.meta])
                    .collect();
                let mut next = words.into_iter();
                match header.word {
                    $( $code => Some(Call::$name { $( $field: <$ty>::try_from(next.next()?).ok()? ),* }), )*
                    _ => None,
                }
            }
        }
    };
}

/// Where a part of what a read or write moves lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its virtual address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Buffers behind the first that a read or write has at most: as many as Linux takes (`UIO_MAXIOV`,
/// include/uapi/linux/uio.h).
pub const MOST_FURTHER_BUFFERS: usize = 1023;

impl Call {
    /// The file or directory that it names first, if it names any.
    pub fn file(&self) -> Option<FileId> {
        let mut call = *self;
        let may_be_none = matches!(call, Call::Map { .. } | Call::ReadDirectory { .. });
        call.file_mut().map(|file| *file).filter(|file| !may_be_none || *file != NO_FILE)
    }

    /// The same, to be changed: [`NO_FILE`], too.
    pub fn file_mut(&mut self) -> Option<&mut FileId> {
        match self {
            Call::Map { file, .. }
            | Call::Open { file, .. }
            | Call::Close { file }
            | Call::Read { file, .. }
            | Call::Write { file, .. }
            | Call::ReadDirect { file, .. }
            | Call::WriteDirect { file, .. }
            | Call::Sync { file }
            | Call::SyncData { file }
            | Call::SyncFileRange { file, .. }
            | Call::Unlink { file, .. }
            | Call::SpliceRead { file, .. }
            | Call::SpliceWrite { file, .. }
            | Call::CopyRange { file, .. }
            | Call::Allocate { file, .. }
            | Call::AdviseFile { file, .. }
            | Call::MakeDirectory { file, .. }
            | Call::RemoveDirectory { file }
            | Call::ReadDirectory { file, .. }
            | Call::Rename { file, .. }
            | Call::Link { file, .. }
            | Call::Unname { file, .. }
            | Call::Within { file, .. }
            | Call::Exists { file, .. }
            | Call::Stat { file }
            | Call::Truncate { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Whether the call may have several buffers (readv(2)).
    pub fn takes_buffers(&self) -> bool {
        matches!(
            self,
            Call::Read { .. }
                | Call::Write { .. }
                | Call::ReadDirect { .. }
                | Call::WriteDirect { .. }
        )
    }

    /// The buffers behind the first of a call that was decoded of these operations: none of most. What exceeds
    /// [`MOST_FURTHER_BUFFERS`] is no buffer.
    pub fn further_buffers<'a>(
        &self,
        header: Op,
        arguments: &'a [Op],
    ) -> impl ExactSizeIterator<Item = Buffer> + Clone + use<'a> {
        let most = if self.takes_buffers() { MOST_FURTHER_BUFFERS } else { 0 };
        let end = arguments.len().min(usize::from(header.size()));
        let begin = self.pairs().min(end);
        let further = &arguments[begin..end.min(begin + most)];
        further.iter().map(|op| Buffer { address: op.word, length: op.meta })
    }
}

calls! {
    /// Maps `length` bytes at `address`; `file` is [`NO_FILE`] for anonymous memory.
    Map = 1 { address: u64, length: u64, flags: u64, file: FileId, offset: u64 },
    /// Removes a mapping.
    Unmap = 2 { address: u64, length: u64 },
    /// Moves or resizes a mapping.
    Remap = 3 { old_address: u64, old_length: u64, new_address: u64, new_length: u64 },
    /// Advice on a range; see [`Advice`].
    Advise = 4 { address: u64, length: u64, advice: u64 },
    /// Opens a file of `size` bytes at this moment.
    Open = 5 { file: FileId, size: u64 },
    /// Closes a file.
    Close = 6 { file: FileId },
    /// Reads from a file into memory at `address`.
    Read = 7 { file: FileId, offset: u64, length: u64, address: u64 },
    /// Writes memory at `address` to a file.
    Write = 8 { file: FileId, offset: u64, length: u64, address: u64 },
    /// Forces a file to the store (fsync).
    Sync = 9 { file: FileId },
    /// Forces a mapped range to the store (msync).
    SyncRange = 10 { address: u64, length: u64 },
    /// Sets a file's size.
    Truncate = 11 { file: FileId, length: u64 },
    /// Starts `thread`, whose stream waits until now.
    Spawn = 12 { thread: ThreadId },
    /// The thread has passed its `sequence`-th signal (counted from 1, per thread).
    Signal = 13 { sequence: u64 },
    /// The thread goes on only once `thread` has passed its signal `sequence`.
    Wait = 14 { thread: ThreadId, sequence: u64 },
    /// The thread sleeps for a time given in picoseconds.
    Sleep = 15 { duration_ps: u64 },
    /// Any other system call, by its number.
    Other = 16 { number: u64 },
    /// A mark of the program: region of interest, phase.
    Marker = 17 { mark: u64 },
    /// What the thread did here is not recorded, but for its calls: see [`crate::windows`]. It takes no
    /// time.
    Skip = 18 { instructions: u64, loads: u64, stores: u64 },
    /// `process` begins, with what `parent` has mapped and in memory, which the two share until one
    /// writes to it; `thread` is its first, which a [`Call::Spawn`] behind this starts. The addresses of
    /// a process have its number above their lower 48 bits.
    Fork = 19 { parent: u64, process: u64, thread: ThreadId },
    /// The process runs another program in its place: what it has mapped goes.
    Exec = 20 { process: u64 },
    /// The process ends: what it has mapped goes.
    Exit = 21 { process: u64 },
    /// Deletes a file's only name, of `size` bytes where it is told of here first. The file goes once nobody has it open
    /// or mapped.
    Unlink = 22 { file: FileId, size: u64 },
    /// Forces a file's data to the store, and what is needed to find them (fdatasync).
    SyncData = 23 { file: FileId },
    /// Reads from a file into memory at `address`, past the page cache (`O_DIRECT`).
    ReadDirect = 24 { file: FileId, offset: u64, length: u64, address: u64 },
    /// Writes memory at `address` to a file, past the page cache (`O_DIRECT`).
    WriteDirect = 25 { file: FileId, offset: u64, length: u64, address: u64 },
    /// Forces all files to the store (sync, syncfs).
    SyncAll = 26 {},
    /// Writes the dirty pages of a range of a file, to its end where `length` is 0, and waits as `flags` say:
    /// those of sync_file_range, [`SYNC_FILE_RANGE`].
    SyncFileRange = 27 { file: FileId, offset: u64, length: u64, flags: u64 },
    /// Copies in the kernel, through the page cache, from one file to another (copy_file_range, sendfile).
    CopyRange = 28 { source: FileId, source_offset: u64, file: FileId, offset: u64, length: u64 },
    /// Hands a file's pages to a pipe or a socket without copying them (sendfile, splice).
    SpliceRead = 29 { file: FileId, offset: u64, length: u64 },
    /// Writes to a file what a pipe holds (splice).
    SpliceWrite = 30 { file: FileId, offset: u64, length: u64 },
    /// Changes which blocks a file has (fallocate); `mode` is that of the call, [`fallocate`].
    Allocate = 31 { file: FileId, mode: u64, offset: u64, length: u64 },
    /// Makes a directory in another, [`NO_FILE`] for the topmost (mkdir). Directories are numbered among files.
    MakeDirectory = 32 { file: FileId, parent: FileId },
    /// Removes an empty directory (rmdir).
    RemoveDirectory = 33 { file: FileId },
    /// Reads so many bytes of the names in a directory (getdents64).
    ReadDirectory = 34 { file: FileId, length: u64 },
    /// Gives a file, or a directory, another name in a directory, and takes the one that it had. Where the name is that of
    /// another, `replaced`, else [`NO_FILE`], that loses it: one of `size` bytes where it is told of here first, which has
    /// so many other `names`, and goes as a deleted one where it has none.
    Rename = 35 { file: FileId, parent: FileId, replaced: FileId, size: u64, names: u64 },
    /// Gives a file one more name, in a directory (link).
    Link = 36 { file: FileId, parent: FileId },
    /// Takes one of several names of a file, which is in a directory (unlink).
    Unname = 37 { file: FileId, parent: FileId },
    /// Says, before anything else does of a file or directory, in which directory its name is: there from the start with so
    /// many bytes, or to be made. Of others it is the topmost.
    Within = 38 { file: FileId, parent: FileId, size: u64 },
    /// Advice on a range of a file, to its end where `length` is 0 (posix_fadvise, readahead); see [`Advice`].
    AdviseFile = 39 { file: FileId, offset: u64, length: u64, advice: u64 },
    /// Locks a range in memory and brings its pages there (mlock, mlock2); `flags` are [`LOCK_ON_FAULT`] or none.
    Lock = 40 { address: u64, length: u64, flags: u64 },
    /// A range is locked no longer (munlock).
    Unlock = 41 { address: u64, length: u64 },
    /// Locks all memory of a process as [`LOCK_ALL`] says (mlockall); without flags none is locked from now on (munlockall).
    LockAll = 42 { process: u64, flags: u64 },
    /// Brings the pages of a range to memory (madvise), see [`POPULATE`].
    Populate = 43 { address: u64, length: u64, how: u64 },
    /// What may be done with a range from now on (mprotect): of the flags of a mapping [`MAP_WRITABLE`] and
    /// [`MAP_NO_ACCESS`].
    Protect = 44 { address: u64, length: u64, flags: u64 },
    /// Says, before anything else does of a file or a directory (1, else 0), that it has been there from the start, in a
    /// directory; of a file with so many bytes, which may be none.
    Exists = 45 { file: FileId, parent: FileId, size: u64, directory: u64 },
    /// Asks by a name what a file or a directory is (stat, access).
    Stat = 46 { file: FileId },
}

/// Modes of fallocate (include/uapi/linux/falloc.h). None of them: blocks are allocated, and the file grows.
pub mod fallocate {
    /// The file does not grow.
    pub const KEEP_SIZE: u64 = 1;
    /// What the range holds goes, and its blocks are free.
    pub const PUNCH_HOLE: u64 = 2;
    /// The range goes, and what is behind it moves to its place.
    pub const COLLAPSE_RANGE: u64 = 8;
    /// What the range holds goes, and its blocks are allocated.
    pub const ZERO_RANGE: u64 = 16;
    /// What is behind the range's begin moves behind its end.
    pub const INSERT_RANGE: u64 = 32;
    /// What the range shares with other files becomes its own.
    pub const UNSHARE_RANGE: u64 = 64;
}

/// Operations one after the other, without the arguments behind calls, and what each call is.
pub fn operations(ops: &[Op]) -> impl Iterator<Item = (Op, Option<Call>)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let op = *ops.get(at)?;
        at += 1;
        if op.kind_code() != OpKind::Call as u8 {
            return Some((op, None));
        }
        let call = Call::decode(op, &ops[at..]);
        at += usize::from(op.size());
        Some((op, call))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_keeps_its_fields() {
        let op = Op::new(OpKind::Store, FLAG_DEPENDENT, 64, 7, 0xdead_beef);
        assert_eq!(op.kind(), Some(OpKind::Store));
        assert_eq!((op.flags(), op.size(), op.instructions(), op.word), (1, 64, 7, 0xdead_beef));
        assert_eq!(std::mem::size_of::<Op>(), 16);
    }

    #[test]
    fn an_access_tells_on_which_load_it_depends() {
        let load = Op::load(64, 8, 1);
        assert_eq!(load.dependence(), 0);
        assert_eq!(load.with_flags(FLAG_DEPENDENT).dependence(), 1);
        for back in 0..=u64::from(MOST_DEPENDENCE) {
            let op = load.with_flags(FLAG_ATOMIC).depending_on(7).depending_on(back);
            assert_eq!(u64::from(op.dependence()), back);
            assert_eq!((op.flags() & FLAG_ATOMIC, op.size(), op.word), (FLAG_ATOMIC, 8, 64));
        }
        for far in [u64::from(MOST_DEPENDENCE) + 1, 257, u64::MAX] {
            assert_eq!(load.depending_on(far), load);
        }
    }

    #[test]
    fn a_call_decodes_to_what_was_encoded() {
        let call =
            Call::Map { address: 4096, length: 8192, flags: MAP_SHARED, file: 3, offset: 1 << 40 };
        let mut ops = Vec::new();
        call.encode(12, &mut ops);
        assert_eq!(ops.len(), 4);
        assert_eq!(ops[0].instructions(), 12);
        assert_eq!(Call::decode(ops[0], &ops[1..]), Some(call));
    }

    #[test]
    fn a_read_of_several_buffers_is_one_call_that_tells_them() {
        let call = Call::Read { file: 3, offset: 5, length: 60, address: 4096 };
        let further =
            [Buffer { address: 9000, length: 20 }, Buffer { address: u64::MAX, length: 30 }];
        let mut ops = Vec::new();
        call.encode_with(&further, 12, &mut ops);
        assert_eq!((ops.len(), ops[0].size()), (5, 4));
        assert_eq!(Call::decode(ops[0], &ops[1..]), Some(call));
        let told: Vec<Buffer> = call.further_buffers(ops[0], &ops[1..]).collect();
        assert_eq!(told, further);
        // Operations of others may follow; those of a call without buffers are none.
        ops.push(Op::load(7, 8, 1));
        assert_eq!(call.further_buffers(ops[0], &ops[1..]).len(), 2);
        let mut ops = Vec::new();
        Call::Sync { file: 1 }.encode(1, &mut ops);
        ops[0] = Op::new(OpKind::Call, 0, 3, 1, ops[0].word);
        ops.extend([Op::default(); 2]);
        assert_eq!(Call::Sync { file: 1 }.further_buffers(ops[0], &ops[1..]).len(), 0);
        let many = vec![further[0]; 5000];
        let mut ops = Vec::new();
        call.encode_with(&many, 1, &mut ops);
        assert_eq!(ops.len(), 3 + MOST_FURTHER_BUFFERS);
    }

    #[test]
    fn a_call_without_fields_is_its_header_alone() {
        let mut ops = Vec::new();
        Call::SyncAll {}.encode(3, &mut ops);
        assert_eq!((ops.len(), ops[0].size()), (1, 0));
        assert_eq!(Call::decode(ops[0], &[]), Some(Call::SyncAll {}));
    }

    #[test]
    fn a_damaged_call_is_refused() {
        let mut ops = Vec::new();
        Call::Read { file: 1, offset: 0, length: 10, address: 0 }.encode(1, &mut ops);
        assert_eq!(Call::decode(ops[0], &ops[1..2]), None, "arguments missing");
        ops[1].word = u64::MAX;
        assert_eq!(Call::decode(ops[0], &ops[1..]), None, "a file number beyond 32 bits");
        let unknown = Op::new(OpKind::Call, 0, 0, 1, 999);
        assert_eq!(Call::decode(unknown, &[]), None);
    }
}
