//! Values that are a number, or drawn from a distribution.

use rand_distr::{Distribution as _, Exp, Gamma, LogNormal, Normal, Triangular, Uniform, Weibull};
use tierscope_kernel::Random;

/// A number, or how it is distributed.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    distribution: Distribution,
    least: f64,
    most: f64,
}

/// How a value is distributed, by the parameters that the language has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Between two values.
    Uniform {
        /// The least.
        lower: f64,
        /// The largest.
        upper: f64,
    },
    /// A mean, and a shape: 1.5 where the language says nothing.
    Gamma {
        /// The mean.
        mean: f64,
        /// The shape; the scale is the mean over it.
        shape: f64,
    },
    /// A mean.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// Mean and standard deviation.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// Scale and shape of what the logarithm is normal of.
    LogNormal {
        /// The mean of the logarithm.
        scale: f64,
        /// The standard deviation of the logarithm.
        shape: f64,
    },
    /// Between two values, with a mode.
    Triangular {
        /// The least.
        lower: f64,
        /// The largest.
        upper: f64,
        /// The mode.
        mode: f64,
    },
    /// Scale and shape.
    Weibull {
        /// The scale.
        scale: f64,
        /// The shape.
        shape: f64,
    },
}

impl Variable {
    /// Always the same value.
    pub const fn constant(value: f64) -> Variable {
        Variable::of(Distribution::Constant(value))
    }

    /// A distribution, without bounds but those that every value has here: no value is negative.
    pub const fn of(distribution: Distribution) -> Variable {
        Variable { distribution, least: 0.0, most: f64::MAX }
    }

    /// Within bounds: what lies beyond is at the bound.
    pub const fn between(self, least: f64, most: f64) -> Variable {
        Variable { least, most, ..self }
    }

    /// The value, where it is always the same.
    pub fn as_constant(&self) -> Option<f64> {
        match self.distribution {
            Distribution::Constant(value) => Some(value.clamp(self.least, self.most)),
            _ => None,
        }
    }

    /// A value that none is above.
    pub fn most(&self) -> f64 {
        self.as_constant().unwrap_or(match self.distribution {
            Distribution::Uniform { upper, .. } | Distribution::Triangular { upper, .. } => upper,
            _ => self.most,
        })
    }

    /// Whether the distribution exists: what is wrong with its parameters.
    pub fn check(&self) -> Result<(), String> {
        let one = self.raw(&mut Random::stream(0, "check"))?;
        if one.is_finite() { Ok(()) } else { Err("it gives no finite number".into()) }
    }

    /// The next value.
    pub fn draw(&self, random: &mut Random) -> f64 {
        self.raw(random).unwrap_or(0.0).clamp(self.least, self.most)
    }

    /// The next whole value.
    pub fn draw_whole(&self, random: &mut Random) -> u64 {
        self.draw(random) as u64
    }

    fn raw(&self, random: &mut Random) -> Result<f64, String> {
        let random = &mut Source(random);
        let refused = |error: &dyn std::fmt::Display| error.to_string();
        Ok(match self.distribution {
            Distribution::Constant(value) => value,
            Distribution::Uniform { lower, upper } => {
                Uniform::new_inclusive(lower, upper).map_err(|e| refused(&e))?.sample(random)
            }
            Distribution::Gamma { mean, shape } => {
                Gamma::new(shape, mean / shape).map_err(|e| refused(&e))?.sample(random)
            }
            Distribution::Exponential { mean } => {
                Exp::new(1.0 / mean).map_err(|e| refused(&e))?.sample(random)
            }
            Distribution::Normal { mean, deviation } => {
                Normal::new(mean, deviation).map_err(|e| refused(&e))?.sample(random)
            }
            Distribution::LogNormal { scale, shape } => {
                LogNormal::new(scale, shape).map_err(|e| refused(&e))?.sample(random)
            }
            Distribution::Triangular { lower, upper, mode } => {
                Triangular::new(lower, upper, mode).map_err(|e| refused(&e))?.sample(random)
            }
            Distribution::Weibull { scale, shape } => {
                Weibull::new(scale, shape).map_err(|e| refused(&e))?.sample(random)
            }
        })
    }
}

