//! Quantities: integers of a smallest unit, read and written with units.

use std::fmt;
use std::str::FromStr;

/// Decimals that a number may have: more cannot be exact in any unit here.
const DECIMALS: usize = 18;
/// Decimals that are printed at most; a smaller unit is printed instead.
const PRINTED_DECIMALS: u32 = 9;

/// One unit of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// How it is written.
    pub symbol: &'static str,
    /// How many of the kind's smallest unit it is.
    pub multiplier: u64,
}

/// A unit that is refused, and why.
#[derive(Clone, Copy, Debug)]
struct Refused {
    symbol: &'static str,
    reason: &'static str,
    /// What it may stand for: each multiplier (numerator, divisor) with the symbol to print it in.
    meanings: &'static [(u64, u64, &'static str)],
}

/// A kind of quantity: its name, its units from the smallest on, and what it is for.
#[derive(Debug)]
pub struct Kind {
    /// The name, which is also the `format` in the JSON schema: `size`, `duration` …
    pub name: &'static str,
    /// One sentence for the reference.
    pub description: &'static str,
    /// The smallest unit in words, plural: `bytes`, `picoseconds` …
    pub smallest: &'static str,
    /// All units, from the smallest on.
    pub units: &'static [Unit],
    /// Two values as a user would write them.
    pub examples: [&'static str; 2],
    /// The two units that a bare number most likely means.
    likely: [&'static str; 2],
    refused: &'static [Refused],
}

/// Why a text is not a quantity, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {mend}")]
pub struct UnitError {
    /// One of [`crate::CODES`].
    pub code: &'static str,
    /// Why it is wrong.
    pub reason: String,
    /// What to write.
    pub mend: String,
}

impl UnitError {
    fn new(code: &'static str, reason: String, mend: String) -> Self {
        UnitError { code, reason, mend }
    }
}

/// Whole part and decimals of a number as it was written, decimals without trailing zeros.
struct Number {
    whole: u128,
    decimals: u128,
    digits: u32,
}

impl Number {
    /// This many times `numerator / divisor`, if that is a whole number, else the whole part.
    fn times(&self, numerator: u64, divisor: u64) -> Result<u128, u128> {
        let scale = 10u128.pow(self.digits);
        let decimals = self.decimals * u128::from(numerator);
        let whole = self.whole * u128::from(numerator) + decimals / scale;
        let value = whole / u128::from(divisor);
        let exact = decimals.is_multiple_of(scale) && whole.is_multiple_of(u128::from(divisor));
        if exact { Ok(value) } else { Err(value) }
    }
}

impl Kind {
    /// The value of `text` in the smallest unit.
    ///
    /// # Errors
    /// When there is no number or no unit, when the unit is not of this kind or ambiguous, when
    /// the value is not a whole number of the smallest unit, or exceeds 64 bits.
    pub fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let (number, symbol) = self.split(text.trim())?;
        let Some(unit) = self.units.iter().find(|unit| unit.symbol == symbol) else {
            return Err(self.no_such_unit(text.trim(), &number, symbol));
        };
        match number.times(unit.multiplier, 1) {
            Ok(value) => u64::try_from(value).map_err(|_| self.too_large(text)),
            Err(below) => Err(self.not_exact(text.trim(), below)),
        }
    }

    /// `value` in the shortest form that parses back to it.
    pub fn print(&self, value: u64) -> String {
        let mut best = format!("{value}{}", self.units[0].symbol);
        for unit in &self.units[1..] {
            if let Some(text) = print_in(value, *unit)
                && text.len() < best.len()
            {
                best = text;
            }
        }
        best
    }

    /// Its name with an article: `a size`, `an energy`.
    pub fn with_article(&self) -> String {
        let article = if self.name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        format!("{article} {}", self.name)
    }

    /// The error for a number that has no unit.
    pub fn bare(&self, number: &str) -> UnitError {
        let [first, second] = self.likely;
        UnitError::new(
            "bad-unit",
            format!("{} needs its unit", self.with_article()),
            format!("write \"{number}{first}\" or \"{number}{second}\", or whatever is meant"),
        )
    }

    /// The error for a value that is not a text.
    pub fn not_a_text(&self) -> UnitError {
        UnitError::new(
            "wrong-type",
            format!("{} is a text with a unit", self.with_article()),
            self.such_as(),
        )
    }

    fn such_as(&self) -> String {
        format!("write {} such as \"{}\"", self.with_article(), self.examples[0])
    }

    fn split<'a>(&self, text: &'a str) -> Result<(Number, &'a str), UnitError> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
        let bad = |reason: String| Err(UnitError::new("bad-number", reason, self.such_as()));
        if text.is_empty() {
            return bad("there is nothing".into());
        }
        if text.starts_with('-') {
            return bad(format!("{} is never negative", self.with_article()));
        }
        if whole.is_empty() || decimals.is_empty() || decimals.contains('.') {
            return bad("it does not start with a number".into());
        }
        let unit = unit.trim_start();
        if unit.is_empty() {
            return Err(self.bare(digits));
        }
        let decimals = decimals.trim_end_matches('0');
        if decimals.len() > DECIMALS {
            return bad(format!("more than {DECIMALS} decimals cannot be exact"));
        }
        let Ok(whole) = whole.parse::<u64>() else { return Err(self.too_large(text)) };
        let digits = u32::try_from(decimals.len()).unwrap_or(0);
        let decimals = decimals.parse().unwrap_or(0);
        Ok((Number { whole: u128::from(whole), decimals, digits }, unit))
    }

