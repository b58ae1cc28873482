//! The disk of the presets against its specification: what docs/models/disk.md has in its table.

use tierscope_kernel::Random;
use tierscope_model::device::{AnyDevice, DeviceDescription};
use tierscope_model::link::LinkDescription;
use tierscope_model::request::{Completion, Device, Request};
use tierscope_system::spec::{SystemSpec, load};

/// A disk in use: random requests wherever they are wanted, or one after the other.
struct Use {
    disk: AnyDevice,
    capacity: u64,
    now_ps: u64,
    out: Vec<Completion>,
}

impl Use {
    fn new(sets: &[(&str, &str)]) -> Self {
        let sets: Vec<_> =
            sets.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
        let spec: SystemSpec = load("device/disk-7200", &sets).expect("the preset is right").spec;
        let (disk, sata) = (spec.disk.expect("a disk"), spec.sata.expect("its link"));
        let capacity = disk.capacity().bytes();
        let link: &dyn LinkDescription = &sata;
        Use { disk: disk.build(link), capacity, now_ps: 0, out: Vec::new() }
    }

    /// So many requests at `place`, `depth` of them at a time; the seconds that they take.
    fn requests(
        &mut self,
        count: u64,
        depth: usize,
        bytes: u32,
        write: bool,
        mut place: impl FnMut(u64) -> u64,
    ) -> f64 {
        let (began_ps, mut sent, mut done) = (self.now_ps, 0, 0);
        while done < count {
            while sent < count && self.disk.in_flight() < depth {
                let address = place(sent);
                let request = Request { id: sent as u32, address, bytes, write, background: false };
                if self.disk.submit(self.now_ps, request).is_err() {
                    break;
                }
                sent += 1;
            }
            self.now_ps = self.disk.next_event_ps().expect("something is under way");
            self.disk.advance(self.now_ps, &mut self.out);
            done += self.out.drain(..).count() as u64;
        }
        (self.now_ps - began_ps) as f64 / 1e12
    }

    /// Random requests of so many bytes within the first `share` of the disk, how many a second.
    fn random(&mut self, count: u64, depth: usize, bytes: u32, write: bool, share: u64) -> f64 {
        let mut random = Random::stream(1, "disk");
        let places = self.capacity / share / 4096;
        count as f64 / self.requests(count, depth, bytes, write, |_| random.below(places) * 4096)
    }

    /// 16 MiB from `first` on by 128 commands, one at a time, after a read elsewhere; seconds.
    fn sequential(&mut self, first: u64, write: bool) -> f64 {
        let elsewhere = self.capacity / 2;
        self.requests(1, 1, 512, false, |_| elsewhere);
        self.requests(128, 1, 131_072, write, |at| first + at * 131_072)
    }

    /// Bytes a second of a long stream from `first` on, in MB/s.
    fn stream(&mut self, first: u64) -> f64 {
        self.requests(256, 1, 131_072, false, |at| first + at * 131_072);
        let (count, from) = (2048, first + 256 * 131_072);
        let time_s = self.requests(count, 1, 131_072, false, |at| from + at * 131_072);
        count as f64 * 0.131_072 / time_s
    }
}

/// A published figure, and within which share of it the model lies, below and above.
fn against(what: &str, found: f64, published: f64, from: f64, to: f64) {
    let off = found / published - 1.0;
    println!("{what}: {found:.4}, published {published}: {:+.1} %", off * 100.0);
    assert!((from..=to).contains(&off), "{what}: {found}, published {published}: {off}");
}

/// Within the innermost zone.
const INNERMOST: u64 = 495_000_000_000;

#[test]
fn streams_against_the_specification() {
    against("zone 0, MB/s", Use::new(&[]).stream(0), 64.8, -0.02, 0.02);
    against("zone 29, MB/s", Use::new(&[]).stream(INNERMOST), 31.0, -0.02, 0.02);
    // The typical time is said to be 105 % of what comes of the formula.
    against("16 MiB of zone 0, s", Use::new(&[]).sequential(0, false) * 1.05, 0.29, -0.06, 0.06);
    let innermost = Use::new(&[]).sequential(INNERMOST, false) * 1.05;
    against("16 MiB of zone 29, s", innermost, 0.59, -0.06, 0.06);
}

#[test]
fn random_reads_against_the_specification() {
    let rate = Use::new(&[]).random(4096, 1, 512, false, 1);
    against("4096 random reads, s", 4096.0 / rate * 1.05, 55.5, -0.04, 0.02);
}

#[test]
fn queues_caches_and_short_strokes_are_worth_what_they_should() {
    let one = Use::new(&[]).random(2000, 1, 4096, false, 1);
    let queued = Use::new(&[]).random(4000, 32, 4096, false, 1);
    let in_order = Use::new(&[("disk.window", "1")]).random(4000, 32, 4096, false, 1);
    let cached = Use::new(&[]).random(8000, 1, 4096, true, 1);
    let short = Use::new(&[]).random(2000, 1, 4096, false, 10);
    println!("{one:.1} {queued:.1} {in_order:.1} {cached:.1} {short:.1} requests/s");
    assert!((1.8..2.6).contains(&(queued / one)), "the shortest way first: {queued}, {one}");
    assert!((0.95..1.05).contains(&(in_order / one)), "no choice: {in_order}, {one}");
    assert!(cached / one > 1.5, "the buffer is a queue: {cached}, {one}");
    // A tenth of the disk, the outermost: half a turn, the controller, and seeks of a tenth.
    assert!((1.3..1.7).contains(&(short / one)), "a short stroke: {short}, {one}");
}
