//! What the formats' lines are made of.

/// Exactly `N` words with blanks between.
pub(super) fn split<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let mut found = [""; N];
    let mut words = line.split_ascii_whitespace();
    for (count, place) in found.iter_mut().enumerate() {
        *place = words.next().ok_or_else(|| format!("it has {}, not {N}", some(count)))?;
    }
    match words.count() {
        0 => Ok(found),
        more => Err(format!("it has {}, not {N}", some(N + more))),
    }
}

fn some(count: usize) -> String {
    if count == 1 { "1 word".into() } else { format!("{count} words") }
}

/// A number of hexadecimal digits, `0x` before them or not.
pub(super) fn hexadecimal(word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
    number(word, digits, 16, "a hexadecimal address")
}

/// An address: hexadecimal behind `0x`, else decimal.
pub(super) fn address(word: &str) -> Result<u64, String> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => number(word, digits, 16, "an address"),
        None => number(word, word, 10, "an address"),
    }
}

/// A count of cycles.
pub(super) fn cycle(word: &str) -> Result<u64, String> {
    number(word, word, 10, "a cycle, a whole number from 0")
}

/// Signs are no part of a number here, though Rust would take a plus.
fn number(word: &str, digits: &str, radix: u32, what: &str) -> Result<u64, String> {
    let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    match u64::from_str_radix(digits, radix) {
        Ok(number) if plain => Ok(number),
        // Digits alone, of which there are too many.
        Err(_) if plain => Err(format!("`{word}` is too large for {what}: the most is 2^64 - 1")),
        _ => Err(format!("`{word}` is not {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_to_the_last_bit_and_no_further() {
        assert_eq!(hexadecimal("ffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(hexadecimal("0XfF"), Ok(255));
        assert_eq!(address("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(address("0x10"), Ok(16));
        for wrong in ["0x", "", "+1", "-1", "0x-1", "g", "1_0"] {
            assert!(hexadecimal(wrong).is_err() && address(wrong).is_err(), "{wrong}");
        }
        assert!(hexadecimal("0x10000000000000000").unwrap_err().contains("too large"));
        assert!(cycle("18446744073709551616").unwrap_err().contains("too large"));
        assert!(cycle("1e3").is_err() && cycle("1.0").is_err());
        for wrong in ["1844674407370955161f", "deadbeefdeadbeefdeadbeef"] {
            assert_eq!(address(wrong), Err(format!("`{wrong}` is not an address")));
        }
    }

    #[test]
    fn words_are_counted() {
        assert_eq!(split::<2>("a\t b"), Ok(["a", "b"]));
        assert_eq!(split::<2>("a"), Err("it has 1 word, not 2".into()));
        assert_eq!(split::<2>("a b c"), Err("it has 3 words, not 2".into()));
    }
}
