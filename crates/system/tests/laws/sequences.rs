//! The sequences of the pages of `docs/models`: a description, accesses one after the other, or at times of their own, and
//! what happens to each, stage by stage, on the machine's own devices. `TIERSCOPE_BLESS=1` writes what is found into the pages.

use std::path::{Path, PathBuf};
use tierscope_kernel::Timeline;
use tierscope_model::organization::Organization;
use tierscope_model::request::{LineRequest, PageRequest, Response, Traffic};
use tierscope_system::spec::load_text;

const PAGES: [&str; 11] = [
    "disk",
    "haste",
    "link",
    "machine",
    "nvm",
    "raid",
    "ramdisk",
    "sequences",
    "storage",
    "tiered",
    "tiering",
];
/// All that one access has begun has ended before the next.
const APART_PS: u64 = 1_000_000_000_000;
const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// A block of a page: what it describes, and its accesses with what is said of each.
struct Block {
    description: String,
    lines: Vec<String>,
}

fn path_of(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/models/{page}.md"))
}

/// The text in pieces, of which every other one is what stands in a fenced block of text.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for part in text.split("```text\n") {
        match (pieces.is_empty(), part.split_once("```")) {
            (false, Some((block, rest))) => pieces.extend([block.to_owned(), rest.to_owned()]),
            _ => pieces.push(part.to_owned()),
        }
    }
    pieces
}

/// A block that begins with a base, up to the empty line before its accesses.
fn block(text: &str) -> Option<Block> {
    let (description, accesses) = text.split_once("\n\n").filter(|_| text.starts_with("base"))?;
    let lines = accesses.lines().map(str::to_owned).collect();
    Some(Block { description: description.to_owned(), lines })
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word:?}: write a number"))
}

/// Begins what a line of the page asks for.
fn begin(memory: &mut dyn Organization, now_ps: u64, id: u32, access: &str) {
    let words: Vec<_> = access.split_whitespace().collect();
    let line = |what: &str, place: u64| LineRequest {
        id,
        core: 0,
        address: place,
        write: what == "write",
        version: 0,
    };
    let page = |to_store: bool, frame: &str, place: &str| PageRequest {
        id,
        store_address: number(place) * PAGE,
        memory_address: number(frame) * PAGE,
        bytes: PAGE as u32,
        write: to_store,
        background: false,
        force_unit_access: false,
        content: 0,
    };
    let taken = match words.as_slice() {
        [what @ ("read" | "write"), "line", at] => {
            memory.submit(now_ps, line(what, number(at) * LINE))
        }
        [what @ ("read" | "write"), "line", at, "of", "the", "disk"] => {
            let first = memory.memory_bytes();
            memory.submit(now_ps, line(what, first + number(at) * LINE))
        }
        ["page", place, "to", "frame", frame] => {
            memory.submit_page(now_ps, page(false, frame, place))
        }
        ["frame", frame, "to", "page", place] => {
            memory.submit_page(now_ps, page(true, frame, place))
        }
        _ => panic!("{access:?}: write `read line 0` or `page 0 to frame 0`"),
    };
    taken.unwrap_or_else(|_| panic!("{access}: there is no room for it"));
}

/// The number of what is answered, when, and its stages.
fn answer(response: &Response) -> (u32, u64, Timeline) {
    match response {
        Response::Line(one) => (one.id, one.at_ps, one.stages),
        Response::Page(one) => (one.id, one.at_ps, one.stages),
    }
}

fn told(stages: &Timeline) -> String {
    let times: Vec<_> =
        stages.iter().map(|(stage, ps)| format!("{} {}", stage.name(), ns(ps))).collect();
    format!("{} = {} ns", times.join(" + "), ns(stages.total_ps()))
}

fn ns(ps: u64) -> String {
    format!("{}", ps as f64 / 1_000.0)
}

