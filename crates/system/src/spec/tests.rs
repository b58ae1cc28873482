//! Laws of descriptions.

use super::presets;
use super::tree::{self, Data, Node};
use super::*;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tierscope_units::{CODES, Problem};

const WRONG: &str = "../../tests/data/wrong-specs.toml";

/// A wrong description, and what is said of it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Preset or file; the text of `toml` where there is none.
    system: Option<String>,
    #[serde(default)]
    sets: Vec<String>,
    toml: Option<String>,
    errors: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

fn wrong() -> (PathBuf, Vec<Case>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(WRONG);
    let text = std::fs::read_to_string(&path).expect("the cases are in the repository");
    let cases: Cases = toml::from_str(&text).expect("the cases are TOML");
    (path, cases.case)
}

/// What is said of a case; paths are relative to the case's own folder.
fn said(case: &Case, number: usize) -> Problems {
    let sets: Vec<_> = case
        .sets
        .iter()
        .filter_map(|set| set.split_once('='))
        .map(|(path, value)| (path.to_owned(), value.to_owned()))
        .collect();
    let folder =
        std::env::temp_dir().join(format!("tierscope-spec-{}-{number}", std::process::id()));
    let result = match (&case.system, &case.toml) {
        (None, Some(toml)) => load_text("machine.toml", toml, &sets),
        (Some(system), None) if system.ends_with(".toml") => {
            std::fs::create_dir_all(&folder).expect("a temporary folder");
            for (name, text) in &case.files {
                std::fs::write(folder.join(name), text).expect("a temporary file");
            }
            load(&folder.join(system).display().to_string(), &sets)
        }
        (Some(system), None) => load(system, &sets),
        _ => panic!("{}: a case has either a system or a toml", case.name),
    };
    let mut problems = result.err().unwrap_or_default();
    let prefix = format!("{}/", folder.display());
    for problem in problems.iter_mut() {
        let Problem { path, value, reason, mend, place, .. } = problem;
        for text in [path, value, reason, mend, place] {
            *text = text.replace(&prefix, "");
        }
    }
    std::fs::remove_dir_all(&folder).ok();
    problems
}

#[test]
fn wrong_descriptions_are_refused_with_these_words() {
    let (path, mut cases) = wrong();
    let bless = std::env::var_os("TIERSCOPE_BLESS").is_some();
    let mut differ = String::new();
    for (number, case) in cases.iter_mut().enumerate() {
        let said = said(case, number).to_string();
        assert!(!said.is_empty(), "{} is not refused", case.name);
        if said != case.errors.trim_end() {
            differ
                .push_str(&format!("{}\nis:\n{said}\nshould be:\n{}\n\n", case.name, case.errors));
        }
        case.errors = said;
    }
    if bless {
        std::fs::write(&path, print_cases(&path, &cases)).expect("the cases can be written");
    } else {
        assert!(differ.is_empty(), "{differ}");
    }
    assert!(cases.len() >= 60);
}

fn print_cases(path: &PathBuf, cases: &[Case]) -> String {
    let text = std::fs::read_to_string(path).expect("the cases are in the repository");
    let header = text.lines().take_while(|line| line.starts_with('#'));
    let mut out = header.map(|line| format!("{line}\n")).collect::<String>();
    let literal = |text: &str| format!("'''\n{}\n'''\n", text.trim_end_matches('\n'));
    for case in cases {
        out.push_str(&format!("\n[[case]]\nname = \"{}\"\n", case.name));
        if let Some(system) = &case.system {
            out.push_str(&format!("system = \"{system}\"\n"));
        }
        if !case.sets.is_empty() {
            out.push_str(&format!("sets = {:?}\n", case.sets));
        }
        if let Some(toml) = &case.toml {
            out.push_str(&format!("toml = {}", literal(toml)));
        }
        out.push_str(&format!("errors = {}", literal(&case.errors)));
        if !case.files.is_empty() {
            out.push_str("[case.files]\n");
        }
        for (name, text) in &case.files {
            out.push_str(&format!("\"{name}\" = {}", literal(text)));
        }
    }
    out
}

#[test]
fn every_code_has_a_wrong_description() {
    let (_, cases) = wrong();
    let all: Vec<_> = cases
        .iter()
        .enumerate()
        .flat_map(|(number, case)| said(case, 1_000_000 + number))
        .map(|problem| problem.code)
        .collect();
    for (code, _) in CODES {
        assert!(all.contains(code), "{code}");
    }
}

#[test]
fn every_mistake_has_a_place_and_a_mend() {
    let (_, cases) = wrong();
    for (number, case) in cases.iter().enumerate() {
        for problem in said(case, 2_000_000 + number) {
            assert!(!problem.mend.is_empty() && !problem.reason.is_empty(), "{problem}");
            let of_the_reference = problem.path == "system" && case.toml.is_none();
            assert!(!problem.place.is_empty() || of_the_reference, "{}: {problem}", case.name);
        }
    }
}

