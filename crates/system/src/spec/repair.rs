//! Finding mistakes of meaning in a description that has mistakes of form.
//!
//! Values can be checked against each other only once all are there and of the right kind. So what is
//! wrong in form is put right for that: what no machine has is taken out, and in the place of what is
//! missing or cannot be read comes what the preset of the same organization says there.

use super::load::preset_node;
use super::shape::{Shape, shape};
use super::tree::{Data, Node};
use tierscope_units::{Problem, Problems};

/// The description without its mistakes of form.
pub(super) fn repaired(root: &Node, mistakes: &Problems) -> Node {
    let mut repaired = root.clone();
    // From the end: whatever is taken out of a list moves what follows it.
    for mistake in mistakes.iter().rev() {
        let steps: Vec<&str> = mistake.path.split(['.', '[']).collect();
        let by = match root.at(&mistake.path) {
            _ if is_stray(mistake) => None,
            (node, true) => {
                closest_integer(node, &mistake.path).or_else(|| preset_node(&mistake.path))
            }
            _ => preset_node(&mistake.path),
        };
        replace(&mut repaired, &steps, by);
    }
    repaired
}

/// Whether a mistake is a key that means nothing where it stands.
fn is_stray(mistake: &Problem) -> bool {
    mistake.code == "unknown-key"
}

/// Where an integer is needed, the closest one to a number that is out of its range or none.
fn closest_integer(node: &Node, path: &str) -> Option<Node> {
    let Some(Shape::Integer { min, max }) = shape_at(path) else { return None };
    let value = match node.data {
        Data::Integer(value) => value,
        Data::Float(value) => value as i128,
        _ => return None,
    };
    Some(Node { data: Data::Integer(value.clamp(min, max)), ..node.clone() })
}

/// What descriptions have at a path, if anything.
fn shape_at(path: &str) -> Option<Shape> {
    let mut at = Shape::Table(shape().clone());
    for step in path.split(['.', '[']) {
        at = match &at {
            Shape::List(items) if step.ends_with(']') => (**items).clone(),
            Shape::Table(table) => table.field(step)?.shape.clone(),
            _ => return None,
        };
    }
    Some(at)
}

/// Says of numbers that are out of an integer's range what the part itself says of the closest that is
/// not: its bounds are narrower.
pub(super) fn narrow(form: &mut Problems, meaning: &Problems) {
    for mistake in form.iter_mut() {
        let of_itself =
            |problem: &&Problem| problem.path == mistake.path && problem.code != "contradiction";
        let own = meaning.iter().find(of_itself);
        if let Some(own) =
            own.filter(|_| matches!(shape_at(&mistake.path), Some(Shape::Integer { .. })))
        {
            mistake.mend.clone_from(&own.mend);
            if mistake.code == "impossible-value" {
                mistake.reason.clone_from(&own.reason);
            }
        }
    }
}

/// Puts a value where a path leads, or takes away what is there.
pub(super) fn replace(node: &mut Node, steps: &[&str], by: Option<Node>) {
    let [step, rest @ ..] = steps else { return };
    if let (Data::List(items), Some(index)) = (&mut node.data, step.strip_suffix(']')) {
        let Some(index) = index.parse::<usize>().ok().filter(|index| *index < items.len()) else {
            return;
        };
        if !rest.is_empty() {
            replace(&mut items[index], rest, by);
        } else if let Some(by) = by {
            items[index] = by;
        } else {
            items.remove(index);
        }
        return;
    }
    if !rest.is_empty() {
        let Data::Table(fields) = &mut node.data else { return };
        if let Some((_, below)) = fields.iter_mut().find(|(name, _)| name == step) {
            replace(below, rest, by);
        }
    } else if let Some(by) = by {
        node.put(step, by);
    } else {
        node.remove(step);
    }
}

/// Whether nothing had to be put in the place of what was wrong: contradictions are the description's own.
pub(super) fn is_whole(form: &Problems) -> bool {
    form.iter().all(|mistake| is_stray(mistake) && !may_be_meant(mistake))
}

/// Whether a stray key seems to be a known one, misspelled.
fn may_be_meant(mistake: &Problem) -> bool {
    mistake.mend.starts_with("did you mean")
}

/// Whether a mistake of meaning may come of what was put in the place of a mistake of form: where both are
/// in one table, unless the latter is a key that means nothing there.
pub(super) fn may_come_of(meaning: &Problem, form: &Problems) -> bool {
    form.iter().any(|mistake| {
        let harmless = is_stray(mistake) && !may_be_meant(mistake);
        !harmless
            && (table_of(&mistake.path) == table_of(&meaning.path)
                || within(&meaning.path, &mistake.path))
    })
}

/// The table that a path's value is in.
fn table_of(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(table, _)| table)
}

/// Whether a path leads to another's value, or further.
fn within(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