/// What moved for an access.
fn moved(before: Traffic, after: Traffic) -> String {
    let since = after.since(&before);
    [
        (since.store_read_bytes, "read"),
        (since.store_written_bytes, "written"),
        (since.dram_read_bytes, "of DRAM read"),
        (since.dram_written_bytes, "of DRAM written"),
    ]
    .into_iter()
    .filter(|(bytes, _)| *bytes > 0)
    .map(|(bytes, what)| format!("{bytes} B {what}"))
    .collect::<Vec<_>>()
    .join(", ")
}

/// An access by itself: what it has moved, and its stages.
fn alone(memory: &mut dyn Organization, now_ps: u64, access: &str) -> String {
    let before = memory.report().traffic;
    begin(memory, now_ps, 1, access);
    let mut out = Vec::new();
    memory.advance(now_ps + APART_PS / 2, &mut out);
    let [response] = out.as_slice() else { panic!("{access}: {out:?}") };
    let (.., stages) = answer(response);
    format!("{access}: {}: {}", moved(before, memory.report().traffic), told(&stages))
}

/// Accesses that begin at times of their own, when the clock stood at 0 at `began_ps`.
fn side_by_side(memory: &mut dyn Organization, began_ps: u64, lines: &[&String]) -> Vec<String> {
    let mut out = Vec::new();
    let mut texts = Vec::new();
    for (id, line) in (0..).zip(lines) {
        let (time, rest) = line["at ".len()..].split_once(" ns: ").unwrap_or_else(|| {
            panic!("{line:?}: write `at 500 ns: read line 0`");
        });
        let access = rest.split(':').next().unwrap_or_default();
        let at_ps = began_ps + number(time) * 1_000;
        memory.advance(at_ps, &mut out);
        begin(memory, at_ps, id, access);
        texts.push(format!("at {time} ns: {access}"));
    }
    memory.advance(began_ps + APART_PS / 2, &mut out);
    assert_eq!(out.len(), texts.len(), "{texts:?}: {out:?}");
    for (place, response) in (1..).zip(&out) {
        let (id, at_ps, stages) = answer(response);
        let at = format!("answer {place} at {} ns", ns(at_ps - began_ps));
        texts[id as usize] += &format!(": {}; {at}", told(&stages));
    }
    texts
}

fn play(page: &str, block: &Block) -> Vec<String> {
    let spec = load_text(page, &block.description, &[])
        .unwrap_or_else(|problems| panic!("{page}: {problems}"))
        .spec;
    let mut memory = spec.build_organization().expect("it has an organization");
    let (mut told, mut now_ps) = (Vec::new(), 0);
    let mut rest = block.lines.iter().peekable();
    while let Some(line) = rest.next() {
        now_ps += APART_PS;
        memory.advance(now_ps - 1, &mut Vec::new());
        let is_timed = |line: &&String| line.starts_with("at ");
        if line.is_empty() {
            told.push(String::new());
        } else if is_timed(&line) {
            let mut together = vec![line];
            together.extend(std::iter::from_fn(|| rest.next_if(is_timed)));
            told.extend(side_by_side(memory.as_mut(), now_ps, &together));
        } else {
            let access = line.split(':').next().unwrap_or_default();
            told.push(alone(memory.as_mut(), now_ps, access));
        }
    }
    told
}

#[test]
fn the_sequences_of_the_documentation_are_what_happens() {
    let blesses = std::env::var_os("TIERSCOPE_BLESS").is_some();
    for page in PAGES {
        let path = path_of(page);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (mut found, mut blocks) = (String::new(), 0);
        for (index, piece) in pieces(&text).iter().enumerate() {
            if index % 2 == 0 {
                found += piece;
                continue;
            }
            let played = block(piece).map(|block| {
                blocks += 1;
                format!("{}\n\n{}\n", block.description, play(page, &block).join("\n"))
            });
            found += &format!("```text\n{}```", played.as_deref().unwrap_or(piece));
        }
        assert!(blocks > 0, "{page}.md has no sequence");
        let meet = page != "sequences" || found.contains("\nat 0 ns: ");
        assert!(meet, "{page}.md has no accesses that meet");
        if blesses {
            std::fs::write(&path, &found).unwrap();
        } else {
            assert!(found == text, "{page}.md does not say what happens, which is:\n{found}");
        }
    }
}
