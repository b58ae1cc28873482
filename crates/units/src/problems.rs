//! Mistakes of a description, collected so that all are told at once.

use std::fmt;

/// Every code of a [`Problem`] and what it means. The list is closed: scripts may rely on it.
pub const CODES: &[(&str, &str)] = &[
    ("ambiguous-unit", "A unit that people read in two ways, or that means bits."),
    ("bad-number", "A text that should start with a number and does not."),
    ("bad-syntax", "A file or an assignment that is not TOML."),
    ("bad-unit", "A number without a unit, or with a unit of something else."),
    ("base-cycle", "A description whose bases lead back to itself."),
    ("contradiction", "Two values that cannot both be."),
    ("impossible-value", "A value outside the range in which it means something."),
    ("missing-key", "A required key that neither the description nor its base gives."),
    ("missing-part", "A part that the machine cannot do without."),
    ("not-exact", "A value that is not a whole number of its smallest unit."),
    ("overflow", "A value larger than can be held."),
    ("unknown-key", "A key that the schema does not have."),
    ("unknown-system", "A name that is no preset, nor a path of a TOML file."),
    ("unknown-value", "A word that is not among those allowed."),
    ("unreadable-file", "A file that cannot be read."),
    ("wrong-type", "A value of another type than the schema's."),
];

/// What the operating system says of a file, without its number.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// One mistake: where, what was written, why it is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One of [`CODES`].
    pub code: &'static str,
    /// Path of the value, such as `hybrid.cache.ways`.
    pub path: String,
    /// What was written, as the user would write it; empty where nothing was.
    pub value: String,
    /// Why it is wrong.
    pub reason: String,
    /// What to do.
    pub mend: String,
    /// Where it was written, such as `my-machine.toml:12:8`; empty where that is not known.
    pub place: String,
}

impl fmt::Display for Problem {
    /// `error[code]: path = value: reason; mend`, and the place on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, visible(&self.path))?;
        if !self.value.is_empty() {
            write!(f, " = {}", self.value)?;
        }
        write!(f, ": {}; {}", self.reason, self.mend)?;
        if !self.place.is_empty() {
            write!(f, "\n  --> {}", visible(&self.place))?;
        }
        Ok(())
    }
}

/// A text of the user's whose control characters do nothing to a terminal.
fn visible(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// A collector of mistakes, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    all: Vec<Problem>,
}

impl Problems {
    /// None yet.
    pub const fn new() -> Self {
        Problems { all: Vec::new() }
    }

    /// Adds a mistake whose place is not known. `code` is one of [`CODES`].
    pub fn add(
        &mut self,
        code: &'static str,
        path: String,
        value: String,
        reason: String,
        mend: String,
    ) {
        self.push(Problem { code, path, value, reason, mend, place: String::new() });
    }

    /// Adds a mistake.
    pub fn push(&mut self, problem: Problem) {
        debug_assert!(
            CODES.iter().any(|(code, _)| *code == problem.code),
            "`{}` is not among CODES",
            problem.code
        );
        self.all.push(problem);
    }

    /// Adds a mistake if `path.field` is below `min`, or not comparable with it.
    pub fn at_least<T>(&mut self, path: &str, field: &str, value: T, min: T)
    where
        T: Copy + PartialOrd + fmt::Display,
    {
        if value.partial_cmp(&min).is_none_or(|order| order.is_lt()) {
            self.add(
                "impossible-value",
                join(path, field),
                value.to_string(),
                format!("the least that makes sense is {min}"),
                format!("write {min} or more"),
            );
        }
    }

    /// Adds a mistake if `path.field` is above `max`, or not comparable with it.
    pub fn at_most<T>(&mut self, path: &str, field: &str, value: T, max: T)
    where
        T: Copy + PartialOrd + fmt::Display,
    {
        if value.partial_cmp(&max).is_none_or(|order| order.is_gt()) {
            self.add(
                "impossible-value",
                join(path, field),
                value.to_string(),
                format!("the most that makes sense is {max}"),
                format!("write {max} or less"),
            );
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The mistakes, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.all.iter()
    }

    /// The mistakes, in order, to change: to add the place once it is known.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Problem> {
        self.all.iter_mut()
    }

