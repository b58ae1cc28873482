//! A page for each preset of a drive or disk: what is published of it beside what the model has, and what goes in.

use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;
use tierscope_system::spec;

const FIGURES: &str = "docs/presets/figures.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    presets: Vec<Preset>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Preset {
    name: String,
    /// The page of its model.
    model: String,
    notes: String,
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    what: String,
    published: String,
    here: String,
    off: String,
    /// `input`, `derived` or `predicted`, and what there is to say of it.
    kind: String,
}

const KINDS: [&str; 3] = ["input", "derived", "predicted"];

/// Path below the root, and content, of each page.
///
/// # Errors
/// What is wrong with the file of figures.
pub fn pages(root: &Path) -> Result<Vec<(String, String)>, String> {
    let text = std::fs::read_to_string(root.join(FIGURES))
        .map_err(|error| format!("{FIGURES} cannot be read: {error}"))?;
    let figures: Figures = toml::from_str(&text).map_err(|error| format!("{FIGURES}: {error}"))?;
    figures.presets.iter().map(|preset| Ok((path(preset), page(preset)?))).collect()
}

fn path(preset: &Preset) -> String {
    format!("docs/presets/{}.md", preset.name.trim_start_matches("device/"))
}

fn page(preset: &Preset) -> Result<String, String> {
    let Preset { name, model, notes, figures } = preset;
    let shown = spec::show(name).map_err(|problems| format!("{name}: {problems}"))?;
    let (_, description) = spec::list()
        .into_iter()
        .find(|(known, _)| known == name)
        .ok_or_else(|| format!("{FIGURES}: there is no preset {name}"))?;
    let mut page = format!(
        "# `{name}`\n\n{description}. How it is modelled says [its page](../models/{model}.md).\n\n\
         ## Against published figures\n\n\
         | figure | published | here | off by | |\n|---|---|---|---|---|\n"
    );
    for Figure { what, published, here, off, kind } in figures {
        if !KINDS.iter().any(|known| kind.starts_with(known)) {
            return Err(format!("{FIGURES}: {name}: `{kind}` is none of {}", KINDS.join(", ")));
        }
        let _ = writeln!(page, "| {what} | {published} | {here} | {off} | {kind} |");
    }
    let _ = write!(
        page,
        "\n*Input*: a value of the preset, below. *Derived*: what a value of the preset was worked out from. \
         *Predicted*: it went\ninto no value.\n\n{}\n\n## What goes in\n\n\
         `tierscope show {name}`: each value with its source.\n\n```toml\n{}```\n",
        notes.trim(),
        shown
    );
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_three_figures_that_went_into_no_value() {
        let text = std::fs::read_to_string(crate::root().join(FIGURES)).unwrap();
        let figures: Figures = toml::from_str(&text).unwrap();
        assert_eq!(figures.presets.len(), 10);
        for preset in figures.presets {
            let predicted = preset.figures.iter().filter(|it| it.kind.starts_with("predicted"));
            assert!(predicted.count() >= 3, "{}", preset.name);
        }
    }
}
