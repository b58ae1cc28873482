//! Numbers by Zipf's law, exactly, from constant memory, and the same on every computer.

use tierscope_kernel::Counter;

/// Exponents that are taken: from 0, where all numbers are as likely, to this.
pub(super) const MOST_EXPONENT: f64 = 4.0;

/// Ranks 0 to n − 1, of which rank k has a chance proportional to (k + 1)^−exponent.
///
/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", ACM TOMACS 6(3), 1996): the integral H of the density is inverted, and what
/// lies beyond the step of the nearest number is refused. Expected draws are fewer than two, whatever n
/// and the exponent. Logarithms and powers are made of additions, multiplications and divisions, which
/// IEEE 754 defines to the last bit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipfian {
    count: u64,
    exponent: f64,
    /// Of H: where the first number begins, and where the last one ends.
    first: f64,
    last: f64,
    /// A number is taken at once where what was inverted is no further below it.
    near: f64,
}

impl Zipfian {
    /// Of `count` ranks, at least one, with an exponent from 0 to [`MOST_EXPONENT`].
    pub fn new(count: u64, exponent: f64) -> Zipfian {
        let mut made = Zipfian { count: count.max(1), exponent, first: 0.0, last: 0.0, near: 0.0 };
        made.first = made.integral(1.5) - 1.0;
        made.last = made.integral(made.count as f64 + 0.5);
        made.near = 2.0 - made.inverse(made.integral(2.5) - made.density(2.0));
        made
    }

    /// The rank that `draws` give for an index below 2⁵⁸.
    pub fn at(&self, draws: &Counter, index: u64) -> u64 {
        for attempt in 0u64.. {
            let unit = draws.unit_at(index.wrapping_add(attempt << 58));
            let drawn = self.last + unit * (self.first - self.last);
            let x = self.inverse(drawn);
            let number = (x + 0.5).floor().clamp(1.0, self.count as f64);
            let taken = number - x <= self.near
                || drawn >= self.integral(number + 0.5) - self.density(number);
            // Of 64 attempts one is taken, but for a chance below 2^-64.
            if taken || attempt == 63 {
                return number as u64 - 1;
            }
        }
        unreachable!("the last attempt is taken")
    }

    /// x^−exponent.
    fn density(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// The integral of the density from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        expm1_over((1.0 - self.exponent) * log) * log
    }

    /// Where the integral has a value.
    fn inverse(&self, value: f64) -> f64 {
        let t = (value * (1.0 - self.exponent)).max(-1.0);
        exp(log1p_over(t) * value)
    }
}

/// (eˣ − 1) / x, which is 1 at 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() >= 0.5 {
        return (exp(x) - 1.0) / x;
    }
    // Taylor's series from its end: 1 + x/2 (1 + x/3 (1 + ...)).
    (2..=18).rev().fold(1.0, |sum, n| 1.0 + sum * x / f64::from(n))
}

/// ln(1 + x) / x, which is 1 at 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() >= 0.4 {
        return ln(1.0 + x) / x;
    }
    // ln(1 + x) is 2 artanh(x / (2 + x)).
    2.0 / (2.0 + x) * artanh_over(x / (2.0 + x))
}

/// artanh(s) / s for |s| up to a quarter.
fn artanh_over(s: f64) -> f64 {
    let square = s * s;
    (0..=14).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1))
}

/// The natural logarithm of a number above 0, down to −10³⁰⁰ at 0.
pub(super) fn ln(x: f64) -> f64 {
    if x < f64::MIN_POSITIVE {
        return -1e300;
    }
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * artanh_over(s)
}

/// eˣ, 0 where it is less than the least normal number; x below 700.
pub(super) fn exp(x: f64) -> f64 {
    // ln 2 in two parts, the first of which has so few bits that its multiples are exact.
    const HIGH: f64 = 6.931_471_803_691_238e-1;
    const LOW: f64 = 1.908_214_929_270_587_7e-10;
    if x < -708.0 {
        return 0.0;
    }
    let twos = (x / std::f64::consts::LN_2 + 0.5).floor();
    let rest = x - twos * HIGH - twos * LOW;
    let power = (1..=16).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    power * f64::from_bits(((twos as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 4e-15 * b.abs().max(1e-300), "{a} against {b}");
    }

    #[test]
    fn logarithms_and_powers_are_those_of_the_library_to_a_few_last_bits() {
        for step in -400..400 {
            let x = f64::from(step) / 7.3;
            close(exp(x), x.exp());
            close(expm1_over(x), if step == 0 { 1.0 } else { x.exp_m1() / x });
            let positive = x.exp();
            assert!((ln(positive) - positive.ln()).abs() <= 4e-15 * x.abs().max(1.0));
            let small = f64::from(step) / 410.0;
            close(log1p_over(small), if step == 0 { 1.0 } else { small.ln_1p() / small });
        }
    }

    /// The chi-square statistic of draws against Zipf's law is within six standard deviations of its mean:
    /// ranks one by one, and all beyond the first 30 together.
    #[test]
    fn ranks_are_as_likely_as_zipfs_law_says() {
        const DRAWS: u64 = 200_000;
        for (count, exponent) in
            [(1, 1.0), (2, 0.5), (10, 0.0), (40, 0.99), (1000, 1.0), (1000, 1.000_001), (300, 2.5)]
        {
            let zipf = Zipfian::new(count, exponent);
            let draws = Counter::stream(5, "test");
            let mut found = [0u64; 31];
            for index in 0..DRAWS {
                let rank = zipf.at(&draws, index);
                assert!(rank < count);
                found[rank.min(30) as usize] += 1;
            }
            let weight = |rank: u64| ((rank + 1) as f64).powf(-exponent);
            let all: f64 = (0..count).map(weight).sum();
            let mut statistic = 0.0;
            let cells = count.min(31);
            for cell in 0..cells {
                let share: f64 =
                    if cell < 30 { weight(cell) } else { (30..count).map(weight).sum() };
                let expected = DRAWS as f64 * share / all;
                statistic += (found[cell as usize] as f64 - expected).powi(2) / expected;
            }
            let freedom = (cells - 1) as f64;
            assert!(
                (statistic - freedom).abs() <= 6.0 * (2.0 * freedom).sqrt(),
                "{count} ranks, exponent {exponent}: {statistic} for {freedom} degrees of freedom"
            );
        }
    }

    /// Of 2⁵⁰ ranks, the share of the first 2¹⁰ follows from the integral of the density.
    #[test]
    fn a_large_set_needs_no_table() {
        let zipf = Zipfian::new(1 << 50, 1.0);
        let draws = Counter::stream(9, "test");
        let first = (0..100_000).filter(|index| zipf.at(&draws, *index) < 1 << 10).count() as f64;
        let harmonic = |n: f64| n.ln() + 0.577_215_664_9;
        let expected = 100_000.0 * harmonic(1024.0) / harmonic((1u64 << 50) as f64);
        assert!((first - expected).abs() < 6.0 * expected.sqrt(), "{first} against {expected}");
    }
}