/// Presets that are not called by their organization, which is the other.
const CALLED_OTHERWISE: [(&str, &str); 23] = [
    ("device", "block-device"),
    ("hams-lp", "hams"),
    ("hams-le", "hams"),
    ("hams-tp", "hams"),
    ("hams-te", "hams"),
    ("mmap", "storage"),
    ("buffer-cache", "storage"),
    ("haste", "storage"),
    ("ddr-block", "storage"),
    ("fusion-io", "storage"),
    ("ssd-raid", "storage"),
    ("disk-raid", "storage"),
    ("nvdimm", "oracle"),
    ("flatflash-p", "tiered"),
    ("flatflash-m", "tiered"),
    ("optane-p", "direct"),
    ("optane-m", "hybrid"),
    ("ull", "tiered"),
    ("ull-buff", "hybrid"),
    ("cxl-ssd", "tiered"),
    ("cxl-tiering", "tiering"),
    ("nvdimm-c", "hybrid"),
    ("nvdimm-f", "storage"),
];

#[test]
fn every_preset_loads_and_is_called_by_its_name() {
    for (name, summary) in list() {
        let resolved = load(name, &[]).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(resolved.spec.name, name);
        let (folder, organization) = (name.split('/').next(), resolved.spec.organization());
        let otherwise = CALLED_OTHERWISE
            .iter()
            .any(|(called, of)| folder == Some(*called) && organization == Some(*of));
        assert!(organization == folder || otherwise, "{name} is of {organization:?}");
        assert!(!summary.is_empty() && summary.len() <= 90 && !summary.ends_with('.'), "{summary}");
    }
}

#[test]
fn every_value_of_every_preset_names_its_source() {
    let known = [
        "[HYB15]",
        "[NVM10]",
        "[7CPU]",
        "[HAMS21]",
        "[EBC11]",
        "[AMD64]",
        "[COSTS]",
        "[MARSS]",
        "M. Thomadakis, ",
        "[DCACHE] ",
        "[VAULT]",
        "[CALLS]",
        "[XRP]",
        "Hennessy and Patterson, ",
        "HPE ",
        "Micron ",
        "Viking ",
        "ATC 2023, ",
        "ICCAD 2025, ",
        "ISSCC 2018, ",
        "SIGCOMM 2018, ",
        "ONFI ",
        "PCI Express ",
        "Intel AN ",
        "Intel SSD 750 ",
        "Intel SSD 535 ",
        "Hitachi Deskstar 7K500",
        "Hitachi Deskstar 7K1000 ",
        "HP, ",
        "AnandTech, ",
        "BlissRoms-x86/",
        "[ZEN2]",
        "Deskstar 60GXP ",
        "Travelstar 7K320 ",
        "Serial ATA ",
        "ATA8-ACS",
        "Intel X25-",
        "Samsung 970 PRO, ",
        "Samsung SZ985: ",
        "HieronZhang/",
        "c-w-m/",
        "snu-csl/",
        "SEAL-UCSB/",
        "[LEE09] ",
        "[YANG20] ",
        "[IZR19] ",
        "[VANS] ",
        "[ALLOY12] ",
        "[FF19] ",
        "[LEE20]",
        "[RWT]",
        "[TH]",
        "[HP]",
        "[SKY25]",
        "[CXL23]",
        "[ZEN5]",
        "[CNC24]",
        "[CNCD]",
        "[CNCP]",
        "[CLARK]",
        "[gem5] ",
        "[ARK]",
        "[LLVM]",
        "[GLC]",
        "[PERF]",
        "[HOOD]",
        "[CNC]",
        "[CNCH]",
        "[AT]",
        "[CPUID]",
        "[MEMLAT]",
        "[LSCPU]",
        "[SNIPER]",
        "[SDM]",
        "[PAG]",
        "Stack Overflow, ",
        "Computerworld, ",
        "hljhnu/",
        "Lee et al., ",
        "derived: ",
        "Linux ",
        "SimpleSSD ",
        "x86-64",
        "AHCI",
        "umd-memsys/",
        "jimstevens2001/",
        "CMU-SAFARI/",
        "tytso/e2fsprogs ",
        "gem5 ",
        "[gem5] ",
        "JEDEC ",
        "HewlettPackard/mcpat",
        "remembered, not confirmed: ",
        "assumption: ",
        "our reading: ",
        "our choice: ",
    ];
    for (name, _) in list() {
        for (path, source) in load(name, &[]).unwrap().sources {
            if ["name", "description"].contains(&path.as_str()) {
                continue;
            }
            let names_one = known.iter().any(|start| source.text.starts_with(start));
            assert!(names_one, "{name}: {path} has the source \"{}\"", source.text);
        }
    }
}

