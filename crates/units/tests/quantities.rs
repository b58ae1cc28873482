//! Laws of quantities: printing and parsing are inverse, nothing is rounded, errors say what to
//! write.

use proptest::prelude::*;
use tierscope_units::{
    Bandwidth, CODES, Current, Duration, Energy, Frequency, KINDS, Power, Size, TransferRate,
    Voltage, kind,
};

proptest! {
    #[test]
    fn what_is_printed_parses_back(value in magnitudes(), which in 0..KINDS.len()) {
        let kind = KINDS[which];
        let text = kind.print(value);
        prop_assert_eq!(kind.parse(&text), Ok(value), "{} of {}", text, kind.name);
    }

    #[test]
    fn no_unit_prints_shorter(value in magnitudes(), which in 0..KINDS.len()) {
        let kind = KINDS[which];
        let text = kind.print(value);
        for unit in kind.units.iter().filter(|unit| value % unit.multiplier == 0) {
            let whole = format!("{}{}", value / unit.multiplier, unit.symbol);
            prop_assert!(text.len() <= whole.len(), "{} against {}", text, whole);
        }
    }

    #[test]
    fn decimals_are_exact_or_refused(
        whole in 0u64..1000,
        decimals in 0u64..1_000_000,
        which in 0..KINDS.len(),
        unit in any::<prop::sample::Index>(),
    ) {
        let kind = KINDS[which];
        let unit = unit.get(kind.units);
        let text = format!("{whole}.{decimals:06}{}", unit.symbol);
        let millionths = u128::from(whole * 1_000_000 + decimals) * u128::from(unit.multiplier);
        let value = u64::try_from(millionths / 1_000_000).ok();
        match kind.parse(&text) {
            Ok(parsed) => {
                prop_assert_eq!(Some(parsed), value);
                prop_assert_eq!(millionths % 1_000_000, 0);
            }
            Err(error) if error.code == "overflow" => prop_assert_eq!(value, None),
            Err(error) => {
                prop_assert_eq!(error.code, "not-exact");
                prop_assert_ne!(millionths % 1_000_000, 0);
            }
        }
    }

    #[test]
    fn no_text_panics(text in "[-+]?[0-9]{0,25}[.]?[0-9]{0,25} ?[a-zA-Zµ/]{0,5}|.{0,12}") {
        for kind in KINDS {
            if let Err(error) = kind.parse(&text) {
                prop_assert!(CODES.iter().any(|(code, _)| *code == error.code));
                prop_assert!(!error.reason.is_empty() && !error.mend.is_empty());
            }
        }
    }

    #[test]
    fn what_an_error_tells_to_write_is_accepted(
        number in 1u64..100_000,
        decimals in prop::option::of(0u32..100_000),
        symbol in "[KMGTkm]?i?[Bb]?|[num]?[sS]|[kMG]?[Hh]z|[MG][Bb]ps|[MG]b/s|[MG]B/s",
        which in 0..KINDS.len(),
    ) {
        let decimals = decimals.map_or(String::new(), |decimals| format!(".{decimals:05}"));
        let text = format!("{number}{decimals}{symbol}");
        let kind = KINDS[which];
        if let Err(error) = kind.parse(&text) {
            for proposal in quoted(&error.mend) {
                let again = kind.parse(proposal);
                let exact = again.as_ref().err().is_none_or(|error| error.code == "not-exact");
                prop_assert!(exact, "{text}: {error} gives {again:?}");
            }
        }
    }
}

fn quoted(mend: &str) -> impl Iterator<Item = &str> {
    mend.split('"').skip(1).step_by(2)
}

/// Values of every magnitude, and multiples of binary and decimal powers.
fn magnitudes() -> impl Strategy<Value = u64> {
    prop_oneof![
        (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift),
        (0u64..10_000, 0u32..15).prop_map(|(value, power)| value * 10u64.pow(power)),
        (0u64..1024, 0u32..54).prop_map(|(value, shift)| value << shift),
        Just(0),
        Just(u64::MAX),
    ]
}

#[test]
fn values_are_those_of_the_smallest_unit() {
    assert_eq!("64GiB".parse::<Size>().unwrap().bytes(), 64 << 30);
    assert_eq!("64000000000B".parse::<Size>().unwrap().bytes(), 64_000_000_000);
    assert_eq!("25us".parse::<Duration>().unwrap().picoseconds(), 25_000_000);
    assert_eq!("833.333ns".parse::<Duration>().unwrap().picoseconds(), 833_333);
    assert_eq!("160.5 ns".parse::<Duration>().unwrap().picoseconds(), 160_500);
    assert_eq!("2GHz".parse::<Frequency>().unwrap().hertz(), 2_000_000_000);
    assert_eq!("1333MT/s".parse::<TransferRate>().unwrap().transfers_per_second(), 1_333_000_000);
    assert_eq!("16GB/s".parse::<Bandwidth>().unwrap().bytes_per_second(), 16_000_000_000);
    assert_eq!("1GiB/s".parse::<Bandwidth>().unwrap().bytes_per_second(), 1 << 30);
    assert_eq!("3.3V".parse::<Voltage>().unwrap().microvolts(), 3_300_000);
    assert_eq!("10uA".parse::<Current>().unwrap().nanoamperes(), 10_000);
    assert_eq!("2.47pJ".parse::<Energy>().unwrap().femtojoules(), 2_470);
    assert_eq!("25W".parse::<Power>().unwrap().nanowatts(), 25_000_000_000);
}

