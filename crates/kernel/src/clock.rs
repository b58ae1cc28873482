//! Clocks with exact rational periods, and the pace of a core.
//!
//! The period of DDR4-2400 is 833⅓ ps: a sum of rounded periods would drift by 0.04 %. Here
//! cycles are counted, and converted to picoseconds only as a whole.

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// A clock: its period is an exact fraction of picoseconds, in lowest terms.
///
/// ```
/// use tierscope_kernel::Clock;
/// let ddr4_2400 = Clock::from_hertz(1_200_000_000);
/// assert_eq!(ddr4_2400.cycles_to_ps(3), 2_500);
/// assert_eq!(ddr4_2400.ps_to_cycles_ceil(13_320), 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    period_num_ps: Divisor,
    period_den: Divisor,
}

impl Clock {
    /// A clock of `hertz` cycles per second.
    ///
    /// # Panics
    /// If `hertz` is 0.
    pub fn from_hertz(hertz: u64) -> Self {
        Clock::new(u128::from(PS_PER_SECOND), u128::from(hertz))
    }

    /// A clock whose cycle takes `period_ps`.
    ///
    /// # Panics
    /// If `period_ps` is 0.
    pub fn from_period_ps(period_ps: u64) -> Self {
        Clock::new(u128::from(period_ps), 1)
    }

    /// The clock whose *period* is `mul / div` of this one's: `scaled(1, 2)` is twice as fast.
    /// Fractions of a picosecond are made so: DDR4-2133's 937.5 ps is
    /// `Clock::from_period_ps(1875).scaled(1, 2)`.
    ///
    /// # Panics
    /// If `mul` or `div` is 0, or if numerator or denominator need more than 64 bits.
    #[must_use]
    pub fn scaled(self, mul: u64, div: u64) -> Self {
        Clock::new(
            u128::from(self.period_num_ps.divisor) * u128::from(mul),
            u128::from(self.period_den.divisor) * u128::from(div),
        )
    }

    fn new(num_ps: u128, den: u128) -> Self {
        let (period_num_ps, period_den) = lowest_terms(num_ps, den);
        Clock { period_num_ps: Divisor::new(period_num_ps), period_den: Divisor::new(period_den) }
    }

    /// The period as numerator (picoseconds) and denominator, in lowest terms.
    pub const fn period(&self) -> (u64, u64) {
        (self.period_num_ps.divisor, self.period_den.divisor)
    }

    /// The time of `cycles`: the floor of the exact value, in picoseconds. Times beyond 2⁶⁴ ps
    /// (213 days) saturate.
    #[inline]
    pub fn cycles_to_ps(&self, cycles: u64) -> u64 {
        mul_div_floor(cycles, self.period_num_ps.divisor, self.period_den)
    }

    /// The first cycle that begins at `ps` or later: the least number of cycles whose
    /// [`cycles_to_ps`](Clock::cycles_to_ps) is not below `ps`. Counts beyond 2⁶⁴ saturate.
    #[inline]
    pub fn ps_to_cycles_ceil(&self, ps: u64) -> u64 {
        mul_div_ceil(ps, self.period_den.divisor, self.period_num_ps)
    }
}

/// Converts units of work (instructions, flits, beats) to time, and carries the fraction of a
/// picosecond that is left from one call to the next: the sum of all advances is the floor of the
/// exact total.
///
/// ```
/// use tierscope_kernel::{Clock, Pace};
/// let mut core = Pace::new(Clock::from_hertz(3_000_000_000), 1, 1);
/// assert_eq!([core.advance(1), core.advance(1), core.advance(1)], [333, 333, 334]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    whole_ps: u64,
    part: u64,
    den: u64,
    residue: u64,
}

impl Pace {
    /// The pace of a core that needs `cycles_per_unit_num / cycles_per_unit_den` cycles of `clock`
    /// per unit: 2 / 3 for one that retires 1.5 instructions per cycle.
    ///
    /// # Panics
    /// If a part of the fraction is 0, or if the time of a unit needs more than 64 bits in
    /// numerator or denominator.
    pub fn new(clock: Clock, cycles_per_unit_num: u64, cycles_per_unit_den: u64) -> Self {
        let (num_ps, den) = clock.scaled(cycles_per_unit_num, cycles_per_unit_den).period();
        Pace { whole_ps: num_ps / den, part: num_ps % den, den, residue: 0 }
    }

