//! What the formats' lines are made of.

/// Exactly `N` words with blanks between.
#[inline]
pub(super) fn split<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let mut words = line.split_ascii_whitespace();
    let mut found = [""; N];
    for (count, place) in found.iter_mut().enumerate() {
        let missing = || format!("it has {}, not {N}", some(count, "word"));
        *place = words.next().ok_or_else(missing)?;
    }
    match words.count() {
        0 => Ok(found),
        more => Err(format!("it has {}, not {N}", some(N + more, "word"))),
    }
}

/// Exactly `N` cells with commas between, without the blanks around each.
#[inline]
pub(super) fn cells<const N: usize>(line: &str) -> Result<[&str; N], String> {
    // Cells are short: to look at each byte is quicker than to search for the next comma.
    let mut found = [""; N];
    let (mut count, mut start) = (0, 0);
    let commas = line.bytes().enumerate().filter(|(_, byte)| *byte == b',').map(|(at, _)| at);
    for end in commas.chain([line.len()]) {
        if let Some(place) = found.get_mut(count) {
            *place = line[start..end].trim_ascii();
        }
        (count, start) = (count + 1, end + 1);
    }
    if count == N { Ok(found) } else { Err(format!("it has {}, not {N}", some(count, "column"))) }
}

/// The first `N` words, and those behind them.
#[inline]
pub(super) fn first<const N: usize>(
    line: &str,
) -> Result<([&str; N], std::str::SplitAsciiWhitespace<'_>), String> {
    let mut found = [""; N];
    let mut words = line.split_ascii_whitespace();
    for (count, place) in found.iter_mut().enumerate() {
        let missing = || format!("it has {}, not {N} or more", some(count, "word"));
        *place = words.next().ok_or_else(missing)?;
    }
    Ok((found, words))
}

fn some(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A number of hexadecimal digits, `0x` before them or not.
#[inline]
pub(super) fn hexadecimal(word: &str) -> Result<u64, String> {
    number::<16>(word, without_prefix(word).unwrap_or(word), "a hexadecimal address")
}

/// An address: hexadecimal behind `0x`, else decimal.
#[inline]
pub(super) fn address(word: &str) -> Result<u64, String> {
    match without_prefix(word) {
        Some(digits) => number::<16>(word, digits, "an address"),
        None => number::<10>(word, word, "an address"),
    }
}

fn without_prefix(word: &str) -> Option<&str> {
    word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))
}

/// A count of cycles.
#[inline]
pub(super) fn cycle(word: &str) -> Result<u64, String> {
    number::<10>(word, word, "a cycle, a whole number from 0")
}

/// A whole number from 0, decimal; `what` it is, for errors: `an offset in bytes`.
#[inline]
pub(super) fn whole(word: &str, what: &str) -> Result<u64, String> {
    number::<10>(word, word, what)
}

/// A size in bytes, of a request that moves some: at most 1 GiB, beyond which lie slips of units.
#[inline]
pub(super) fn bytes(word: &str) -> Result<u32, String> {
    sized(whole(word, "a size in bytes")?, 1)
}

/// A size in bytes, of a trim: of any number of them.
#[inline]
pub(super) fn trimmed(word: &str) -> Result<u64, String> {
    match whole(word, "a size in bytes")? {
        0 => Err("its size is 0".into()),
        bytes => Ok(bytes),
    }
}

/// First byte and bytes of a trim, of sectors of 512 bytes.
#[inline]
pub(super) fn trimmed_sectors(first: &str, count: &str) -> Result<(u64, u64), String> {
    let (address, _) = sectors(first, "1")?;
    let count = whole(count, "a size in sectors of 512 bytes")?;
    let bytes = count.checked_mul(512).ok_or("it has more than 2^64 - 1 bytes")?;
    if bytes == 0 { Err("its size is 0".into()) } else { Ok((address, bytes)) }
}

/// Address and size in bytes, of sectors of 512 bytes.
#[inline]
pub(super) fn sectors(first: &str, count: &str) -> Result<(u64, u32), String> {
    const SECTOR_BYTES: u64 = 512;
    let first = whole(first, "the number of a sector of 512 bytes")?;
    let address = first
        .checked_mul(SECTOR_BYTES)
        .ok_or_else(|| format!("sector {first} lies beyond 2^64 - 1 bytes"))?;
    let bytes = sized(whole(count, "a size in sectors of 512 bytes")?, SECTOR_BYTES)?;
    Ok((address, bytes))
}

fn sized(count: u64, unit_bytes: u64) -> Result<u32, String> {
    match count.checked_mul(unit_bytes) {
        Some(0) => Err("its size is 0".into()),
        Some(bytes) if bytes <= u64::from(super::MOST_REQUEST_BYTES) => Ok(bytes as u32),
        _ => Err("its size is more than 1 GiB; look at the unit that sizes are in".into()),
    }
}