#[test]
fn values_print_in_their_shortest_form() {
    let size = |bytes| Size::from_bytes(bytes).to_string();
    let time = |ps| Duration::from_picoseconds(ps).to_string();
    assert_eq!([size(0), size(64), size(4096)], ["0B", "64B", "4KiB"]);
    assert_eq!([size(1536), size(3 << 29), size(64 << 30)], ["1536B", "1.5GiB", "64GiB"]);
    assert_eq!([time(1500), time(500_000), time(7_800_000)], ["1.5ns", "500ns", "7.8us"]);
    assert_eq!([time(833_333), time(160_500)], ["833333ps", "160.5ns"]);
    assert_eq!(Bandwidth::from_bytes_per_second(16_000_000_000).to_string(), "16GB/s");
    assert_eq!(Bandwidth::from_bytes_per_second(1 << 30).to_string(), "1GiB/s");
    assert_eq!(
        format!("{:>8}|{:<6}|", Size::from_bytes(4096), Frequency::from_hertz(5)),
        "    4KiB|5Hz   |"
    );
}

#[test]
fn errors_say_what_to_write() {
    let cases = [
        (
            "size",
            "64GB",
            "ambiguous-unit: `GB` is read as 10^9 and as 2^30 bytes; write \"64GiB\" or \"64000000000B\"",
        ),
        (
            "size",
            "1.5M",
            "ambiguous-unit: `M` is read as 10^6 and as 2^20 bytes; write \"1.5MiB\" or \"1500000B\"",
        ),
        (
            "size",
            "8Gb",
            "ambiguous-unit: `Gb` is bits, and bytes are needed; write \"1024MiB\" or \"1000000000B\"",
        ),
        (
            "size",
            "64",
            "bad-unit: a size needs its unit; write \"64B\" or \"64KiB\", or whatever is meant",
        ),
        ("size", "64gib", "bad-unit: `gib` is no unit of size; write \"64GiB\""),
        (
            "size",
            "64 pages",
            "bad-unit: `pages` is no unit of size; use one of B, KiB, MiB, GiB, TiB, PiB, EiB",
        ),
        (
            "size",
            "0.3KiB",
            "not-exact: 0.3KiB is not a whole number of bytes; write \"307B\" or \"308B\"",
        ),
        (
            "size",
            "16EiB",
            "overflow: 16EiB exceeds the largest size; write at most \"18446744073709551615B\"",
        ),
        ("size", "-1KiB", "bad-number: a size is never negative; write a size such as \"64GiB\""),
        ("size", "", "bad-number: there is nothing; write a size such as \"64GiB\""),
        (
            "duration",
            "0.3ps",
            "not-exact: 0.3ps is not a whole number of picoseconds; write \"0s\" or \"1ps\"",
        ),
        (
            "duration",
            "25",
            "bad-unit: a duration needs its unit; write \"25ns\" or \"25us\", or whatever is meant",
        ),
        ("duration", "25US", "bad-unit: `US` is no unit of duration; write \"25us\""),
        ("duration", "25µs", "bad-unit: `µs` is no unit of duration; write \"25us\""),
        (
            "duration",
            "5m",
            "ambiguous-unit: `m` is read as minutes and as milliseconds; write \"300s\" or \"5ms\"",
        ),
        (
            "duration",
            "fast",
            "bad-number: it does not start with a number; write a duration such as \"25us\"",
        ),
        (
            "duration",
            "1e3ns",
            "bad-unit: `e3ns` is no unit of duration; use one of ps, ns, us, ms, s",
        ),
        (
            "duration",
            "1.2.3ns",
            "bad-number: it does not start with a number; write a duration such as \"25us\"",
        ),
        (
            "duration",
            "214days",
            "bad-unit: `days` is no unit of duration; use one of ps, ns, us, ms, s",
        ),
        ("frequency", "2ghz", "bad-unit: `ghz` is no unit of frequency; write \"2GHz\""),
        (
            "transfer-rate",
            "667MHz",
            "ambiguous-unit: `MHz` is a clock: data may move twice in it; write \"667MT/s\" or \"1334MT/s\"",
        ),
        (
            "bandwidth",
            "16Gb/s",
            "ambiguous-unit: `Gb/s` is bits, and bytes are needed; write \"2000MB/s\"",
        ),
        (
            "bandwidth",
            "16GB",
            "bad-unit: `GB` is no unit of bandwidth; use one of B/s, kB/s, KB/s, KiB/s, MB/s, MiB/s, GB/s, GiB/s, TB/s, TiB/s, PB/s",
        ),
    ];
    for (name, text, expected) in cases {
        let error = kind(name).unwrap().parse(text).unwrap_err();
        assert_eq!(format!("{}: {error}", error.code), expected, "{text}");
    }
}

#[test]
fn examples_are_in_their_own_shortest_form_or_parse() {
    for kind in KINDS {
        for example in kind.examples {
            assert!(kind.parse(example).is_ok(), "{example}");
        }
    }
}