    /// Of what takes no time.
    pub const fn none() -> Self {
        Pace { whole_ps: 0, part: 0, den: 1, residue: 0 }
    }

    /// The time that the next `units` take, in picoseconds.
    #[inline]
    pub fn advance(&mut self, units: u64) -> u64 {
        let whole_ps = units.saturating_mul(self.whole_ps);
        if self.part == 0 {
            return whole_ps;
        }
        whole_ps.saturating_add(self.carry(units))
    }

    /// Whole picoseconds among the fractions of `units` and the residue.
    #[inline]
    fn carry(&mut self, units: u64) -> u64 {
        let fits = units.checked_mul(self.part).and_then(|t| t.checked_add(self.residue));
        match fits {
            Some(total) if total < self.den => {
                self.residue = total;
                0
            }
            Some(total) => {
                self.residue = total % self.den;
                total / self.den
            }
            None => self.carry_wide(units),
        }
    }

    #[cold]
    fn carry_wide(&mut self, units: u64) -> u64 {
        let total = u128::from(units) * u128::from(self.part) + u128::from(self.residue);
        let den = u128::from(self.den);
        self.residue = (total % den) as u64;
        saturate(total / den)
    }
}

fn lowest_terms(num: u128, den: u128) -> (u64, u64) {
    assert!(num > 0 && den > 0, "a period is neither zero nor endless");
    let (mut a, mut b) = (num, den);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    match (u64::try_from(num / a), u64::try_from(den / a)) {
        (Ok(num), Ok(den)) => (num, den),
        _ => panic!("the period {num}/{den} ps needs more than 64 bits"),
    }
}

#[inline]
fn mul_div_floor(value: u64, mul: u64, div: Divisor) -> u64 {
    match value.checked_mul(mul) {
        Some(product) => div.quotient(product),
        None => saturate(u128::from(value) * u128::from(mul) / u128::from(div.divisor)),
    }
}

#[inline]
fn mul_div_ceil(value: u64, mul: u64, div: Divisor) -> u64 {
    match value.checked_mul(mul) {
        // One less than a multiple is the last that has the quotient below.
        Some(0) => 0,
        Some(product) => div.quotient(product - 1) + 1,
        None => saturate((u128::from(value) * u128::from(mul)).div_ceil(u128::from(div.divisor))),
    }
}

/// A divisor known beforehand: a multiplication takes the place of the division, which takes several
/// times as long.
///
/// With m = ⌈2⁶⁴ / d⌉ = (2⁶⁴ + e) / d, where 0 ≤ e < d, the high half of n × m is
/// ⌊n / d + n × e / (2⁶⁴ × d)⌋: the quotient, as long as n × e < 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Divisor {
    divisor: u64,
    /// m, but 0 for a divisor of 1.
    inverse: u64,
    /// Up to here n × d < 2⁶⁴.
    most: u64,
}

impl Divisor {
    fn new(divisor: u64) -> Self {
        let inverse = if divisor == 1 { 0 } else { u64::MAX / divisor + 1 };
        Divisor { divisor, inverse, most: u64::MAX / divisor }
    }

    #[inline]
    fn quotient(self, value: u64) -> u64 {
        if value > self.most {
            value / self.divisor
        } else if self.inverse == 0 {
            value
        } else {
            ((u128::from(value) * u128::from(self.inverse)) >> 64) as u64
        }
    }
}