#[test]
fn quick_presets_differ_in_capacities_alone_by_256() {
    for name in ["oracle", "hybrid", "storage"] {
        let full = load(name, &[]).unwrap().spec;
        let quick = load(&format!("{name}/quick"), &[]).unwrap().spec;
        let mut scaled = full.clone();
        let part =
            |size: tierscope_units::Size| tierscope_units::Size::from_bytes(size.bytes() / 256);
        scaled.name.clone_from(&quick.name);
        scaled.description.clone_from(&quick.description);
        scaled.store.iter_mut().for_each(|store| store.capacity = part(store.capacity));
        scaled.oracle.iter_mut().for_each(|oracle| oracle.capacity = part(oracle.capacity));
        scaled
            .hybrid
            .iter_mut()
            .for_each(|hybrid| hybrid.cache.capacity = part(hybrid.cache.capacity));
        scaled
            .storage
            .iter_mut()
            .for_each(|storage| storage.dram_capacity = part(storage.dram_capacity));
        assert_eq!(scaled, quick);
    }
}

#[test]
fn hybrid_and_storage_have_the_same_store_and_dram() {
    let hybrid = load("hybrid", &[]).unwrap().spec;
    let storage = load("storage", &[]).unwrap().spec;
    assert_eq!((hybrid.store, hybrid.dram), (storage.store, storage.dram.clone()));
    assert_eq!((hybrid.processor, hybrid.os), (storage.processor, storage.os));
    assert_eq!(load("oracle", &[]).unwrap().spec.dram, storage.dram);
}

#[test]
fn a_set_changes_one_value_and_is_its_source() {
    let sets = [
        ("hybrid.cache.capacity", "256MiB"),
        ("processor.caches[0].ways", "4"),
        ("processor.caches.L2.ways", "16"),
        ("os.allocation", "fragmented"),
        ("dram.age_cap", "\"1.25us\""),
        ("check_data", "true"),
        ("os.paths.fault", "{ instructions = 5 }"),
    ]
    .map(|(path, value)| (path.to_owned(), value.to_owned()));
    let plain = load("hybrid", &[]).unwrap();
    let set = load("hybrid", &sets).unwrap_or_else(|problems| panic!("{problems}"));
    let mut expected = plain.spec.clone();
    expected.hybrid.as_mut().unwrap().cache.capacity = "256MiB".parse().unwrap();
    expected.processor.as_mut().unwrap().caches[0].ways = 4;
    expected.processor.as_mut().unwrap().caches[1].ways = 16;
    expected.os.as_mut().unwrap().allocation = tierscope_model::os::Allocation::Fragmented;
    expected.dram.as_mut().unwrap().age_cap = "1.25us".parse().unwrap();
    expected.check_data = true;
    expected.os.as_mut().unwrap().paths.fault.instructions = 5;
    assert_eq!(set.spec, expected);
    let changed: Vec<_> = set
        .sources
        .iter()
        .filter(|(path, source)| plain.sources[*path] != **source)
        .map(|(path, source)| format!("{path}: {}", source.text))
        .collect();
    assert_eq!(
        changed,
        [
            "check_data: --set check_data=true",
            "dram.age_cap: --set dram.age_cap=\"1.25us\"",
            "hybrid.cache.capacity: --set hybrid.cache.capacity=256MiB",
            "os.allocation: --set os.allocation=fragmented",
            "os.paths.fault.instructions: --set os.paths.fault={ instructions = 5 }",
            "processor.caches[0].ways: --set processor.caches[0].ways=4",
            "processor.caches[1].ways: --set processor.caches.L2.ways=16",
        ]
    );
}

#[test]
fn a_value_that_is_set_to_what_it_was_keeps_its_source() {
    let plain = load("hybrid", &[]).unwrap();
    let capacity = plain.spec.hybrid.as_ref().unwrap().cache.capacity.bytes();
    let sets = [("hybrid.cache.capacity", &*format!("{capacity}B")), ("processor.width", "7")]
        .map(|(path, value)| (path.to_owned(), value.to_owned()));
    let set = load("hybrid", &sets).unwrap_or_else(|problems| panic!("{problems}"));
    let is_other = |(path, source): &(&String, &Source)| plain.sources[*path] != **source;
    let changed: Vec<_> = set.sources.iter().filter(is_other).map(|(path, _)| path).collect();
    assert_eq!(changed, ["processor.width"]);
}

