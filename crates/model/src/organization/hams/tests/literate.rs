//! The sequences of `docs/models/hams.md`: what happens to each access, stage by stage.

use super::*;

/// What a block of the page says: a machine, and a line for each access.
struct Block {
    spec: HamsSpec,
    lines: Vec<String>,
}

fn blocks() -> Vec<Block> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models/hams.md");
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let texts = page.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = |text: &str| {
        let mut lines = text.lines().map(str::to_owned);
        let machine = lines.next().expect("a block begins with its machine");
        let coupling = if machine.contains("tight") { Coupling::Tight } else { Coupling::Loose };
        let mode = if machine.contains("persist") { Mode::Persist } else { Mode::Extend };
        Block { spec: spec(coupling, mode), lines: lines.collect() }
    };
    texts.map(block).collect()
}

/// What an access did, as the page says it.
fn told(access: &str, before: HamsCounts, after: HamsCounts, answer: &LineResponse) -> String {
    let since = after.since(&before);
    let what = match (since.hits, since.evictions) {
        (1, _) => "hit",
        (_, 0) => "fill",
        _ => "evict and fill",
    };
    let ns = |ps: u64| format!("{}", ps as f64 / 1_000.0);
    let stages: Vec<_> =
        answer.stages.iter().map(|(stage, ps)| format!("{} {}", stage.name(), ns(ps))).collect();
    let total = ns(answer.stages.total_ps());
    format!("{access}: {what}: {} = {total} ns", stages.join(" + "))
}

fn play(block: &Block) -> Vec<String> {
    let mut run = Run::new(steady(&block.spec));
    let access = |run: &mut Run<_, _>, line: &String| {
        let access = line.split(':').next().unwrap_or_default();
        let words: Vec<_> = access.split_whitespace().collect();
        let ["read" | "write", "page", page, "line", line] = words.as_slice() else {
            panic!("{access:?}: write `read page 0 line 0`")
        };
        let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{word}"));
        let address = number(page) * block.spec.page.bytes() + number(line) * LINE_BYTES;
        let before = run.hams.manager().hams_report().counts;
        let answer = run.ask(address, words[0] == "write");
        told(access, before, run.hams.manager().hams_report().counts, &answer)
    };
    block.lines.iter().map(|line| access(&mut run, line)).collect()
}

#[test]
fn the_sequences_of_the_documentation_are_what_happens() {
    let blocks = blocks();
    assert!(blocks.len() >= 4, "one for each machine at least");
    for block in blocks {
        assert_eq!(play(&block).join("\n"), block.lines.join("\n"));
    }
}
