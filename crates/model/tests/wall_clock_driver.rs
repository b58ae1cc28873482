//! A second driver of the hybrid controller: the wall clock, a file as the store, a vector as
//! DRAM, real data, and no event queue. It keeps the seam open for paging real programs.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tierscope_kernel::{Stage, Timeline};
use tierscope_model::organization::hybrid::{Action, Controller, Place, PrefetcherKind, Token};
use tierscope_model::organization::{
    DramCacheSpec, FillPolicy, HybridSpec, InitialContent, MissPredictorKind, TagStore,
};
use tierscope_model::replacement::PolicyKind;
use tierscope_model::request::LineRequest;
use tierscope_units::{Duration, Size};

const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;
const FRAMES: usize = 16;
const STORE_PAGES: usize = 64;

/// A page to read from the file, or to write to it.
struct Order {
    token: Token,
    address: u64,
    bytes: usize,
    data: Option<Vec<u8>>,
}

/// What the store's thread answers: the data, for a read.
struct Done {
    token: Token,
    data: Option<Vec<u8>>,
}

/// A file that a thread of its own reads and writes, so that completions come whenever they do.
struct FileStore {
    orders: Option<Sender<Order>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    path: PathBuf,
}

impl FileStore {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tierscope-store-{}", std::process::id()));
        let mut file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
        file.set_len((STORE_PAGES * PAGE_BYTES) as u64)?;
        let (orders, inbox) = channel();
        let (outbox, done) = channel();
        let thread = std::thread::spawn(move || serve(&mut file, &inbox, &outbox));
        Ok(FileStore { orders: Some(orders), done, thread: Some(thread), path })
    }

    fn send(&self, order: Order) {
        let orders = self.orders.as_ref().expect("the store is open");
        orders.send(order).expect("the store's thread lives");
    }

    /// Ends the thread; the file's content.
    fn close(mut self) -> std::io::Result<Vec<u8>> {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the store's thread ends well")?;
        }
        let content = std::fs::read(&self.path)?;
        std::fs::remove_file(&self.path)?;
        Ok(content)
    }
}

fn serve(file: &mut File, inbox: &Receiver<Order>, outbox: &Sender<Done>) -> std::io::Result<()> {
    while let Ok(Order { token, address, bytes, data }) = inbox.recv() {
        file.seek(SeekFrom::Start(address))?;
        let data = match data {
            Some(data) => {
                file.write_all(&data)?;
                None
            }
            None => {
                let mut page = vec![0; bytes];
                file.read_exact(&mut page)?;
                Some(page)
            }
        };
        if outbox.send(Done { token, data }).is_err() {
            break;
        }
    }
    Ok(())
}

/// A store order under way: when it was given, and where a read's data go.
struct Open {
    token: Token,
    since_ps: u64,
    into: Option<Place>,
}

/// Drives the controller with real time and real data.
struct Driver {
    controller: Controller,
    start: Instant,
    dram: Vec<u8>,
    store: FileStore,
    open: Vec<Open>,
    /// What DRAM has done and the controller has not been told, with the time of the order.
    moved: VecDeque<(Token, u64)>,
    requests: Vec<[u8; LINE_BYTES]>,
    fills: Vec<Vec<u8>>,
    write_backs: Vec<Vec<u8>>,
    /// Requests answered: number chosen by the submitter, data, latency.
    answers: Vec<(u32, [u8; LINE_BYTES], u64)>,
}

impl Driver {
    fn new(spec: &HybridSpec) -> std::io::Result<Self> {
        let page = vec![0; PAGE_BYTES];
        Ok(Driver {
            controller: Controller::new(spec, (STORE_PAGES * PAGE_BYTES) as u64, LINE_BYTES as u32),
            start: Instant::now(),
            dram: vec![0; FRAMES * PAGE_BYTES],
            store: FileStore::new()?,
            open: Vec::new(),
            moved: VecDeque::new(),
            requests: vec![[0; LINE_BYTES]; spec.queue_depth as usize],
            fills: vec![page.clone(); spec.fills as usize],
            write_backs: vec![page; spec.write_back_buffer_pages as usize],
            answers: Vec::new(),
        })
    }

