//! Blocks of other machines: of another organization, or of a link that is not there.

use super::load::is_said;
use super::shape::{Shape, shape};
use super::tree::{Data, Node};
use super::walk::{base_for, join, preset_with, problem};
use tierscope_model::link::LINKS;
use tierscope_model::organization::ORGANIZATIONS;
use tierscope_units::{Problem, Problems};

/// Takes out, and refuses, what is said of another organization beside the machine's whole own: to complete
/// it is not what is meant.
pub(super) fn take_out(root: &mut Node, problems: &mut Problems) {
    let keys = ORGANIZATIONS.iter().map(|part| part.key).filter(|key| root.get(key).is_some());
    let (own, others): (Vec<_>, Vec<_>) = keys.partition(|key| is_whole(root, key));
    let [own] = own[..] else { return };
    for key in others {
        let Some(block) = root.remove(key) else { continue };
        let (path, node) = deepest(key, &block);
        let preset = preset_with(&path).unwrap_or(base_for(key));
        let name = |key: &str| key.replace('_', "-");
        let reason = format!(
            "the machine's organization is `{}`, and this is a part of `{}`",
            name(own),
            name(key)
        );
        let mend =
            format!("leave it out, or choose a base that has it, such as base = \"{preset}\"");
        let mut mistake = problem("unknown-key", node, &path, reason, mend);
        mistake.place = node.key_place.clone();
        problems.push(mistake);
    }
}

/// Whether a table of `root` says all that it has to.
fn is_whole(root: &Node, key: &str) -> bool {
    let Some(Shape::Table(table)) = shape().field(key).map(|field| &field.shape) else {
        return false;
    };
    let mut required = table.fields.iter().filter(|field| field.required);
    required.all(|field| root.get(key).is_some_and(|node| node.get(&field.name).is_some()))
}

/// The one table that a block says something of: itself, or what alone is in it.
fn deepest<'a>(key: &str, block: &'a Node) -> (String, &'a Node) {
    let (mut path, mut node) = (key.to_owned(), block);
    while let Data::Table(fields) = &node.data {
        let [(name, below)] = fields.as_slice() else { break };
        if below.is_leaf() && path != key {
            break;
        }
        (path, node) = (join(&path, name), below);
    }
    (path, node)
}

/// A table of a link that says nothing but tables which links of its kind may have beside their keys (`[pcie.nvme]`),
/// over a machine with a link of another kind, or with none: no link is meant to take the base's place.
pub(super) fn part_of_another_link(base: &Node, top: &Node) -> Option<Problem> {
    let own = LINKS.iter().find(|part| base.get(part.key).is_some());
    if own.is_none() && ORGANIZATIONS.iter().all(|part| base.get(part.key).is_none()) {
        return None;
    }
    LINKS.iter().filter(|part| base.get(part.key).is_none()).find_map(|part| {
        let Data::Table(said) = &top.get(part.key)?.data else { return None };
        let (Some((key, node)), true) = (said.first(), said.iter().all(|(_, it)| !it.is_leaf()))
        else {
            return None;
        };
        let path = join(part.key, key);
        let reason = match own {
            Some(own) => format!("the link is [{}], which has no such table", own.key),
            None => "the machine has no link that could have it".to_owned(),
        };
        let mend = format!(
            "leave it out, or choose a base whose link is [{}]{}",
            part.key,
            such_as(part.key)
        );
        let mut mistake = problem("contradiction", node, &path, reason, mend);
        mistake.place = node.key_place.clone();
        Some(mistake)
    })
}

/// A preset that has a part, in words.
fn such_as(key: &str) -> String {
    let preset = preset_with(key).filter(|preset| is_said(preset, key));
    preset.map_or(String::new(), |preset| format!(", such as {preset}"))
}
