//! Whether what was drawn follows a law, for tests.
//!
//! All of them have fixed seeds and refuse at a significance of [`SIGNIFICANCE`]: another seed of a
//! generator that is right is refused once in ten thousand.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The chance with which a law that holds is refused.
pub const SIGNIFICANCE: f64 = 1e-4;
/// Cells of which fewer are expected are one with the next (Cochran, Biometrics 10, 1954).
const LEAST_EXPECTED: f64 = 5.0;

/// Pearson's test: `found` may be what came of draws whose chances are proportional to `weights`.
///
/// # Panics
/// Where they are refused, or where a cell without a chance was met.
pub fn have_weights(found: &[u64], weights: impl IntoIterator<Item = f64>) {
    let weights: Vec<f64> = weights.into_iter().collect();
    let chance = chance_of(found, &weights);
    assert!(chance >= SIGNIFICANCE, "a chance of {chance}: {:?}", &found[..found.len().min(40)]);
}

/// The same, of cells that are alike.
pub fn are_alike(found: &[u64]) {
    have_weights(found, found.iter().map(|_| 1.0));
}

/// Pearson's test of a share: of `all`, `found` were met with this chance each.
pub fn have_share(found: u64, all: u64, share: f64) {
    have_weights(&[found, all - found], [share, 1.0 - share]);
}

/// Kolmogorov's test: `values` may be drawn from the continuous law with this distribution function.
///
/// # Panics
/// Where they are refused.
pub fn follow(mut values: Vec<f64>, law: impl Fn(f64) -> f64) {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let off = (0..).zip(&values).fold(0.0f64, |off, (below, value)| {
        let (share, below) = (law(*value), f64::from(below));
        off.max(share - below / count).max((below + 1.0) / count - share)
    });
    let chance = of_kolmogorov(off, count);
    assert!(chance >= SIGNIFICANCE, "a chance of {chance}: {off} off, of {count}");
}

/// The chance of a statistic at least as large as that of `found`.
fn chance_of(found: &[u64], weights: &[f64]) -> f64 {
    assert_eq!(found.len(), weights.len(), "a weight for each cell");
    let (all, whole) = (found.iter().sum::<u64>() as f64, weights.iter().sum::<f64>());
    let (mut statistic, mut cells) = (0.0, 0u32);
    let (mut kept, mut expected) = (0, 0.0);
    let mut last = (0.0, 0.0);
    for (count, weight) in found.iter().zip(weights) {
        assert!(*weight > 0.0 || *count == 0, "{count} without a chance");
        kept += count;
        expected += all * weight / whole;
        if expected >= LEAST_EXPECTED {
            last = (kept as f64, expected);
            statistic += (last.0 - expected).powi(2) / expected;
            cells += 1;
            (kept, expected) = (0, 0.0);
        }
    }
    // What is left is of the last cell.
    if expected > 0.0 && cells > 0 {
        statistic -= (last.0 - last.1).powi(2) / last.1;
        let (count, expected) = (last.0 + kept as f64, last.1 + expected);
        statistic += (count - expected).powi(2) / expected;
    }
    assert!(cells > 1, "too few draws to tell: {all}");
    1.0 - ChiSquared::new(f64::from(cells - 1)).unwrap().cdf(statistic)
}

/// Kolmogorov's law, with Stephens' correction for so many values (JRSS B 32, 1970).
fn of_kolmogorov(off: f64, count: f64) -> f64 {
    let scaled = off * (count.sqrt() + 0.12 + 0.11 / count.sqrt());
    let term = |k: i32| (-2.0 * (f64::from(k) * scaled).powi(2)).exp();
    let sum: f64 = (1..=100).map(|k| if k % 2 == 1 { term(k) } else { -term(k) }).sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierscope_kernel::Random;

    /// Tables of both laws: the statistic of ten degrees of freedom that one of a thousand exceeds is
    /// 29.588, the distance that one of a hundred exceeds 1.628 over the root of many values.
    #[test]
    fn chances_are_those_of_the_tables() {
        let chance = 1.0 - ChiSquared::new(10.0).unwrap().cdf(29.588);
        assert!((chance - 0.001).abs() < 1e-5, "{chance}");
        let chance = of_kolmogorov(1.6276 / 1e4, 1e8);
        assert!((chance - 0.01).abs() < 1e-5, "{chance}");
        // 60 of 100 heads: 4 of one degree of freedom.
        let chance = chance_of(&[60, 40], &[0.5, 0.5]);
        assert!((chance - 0.0455).abs() < 1e-4, "{chance}");
        // Cells that expect little are one with the next, or with the last.
        let one = chance_of(&[60, 1, 39, 0], &[50.0, 1.0, 48.5, 0.5]);
        assert!((one - chance_of(&[60, 40], &[50.0, 50.0])).abs() < 1e-12);
    }

    /// Laws that hold are refused as often as the significance says, and those that do not hold are refused.
    #[test]
    fn what_holds_is_kept_and_what_does_not_is_refused() {
        let mut random = Random::stream(3, "goodness");
        let mut refused = 0;
        for _ in 0..2000 {
            let mut found = [0; 8];
            (0..400).for_each(|_| found[random.below(8) as usize] += 1);
            refused += u32::from(chance_of(&found, &[1.0; 8]) < 0.05);
        }
        // Six standard deviations of 2000 at 0.05 are 58.
        assert!((42..=158).contains(&refused), "{refused} of 2000 at 0.05");
        let skewed: Vec<f64> = (0..4000).map(|_| random.unit_f64().powf(1.15)).collect();
        assert!(std::panic::catch_unwind(|| follow(skewed, |x| x)).is_err());
        follow((0..4000).map(|_| random.unit_f64()).collect(), |x| x);
        assert!(std::panic::catch_unwind(|| are_alike(&[1000, 1000, 1200])).is_err());
        assert!(std::panic::catch_unwind(|| have_share(320, 1000, 0.25)).is_err());
        have_share(265, 1000, 0.25);
    }
}
