//! The file of a recording: its header, its blocks, and where they are.

use super::block::{BlockHeader, BlockKind, BlockPlace, FILES_THREAD, checksum, u32_at, u64_at};
use super::tables::Tables;
use super::*;
use crate::op::{Call, Op, OpKind, operations};
use crate::site::SiteTable;
use crate::stream::FileInfo;
use crate::trace::codec::{CodecError, Decoder};
use crate::windows::{PROCESS_SHIFT, skipped_in};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

pub(super) struct Recording {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) file_bytes: u64,
    pub(super) first_block: u64,
    pub(super) version: u32,
    pub(super) metadata: TstMetadata,
    pub(super) totals: Option<TstTotals>,
    pub(super) damage: Option<Damage>,
    pub(super) blocks: BTreeMap<ThreadId, Vec<BlockPlace>>,
    /// What starts the threads that are in it while what started them is lost.
    pub(super) starts: Arc<Vec<Op>>,
    pub(super) files: Arc<Vec<FileInfo>>,
    pub(super) sites: Arc<SiteTable>,
}

impl Recording {
    pub(super) fn open(path: &Path, allow_truncated: bool) -> Result<Recording, TstError> {
        let failed = |source| TstError::Io { path: path.to_owned(), source };
        // Before it is opened: to open a pipe that nobody writes to never ends.
        let status = std::fs::metadata(path).map_err(failed)?;
        if !status.is_file() && !status.is_dir() {
            let reason = "no regular file: a recording is read here and there, which a pipe or a \
                          device does not allow; name the file that holds it";
            return Err(failed(io::Error::other(reason)));
        }
        let file = File::open(path).map_err(failed)?;
        let file_bytes = status.len();
        let mut recording = Recording {
            path: path.to_owned(),
            file,
            file_bytes,
            first_block: 0,
            version: VERSION,
            metadata: TstMetadata::default(),
            totals: None,
            damage: None,
            blocks: BTreeMap::new(),
            starts: Arc::default(),
            files: Arc::default(),
            sites: Arc::default(),
        };
        recording.read_header()?;
        if allow_truncated {
            recording.damage = recording.scan();
        } else if let Err(damage) = recording.read_index() {
            let damage = recording.scan().unwrap_or(damage);
            return Err(TstError::Damaged { path: path.to_owned(), damage });
        }
        if let Some(totals) = &recording.totals {
            let header = |what| TstError::Header { path: path.to_owned(), what };
            totals.check_windows(recording.metadata.windows).map_err(header)?;
        }
        Ok(recording)
    }