#[test]
fn a_set_passes_by_machines_without_the_part() {
    let references = ["hybrid".to_owned(), "storage".to_owned(), "oracle".to_owned()];
    let set = |path: &str, value: &str| vec![(path.to_owned(), value.to_owned())];
    let all = load_all(&references, &set("hybrid.cache.ways", "4")).unwrap();
    assert_eq!(all[0].spec.hybrid.as_ref().map(|hybrid| hybrid.cache.ways), Some(4));
    assert_eq!(all[1].spec, load("storage", &[]).unwrap().spec);
    let all = load_all(&references, &set("store.units", "8")).unwrap();
    assert_eq!(all[1].spec.store.as_ref().map(|store| store.units), Some(8));
    assert_eq!(all[2].spec.store, None);
    let all = load_all(&references, &set("processor.cores", "2")).unwrap();
    assert!(all.iter().all(|one| one.spec.processor.as_ref().unwrap().cores == 2));
    let none = load_all(&references[2..], &set("hybrid.cache.ways", "4")).unwrap_err();
    assert!(none.to_string().contains("this machine has no [hybrid]"), "{none}");
    let none = load_all(&references[1..], &set("hybrid.cache.ways", "4")).unwrap_err();
    assert!(none.to_string().contains("none of storage and oracle has [hybrid]"), "{none}");
    assert_eq!(none.len(), 1, "what none has is told once: {none}");
    let every = load_all(&references, &set("processor.cores", "0")).unwrap_err();
    assert_eq!(every.len(), 1, "the same mistake is told once: {every}");
}

#[test]
fn a_set_applies_where_a_table_or_an_item_that_a_machine_may_lack_is() {
    let references = ["storage", "storage/ext4", "hybrid", "oracle"].map(str::to_owned);
    let set = |path: &str, value: &str| vec![(path.to_owned(), value.to_owned())];
    let all = load_all(&references, &set("storage.file_system.commit_interval", "9s")).unwrap();
    let commit = |one: &Resolved| {
        let paging = one.spec.storage.as_ref()?;
        paging.file_system.as_ref().map(|it| it.commit_interval.to_string())
    };
    let told: Vec<_> = all.iter().map(commit).collect();
    assert_eq!(told, [None, Some("9s".to_owned()), None, None]);
    for (place, one) in all.iter().enumerate().filter(|(place, _)| *place != 1) {
        assert_eq!(one.spec, load(&references[place], &[]).unwrap().spec);
    }
    let wrong = load_all(&references, &set("storage.file_system.journal", "ordred")).unwrap_err();
    assert!(wrong.to_string().contains(": of storage/ext4: the words here are"), "{wrong}");
    // A link goes where there is one to take the place of.
    let link = load("storage/z-ssd", &[]).unwrap();
    let pcie = serde_json::to_value(&link.spec).unwrap()["pcie"].to_string().replace("\":", "\"=");
    let all = load_all(&references, &set("pcie", &pcie)).unwrap();
    let have: Vec<_> = all.iter().map(|one| one.spec.pcie.is_some()).collect();
    assert_eq!(have, [true, true, true, false]);
    // What none has is begun where most of its way is there.
    let keys = [
        ("hybrid.cache.tags", "dram"),
        ("hybrid.cache.tag_cache.capacity", "64KiB"),
        ("hybrid.cache.tag_cache.ways", "8"),
    ];
    let sets = keys.map(|(path, value)| (path.to_owned(), value.to_owned()));
    assert!(load_all(&references, &sets).is_ok());
    let lost = ["oracle".to_owned(), "orakel".to_owned()];
    let wrong = load_all(&lost, &set("hybrid.cache.ways", "4")).unwrap_err();
    assert_eq!(wrong.len(), 1, "what cannot be read may have it: {wrong}");
}