    fn no_such_unit(&self, text: &str, number: &Number, symbol: &str) -> UnitError {
        if let Some(refused) = self.refused.iter().find(|refused| refused.symbol == symbol) {
            return self.ambiguous(number, refused);
        }
        let plain = symbol.replace(['µ', 'μ'], "u").to_lowercase();
        let mend = match self.units.iter().find(|unit| unit.symbol.to_lowercase() == plain) {
            Some(unit) => {
                let digits = text.strip_suffix(symbol).unwrap_or(text).trim_end();
                format!("write \"{digits}{}\"", unit.symbol)
            }
            None => {
                let all: Vec<_> = self.units.iter().map(|unit| unit.symbol).collect();
                format!("use one of {}", all.join(", "))
            }
        };
        UnitError::new("bad-unit", format!("`{symbol}` is no unit of {}", self.name), mend)
    }

    fn ambiguous(&self, number: &Number, refused: &Refused) -> UnitError {
        let meanings: Vec<_> = refused
            .meanings
            .iter()
            .filter_map(|&(numerator, divisor, symbol)| {
                let value = u64::try_from(number.times(numerator, divisor).ok()?).ok()?;
                let unit = self.units.iter().find(|unit| unit.symbol == symbol)?;
                Some(print_in(value, *unit).unwrap_or_else(|| self.print(value)))
            })
            .map(|text| format!("\"{text}\""))
            .collect();
        let mend = match meanings.as_slice() {
            [] => self.such_as(),
            _ => format!("write {}", meanings.join(" or ")),
        };
        let reason = format!("`{}` {}", refused.symbol, refused.reason);
        UnitError::new("ambiguous-unit", reason, mend)
    }

    fn not_exact(&self, text: &str, below: u128) -> UnitError {
        let mend = match u64::try_from(below) {
            Ok(below) if below < u64::MAX => {
                format!("write \"{}\" or \"{}\"", self.print(below), self.print(below + 1))
            }
            _ => self.such_as(),
        };
        let reason = format!("{text} is not a whole number of {}", self.smallest);
        UnitError::new("not-exact", reason, mend)
    }

    fn too_large(&self, text: &str) -> UnitError {
        let symbol = self.units[0].symbol;
        UnitError::new(
            "overflow",
            format!("{} exceeds the largest {}", text.trim(), self.name),
            format!("write at most \"{}{symbol}\"", u64::MAX),
        )
    }
}

