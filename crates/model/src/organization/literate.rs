//! Sequences of the pages of `docs/models`, played on an organization: accesses one after the other, or at times of their
//! own, and what happens to each. `docs/models/sequences.md` says how they are written down. `TIERSCOPE_BLESS=1` writes
//! what is found into the page.

use super::{Organization, OrganizationReport};
use crate::request::{LineRequest, LineResponse, Request, Response, Traffic};

/// An organization, and what a page tells of it.
pub(super) trait Scene {
    /// What is asked.
    fn memory(&mut self) -> &mut dyn Organization;

    /// Bytes of what the page calls a page.
    fn page_bytes(&self) -> u64;

    /// A request is about to be given to it.
    fn asks(&mut self, _id: u32, _address: u64) {}

    /// Something is about to happen.
    fn before(&mut self) {}

    /// Something has happened, at one time: what is to be said of requests, by their numbers.
    fn after(&mut self) -> Vec<(u32, String)>;

    /// Whether what a request alone has moved is told of DRAM, too; none if not at all.
    fn tells_traffic(&self) -> Option<bool> {
        None
    }

    /// The device of this name: what it was asked for, when, and how it is said.
    fn log(&self, _name: &str) -> Option<Vec<(u64, String)>> {
        None
    }
}

/// How a request to a device is said.
pub(super) fn asked(request: &Request, page_bytes: u64, manner: &str) -> String {
    let verb = if request.write { "writes" } else { "reads" };
    let part = match u64::from(request.bytes) {
        bytes if bytes == page_bytes => String::new(),
        bytes => format!("{bytes} B of "),
    };
    format!("{verb} {part}page {}{manner}", request.address / page_bytes)
}

/// Of those whose look-ups have just been counted: whether so many of them are all, or none.
pub(super) fn all_or_none(counted: u64, of: usize) -> bool {
    assert!(counted == 0 || counted == of as u64, "begin them apart: {counted} of {of} are alike");
    counted > 0
}

/// What is told of one line of a block.
enum Told {
    /// It stands as it is.
    Plain(String),
    /// A request with a time of its own: its text, up to the colon, and its number.
    Request(String, u32),
}

struct Play<'a> {
    scene: &'a mut dyn Scene,
    now_ps: u64,
    /// When the clock of the block stood at 0.
    began_ps: u64,
    asked: u32,
    answers: Vec<LineResponse>,
    notes: Vec<Vec<String>>,
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1_000.0
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word:?}: write a number"))
}

fn stages(answer: &LineResponse) -> String {
    let times = answer.stages.iter().map(|(stage, ps)| format!("{} {}", stage.name(), ns(ps)));
    let times: Vec<_> = times.collect();
    format!("{} = {} ns", times.join(" + "), ns(answer.stages.total_ps()))
}