#[test]
fn a_file_with_a_base_says_only_what_differs_and_gives_the_name() {
    let folder = std::env::temp_dir().join(format!("tierscope-spec-base-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("below")).unwrap();
    let wide = folder.join("wide.toml");
    std::fs::write(&wide, "base = \"below/big.toml\"\n[processor]\nwidth = 8 # mine\n").unwrap();
    let big = "base = \"hybrid\"\nname = \"big\"\n[hybrid.cache]\ncapacity = \"128GiB\"\n";
    std::fs::write(folder.join("below/big.toml"), big).unwrap();
    let resolved = load(&wide.display().to_string(), &[]).unwrap_or_else(|e| panic!("{e}"));
    std::fs::remove_dir_all(&folder).ok();
    let mut expected = load("hybrid", &[]).unwrap().spec;
    expected.name = "wide".into();
    expected.processor.as_mut().unwrap().width = 8;
    expected.hybrid.as_mut().unwrap().cache.capacity = "128GiB".parse().unwrap();
    assert_eq!(resolved.spec, expected);
    assert_eq!(resolved.sources["processor.width"].text, "mine");
    assert!(resolved.sources["hybrid.cache.capacity"].place.ends_with("below/big.toml:4:12"));
    assert_eq!(resolved.origin.len(), 7);
}

#[test]
fn json_is_laid_over_a_base_and_null_says_nothing() {
    let over = serde_json::json!({"hybrid": {"cache": {"ways": 64}, "fills": null}, "link": null});
    let resolved = load_json(Some("hybrid"), &over, "Python", &[]).unwrap();
    let ways = resolved.spec.hybrid.as_ref().map(|hybrid| hybrid.cache.ways);
    assert_eq!(ways, Some(64));
    assert_eq!(resolved.sources["hybrid.cache.ways"].text, "Python");
    let whole = serde_json::to_value(&resolved.spec).unwrap();
    assert_eq!(load_json(None, &whole, "Python", &[]).unwrap().spec, resolved.spec);
    let wrong = serde_json::json!({"hybrid": {"cache": {"ways": "many"}}, "sede": 3});
    assert_eq!(
        load_json(Some("hybrid"), &wrong, "Python", &[]).unwrap_err().to_string(),
        "error[wrong-type]: hybrid.cache.ways = \"many\": an integer is needed, not a text; write \
         an integer\n  --> Python\n\
         error[unknown-key]: sede = 3: there is no such key; did you mean `seed`?\n  --> Python"
    );
}

#[test]
fn a_resolved_machine_prints_as_toml_that_loads_to_the_same() {
    for (name, _) in list() {
        let resolved = load(name, &[]).unwrap();
        let text = to_toml(&resolved);
        let again = load_text("again.toml", &text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again.spec, resolved.spec);
        assert_eq!(to_toml(&again), text);
        assert!(show(name).is_ok_and(|shown| shown == text));
    }
}

#[test]
fn what_only_other_presets_need_is_not_listed() {
    assert!(presets::find("hyb15").is_none() && presets::find_base("hyb15").is_some());
    assert!(list().iter().all(|(name, _)| !name.starts_with("hyb15")));
}

#[test]
fn a_host_takes_the_place_of_a_machines_processor_and_kernel() {
    let hybrid = load("hybrid", &[]).unwrap();
    for (host, _) in hosts() {
        let text = format!("base = [\"hybrid\", \"{host}\"]");
        let resolved = load_text("mine.toml", &text, &[]).unwrap_or_else(|e| panic!("{host}: {e}"));
        let places = resolved.sources.iter().filter(|(path, _)| {
            path.starts_with("processor.")
                || path.starts_with("os.") && !path.starts_with("os.paths")
        });
        for (path, source) in places {
            // Of a variant, the rest is of what it is a variant of.
            let of = |host: &str| format!("preset {host}:");
            let own = [of(host), of(host.split('/').next().unwrap()), of("linux")];
            assert!(own.iter().any(|own| source.place.starts_with(own)), "{path}: {source:?}");
            assert!(!source.text.is_empty(), "{host}: {path} has no source");
        }
        assert_eq!(resolved.spec.dram, hybrid.spec.dram);
        assert_eq!(resolved.spec.hybrid, hybrid.spec.hybrid);
        assert_eq!(
            to_toml(&load_text("again", &to_toml(&resolved), &[]).unwrap()),
            to_toml(&resolved)
        );
    }
    let text = "base = [\"hybrid\", \"hyb15-host\"]";
    assert_eq!(load_text("same.toml", text, &[]).unwrap().spec, hybrid.spec);
    let error = load("hams-host", &[]).unwrap_err().to_string();
    assert!(error.contains("it is a host") && error.contains("base = [\"hybrid\""), "{error}");
}

#[test]
fn a_kernel_takes_the_place_of_what_a_machine_says_of_its_own() {
    for (machine, _) in list().into_iter().filter(|(name, _)| !name.starts_with("device/")) {
        let before = load(machine, &[]).unwrap();
        for (kernel, _) in kernels() {
            let text = format!("base = [\"{machine}\", \"{kernel}\"]");
            let with = load_text("mine.toml", &text, &[]);
            let with = with.unwrap_or_else(|e| panic!("{machine} with {kernel}: {e}"));
            assert_eq!(with.spec.storage.is_some(), before.spec.storage.is_some(), "{machine}");
            let of_kernel = format!("preset {kernel}:");
            let kernels_own = |path: &str| with.sources[path].place.starts_with(&of_kernel);
            assert!(kernels_own("os.paths.driver.instructions"), "{machine} with {kernel}");
            if with.spec.storage.is_some() {
                assert!(kernels_own("storage.readahead") && kernels_own("storage.reclaim"));
                let layer = with.sources.contains_key("storage.block_layer.scheduler");
                assert_eq!(layer, with.spec.ramdisk.is_none(), "{machine} with {kernel}");
                assert!(!layer || kernels_own("storage.block_layer.scheduler"), "{machine}");
            }
            let own =
                with.sources.iter().filter(|(_, source)| source.place.starts_with(&of_kernel));
            assert!(own.into_iter().all(|(_, source)| !source.text.is_empty()), "{kernel}");
        }
    }
}

#[test]
fn of_a_kernel_below_nothing_is_left() {
    for (below, _) in kernels() {
        for (above, _) in kernels() {
            let text = format!("base = [\"storage/quick\", \"{below}\", \"{above}\"]");
            let one = format!("base = [\"storage/quick\", \"{above}\"]");
            let of = |text: &str| load_text("mine.toml", text, &[]).unwrap().spec;
            assert_eq!(of(&text), of(&one), "{above} over {below}");
        }
    }
    for behind in ["nvm10-host", "hybrid", "storage"] {
        let text = format!("base = [\"storage/quick\", \"linux-6.18\", \"{behind}\"]");
        let error = load_text("mine.toml", &text, &[]).unwrap_err().to_string();
        assert!(error.contains("name the kernel last"), "{error}");
    }
    let alone = load("linux-4.9", &[]).unwrap_err().to_string();
    assert!(alone.contains("it is a kernel") && alone.contains("base = [\"storage\""), "{alone}");
}

#[test]
fn several_cores_have_to_say_how_they_keep_coherent() {
    let mut whole = serde_json::to_value(load("oracle", &[]).unwrap().spec).unwrap();
    whole["processor"].as_object_mut().unwrap().remove("coherence");
    let error = load_json(None, &whole, "Python", &[]).unwrap_err().to_string();
    assert!(error.contains("processor.coherence") && error.contains("4 cores"), "{error}");
    whole["processor"]["cores"] = 1.into();
    assert!(load_json(None, &whole, "Python", &[]).is_ok());
}

#[test]
fn of_several_bases_each_is_laid_over_those_before_it() {
    let text = "base = [\"oracle/quick\", \"nvm10-host\"]\n[processor]\ncores = 2 # mine\n";
    let spec = load_text("mine.toml", text, &[]).unwrap().spec;
    let processor = spec.processor.unwrap();
    assert_eq!((processor.cores, processor.miss_registers), (2, 10));
    let running_power = processor.energy.map(|energy| energy.running_power);
    assert_eq!(running_power, Some("17.1W".parse().unwrap()), "that of the host, as all else");
    let empty = load_text("mine.toml", "base = []", &[]).unwrap_err().to_string();
    assert!(empty.contains("it names none"), "{empty}");
    let wrong = load_text("mine.toml", "base = [\"hybrid\", \"hams-hots\"]", &[]).unwrap_err();
    assert!(wrong.to_string().contains("did you mean \"hams-host\"?"), "{wrong}");
}

/// The merged tree of a preset, as the loader sees it.
fn tree_of(name: &str) -> Node {
    let resolved = load(name, &[]).unwrap();
    tree::read("preset", &to_toml(&resolved)).unwrap()
}

fn values() -> impl Strategy<Value = Data> {
    let texts = prop_oneof![
        Just(String::new()),
        "[0-9]{1,3}(KiB|MiB|GiB|B|ns|us|ps|MHz|GHz|GB/s|MB/s|GB|)",
        "sram|with-data|empty|prefilled|contiguous|fragmented",
        "[a-z0-9.]{0,6}",
    ];
    prop_oneof![
        4 => texts.prop_map(Data::Text),
        2 => (0i128..200).prop_map(Data::Integer),
        2 => any::<i64>().prop_map(|value| Data::Integer(value.into())),
        1 => prop::sample::select(vec![u32::MAX.into(), u64::MAX.into(), -1, 1 << 64])
            .prop_map(Data::Integer),
        2 => (0.0f64..4.0).prop_map(Data::Float),
        1 => any::<bool>().prop_map(Data::Boolean),
        1 => Just(Data::Table(Vec::new())),
        1 => Just(Data::List(Vec::new())),
    ]
}

/// Replaces the value of a leaf, removes it, or adds a key beside it.
fn mutate(root: &mut Node, leaf: usize, action: u8, data: Data) {
    let mut paths = Vec::new();
    root.leaves("", &mut |path, _| paths.push(path.to_owned()));
    let Some(path) = paths.get(leaf % paths.len().max(1)) else { return };
    let mut node = root;
    let parts: Vec<_> = path.split(['.', '[']).map(|part| part.trim_end_matches(']')).collect();
    let (last, above) = parts.split_last().expect("a path has a part");
    for part in above {
        node = match part.parse::<usize>() {
            Ok(index) => item(node, index),
            Err(_) => node.entry(part, Node::new(Data::Date, "", "", "")),
        };
    }
    match action {
        0 => drop(node.remove(last)),
        1 => node.put("fills", Node::new(data, "", "", "")),
        _ => node.put(last, Node::new(data, "", "", "")),
    }
}

fn item(node: &mut Node, index: usize) -> &mut Node {
    match &mut node.data {
        Data::List(items) => &mut items[index],
        _ => unreachable!("indices are of lists"),
    }
}

proptest! {
    #[test]
    fn the_walker_accepts_what_serde_accepts(
        preset in prop::sample::select(list()),
        mutations in prop::collection::vec((any::<usize>(), 0u8..12, values()), 1..4),
    ) {
        let mut root = tree_of(preset.0);
        for (leaf, action, data) in mutations {
            mutate(&mut root, leaf, action, data);
        }
        let mut problems = Problems::new();
        walk::walk(&root, &mut problems);
        let read = serde_json::from_value::<SystemSpec>(root.to_json());
        prop_assert_eq!(problems.is_empty(), read.is_ok(), "{} against {:?}", problems, read.err());
        if let Ok(spec) = read {
            // Any value of the right form can be checked without a panic, and what is right
            // prints and loads back.
            if spec.check().is_empty() {
                let json = serde_json::to_value(&spec).unwrap();
                let resolved = load_json(None, &json, "here", &[]).unwrap();
                let again = load_text("again", &to_toml(&resolved), &[]);
                prop_assert_eq!(again.map(|again| again.spec), Ok(spec));
            }
        }
    }

    #[test]
    fn no_text_and_no_set_panics(
        text in "(base = \"hybrid\"\n)?([a-z.]{0,8} = [\\[{\"a-z0-9.,]{0,8}\n|\\[[a-z.]{0,10}\\]\n){0,4}",
        path in "[a-z.\\[\\]0-9]{0,12}|processor\\.caches[\\[\\].0-9a-zA-Z]{0,6}",
        value in "[{}\\[\\]a-z0-9\"=., #]{0,10}",
    ) {
        let sets = [(path, value)];
        if let Err(problems) = load_text("any.toml", &text, &sets) {
            prop_assert!(!problems.is_empty());
        }
    }
}

#[test]
fn the_examples_of_the_page_of_links_are_right() {
    let page = include_str!("../../../../docs/models/link.md");
    let texts = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let specs: Vec<_> =
        texts.map(|text| load_text("link.md", text, &[]).expect("it is right").spec).collect();
    assert_eq!(specs.len(), 2);
    assert!(specs.iter().all(|spec| spec.pcie.is_some() && spec.link.is_none()));
    let queues: Vec<_> =
        specs.iter().filter_map(|spec| spec.pcie.as_ref()?.nvme.as_ref()).collect();
    assert!(queues.len() == 1 && queues[0].coalescing.is_some());
}

#[test]
fn mistakes_of_form_and_of_meaning_are_told_at_once() {
    let told = |text: &str| {
        let found = load_text("machine.toml", text, &[]).err().unwrap();
        found.iter().map(|one| format!("{}: {}", one.code, one.path)).collect::<Vec<_>>()
    };
    let base = "base = \"hybrid/quick\"\n";
    let stray = format!("{base}colour = 1\n[hybrid.cache]\nways = 0\n[os]\nswappiness = 60\n");
    assert_eq!(
        told(&stray),
        [
            "unknown-key: os.swappiness",
            "unknown-key: colour",
            "impossible-value: hybrid.cache.ways"
        ]
    );
    let unit = format!("{base}[processor]\nclock = \"2GB\"\n[hybrid.cache]\nways = 0\n");
    assert_eq!(told(&unit), ["bad-unit: processor.clock", "impossible-value: hybrid.cache.ways"]);
    // What may only come of what was put in the place of the first is not told.
    let same = format!("{base}[hybrid.cache]\ncapacity = \"64GB\"\nways = 7\n");
    assert_eq!(told(&same).len(), 1);
    let meant = format!("{base}[hybrid.cache]\nwayz = 7\ncapacity = \"1KiB\"\n");
    assert_eq!(told(&meant), ["unknown-key: hybrid.cache.wayz"]);
}

#[test]
fn a_mend_of_a_number_out_of_range_is_one_of_the_parts_own() {
    let link = |generation: &str, lanes: &str| {
        let text = format!(
            "base = \"hybrid/quick\"\n[pcie]\ngeneration = {generation}\nlanes = {lanes}\n\
             max_payload = \"256B\"\nmax_read_request = \"512B\"\nread_completion = \"64B\"\n\
             protocol = \"nvme\"\nlatency = \"100ns\"\nroot_complex_latency = \"100ns\"\n"
        );
        let found = load_text("machine.toml", &text, &[]).err();
        found.map(|found| found.iter().map(|one| one.mend.clone()).collect::<Vec<_>>())
    };
    assert_eq!(link("3", "4"), None);
    assert_eq!(link("-1", "4").unwrap(), ["write 1 or more"]);
    assert_eq!(link("nan", "4").unwrap(), ["write 1 or more"]);
    assert_eq!(link("3.5", "4").unwrap(), ["write 3"]);
    assert_eq!(link("3", "99999999999").unwrap(), ["write 4"]);
    assert_eq!(link("99999999999", "-7").unwrap(), ["write 6 or less", "write 4"]);
}

#[test]
fn the_example_of_the_page_of_file_systems_is_right() {
    let page = include_str!("../../../../docs/models/file-systems.md");
    let texts = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let specs: Vec<_> = texts
        .map(|text| load_text("file-systems.md", text, &[]).expect("it is right").spec)
        .collect();
    assert_eq!(specs.len(), 1);
    let system = specs[0].storage.as_ref().and_then(|storage| storage.file_system.as_ref());
    assert!(system.is_some() && specs[0].ssd.is_some());
}

/// The mend of a change of a machine; `Ok` with the machine where it is right.
fn changed(machine: &str, sets: &[(&str, &str)]) -> Result<SystemSpec, String> {
    let sets: Vec<_> =
        sets.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    match load(machine, &sets) {
        Ok(resolved) => Ok(resolved.spec),
        Err(found) => Err(found.iter().next().unwrap().mend.clone()),
    }
}

/// The change that a mend proposes by `--set '…'`.
fn proposed(mend: &str) -> (String, String) {
    let quoted = mend.split("--set '").nth(1).and_then(|rest| rest.split('\'').next()).expect(mend);
    let (path, value) = quoted.split_once('=').expect(mend);
    (path.to_owned(), value.to_owned())
}

#[test]
fn a_mend_that_sets_a_part_as_a_whole_mends() {
    for (machine, path, value) in [
        ("storage", "storage.file_system.kind", "ext4"),
        ("hybrid/quick", "pcie.lanes", "4"),
        ("hybrid/quick", "sata.generation", "3"),
    ] {
        let mend = changed(machine, &[(path, value)]).unwrap_err();
        let (whole, table) = proposed(&mend);
        let made = changed(machine, &[(&whole, &table)]);
        assert!(made.is_ok(), "{path}: {mend} leads to {made:?}");
    }
    // A link that comes takes the place of the other.
    let (whole, table) = proposed(&changed("hybrid/quick", &[("pcie.lanes", "4")]).unwrap_err());
    let made = changed("hybrid/quick", &[(&whole, &table)]).unwrap();
    assert!(made.pcie.is_some() && made.link.is_none());
}

#[test]
fn a_table_begins_where_all_changes_together_say_its_keys() {
    let keys = [
        ("hybrid.cache.tags", "dram"),
        ("hybrid.cache.tag_cache.capacity", "64KiB"),
        ("hybrid.cache.tag_cache.ways", "8"),
    ];
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let made = changed("hybrid/quick", &order.map(|at: usize| keys[at])).unwrap();
        assert_eq!(made.hybrid.unwrap().cache.tag_cache.unwrap().ways, 8);
    }
    let mend = changed("hybrid/quick", &keys[..2]).unwrap_err();
    assert!(mend.contains("capacity = …, ways = …"), "{mend}");
}

#[test]
fn a_part_that_a_machine_lacks_is_set_as_a_whole_with_all_its_keys() {
    let told = |path: &str, value: &str| changed("hybrid/quick", &[(path, value)]).unwrap_err();
    let whole = told("pcie.lanes", "4");
    assert!(whole.contains("--set 'pcie={ generation = 3, lanes = "), "{whole}");
    let other = told("link.generation", "3");
    assert!(
        other.contains("`pcie.generation`, ") && other.contains("`sata.generation`"),
        "{other}"
    );
}

proptest! {
    /// Whatever is wrong in form, looking for the rest finds no mistake that mending leaves away.
    #[test]
    fn a_right_machine_with_stray_keys_has_no_other_mistake(
        preset in prop::sample::select(presets::list().into_iter().map(|(n, _)| n).collect::<Vec<_>>()),
        key in "[a-z]{12}",
    ) {
        let text = format!("base = \"{preset}\"\n{key} = 1\n");
        let found = load_text("machine.toml", &text, &[]).unwrap_err();
        prop_assert!(found.iter().all(|one| one.path == key), "{}", found);
    }
}