/// `value` in `unit`, if it is at least one of it and has few decimals.
fn print_in(value: u64, unit: Unit) -> Option<String> {
    let whole = value / unit.multiplier;
    let mut rest = u128::from(value % unit.multiplier);
    if whole == 0 && value != 0 {
        return None;
    }
    let mut decimals = String::new();
    while rest != 0 {
        if decimals.len() == PRINTED_DECIMALS as usize {
            return None;
        }
        rest *= 10;
        let digit = rest / u128::from(unit.multiplier);
        decimals.push(char::from(b'0' + digit as u8));
        rest %= u128::from(unit.multiplier);
    }
    let point = if decimals.is_empty() { "" } else { "." };
    Some(format!("{whole}{point}{decimals}{}", unit.symbol))
}

const fn unit(symbol: &'static str, multiplier: u64) -> Unit {
    Unit { symbol, multiplier }
}

const fn refused(
    symbol: &'static str,
    reason: &'static str,
    meanings: &'static [(u64, u64, &'static str)],
) -> Refused {
    Refused { symbol, reason, meanings }
}

const KILO: u64 = 1_000;
const MEGA: u64 = 1_000_000;
const GIGA: u64 = 1_000_000_000;
const TERA: u64 = 1_000_000_000_000;
const PETA: u64 = 1_000_000_000_000_000;

const KI: &str = "is read as 1000 and as 1024 bytes";
const MI: &str = "is read as 10^6 and as 2^20 bytes";
const GI: &str = "is read as 10^9 and as 2^30 bytes";
const TI: &str = "is read as 10^12 and as 2^40 bytes";
const BITS: &str = "is bits, and bytes are needed";

static SIZE: Kind = Kind {
    name: "size",
    description: "Bytes. Binary units only: `GB` of a memory is read in two ways, and refused.",
    smallest: "bytes",
    units: &[
        unit("B", 1),
        unit("KiB", 1 << 10),
        unit("MiB", 1 << 20),
        unit("GiB", 1 << 30),
        unit("TiB", 1 << 40),
        unit("PiB", 1 << 50),
        unit("EiB", 1 << 60),
    ],
    examples: ["64GiB", "4KiB"],
    likely: ["B", "KiB"],
    refused: &[
        refused("K", KI, &[(1 << 10, 1, "KiB"), (KILO, 1, "B")]),
        refused("k", KI, &[(1 << 10, 1, "KiB"), (KILO, 1, "B")]),
        refused("KB", KI, &[(1 << 10, 1, "KiB"), (KILO, 1, "B")]),
        refused("kB", KI, &[(1 << 10, 1, "KiB"), (KILO, 1, "B")]),
        refused("M", MI, &[(1 << 20, 1, "MiB"), (MEGA, 1, "B")]),
        refused("MB", MI, &[(1 << 20, 1, "MiB"), (MEGA, 1, "B")]),
        refused("G", GI, &[(1 << 30, 1, "GiB"), (GIGA, 1, "B")]),
        refused("GB", GI, &[(1 << 30, 1, "GiB"), (GIGA, 1, "B")]),
        refused("T", TI, &[(1 << 40, 1, "TiB"), (TERA, 1, "B")]),
        refused("TB", TI, &[(1 << 40, 1, "TiB"), (TERA, 1, "B")]),
        refused("b", BITS, &[(1, 8, "B")]),
        refused("Kb", BITS, &[(1 << 10, 8, "B"), (KILO, 8, "B")]),
        refused("Mb", BITS, &[(1 << 20, 8, "KiB"), (MEGA, 8, "B")]),
        refused("Gb", BITS, &[(1 << 30, 8, "MiB"), (GIGA, 8, "B")]),
        refused("Tb", BITS, &[(1 << 40, 8, "GiB"), (TERA, 8, "B")]),
    ],
};

static DURATION: Kind = Kind {
    name: "duration",
    description: "A time, exact to the picosecond.",
    smallest: "picoseconds",
    units: &[unit("ps", 1), unit("ns", KILO), unit("us", MEGA), unit("ms", GIGA), unit("s", TERA)],
    examples: ["25us", "833.333ns"],
    likely: ["ns", "us"],
    refused: &[
        refused(
            "m",
            "is read as minutes and as milliseconds",
            &[(60 * TERA, 1, "s"), (GIGA, 1, "ms")],
        ),
        refused("min", "is not used here", &[(60 * TERA, 1, "s")]),
        refused("h", "is not used here", &[(3600 * TERA, 1, "s")]),
    ],
};

