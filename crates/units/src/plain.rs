//! Numbers without a unit, in the ways in which people shorten them.

/// Factors that a count may have: decimal ones, as of `--skip 1M`.
const FACTORS: [(char, usize); 4] = [('k', 3), ('M', 6), ('G', 9), ('T', 12)];

/// The whole number that `text` says, such as `2M` or `1.5k`; nothing where it says none, or one that is
/// beyond 64 bits.
pub fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let mut shortened =
        FACTORS.iter().filter_map(|(letter, zeros)| Some((text.strip_suffix(*letter)?, *zeros)));
    let (number, zeros) = shortened.next().unwrap_or((text, 0));
    let number = number.trim_end();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let decimals = decimals.trim_end_matches('0');
    let zeros = zeros.checked_sub(decimals.len())?;
    format!("{whole}{decimals}{:0<zeros$}", "").parse().ok()
}

/// The share that `text` says in percent, such as `20%`: the number closest to it, 0.2. Nothing where it
/// says none.
pub fn percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    // With the exponent behind it the decimal number is read as it is meant, and rounded once.
    format!("{number}e-2").parse().ok().filter(|share: &f64| share.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_exact_or_none() {
        let told =
            ["0", "2000", "2M", " 1.5 k", "0.000000000001T", "18446744073709551615", "3.50k"];
        let found = told.map(count);
        assert_eq!(found, [0, 2000, 2_000_000, 1500, 1, u64::MAX, 3500].map(Some));
        let none =
            ["", "k", "2kk", "-2M", "2K", "1.0005k", "2.5", "1e6", "2.k", ".5k", "1.5.5M", "19E"];
        for text in none.into_iter().chain(["18446744073709551616", "20000000000G", "2MiB", "٣k"])
        {
            assert_eq!(count(text), None, "{text}");
        }
    }

    #[test]
    fn a_percentage_is_the_share_as_it_would_be_written() {
        let told = ["20%", "0.7 %", "29%", "-3%", "150%"];
        assert_eq!(told.map(percent), [0.2, 0.007, 0.29, -0.03, 1.5].map(Some));
        for text in ["20", "%", "a%", "inf%", "nan%", "1e3%", "20%%"] {
            assert_eq!(percent(text), None, "{text}");
        }
    }
}