impl Play<'_> {
    /// Until `until_ps`, one time after the other.
    fn advance(&mut self, until_ps: u64) {
        while let Some(at_ps) = self.scene.memory().next_event_ps().filter(|at| *at <= until_ps) {
            self.now_ps = at_ps;
            self.scene.before();
            let mut out = Vec::new();
            self.scene.memory().advance(at_ps, &mut out);
            self.answers.extend(out.into_iter().map(|response| match response {
                Response::Line(line) => line,
                Response::Page(page) => panic!("{page:?}"),
            }));
            self.note();
        }
        self.now_ps = until_ps.max(self.now_ps);
    }

    fn note(&mut self) {
        for (id, what) in self.scene.after() {
            self.notes[id as usize].push(what);
        }
    }

    fn step(&mut self) {
        let next_ps = self.scene.memory().next_event_ps();
        let in_flight = self.scene.memory().in_flight();
        self.advance(next_ps.unwrap_or_else(|| panic!("{in_flight} in flight, no event")));
    }

    /// Until nothing is under way.
    fn drain(&mut self) {
        while self.scene.memory().in_flight() > 0 {
            self.step();
        }
    }

    fn address(&self, words: &[&str]) -> Option<u64> {
        match words {
            ["page", page, "line", line] => {
                Some(number(page) * self.scene.page_bytes() + number(line) * 64)
            }
            ["page", page] => Some(number(page) * self.scene.page_bytes()),
            ["line", line] => Some(number(line) * 64),
            _ => None,
        }
    }

    /// Begins an access, once it is taken; its number.
    fn access(&mut self, address: u64, write: bool) -> u32 {
        let id = self.asked;
        self.asked += 1;
        self.notes.push(Vec::new());
        let version = if write { u64::from(id) + 1 } else { 0 };
        let request = LineRequest { id, core: 0, address, write, version };
        let wanted_ps = self.now_ps;
        self.scene.asks(id, address);
        while self.scene.memory().submit(self.now_ps, request).is_err() {
            self.step();
        }
        self.note();
        if self.now_ps > wanted_ps {
            let taken = format!("taken at {} ns", ns(self.now_ps - self.began_ps));
            self.notes[id as usize].push(taken);
        }
        id
    }

    fn said(&self, id: u32) -> String {
        match self.notes[id as usize].as_slice() {
            [] => "miss".to_owned(),
            notes => notes.join(", "),
        }
    }

    fn answer(&self, id: u32) -> (usize, &LineResponse) {
        let place = self.answers.iter().position(|answer| answer.id == id);
        let place = place.unwrap_or_else(|| panic!("request {id} is not answered"));
        (place, &self.answers[place])
    }

    /// An access by itself, all that it has begun included.
    fn alone(&mut self, deed: &str, address: u64, write: bool) -> String {
        let before = self.scene.memory().report();
        let id = self.access(address, write);
        self.drain();
        let mut what = vec![self.said(id)];
        if let Some(of_dram) = self.scene.tells_traffic() {
            what.extend(moved(&before, &self.scene.memory().report(), of_dram));
        }
        format!("{deed}: {}: {}", what.join(", "), stages(self.answer(id).1))
    }

    /// Accesses one after the other: how often each was said of them.
    fn walk(&mut self, deed: &str, words: [&str; 3]) -> String {
        let [first, last, by] = words.map(number);
        let mut counts: Vec<(String, u64)> = Vec::new();
        for page in (first..=last).step_by(by as usize) {
            let id = self.access(page * self.scene.page_bytes(), false);
            self.drain();
            let what = self.said(id);
            match counts.iter_mut().find(|(other, _)| *other == what) {
                Some((_, count)) => *count += 1,
                None => counts.push((what, 1)),
            }
        }
        let counts: Vec<_> =
            counts.into_iter().map(|(what, count)| format!("{count} times {what}")).collect();
        format!("{deed}: {}", counts.join(", "))
    }

    /// What a device was asked for since the clock stood at 0.
    fn device(&self, name: &str) -> Option<String> {
        let mut said = String::new();
        let mut last_ps = None;
        for (at_ps, what) in self.scene.log(name)?.into_iter().filter(|at| at.0 >= self.began_ps) {
            said += &match last_ps {
                Some(last_ps) if last_ps == at_ps => format!(", {what}"),
                Some(_) => format!("; at {} ns {what}", ns(at_ps - self.began_ps)),
                None => format!("at {} ns {what}", ns(at_ps - self.began_ps)),
            };
            last_ps = Some(at_ps);
        }
        Some(format!("{name}: {}", if said.is_empty() { "nothing" } else { &said }))
    }

    fn line(&mut self, line: &str) -> Told {
        let mut rest = line;
        let mut timed = None;
        if let Some(begun) = line.strip_prefix("at ") {
            let (time, deed) = begun.split_once(" ns: ").unwrap_or_else(|| {
                panic!("{line:?}: write `at 100 ns: read page 0 line 0`");
            });
            timed = Some(number(time) * 1_000 + self.began_ps);
            rest = deed;
        }
        let deed = rest.split(':').next().unwrap_or_default();
        let text = &line[..line.len() - rest.len() + deed.len()];
        match timed {
            Some(at_ps) => {
                assert!(at_ps >= self.now_ps, "{text}: is past; begin anew behind an empty line");
                self.advance(at_ps);
            }
            None => self.drain(),
        }
        let words: Vec<_> = deed.split_whitespace().collect();
        match words.as_slice() {
            ["read", "pages", first, "to", last, "by", by] if timed.is_none() => {
                Told::Plain(self.walk(text, [first, last, by]))
            }
            ["will", "need", "page" | "pages", first, rest @ ..] => {
                let last = match rest {
                    [] => first,
                    ["to", last] => last,
                    _ => panic!("{text}: write `will need pages 3 to 5`"),
                };
                let bytes = self.scene.page_bytes();
                let (first, last) = (number(first), number(last));
                let (now_ps, run_bytes) = (self.now_ps, (last + 1 - first) * bytes);
                let kept = self.scene.memory().will_need(now_ps, first * bytes, run_bytes);
                self.note();
                Told::Plain(format!("{text}: {}", if kept { "remembered" } else { "forgotten" }))
            }
            ["give", "up", place @ ..] => {
                let now_ps = self.now_ps;
                let address = self.address(place).unwrap_or_else(|| panic!("{text}"));
                self.scene.memory().put_clean(now_ps, address, 0);
                self.note();
                Told::Plain(format!("{text}: nobody waits"))
            }
            [verb @ ("read" | "write"), place @ ..] => {
                let address = self.address(place);
                let address = address.unwrap_or_else(|| panic!("{text}: write `page 0 line 0`"));
                match timed {
                    Some(_) => {
                        Told::Request(text.to_owned(), self.access(address, *verb == "write"))
                    }
                    None => Told::Plain(self.alone(text, address, *verb == "write")),
                }
            }
            _ => panic!("{text:?}: write `read page 0 line 0`"),
        }
    }

    /// The lines between two empty ones: the clock begins at 0 when all before has ended.
    fn group(&mut self, lines: &[&str]) -> Vec<String> {
        self.drain();
        self.began_ps = self.now_ps;
        let first = self.answers.len();
        let mut told = Vec::new();
        for line in lines {
            let name = line.split(':').next().filter(|name| self.scene.log(name).is_some());
            told.push(match name {
                Some(name) => {
                    self.drain();
                    Told::Plain(self.device(name).unwrap_or_default())
                }
                None => self.line(line),
            });
        }
        self.drain();
        let line = |told| match told {
            Told::Plain(line) => line,
            Told::Request(text, id) => {
                let (place, answer) = self.answer(id);
                let at = format!(
                    "answer {} at {} ns",
                    place + 1 - first,
                    ns(answer.at_ps - self.began_ps)
                );
                format!("{text}: {}: {}; {at}", self.said(id), stages(answer))
            }
        };
        told.into_iter().map(line).collect()
    }
}