static FREQUENCY: Kind = Kind {
    name: "frequency",
    description: "Clock cycles a second.",
    smallest: "hertz",
    units: &[
        unit("Hz", 1),
        unit("kHz", KILO),
        unit("MHz", MEGA),
        unit("GHz", GIGA),
        unit("THz", TERA),
    ],
    examples: ["2GHz", "666.5MHz"],
    likely: ["MHz", "GHz"],
    refused: &[
        refused("G", "says no unit", &[(GIGA, 1, "GHz")]),
        refused("M", "says no unit", &[(MEGA, 1, "MHz")]),
    ],
};

static TRANSFER_RATE: Kind = Kind {
    name: "transfer-rate",
    description: "Transfers a second of a bus, each as wide as the bus.",
    smallest: "transfers per second",
    units: &[unit("T/s", 1), unit("kT/s", KILO), unit("MT/s", MEGA), unit("GT/s", GIGA)],
    examples: ["1333MT/s", "8GT/s"],
    likely: ["MT/s", "GT/s"],
    refused: &[
        refused(
            "MHz",
            "is a clock: data may move twice in it",
            &[(MEGA, 1, "MT/s"), (2 * MEGA, 1, "MT/s")],
        ),
        refused(
            "GHz",
            "is a clock: data may move twice in it",
            &[(GIGA, 1, "GT/s"), (2 * GIGA, 1, "GT/s")],
        ),
        refused("T", "is no rate", &[]),
    ],
};

static BANDWIDTH: Kind = Kind {
    name: "bandwidth",
    description: "Bytes a second. `GB/s` is 10^9 B/s, as in every data sheet; `GiB/s` is 2^30 B/s.",
    smallest: "bytes per second",
    units: &[
        unit("B/s", 1),
        unit("kB/s", KILO),
        unit("KB/s", KILO),
        unit("KiB/s", 1 << 10),
        unit("MB/s", MEGA),
        unit("MiB/s", 1 << 20),
        unit("GB/s", GIGA),
        unit("GiB/s", 1 << 30),
        unit("TB/s", TERA),
        unit("TiB/s", 1 << 40),
        unit("PB/s", PETA),
    ],
    examples: ["16GB/s", "400MB/s"],
    likely: ["MB/s", "GB/s"],
    refused: &[
        refused("Mb/s", BITS, &[(MEGA, 8, "kB/s")]),
        refused("Gb/s", BITS, &[(GIGA, 8, "MB/s")]),
        refused("Mbps", BITS, &[(MEGA, 8, "kB/s")]),
        refused("Gbps", BITS, &[(GIGA, 8, "MB/s")]),
        refused("Mbit/s", BITS, &[(MEGA, 8, "kB/s")]),
        refused("Gbit/s", BITS, &[(GIGA, 8, "MB/s")]),
        refused("MBps", "is read as bits and as bytes", &[(MEGA, 1, "MB/s")]),
        refused("GBps", "is read as bits and as bytes", &[(GIGA, 1, "GB/s")]),
    ],
};

static VOLTAGE: Kind = Kind {
    name: "voltage",
    description: "A voltage, exact to the microvolt.",
    smallest: "microvolts",
    units: &[unit("uV", 1), unit("mV", KILO), unit("V", MEGA)],
    examples: ["3.3V", "1350mV"],
    likely: ["mV", "V"],
    refused: &[],
};

static CURRENT: Kind = Kind {
    name: "current",
    description: "A current, exact to the nanoampere.",
    smallest: "nanoamperes",
    units: &[unit("nA", 1), unit("uA", KILO), unit("mA", MEGA), unit("A", GIGA)],
    examples: ["25mA", "10uA"],
    likely: ["mA", "A"],
    refused: &[],
};