/// The kernel's random numbers, as the distributions' crate wants them.
struct Source<'a>(&'a mut Random);

impl rand_core::TryRng for Source<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        use Distribution::*;
        for (distribution, mean) in [
            (Constant(7.0), 7.0),
            (Uniform { lower: 10.0, upper: 30.0 }, 20.0),
            (Gamma { mean: 16384.0, shape: 1.5 }, 16384.0),
            (Exponential { mean: 50.0 }, 50.0),
            (Normal { mean: 100.0, deviation: 10.0 }, 100.0),
            (LogNormal { scale: 1.0, shape: 0.5 }, (1.0f64 + 0.125).exp()),
            (Triangular { lower: 0.0, upper: 6.0, mode: 3.0 }, 3.0),
            (Weibull { scale: 2.0, shape: 1.0 }, 2.0),
        ] {
            let mut random = Random::stream(3, "means");
            let variable = Variable::of(distribution);
            assert_eq!(variable.check(), Ok(()));
            let sum: f64 = (0..40_000).map(|_| variable.draw(&mut random)).sum();
            let got = sum / 40_000.0;
            assert!((got / mean - 1.0).abs() < 0.03, "{distribution:?}: {got}");
        }
    }

    #[test]
    fn a_distribution_that_does_not_exist_is_refused() {
        let wrong = Variable::of(Distribution::Gamma { mean: -1.0, shape: 1.5 });
        assert!(wrong.check().is_err());
        assert!(Variable::of(Distribution::Uniform { lower: 2.0, upper: 1.0 }).check().is_err());
    }

    #[test]
    fn bounds_hold() {
        let mut random = Random::stream(3, "bounds");
        let wide =
            Variable::of(Distribution::Normal { mean: 0.0, deviation: 10.0 }).between(0.0, 5.0);
        let values: Vec<f64> = (0..1000).map(|_| wide.draw(&mut random)).collect();
        assert!(values.iter().all(|value| (0.0..=5.0).contains(value)));
        assert!(values.contains(&0.0) && values.contains(&5.0));
    }

    /// The whole of each distribution, as another implementation has it.
    #[test]
    fn values_follow_their_distributions() {
        use Distribution::*;
        use statrs::distribution as law;
        use statrs::distribution::ContinuousCDF;
        let follows = |distribution, cdf: &dyn Fn(f64) -> f64| {
            let mut random = Random::stream(5, "laws");
            let variable = Variable::of(distribution);
            let values = (0..20_000).map(|_| variable.draw(&mut random)).collect();
            crate::goodness::follow(values, cdf);
        };
        let uniform = law::Uniform::new(10.0, 30.0).unwrap();
        follows(Uniform { lower: 10.0, upper: 30.0 }, &|x| uniform.cdf(x));
        for (mean, shape) in [(16_384.0, 1.5), (100.0, 0.7), (3.0, 9.0)] {
            let gamma = law::Gamma::new(shape, shape / mean).unwrap();
            follows(Gamma { mean, shape }, &|x| gamma.cdf(x));
        }
        let exponential = law::Exp::new(1.0 / 50.0).unwrap();
        follows(Exponential { mean: 50.0 }, &|x| exponential.cdf(x));
        let normal = law::Normal::new(100.0, 10.0).unwrap();
        follows(Normal { mean: 100.0, deviation: 10.0 }, &|x| normal.cdf(x));
        let log_normal = law::LogNormal::new(1.0, 0.5).unwrap();
        follows(LogNormal { scale: 1.0, shape: 0.5 }, &|x| log_normal.cdf(x));
        let triangular = law::Triangular::new(0.0, 6.0, 2.0).unwrap();
        follows(Triangular { lower: 0.0, upper: 6.0, mode: 2.0 }, &|x| triangular.cdf(x));
        let weibull = law::Weibull::new(1.7, 2.0).unwrap();
        follows(Weibull { scale: 2.0, shape: 1.7 }, &|x| weibull.cdf(x));
    }
}