/// What moved to and from the store, and of DRAM where that is told.
fn moved(before: &OrganizationReport, after: &OrganizationReport, of_dram: bool) -> Vec<String> {
    let since: Traffic = after.traffic.since(&before.traffic);
    let of_dram = |bytes: u64| if of_dram { bytes } else { 0 };
    let all = [
        ("read", since.store_read_bytes),
        ("written", since.store_written_bytes),
        ("of DRAM read", of_dram(since.dram_read_bytes)),
        ("of DRAM written", of_dram(since.dram_written_bytes)),
    ];
    let moved = all.into_iter().filter(|(_, bytes)| *bytes > 0);
    moved.map(|(name, bytes)| format!("{bytes} B {name}")).collect()
}

/// The lines of a block as they are when they are played.
fn play(scene: &mut dyn Scene, lines: &str) -> String {
    let mut play =
        Play { scene, now_ps: 0, began_ps: 0, asked: 0, answers: Vec::new(), notes: Vec::new() };
    let groups = lines.trim_end().split("\n\n");
    let groups: Vec<_> =
        groups.map(|group| play.group(&group.lines().collect::<Vec<_>>()).join("\n")).collect();
    let stale = play.scene.memory().report().stale_reads;
    assert_eq!(stale, 0, "reads of older versions");
    groups.join("\n\n")
}

/// Plays the blocks of a page of `docs/models` for whose first line `scene` has a machine, and compares. Each of
/// `kinds` has to be in one of these at least.
pub(super) fn page_says_what_happens(
    page: &str,
    kinds: &[&str],
    scene: impl Fn(&str) -> Option<Box<dyn Scene>>,
) {
    let path = format!("{}/../../docs/models/{page}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut pieces = text.split("```text\n");
    let mut found = pieces.next().unwrap_or_default().to_owned();
    let mut played = String::new();
    for piece in pieces {
        let (block, rest) =
            piece.split_once("```").unwrap_or_else(|| panic!("{path}: an open block"));
        let (machine, lines) = block.split_once('\n').unwrap_or((block, ""));
        let block = match scene(machine) {
            Some(mut scene) => {
                assert!(!lines.trim().is_empty(), "{page}.md: {machine:?} has no accesses");
                let block = format!("{machine}\n{}\n", play(&mut *scene, lines));
                played += &block;
                block
            }
            None => block.to_owned(),
        };
        found += &format!("```text\n{block}```{rest}");
    }
    for kind in kinds {
        assert!(played.contains(kind), "{page}.md has no sequence of {kind:?}");
    }
    if std::env::var_os("TIERSCOPE_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
        return;
    }
    let differs = found.lines().zip(text.lines()).find(|(found, said)| found != said);
    assert!(found == text, "{page}.md does not say what happens: {differs:#?}");
}
