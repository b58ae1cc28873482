//! The sequences of `docs/models/hybrid.md`: what happens to each access, stage by stage, and the bytes
//! that it moves to and from the store.

use super::*;

/// The machine that the first line of a block names: two frames, of one set or, with tags beside the
/// data, direct-mapped.
fn machine(line: &str) -> HybridSpec {
    let mut shape = spec(2, 2);
    for word in line.split(", ") {
        match word {
            "tags in SRAM" => {}
            "tags with the data" => {
                (shape.cache.ways, shape.cache.tags) = (1, TagStore::WithData);
            }
            "tags in DRAM" => shape = tag_cache::in_dram(256, 1, (1, 1)),
            "tags in front of lines" => {
                shape = tads::in_front(&shape, 28, MissPredictorKind::None);
            }
            "misses are guessed by one counter" => {
                shape.cache.miss_predictor = MissPredictorKind::Global;
            }
            "misses are guessed" => shape.cache.miss_predictor = MissPredictorKind::Region,
            "sectors of 512 B" => shape.cache.sector = Some(Size::from_bytes(512)),
            "sectors of 64 B" => shape.cache.sector = Some(Size::from_bytes(64)),
            "filled by reads" => shape.cache.fill = FillPolicy::Reads,
            "filled by writes" => shape.cache.fill = FillPolicy::Writes,
            "filled by victims" => shape.cache.fill = FillPolicy::Victims,
            "lines first" => shape.critical_line_first = true,
            _ => panic!("no machine has {word:?}"),
        }
    }
    shape
}

/// Does the access that a line begins with, and says what happened as the page says it.
fn told(run: &mut Run<Erratic, Erratic>, id: u32, line: &str) -> String {
    let access = line.split(':').next().unwrap_or_default();
    let words: Vec<_> = access.split_whitespace().collect();
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{word}"));
    if let ["give", "up", "page", page_number, "line", line_number] = words[..] {
        let address = page(number(page_number)) + number(line_number) * LINE_BYTES;
        run.hybrid.put_clean(run.now_ps, address, 0);
        run.drain();
        return format!("{access}: nobody waits");
    }
    let [verb @ ("read" | "write"), "page", page_number, "line", line_number] = words[..] else {
        panic!("{access:?}: write `read page 0 line 0`")
    };
    let before = run.hybrid.report();
    run.submit(id, page(number(page_number)) + number(line_number) * LINE_BYTES, verb == "write");
    run.drain();
    let after = run.hybrid.report();
    let mut what = vec![if after.misses > before.misses { "miss" } else { "hit" }.to_owned()];
    let (before, after) = (before.traffic, after.traffic);
    let of_dram = |bytes: u64| if run.hybrid.tads.is_some() { bytes } else { 0 };
    for (name, bytes) in [
        ("read", after.store_read_bytes - before.store_read_bytes),
        ("written", after.store_written_bytes - before.store_written_bytes),
        ("of DRAM read", of_dram(after.dram_read_bytes - before.dram_read_bytes)),
        ("of DRAM written", of_dram(after.dram_written_bytes - before.dram_written_bytes)),
    ] {
        what.extend((bytes > 0).then(|| format!("{bytes} B {name}")));
    }
    let answer = run.answer(id).stages;
    let ns = |ps: u64| ps as f64 / 1_000.0;
    let stages: Vec<_> =
        answer.iter().map(|(stage, ps)| format!("{} {}", stage.name(), ns(ps))).collect();
    let total = ns(answer.total_ps());
    format!("{access}: {}: {} = {total} ns", what.join(", "), stages.join(" + "))
}

#[test]
fn the_sequences_of_the_documentation_are_what_happens() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models/hybrid.md");
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut blocks = 0;
    for block in page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let (first, accesses) = block.split_once('\n').expect("a block begins with its machine");
        let mut run = Run::new(steady(&machine(first)));
        let happened: Vec<_> = accesses
            .lines()
            .enumerate()
            .map(|(id, line)| told(&mut run, id as u32, line))
            .collect();
        assert_eq!(happened.join("\n"), accesses.trim_end(), "{first}");
        blocks += 1;
    }
    assert!(blocks >= 4, "one for each machine at least");
}