    /// Checks that the header knows of what has been decoded. An error says what it does not.
    pub(super) fn check_seen(&self, decoder: &Decoder) -> Result<(), &'static str> {
        if decoder.skips && self.metadata.windows.is_none() {
            return Err("it passes over a part of the program, and the header says of no windows");
        }
        match decoder.since {
            since if since <= self.version => Ok(()),
            USES_VERSION => {
                Err("it tells what was used between windows, which comes with version 6")
            }
            FILES_VERSION => {
                Err("it has a call of a kind, or with several buffers, that comes with version 7")
            }
            NAMES_VERSION => {
                Err("it has a call on names or directories, which come with version 8")
            }
            ADVICE_VERSION => {
                Err("it has advice on a file, a lock or the like, which come with version 9")
            }
            STAT_VERSION => {
                Err("it has a call that tells or asks of a file, which come with version 10")
            }
            _ => Err(
                "it has an access that depends on a load before the last, which version 11 tells",
            ),
        }
    }

    pub(super) fn damaged(&self, block: u64, offset: u64, what: String) -> TstError {
        TstError::Damaged { path: self.path.clone(), damage: Damage { block, offset, what } }
    }

    fn read_header(&mut self) -> Result<(), TstError> {
        let header = |what: &str| TstError::Header { path: self.path.clone(), what: what.into() };
        let mut fixed = [0; 16];
        let length = self.file_bytes.min(16) as usize;
        self.file
            .read_exact_at(&mut fixed[..length], 0)
            .map_err(|source| TstError::Io { path: self.path.clone(), source })?;
        if fixed[..8] != MAGIC {
            return Err(TstError::NotARecording { path: self.path.clone() });
        }
        let version = u32_at(&fixed, 8);
        if length == 16 && !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(TstError::Version { path: self.path.clone(), found: version });
        }
        let text_bytes = u32_at(&fixed, 12) as usize;
        if length < 16 || text_bytes > MAX_METADATA_BYTES {
            return Err(header("it is cut short, or longer than it may be"));
        }
        let mut rest = vec![0; text_bytes + 4];
        self.file.read_exact_at(&mut rest, 16).map_err(|_| header("it is cut short"))?;
        if checksum(&fixed, &rest[..text_bytes]) != u32_at(&rest, text_bytes) {
            return Err(header("its checksum does not match"));
        }
        let metadata: TstMetadata =
            fields::parse(&rest[..text_bytes], fields::HEADER).map_err(|what| header(&what))?;
        metadata.check(version).map_err(|what| header(&what))?;
        self.metadata = metadata;
        self.version = version;
        self.first_block = 20 + text_bytes as u64;
        Ok(())
    }

    /// Reads, checks and decompresses the block at `offset` into `raw`. An error says what is wrong.
    pub(super) fn read_block(&self, offset: u64, raw: &mut Vec<u8>) -> Result<BlockHeader, String> {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|error| unreadable("its header", &error))?;
        let header = BlockHeader::unpack(&bytes)?;
        let payload_offset = offset + BLOCK_HEADER_BYTES as u64;
        if self.file_bytes.saturating_sub(payload_offset) < u64::from(header.stored_bytes) {
            return Err("it is cut short: the file ends within it".into());
        }
        let mut payload = vec![0; header.stored_bytes as usize];
        self.file
            .read_exact_at(&mut payload, payload_offset)
            .map_err(|error| unreadable("it", &error))?;
        if checksum(&bytes[..36], &payload) != header.checksum {
            return Err("its checksum does not match".into());
        }
        *raw = zstd::bulk::decompress(&payload, header.raw_bytes as usize)
            .map_err(|error| format!("it does not decompress: {error}"))?;
        if raw.len() != header.raw_bytes as usize {
            return Err("it decompresses to another length than it says".into());
        }
        Ok(header)
    }

    /// Reads trailer, index and totals of a complete recording.
    fn read_index(&mut self) -> Result<(), Damage> {
        let Index { places, totals, end, .. } = self.index()?;
        self.take_index(&places)?;
        let damage = |what| Damage { what, ..end };
        self.take_totals(&totals).map_err(damage)
    }

    /// Where all blocks are, of a complete recording, and its totals.
    fn index(&self) -> Result<Index, Damage> {
        let (index_offset, index_block) = self.read_trailer()?;
        let (mut offset, mut number) = (index_offset, index_block);
        let end = self.file_bytes - TRAILER_BYTES as u64;
        let mut raw = Vec::new();
        let mut places = Vec::new();
        loop {
            let damage = |what: String| Damage { block: number, offset, what };
            let header = self.read_block(offset, &mut raw).map_err(damage)?;
            if u64::from(header.number) != number {
                return Err(damage(format!("it says that it is block {}", header.number)));
            }
            let next = offset + (BLOCK_HEADER_BYTES as u64 + u64::from(header.stored_bytes));
            match header.kind {
                BlockKind::Index => {
                    let first = places.len() as u64;
                    let entries = (first..).zip(raw.chunks_exact(INDEX_ENTRY_BYTES));
                    places.extend(entries.map(|(number, entry)| BlockPlace {
                        number,
                        offset: u64_at(entry, 0),
                        thread: u32_at(entry, 8),
                        ops: u32_at(entry, 12),
                    }));
                }
                BlockKind::End if next == end => {
                    self.check_places(&places, index_offset, index_block).map_err(damage)?;
                    let end = Damage { block: number, offset, what: String::new() };
                    return Ok(Index { places, end_of_places: index_offset, totals: raw, end });
                }
                _ => return Err(damage("it does not belong at the end of a recording".into())),
            }
            // Every block that the index names takes at least a header's bytes.
            if places.len() as u64 > self.file_bytes / BLOCK_HEADER_BYTES as u64 {
                return Err(damage("the index names more blocks than the file can hold".into()));
            }
            (offset, number) = (next, number + 1);
        }
    }

    /// Where the index begins: offset and block number.
    fn read_trailer(&self) -> Result<(u64, u64), Damage> {
        let truncated = || Damage {
            block: 0,
            offset: self.file_bytes,
            what: "the recording has no end: it is truncated, or was never completed".into(),
        };
        let at = self.file_bytes.checked_sub(TRAILER_BYTES as u64).ok_or_else(truncated)?;
        let mut trailer = [0; TRAILER_BYTES];
        self.file.read_exact_at(&mut trailer, at).map_err(|_| truncated())?;
        let intact = trailer[24..] == END_MAGIC
            && checksum(&trailer[..20], &[]) == u32_at(&trailer, 20)
            && (self.first_block..at).contains(&u64_at(&trailer, 0));
        if intact { Ok((u64_at(&trailer, 0), u64_at(&trailer, 8))) } else { Err(truncated()) }
    }

    /// Checks that the index names every block before it: those begin where the header ends, one after
    /// the other, and there are as many as the trailer says.
    fn check_places(&self, places: &[BlockPlace], end: u64, count: u64) -> Result<(), String> {
        let first = places.first().map_or(end, |place| place.offset);
        let follow = |pair: &[BlockPlace]| {
            pair[1].offset >= pair[0].offset.saturating_add(BLOCK_HEADER_BYTES as u64)
        };
        let last = places.last().is_none_or(|place| place.offset < end);
        if places.len() as u64 != count || first != self.first_block || !last {
            return Err("the index does not name the blocks before it".into());
        }
        if !places.windows(2).all(follow) {
            return Err("the index names blocks that do not follow each other".into());
        }
        Ok(())
    }

    /// Takes the totals, which agree with the blocks.
    fn take_totals(&mut self, raw: &[u8]) -> Result<(), String> {
        let totals: TstTotals = fields::parse(raw, fields::TOTALS)?;
        if (!totals.missing.is_empty() || totals.marks.is_some()) && self.version < MISSING_VERSION
        {
            return Err(
                "the totals say what is missing or marked, which comes with version 4".into()
            );
        }
        if self.version >= MISSING_VERSION {
            totals.check_texts()?;
        }
        let operations = self.blocks.values().flatten().map(|block| u64::from(block.ops)).sum();
        totals.check(&self.metadata, self.blocks.len(), operations)?;
        self.totals = Some(totals);
        Ok(())
    }

    fn take_tables(&mut self, tables: Tables) {
        self.files = Arc::new(tables.files);
        self.sites = Arc::new(tables.sites);
    }

    /// Sorts the index by thread and reads the tables of files and sites.
    fn take_index(&mut self, places: &[BlockPlace]) -> Result<(), Damage> {
        let mut tables = Tables::new(self.metadata.sites);
        let mut raw = Vec::new();
        for place in places {
            if place.thread != FILES_THREAD {
                self.blocks.entry(place.thread).or_default().push(*place);
                continue;
            }
            let damage = |what| Damage { block: place.number, offset: place.offset, what };
            let header = self.read_block(place.offset, &mut raw).map_err(damage)?;
            tables.take(&header, &raw).map_err(damage)?;
        }
        self.take_tables(tables);
        Ok(())
    }

    /// Goes through the file and keeps what precedes the first damage, which it returns; where the index is
    /// intact, what precedes the first damage of each thread.
    fn scan(&mut self) -> Option<Damage> {
        self.blocks.clear();
        self.totals = None;
        let index = self.index().ok();
        let mut tables = Tables::new(self.metadata.sites);
        let mut scan = Scan { offset: self.first_block, ..Scan::default() };
        let mut first = None;
        while let Err(damage) = self.scan_blocks(&mut scan, &mut tables) {
            let next = index.as_ref().and_then(|index| scan.pass_over(&damage, index));
            first.get_or_insert(damage);
            if next.is_none() {
                break;
            }
        }
        self.take_tables(tables);
        if let Some(damage) = &mut first {
            scan.tell(damage);
            self.starts = Arc::new(scan.starts_of(self.blocks.keys()));
        }
        first
    }

    /// Goes on to the end, or to the first damage.
    fn scan_blocks(&mut self, scan: &mut Scan, tables: &mut Tables) -> Result<(), Damage> {
        let mut decoder = Decoder::default();
        let mut raw = Vec::new();
        let mut ops = Vec::new();
        loop {
            let (number, offset) = (scan.number, scan.offset);
            let damage = |what: String| Damage { block: number, offset, what };
            if offset >= self.file_bytes {
                return Err(damage("the recording is truncated: it ends before this block".into()));
            }
            let header = self.read_block(offset, &mut raw).map_err(damage)?;
            if u64::from(header.number) != number {
                return Err(damage(format!("it says that it is block {}", header.number)));
            }
            match header.kind {
                BlockKind::Operations if scan.lost.contains_key(&header.thread) => {
                    scan.lose(header.thread, header.ops);
                }
                BlockKind::Operations => {
                    let passed = scan.passed_ops.entry(header.thread).or_insert(0);
                    if header.first_op != *passed || header.thread == FILES_THREAD {
                        return Err(damage("operations before it are missing".into()));
                    }
                    ops.clear();
                    decoder
                        .decode(&raw, header.ops as usize, &mut ops)
                        .map_err(|CodecError(what)| damage(what.into()))?;
                    self.check_seen(&decoder).map_err(|what| damage(what.into()))?;
                    *passed += u64::from(header.ops);
                    scan.counts += Counts::of(&ops);
                    scan.see(header.thread, &ops);
                    if self.metadata.windows.is_some() {
                        scan.skipped += skipped_in(&ops);
                    }
                    self.blocks.entry(header.thread).or_default().push(BlockPlace {
                        number,
                        offset,
                        thread: header.thread,
                        ops: header.ops,
                    });
                }
                BlockKind::Files | BlockKind::Sites => {
                    tables.take(&header, &raw).map_err(damage)?;
                }
                BlockKind::Index => {}
                BlockKind::End if !scan.lost.is_empty() => return Ok(()),
                BlockKind::End => {
                    self.take_totals(&raw).map_err(damage)?;
                    if let Some(Err(what)) = self
                        .totals
                        .as_ref()
                        .map(|totals| totals.check_counts(scan.counts, scan.skipped))
                    {
                        self.totals = None;
                        return Err(damage(what));
                    }
                    let trailer = self.read_trailer();
                    return trailer.map(|_| ()).map_err(|_| {
                        damage("what follows it, the end of the recording, is damaged".into())
                    });
                }
            }
            scan.offset += BLOCK_HEADER_BYTES as u64 + u64::from(header.stored_bytes);
            scan.number += 1;
        }
    }
}

