//! Limits of every value by its kind: beyond them lie slips of the pen, and overflow.
//!
//! They are far from what machines have, so that the simulation's own arithmetic (64-bit
//! picoseconds and bytes) stays within its range whatever a description says.

use super::SystemSpec;
use super::shape::{Shape, Table, shape};
use super::walk::join;
use serde_json::Value;
use tierscope_units::{Problems, Size, kind};

/// Counts: queues, ways, cycles, instructions of a path.
const MOST_COUNT: u64 = 1 << 20;
/// Cycles per instruction, and shares.
const MOST_NUMBER: f64 = 1000.0;

/// The largest size.
const LARGEST: &str = "64PiB";
/// The most of each kind of quantity that a description has.
const MOST: [(&str, &str); 9] = [
    ("size", LARGEST),
    ("duration", "1000s"),
    ("frequency", "1THz"),
    ("bandwidth", "1PB/s"),
    ("transfer-rate", "1000GT/s"),
    ("power", "1000W"),
    ("energy", "18000J"),
    ("voltage", "1000V"),
    ("current", "1000A"),
];

/// Adds a mistake for each value beyond its limit that nothing else was said of.
pub(super) fn check(spec: &SystemSpec, problems: &mut Problems) {
    let json = serde_json::to_value(spec).unwrap_or_default();
    Limits { problems }.table(shape(), &json, "");
}

/// Whether a description may have a size.
pub(crate) fn allow(size: Size) -> bool {
    LARGEST.parse().is_ok_and(|largest: Size| size <= largest)
}

struct Limits<'a> {
    problems: &'a mut Problems,
}

impl Limits<'_> {
    fn table(&mut self, table: &Table, json: &Value, path: &str) {
        for field in &table.fields {
            self.value(&field.shape, &json[&field.name], &join(path, &field.name));
        }
    }

    fn value(&mut self, shape: &Shape, json: &Value, path: &str) {
        match shape {
            Shape::Table(table) => self.table(table, json, path),
            Shape::List(items) => {
                for (index, item) in json.as_array().into_iter().flatten().enumerate() {
                    self.value(items, item, &format!("{path}[{index}]"));
                }
            }
            // What has a limit of its own.
            _ if path == "seed"
                || path == "nvm.wear.endurance"
                || path.starts_with("storage.buffer_cache.") && path.ends_with("_slowdown")
                || self.problems.iter().any(|known| known.path == path) => {}
            Shape::Integer { .. } => {
                let value = json.as_u64().unwrap_or_default();
                self.problems.at_most("", path, value, MOST_COUNT);
            }
            Shape::Number => {
                self.problems.at_most("", path, json.as_f64().unwrap_or_default(), MOST_NUMBER);
            }
            Shape::Quantity(quantity) => {
                let most = MOST.iter().find(|(name, _)| *name == quantity.name);
                if let (Some((name, most)), Some(text)) = (most, json.as_str()) {
                    self.quantity(name, text, most, path);
                }
            }
            Shape::Boolean | Shape::Text | Shape::Word(_) => {}
        }
    }

    fn quantity(&mut self, name: &str, text: &str, most: &str, path: &str) {
        let parse = |text| kind(name).and_then(|kind| kind.parse(text).ok());
        if parse(text) > parse(most) {
            self.problems.add(
                "impossible-value",
                path.to_owned(),
                text.to_owned(),
                format!("the most that makes sense is {most}"),
                format!("write {most} or less"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantities(table: &Table, all: &mut Vec<&'static str>) {
        for field in &table.fields {
            match &field.shape {
                Shape::Quantity(kind) => all.push(kind.name),
                Shape::Table(inner) => quantities(inner, all),
                Shape::List(items) => {
                    if let Shape::Table(inner) = &**items {
                        quantities(inner, all);
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn every_kind_of_quantity_in_a_description_has_a_limit() {
        let mut all = Vec::new();
        quantities(shape(), &mut all);
        for name in all {
            let (_, most) = MOST.iter().find(|(kind, _)| *kind == name).expect(name);
            assert!(kind(name).is_some_and(|kind| kind.parse(most).is_ok()), "{most}");
        }
    }
}
