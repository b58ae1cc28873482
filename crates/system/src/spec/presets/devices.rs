//! Presets of devices alone: one a part of the DRAM standards, made of one list.

use std::fmt::Write;
use std::sync::OnceLock;
use tierscope_model::medium::dram::standard;

/// A device alone.
struct Listed {
    /// As users write it, behind `device/`.
    name: &'static str,
    /// The part.
    part: &'static str,
    /// What one channel of it holds.
    capacity: &'static str,
    /// Where that comes from.
    source: &'static str,
}

/// Makes [`DEVICES`] of the list below.
macro_rules! devices {
    ($( $name:literal = $part:literal, $capacity:literal, $source:literal; )*) => {
        const DEVICES: &[Listed] = &[ $( Listed {
            name: $name,
            part: $part,
            capacity: $capacity,
            source: $source,
        } ),* ];
    };
}

// Name, part, capacity of one rank (of a channel, where ranks are pseudo-channels), and its source.
devices! {
    "ddr2-667" = "ddr2-667-1gb-x8", "1GiB", "our reading: eight chips of 1 Gb";
    "ddr2-667-at-500" = "ddr2-667-1gb-x8-at-500", "1GiB", "our reading: eight chips of 1 Gb";
    "ddr3-1333" = "ddr3-1333-2gb-x8", "2GiB", "our reading: eight chips of 2 Gb";
    "ddr3-1600" = "ddr3-1600-4gb-x8", "4GiB", "our reading: eight chips of 4 Gb";
    "ddr4-2133" = "ddr4-2133-8gb-x8", "8GiB", "our reading: eight chips of 8 Gb";
    "ddr4-2133-x4" = "ddr4-2133-4gb-x4", "8GiB", "our reading: sixteen chips of 4 Gb";
    "ddr4-2400" = "ddr4-2400-8gb-x8", "8GiB", "our reading: eight chips of 8 Gb";
    "ddr5-4800" = "ddr5-4800-16gb-x8", "8GiB", "our reading: four chips of 16 Gb, a subchannel";
    "lpddr5-6400" = "lpddr5-6400-16gb-x16", "2GiB", "our reading: one chip of 16 Gb";
    "hbm2-2000" = "hbm2-2000-8gb", "1GiB", "our reading: a channel of 8 Gb";
    "hbm3-6400" = "hbm3-6400-4gb", "512MiB", "our reading: a channel of 4 Gb";
}

/// A preset that was made of the list.
pub(super) struct Made {
    pub name: String,
    pub summary: String,
    pub text: String,
}

/// Every device alone, in the order of the list.
pub(super) fn all() -> &'static [Made] {
    static ALL: OnceLock<Vec<Made>> = OnceLock::new();
    ALL.get_or_init(|| DEVICES.iter().map(Listed::make).collect())
}

impl Listed {
    fn make(&self) -> Made {
        let standard = standard::find(self.part).map(|(standard, _)| standard);
        let (kind, jedec) = standard.map_or(("DRAM", ""), |it| (it.name, it.source));
        let pseudo = standard.is_some_and(|it| it.rank_is_pseudo_channel);
        let summary = format!("One channel of {kind} alone ({}), for memory traces", self.part);
        let (ranks, ranks_source, mapping) = if pseudo {
            (2, "two pseudo-channels, each with a data bus of its own", "ro-ba-co-bg-ra-ch")
        } else {
            (1, "our choice: one rank", "ro-ra-ba-co-bg-ch")
        };
        let ranks_source =
            if pseudo { format!("{jedec}: {ranks_source}") } else { ranks_source.to_owned() };
        let mut text = String::from("base = \"device\"\n");
        for (key, value, source) in [
            ("name", format!("device/{}", self.name), ""),
            ("description", summary.clone(), ""),
            ("device.capacity", self.capacity.to_owned(), self.source),
            ("dram.part", self.part.to_owned(), "our choice: what the preset is called by"),
            (
                "dram.mapping",
                mapping.to_owned(),
                "our choice: what lies beside a line is in another bank group, so that streams wait for none",
            ),
        ] {
            line(&mut text, key, &format!("\"{value}\""), source);
        }
        line(&mut text, "dram.ranks", &ranks.to_string(), &ranks_source);
        Made { name: format!("device/{}", self.name), summary, text }
    }
}

fn line(text: &mut String, key: &str, value: &str, source: &str) {
    let comment = if source.is_empty() { String::new() } else { format!("  # {source}") };
    let result = writeln!(text, "{key} = {value}{comment}");
    debug_assert!(result.is_ok(), "writing to a text cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load;

    #[test]
    fn every_part_of_every_standard_is_a_device() {
        let parts: Vec<_> = standard::parts().map(|(_, part)| part.name).collect();
        let listed: Vec<_> = DEVICES.iter().map(|device| device.part).collect();
        assert_eq!(listed, parts, "one line each, in the order of the standards");
    }

    #[test]
    fn capacities_are_those_that_the_names_of_the_parts_say() {
        for device in DEVICES {
            let gigabits: u64 = device
                .part
                .split('-')
                .find_map(|word| word.strip_suffix("gb"))
                .and_then(|word| word.parse().ok())
                .unwrap();
            let (_, part) = standard::find(device.part).unwrap();
            let spec = load(&format!("device/{}", device.name), &[]).unwrap().spec;
            let chips = u64::from(part.bus_bits.div_ceil(part.chip_bits));
            let bytes = (gigabits * chips) << 27;
            assert_eq!(spec.device.unwrap().capacity.bytes(), bytes, "{}", device.name);
        }
    }
}
