//! The sequences of the pages of `docs/models`: a description, accesses one after the other, and what happens to each,
//! stage by stage, on the machine's own devices. `TIERSCOPE_BLESS=1` writes what is found into the pages.

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

/// Begins what a line of the page asks for; the answer's stages.
fn ask(memory: &mut dyn Organization, now_ps: u64, access: &str) -> Timeline {
    let words: Vec<_> = access.split_whitespace().collect();
    let line = |what: &str, place: u64| LineRequest {
        id: 1,
        core: 0,
        address: place,
        write: what == "write",
        version: 0,
    };
    let page = |to_store: bool, frame: &str, place: &str| PageRequest {
        id: 1,
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
    taken.unwrap_or_else(|_| panic!("{access}: nothing else is under way"));
    let mut out = Vec::new();
    memory.advance(now_ps + APART_PS / 2, &mut out);
    match out.as_slice() {
        [Response::Line(one)] => one.stages,
        [Response::Page(one)] => one.stages,
        other => panic!("{access}: {other:?}"),
    }
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

fn play(page: &str, block: &Block) -> Vec<String> {
    let spec = load_text(page, &block.description, &[])
        .unwrap_or_else(|problems| panic!("{page}: {problems}"))
        .spec;
    let mut memory = spec.build_organization().expect("it has an organization");
    let said = block.lines.iter().enumerate().map(|(index, line)| {
        let access = line.split(':').next().unwrap_or_default();
        let now_ps = (index as u64 + 1) * APART_PS;
        memory.advance(now_ps - 1, &mut Vec::new());
        let before = memory.report().traffic;
        let stages = ask(memory.as_mut(), now_ps, access);
        let moved = moved(before, memory.report().traffic);
        let times: Vec<_> =
            stages.iter().map(|(stage, ps)| format!("{} {}", stage.name(), ns(ps))).collect();
        format!("{access}: {moved}: {} = {} ns", times.join(" + "), ns(stages.total_ps()))
    });
    said.collect()
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
        if blesses {
            std::fs::write(&path, &found).unwrap();
        } else {
            assert!(found == text, "{page}.md does not say what happens, which is:\n{found}");
        }
    }
}