    fn now_ps(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 * 1000
    }

    /// Takes a request, if there is room; `data` is what a write writes.
    fn submit(&mut self, id: u32, address: u64, data: Option<[u8; LINE_BYTES]>) -> bool {
        let request = LineRequest { id, core: 0, address, write: data.is_some(), version: 0 };
        let Ok(slot) = self.controller.submit(self.now_ps(), request) else { return false };
        self.requests[slot as usize] = data.unwrap_or([0; LINE_BYTES]);
        true
    }

    /// Tells the controller what has happened, and does what it says.
    fn poll(&mut self) {
        let mut actions = Vec::new();
        while let Ok(Done { token, data }) = self.store.done.try_recv() {
            let index = self.open.iter().position(|open| open.token == token);
            let open = self.open.swap_remove(index.expect("the store answers what was ordered"));
            if let (Some(data), Some(into)) = (data, open.into) {
                self.place(into, data.len()).copy_from_slice(&data);
            }
            self.complete(token, Stage::Medium, open.since_ps, &mut actions);
        }
        while let Some((token, since_ps)) = self.moved.pop_front() {
            self.complete(token, Stage::Dram, since_ps, &mut actions);
        }
        let now_ps = self.now_ps();
        if self.controller.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.controller.advance(now_ps, &mut actions);
        }
        self.execute(&mut actions);
    }

    fn complete(&mut self, token: Token, stage: Stage, since_ps: u64, actions: &mut Vec<Action>) {
        let now_ps = self.now_ps();
        let mut stages = Timeline::new();
        stages.push(stage, now_ps - since_ps);
        self.controller.complete(now_ps, token, &stages, actions);
        self.execute(actions);
    }

    fn execute(&mut self, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            let since_ps = self.now_ps();
            match action {
                Action::ReadStore { token, address, bytes, into, .. } => {
                    let into = Some(into).filter(|into| *into != Place::Nowhere);
                    self.open.push(Open { token, since_ps, into });
                    let bytes = bytes as usize;
                    self.store.send(Order { token, address, bytes, data: None });
                }
                Action::WriteStore { token, address, bytes, from } => {
                    self.open.push(Open { token, since_ps, into: None });
                    let bytes = bytes as usize;
                    let data = Some(self.place(from, bytes).to_vec());
                    self.store.send(Order { token, address, bytes, data });
                }
                Action::ReadDram { token, address, bytes, into, .. } => {
                    let (address, bytes) = (address as usize, bytes as usize);
                    let data = self.dram[address..address + bytes].to_vec();
                    if into != Place::Nowhere {
                        self.place(into, bytes).copy_from_slice(&data);
                    }
                    self.moved.push_back((token, since_ps));
                }
                Action::WriteDram { token, address, bytes, from, .. } => {
                    let (address, bytes) = (address as usize, bytes as usize);
                    let data = self.place(from, bytes).to_vec();
                    self.dram[address..address + bytes].copy_from_slice(&data);
                    self.moved.push_back((token, since_ps));
                }
                Action::Copy { from, into, bytes } => {
                    let data = self.place(from, bytes as usize).to_vec();
                    self.place(into, bytes as usize).copy_from_slice(&data);
                }
                Action::Respond { request, response } => {
                    let data = self.requests[request as usize];
                    let latency_ps = response.stages.total_ps();
                    self.answers.push((response.id, data, latency_ps));
                }
            }
        }
    }

    fn place(&mut self, place: Place, bytes: usize) -> &mut [u8] {
        match place {
            Place::Request(request) => &mut self.requests[request as usize][..bytes],
            Place::Fill { buffer, offset } => {
                &mut self.fills[buffer as usize][offset as usize..offset as usize + bytes]
            }
            Place::WriteBack { buffer, offset } => {
                &mut self.write_backs[buffer as usize][offset as usize..offset as usize + bytes]
            }
            Place::Nowhere => panic!("nothing lies nowhere"),
        }
    }

    fn drain(&mut self) {
        while self.controller.in_flight() > 0 {
            self.poll();
        }
    }

    fn flush(&mut self) {
        let mut actions = Vec::new();
        while !self.controller.flush(self.now_ps(), &mut actions) {
            self.execute(&mut actions);
            self.poll();
        }
    }
}