#[inline]
fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_third_of_a_picosecond_never_accumulates() {
        let clock = Clock::from_hertz(1_200_000_000);
        assert_eq!(clock.period(), (2500, 3));
        assert_eq!(
            [1, 2, 3, 1_200_000_000].map(|c| clock.cycles_to_ps(c)),
            [833, 1666, 2500, PS_PER_SECOND]
        );
    }

    proptest! {
        #[test]
        fn a_quotient_is_that_of_a_division(
            divisor in prop_oneof![1..10_000u64, any::<u64>().prop_map(|d| d.max(1))],
            values in proptest::collection::vec(any::<u64>(), 1..20),
            shift in 0..64u32,
        ) {
            let known = Divisor::new(divisor);
            let edges = [0, 1, divisor - 1, divisor, known.most, known.most.saturating_add(1), u64::MAX];
            let near = known.most / divisor * divisor;
            let edges = edges.into_iter().chain([near, near.saturating_sub(1)]);
            for value in values.into_iter().map(|value| value >> shift).chain(edges) {
                prop_assert_eq!(known.quotient(value), value / divisor, "{} / {}", value, divisor);
            }
        }
    }

    #[test]
    fn scaling_multiplies_the_period() {
        assert_eq!(Clock::from_period_ps(1875).scaled(1, 2).period(), (1875, 2));
        assert_eq!(Clock::from_hertz(1_000_000_000).scaled(4, 1), Clock::from_hertz(250_000_000));
    }

    #[test]
    fn times_beyond_64_bits_saturate() {
        let clock = Clock::from_hertz(1);
        assert_eq!(clock.cycles_to_ps(u64::MAX), u64::MAX);
        assert_eq!(Pace::new(clock, 1, 3).advance(u64::MAX), u64::MAX);
    }

    #[test]
    #[should_panic(expected = "neither zero nor endless")]
    fn a_stopped_clock_is_refused() {
        Clock::from_hertz(0);
    }

    proptest! {
        #[test]
        fn conversion_is_the_floor_of_the_exact_value(
            hertz in 1..5_000_000_000u64, cycles in 0..1u64 << 40,
        ) {
            let exact = u128::from(cycles) * u128::from(PS_PER_SECOND) / u128::from(hertz);
            let expected = u64::try_from(exact).unwrap_or(u64::MAX);
            prop_assert_eq!(Clock::from_hertz(hertz).cycles_to_ps(cycles), expected);
        }

        #[test]
        fn the_ceiling_is_the_first_cycle_not_before_the_time(
            num in 1..1u64 << 30, den in 1..1u64 << 20, ps in 0..1u64 << 50,
        ) {
            let clock = Clock::from_period_ps(num).scaled(1, den);
            let cycle = clock.ps_to_cycles_ceil(ps);
            prop_assert!(clock.cycles_to_ps(cycle) >= ps);
            prop_assert!(cycle == 0 || clock.cycles_to_ps(cycle - 1) < ps);
        }

        #[test]
        fn cycles_survive_a_round_trip_when_a_period_is_at_least_a_picosecond(
            hertz in 1..=PS_PER_SECOND, cycles in 0..1u64 << 20,
        ) {
            let clock = Clock::from_hertz(hertz);
            let ps = clock.cycles_to_ps(cycles);
            prop_assume!(ps < u64::MAX);
            prop_assert_eq!(clock.ps_to_cycles_ceil(ps), cycles);
        }

        #[test]
        fn advances_sum_to_the_floor_of_the_exact_total(
            hertz in 1_000..5_000_000_000u64,
            per_unit in (1..64u64, 1..64u64),
            steps in prop::collection::vec(prop_oneof![0..4u64, 0..1u64 << 30], 0..50),
        ) {
            let mut pace = Pace::new(Clock::from_hertz(hertz), per_unit.0, per_unit.1);
            let sum: u128 = steps.iter().map(|&units| u128::from(pace.advance(units))).sum();
            let units: u128 = steps.iter().map(|&units| u128::from(units)).sum();
            let num = units * u128::from(PS_PER_SECOND) * u128::from(per_unit.0);
            prop_assert_eq!(sum, num / (u128::from(hertz) * u128::from(per_unit.1)));
        }
    }

    #[test]
    fn residues_are_carried_exactly_when_products_need_more_than_64_bits() {
        let period = Clock::from_period_ps(3).scaled(1, (1 << 61) - 1);
        let mut pace = Pace::new(period, 1, 1);
        let sum: u64 = (0..64).map(|_| pace.advance(u64::MAX / 64)).sum();
        let exact = u128::from(u64::MAX / 64) * 64 * 3 / ((1 << 61) - 1);
        assert_eq!(u128::from(sum), exact);
    }
}
