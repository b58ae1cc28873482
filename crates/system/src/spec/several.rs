//! Several machines at once: what is set applies to each that has the part.

use super::load::{Layered, Resolved, append_new, layers, resolve};
use super::sets;
use super::tree::{Data, Node};
use tierscope_units::{Problem, Problems};

/// Loads several machines. A change applies to each machine that has the part: `hybrid.cache.ways`
/// passes by a `storage` machine. Where none of all has it, it applies to those that have the most of its
/// path: there it is begun, or told to be missing.
///
/// # Errors
/// Every mistake of every machine, each told once; one of a change says which machines it is of, unless it
/// is of all.
pub fn load_all(
    references: &[String],
    sets: &[(String, String)],
) -> Result<Vec<Resolved>, Problems> {
    let mut problems = Problems::new();
    let mut all: Vec<(String, Layered)> = Vec::new();
    for reference in references {
        match layers(reference) {
            Ok(layered) => all.push((name_of(&layered.root, reference), layered)),
            Err(found) => append_new(&mut problems, found),
        }
    }
    // What none of these has may be of one that cannot be read.
    let lost = all.len() < references.len();
    let taking: Vec<Vec<bool>> = sets
        .iter()
        .map(|(path, _)| {
            takers(all.iter().map(|(_, one)| sets::lacking_after(&one.root, path)).collect(), lost)
        })
        .collect();
    let mut resolved = Vec::new();
    let mut told = Vec::new();
    for (number, (name, layered)) in all.iter().enumerate() {
        let own = sets.iter().zip(&taking).filter(|(_, takes)| takes[number]);
        let own: Vec<_> = own.map(|(set, _)| set.clone()).collect();
        match resolve(layered.clone(), &own) {
            Ok(one) => resolved.push(one),
            Err(found) => told.extend(found.into_iter().map(|problem| (name.as_str(), problem))),
        }
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    append_new(&mut problems, gathered(told, &names));
    if problems.is_empty() { Ok(resolved) } else { Err(problems) }
}

/// Which of several machines a change of `path` applies to, as for [`load_all`]. `lost` says that there are
/// more, which cannot be read.
pub fn applies_to(specs: &[serde_json::Value], path: &str, lost: bool) -> Vec<bool> {
    let roots = specs.iter().map(|spec| Node::from_json(spec, ""));
    takers(roots.map(|root| sets::lacking_after(&root, path)).collect(), lost)
}

/// Which machines take a change, by what each lacks of its path.
fn takers(lacking: Vec<Option<usize>>, lost: bool) -> Vec<bool> {
    let is_somebodys = lost || lacking.contains(&None);
    let most = lacking.iter().flatten().max().copied();
    let takes = |after: &Option<usize>| match after {
        None => true,
        Some(_) => !is_somebodys && *after == most,
    };
    lacking.iter().map(takes).collect()
}

fn name_of(root: &Node, reference: &str) -> String {
    match root.get("name").map(|name| &name.data) {
        Some(Data::Text(name)) => name.clone(),
        _ => reference.to_owned(),
    }
}

/// Mistakes of the machines called `names`, those of changes with the machines that make them.
fn gathered(told: Vec<(&str, Problem)>, names: &[&str]) -> Problems {
    let same = |one: &Problem, other: &Problem| {
        (one.code, &one.path, &one.reason, &one.place)
            == (other.code, &other.path, &other.reason, &other.place)
    };
    let mut problems = Problems::new();
    for (number, (_, problem)) in told.iter().enumerate() {
        let is_of_a_change = problem.place.starts_with("--set ");
        if names.len() == 1 || !is_of_a_change {
            let mut alone = Problems::new();
            alone.push(problem.clone());
            append_new(&mut problems, alone);
            continue;
        }
        if told[..number].iter().any(|(_, other)| same(problem, other)) {
            continue;
        }
        let who = told.iter().filter(|(_, other)| same(problem, other)).map(|(name, _)| *name);
        let mut who: Vec<&str> = who.collect();
        who.dedup();
        let mut problem = problem.clone();
        problem.reason = match problem.reason.strip_prefix("this machine has no ") {
            Some(part) => format!("none of {} has {part}", listed(names)),
            None if who.len() < names.len() => format!("of {}: {}", listed(&who), problem.reason),
            None => problem.reason,
        };
        problems.push(problem);
    }
    problems
}

fn listed(names: &[&str]) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => names.join(", "),
    }
}