fn spec(ways: u32, tags: TagStore) -> HybridSpec {
    HybridSpec {
        cache: DramCacheSpec {
            capacity: Size::from_bytes((FRAMES * PAGE_BYTES) as u64),
            ways,
            page: Size::from_bytes(PAGE_BYTES as u64),
            sector: None,
            replacement: PolicyKind::Lru,
            tags,
            miss_predictor: match tags {
                TagStore::WithData => MissPredictorKind::Region,
                _ => MissPredictorKind::None,
            },
            fill: FillPolicy::Misses,
            tag_cache: None,
            tag_latency: Duration::from_picoseconds(1_000),
            initial: InitialContent::Empty,
        },
        controller_latency: Duration::from_picoseconds(1_000),
        queue_depth: 8,
        fills: 4,
        write_back_buffer_pages: 3,
        prefetcher: PrefetcherKind::Sequential,
        prefetch_pages: 2,
        prefetch_streams: 1,
        eager_write_back: false,
        critical_line_first: true,
        flush_at_sync: true,
    }
}

/// Random writes and reads of lines, several under way at once, each read compared with what was
/// written last; at the end the file must hold everything.
fn data_come_back(spec: &HybridSpec) -> std::io::Result<()> {
    let mut driver = Driver::new(spec)?;
    let mut shadow = vec![0u8; STORE_PAGES * PAGE_BYTES];
    let mut expected = Vec::new();
    let mut lots = 1u64;
    for id in 0..6_000u32 {
        lots = lots.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
        let page = (lots >> 33) as usize % if id % 500 < 250 { 20 } else { STORE_PAGES };
        let address = page * PAGE_BYTES + (lots >> 50) as usize % 5 * LINE_BYTES;
        let line = address..address + LINE_BYTES;
        let write = lots >> 60 & 1 == 1;
        let mut data = [0; LINE_BYTES];
        if write {
            data.fill(id as u8);
            data[..4].copy_from_slice(&id.to_le_bytes());
            shadow[line.clone()].copy_from_slice(&data);
        }
        while !driver.submit(id, address as u64, write.then_some(data)) {
            driver.poll();
        }
        expected.push((!write).then(|| shadow[line].to_vec()));
        driver.poll();
    }
    driver.drain();
    assert_eq!(driver.answers.len(), expected.len(), "each request is answered once");
    for (id, data, latency_ps) in &driver.answers {
        assert!(*latency_ps > 0);
        if let Some(expected) = expected[*id as usize].take() {
            assert_eq!(data[..], expected[..], "request {id}");
        }
    }
    driver.flush();
    let report = driver.controller.report();
    assert!(report.misses > 0 && report.misses < report.lookups && report.write_backs > 0);
    assert!(driver.store.close()? == shadow, "the file holds all that was written");
    Ok(())
}

#[test]
fn the_wall_clock_drives_the_controller_as_well() -> std::io::Result<()> {
    let mut sectored = spec(4, TagStore::Sram);
    sectored.cache.sector = Some(Size::from_bytes(512));
    (sectored.eager_write_back, sectored.prefetcher) = (true, PrefetcherKind::Streams);
    let whole = [spec(4, TagStore::Sram), spec(1, TagStore::Sram), spec(1, TagStore::WithData)];
    for spec in whole.into_iter().chain([sectored]) {
        data_come_back(&spec)?;
    }
    Ok(())
}