static ENERGY: Kind = Kind {
    name: "energy",
    description: "An energy, exact to the femtojoule.",
    smallest: "femtojoules",
    units: &[
        unit("fJ", 1),
        unit("pJ", KILO),
        unit("nJ", MEGA),
        unit("uJ", GIGA),
        unit("mJ", TERA),
        unit("J", PETA),
    ],
    examples: ["2.47pJ", "97.02nJ"],
    likely: ["pJ", "nJ"],
    refused: &[],
};

static POWER: Kind = Kind {
    name: "power",
    description: "A power, exact to the nanowatt.",
    smallest: "nanowatts",
    units: &[unit("nW", 1), unit("uW", KILO), unit("mW", MEGA), unit("W", GIGA)],
    examples: ["25W", "350mW"],
    likely: ["mW", "W"],
    refused: &[],
};

/// Every kind of quantity.
pub static KINDS: [&Kind; 9] =
    [&SIZE, &DURATION, &FREQUENCY, &TRANSFER_RATE, &BANDWIDTH, &VOLTAGE, &CURRENT, &ENERGY, &POWER];

/// The kind of this name (`format` in the schema), if there is one.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.name == name)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $type:ident, $kind:ident, $from:ident, $get:ident, $smallest:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(u64);

        impl $type {
            #[doc = concat!("So many ", $smallest, ".")]
            pub const fn $from(value: u64) -> Self {
                $type(value)
            }

            #[doc = concat!("The value in ", $smallest, ".")]
            pub const fn $get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $type {
            /// The shortest form that parses back to the same value.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&$kind.print(self.0))
            }
        }

        impl FromStr for $type {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                $kind.parse(text).map($type)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Reader(&$kind)).map($type)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!("tierscope_units::", stringify!($type)).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "format": $kind.name,
                    "description": $kind.description,
                    "examples": $kind.examples,
                })
            }
        }
    };
}

quantity!(
    /// A number of bytes.
    Size, SIZE, from_bytes, bytes, "bytes"
);
quantity!(
    /// A span of time.
    Duration, DURATION, from_picoseconds, picoseconds, "picoseconds"
);
quantity!(
    /// Clock cycles a second.
    Frequency, FREQUENCY, from_hertz, hertz, "hertz"
);
quantity!(
    /// Transfers a second of a bus.
    TransferRate, TRANSFER_RATE, from_transfers_per_second, transfers_per_second,
    "transfers per second"
);
quantity!(
    /// Bytes a second.
    Bandwidth, BANDWIDTH, from_bytes_per_second, bytes_per_second, "bytes per second"
);
quantity!(
    /// A voltage.
    Voltage, VOLTAGE, from_microvolts, microvolts, "microvolts"
);
quantity!(
    /// A current.
    Current, CURRENT, from_nanoamperes, nanoamperes, "nanoamperes"
);
quantity!(
    /// An energy.
    Energy, ENERGY, from_femtojoules, femtojoules, "femtojoules"
);
quantity!(
    /// A power.
    Power, POWER, from_nanowatts, nanowatts, "nanowatts"
);

impl Energy {
    /// In joules.
    #[inline]
    pub fn joules(self) -> f64 {
        self.femtojoules() as f64 * 1e-15
    }
}

impl Power {
    /// More than any part of a machine takes: 10 kW.
    pub const MOST_OF_A_PART: Power = Power::from_nanowatts(10_000_000_000_000);

    /// In watts.
    #[inline]
    pub fn watts(self) -> f64 {
        self.nanowatts() as f64 * 1e-9
    }

    /// What it makes in so many picoseconds, in joules.
    #[inline]
    pub fn joules(self, time_ps: u64) -> f64 {
        self.watts() * time_ps as f64 * 1e-12
    }
}

/// Reads a quantity from text and refuses bare numbers with the kind's own words.
struct Reader(&'static Kind);

impl serde::de::Visitor<'_> for Reader {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} such as \"{}\"", self.0.name, self.0.examples[0])
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        self.0.parse(text).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<u64, E> {
        Err(E::custom(self.0.bare(&value.to_string())))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<u64, E> {
        Err(E::custom(self.0.bare(&value.to_string())))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<u64, E> {
        Err(E::custom(self.0.bare(&value.to_string())))
    }
}