/// Seconds with a fraction, in nanoseconds, which is what formats tell: nine digits, and zeros behind.
#[inline]
pub(super) fn seconds(word: &str) -> Result<u64, String> {
    const NANOSECONDS: u64 = 1_000_000_000;
    let what = "a time in seconds, such as 12.000345";
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    let seconds = number::<10>(word, whole, what)?;
    if fraction.is_empty() || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(format!("`{word}` is not {what}"));
    }
    if fraction.bytes().skip(9).any(|digit| digit != b'0') {
        return Err(format!("`{word}` is told to less than a nanosecond, which is not counted"));
    }
    let digits = &fraction[..fraction.len().min(9)];
    let nanoseconds = short_number::<10>(digits).unwrap_or(0) * 10u64.pow(9 - digits.len() as u32);
    seconds
        .checked_mul(NANOSECONDS)
        .and_then(|of_seconds| of_seconds.checked_add(nanoseconds))
        .ok_or_else(|| format!("`{word}` is too large for {what}"))
}

/// Signs are no part of a number here, though Rust would take a plus.
#[inline]
fn number<const RADIX: u32>(word: &str, digits: &str, what: &str) -> Result<u64, String> {
    if let Some(number) = short_number::<RADIX>(digits) {
        return Ok(number);
    }
    let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(RADIX));
    match u64::from_str_radix(digits, RADIX) {
        Ok(number) if plain => Ok(number),
        // Digits alone, of which there are too many.
        Err(_) if plain => Err(format!("`{word}` is too large for {what}: the most is 2^64 - 1")),
        _ => Err(format!("`{word}` is not {what}")),
    }
}

/// A number of so few digits that it fits whatever they are: nearly all are.
#[inline]
fn short_number<const RADIX: u32>(digits: &str) -> Option<u64> {
    const { assert!(RADIX <= 16) };
    if digits.is_empty() || digits.len() > if RADIX > 10 { 16 } else { 19 } {
        return None;
    }
    let mut number = 0;
    for byte in digits.bytes() {
        let digit = VALUES[usize::from(byte)];
        if u32::from(digit) >= RADIX {
            return None;
        }
        number = number * u64::from(RADIX) + u64::from(digit);
    }
    Some(number)
}

/// What each byte is worth as a digit; more than any radix where it is none.
const VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

/// Appends a number, decimal.
#[inline]
pub(super) fn put_decimal(mut number: u64, to: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    to.extend_from_slice(&digits[first..]);
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
    fn a_number_that_is_written_is_read_again() {
        for number in [0, 9, 10, 12_345, u64::MAX] {
            let mut to = b"x".to_vec();
            put_decimal(number, &mut to);
            assert_eq!(to, format!("x{number}").as_bytes());
        }
    }

    #[test]
    fn words_and_cells_are_counted() {
        assert_eq!(split::<2>("a\t b"), Ok(["a", "b"]));
        assert_eq!(split::<2>("a"), Err("it has 1 word, not 2".into()));
        assert_eq!(split::<2>("a b c"), Err("it has 3 words, not 2".into()));
        assert_eq!(cells::<3>("a, ,c"), Ok(["a", "", "c"]));
        assert_eq!(cells::<2>("a,b,,"), Err("it has 4 columns, not 2".into()));
        assert_eq!(cells::<2>(" ä , b"), Ok(["ä", "b"]));
        assert_eq!(cells::<2>("a"), Err("it has 1 column, not 2".into()));
    }

    #[test]
    fn sizes_are_bounded_and_never_nothing() {
        assert_eq!(bytes("1073741824"), Ok(1 << 30));
        assert!(bytes("1073741825").unwrap_err().contains("more than 1 GiB"));
        assert_eq!(bytes("0"), Err("its size is 0".into()));
        assert_eq!(sectors("3", "8"), Ok((1536, 4096)));
        assert!(sectors("36028797018963968", "1").unwrap_err().contains("beyond"));
        assert!(sectors("0", "18446744073709551615").unwrap_err().contains("more than 1 GiB"));
    }

    #[test]
    fn seconds_are_read_to_the_nanosecond() {
        assert_eq!(seconds("1.5"), Ok(1_500_000_000));
        assert_eq!(seconds("0.00000000100"), Ok(1));
        assert!(seconds("0.0000000019").unwrap_err().contains("less than a nanosecond"));
        assert_eq!(seconds("7"), Ok(7_000_000_000));
        for wrong in ["1.", ".5", "1.-5", "1.5.2", "1e3", "18446744074"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