    /// The mistakes, in order.
    pub fn into_vec(self) -> Vec<Problem> {
        self.all
    }

    /// Adds all of `other` at the end.
    pub fn append(&mut self, other: Problems) {
        self.all.extend(other.all);
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.all.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The name among `names` that is closest to `word`, if it is close enough to be what was meant:
/// at most a third of the longer one's letters differ, and one may always (Levenshtein distance, with the swap of two
/// neighbours counted once; upper and lower case, `-` and `_` count as equal). Where none is, the
/// only name that `word` abbreviates: it begins as the name does, and its letters stand in the
/// name in that order (`rnd` for `random`).
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    let names: Vec<_> = names.into_iter().map(|name| (fold(name), name)).collect();
    let by_distance = names
        .iter()
        .map(|(other, name)| {
            (distance(&word, other), (word.len().max(other.len()) / 3).max(1), *name)
        })
        .filter(|(distance, limit, _)| distance <= limit)
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., name)| name);
    by_distance.or_else(|| {
        let mut meant = names.iter().filter(|(other, _)| abbreviates(&word, other));
        let (_, only) = meant.next()?;
        meant.all(|(_, name)| name == only).then_some(*only)
    })
}

/// Whether `word` is two letters or more of `name`, the first of them its first, in their order.
fn abbreviates(word: &[char], name: &[char]) -> bool {
    let mut left = name.iter();
    word.len() > 1 && word.first() == name.first() && word.iter().all(|c| left.any(|d| c == d))
}

fn fold(word: &str) -> Vec<char> {
    word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Optimal string alignment distance, by the usual table of three rows.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_key_and_of_its_place_do_nothing_to_a_terminal() {
        let text = || String::from("a\u{1b}[2J\nerror");
        let problem = Problem {
            code: "unknown-key",
            path: text(),
            value: String::new(),
            reason: "there is none".into(),
            mend: "leave it out".into(),
            place: text(),
        };
        assert_eq!(
            problem.to_string(),
            "error[unknown-key]: a\\u{1b}[2J\\nerror: there is none; leave it out\n  --> \
             a\\u{1b}[2J\\nerror"
        );
    }

    #[test]
    fn codes_are_sorted_unique_and_described() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (code, meaning) in CODES {
            assert!(code.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{code}");
            assert!(meaning.ends_with('.') && meaning.len() > 20, "{code}");
        }
    }

    #[test]
    fn a_problem_prints_code_path_value_reason_and_mend() {
        let mut problems = Problems::new();
        problems.at_least("processor", "cores", 0, 1);
        problems.at_most("", "seed", 9, 8);
        problems.at_least("os", "kernel_cpi", f64::NAN, 0.1);
        assert_eq!(
            problems.to_string(),
            "error[impossible-value]: processor.cores = 0: the least that makes sense is 1; \
             write 1 or more\n\
             error[impossible-value]: seed = 9: the most that makes sense is 8; write 8 or less\n\
             error[impossible-value]: os.kernel_cpi = NaN: the least that makes sense is 0.1; \
             write 0.1 or more"
        );
    }

    #[test]
    fn bounds_themselves_are_allowed() {
        let mut problems = Problems::new();
        problems.at_least("a", "b", 1u64, 1);
        problems.at_most("a", "b", 1u64, 1);
        assert!(problems.is_empty());
    }

    #[test]
    fn the_nearest_name_is_found_or_none() {
        let names = ["capacity", "ways", "page", "tag_latency"];
        assert_eq!(nearest("capcity", names), Some("capacity"));
        assert_eq!(nearest("wyas", names), Some("ways"));
        assert_eq!(nearest("Tag-Latency", names), Some("tag_latency"));
        assert_eq!(nearest("frequency", names), None);
        assert_eq!(nearest("cap", names), Some("capacity"));
        assert_eq!(nearest("lat", names), None, "it begins otherwise");
        assert_eq!(nearest("p", ["page", "pages"]), None, "a letter says nothing");
        assert_eq!(nearest("rnd", ["table", "random"]), Some("random"));
        assert_eq!(nearest("rnd", ["random", "rendezvous"]), None, "either may be meant");
    }
}