/// What the end of a complete recording says.
struct Index {
    places: Vec<BlockPlace>,
    /// Where the last of these ends, in bytes.
    end_of_places: u64,
    /// The block of the totals, decompressed …
    totals: Vec<u8>,
    /// … and which one it is.
    end: Damage,
}

/// Where a scan stands, and what it has seen.
#[derive(Default)]
struct Scan {
    offset: u64,
    number: u64,
    passed_ops: BTreeMap<ThreadId, u64>,
    counts: Counts,
    skipped: Counts,
    /// Threads and processes that are seen to begin, and whose each thread is.
    started: BTreeSet<ThreadId>,
    forked: BTreeSet<u64>,
    processes: BTreeMap<ThreadId, u64>,
    /// Blocks and operations of each thread that are behind its first damage, or damaged.
    lost: BTreeMap<ThreadId, (u64, u64)>,
}

impl Scan {
    /// Passes over a damaged block of operations, where the index tells of it. Damage of anything else ends the scan, since
    /// files have their numbers by the order of their table.
    fn pass_over(&mut self, damage: &Damage, index: &Index) -> Option<()> {
        let places = &index.places;
        let at = places.partition_point(|place| place.offset < damage.offset);
        let place = places.get(at).filter(|place| place.offset == damage.offset)?;
        let next = places.get(at + 1).map_or(index.end_of_places, |next| next.offset);
        if place.thread == FILES_THREAD {
            return None;
        }
        self.lose(place.thread, place.ops);
        (self.offset, self.number) = (next, at as u64 + 1);
        Some(())
    }

    fn lose(&mut self, thread: ThreadId, ops: u32) {
        let (blocks, all) = self.lost.entry(thread).or_default();
        (*blocks, *all) = (*blocks + 1, *all + u64::from(ops));
    }

    /// Sees who begins by operations of a thread, and whose it is.
    fn see(&mut self, thread: ThreadId, ops: &[Op]) {
        for (op, call) in operations(ops) {
            match call {
                Some(Call::Spawn { thread }) => _ = self.started.insert(thread),
                Some(Call::Fork { process, .. }) => _ = self.forked.insert(process),
                _ => {}
            }
            if let Some(OpKind::Load | OpKind::Store) = op.kind() {
                self.processes.entry(thread).or_insert(op.word >> PROCESS_SHIFT);
            }
        }
    }

    /// What starts those of `threads` that nobody is seen to start, and their processes.
    fn starts_of<'a>(mut self, threads: impl Iterator<Item = &'a ThreadId>) -> Vec<Op> {
        let mut starts = Vec::new();
        for &thread in threads.filter(|thread| **thread != 0) {
            if self.started.contains(&thread) {
                continue;
            }
            let process = self.processes.get(&thread).copied().unwrap_or(0);
            if process != 0 && self.forked.insert(process) {
                Call::Fork { parent: 0, process, thread }.encode(0, &mut starts);
            }
            Call::Spawn { thread }.encode(0, &mut starts);
        }
        starts
    }

    /// Tells what is lost where something behind the damage is not.
    fn tell(&self, damage: &mut Damage) {
        let blocks: u64 = self.lost.values().map(|(blocks, _)| blocks).sum();
        if blocks > 0 {
            let ops: u64 = self.lost.values().map(|(_, ops)| ops).sum();
            let threads = self.lost.len();
            damage.what += &format!(
                "; left out: {ops} operations in {blocks} blocks of {threads} of the threads"
            );
        }
    }
}

fn unreadable(what: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it is cut short: the file ends within it".into(),
        _ => format!("{what} cannot be read: {}", reason(error)),
    }
}
