//! A small deterministic generator: the same numbers on every machine and in every version.

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator whose numbers depend on `seed` alone.
    pub const fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (which must not be 0); the bias is below bound/2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in [0, 1), a multiple of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Near normal: mean 0, variance 1, never beyond ±6 (the sum of twelve uniforms less six).
    pub fn normal(&mut self) -> f32 {
        let mut sum = 0u64;
        // Twelve 21-bit uniforms out of four draws of 64 bits.
        for _ in 0..4 {
            let bits = self.next_u64();
            sum += (bits & 0x1f_ffff) + ((bits >> 21) & 0x1f_ffff) + ((bits >> 42) & 0x1f_ffff);
        }
        (sum as f64 / f64::from(1 << 21) - 6.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the published C implementation (Vigna, splitmix64.c) for seed 0.
    #[test]
    fn known_numbers() {
        let mut r = SplitMix::new(0);
        assert_eq!(r.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(r.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn normal_has_the_stated_moments() {
        let mut r = SplitMix::new(7);
        let v: Vec<f64> = (0..20_000).map(|_| f64::from(r.normal())).collect();
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        let var = v.iter().map(|x| x * x).sum::<f64>() / v.len() as f64;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((var - 1.0).abs() < 0.04, "{var}");
        assert!((0..1000).all(|_| r.below(3) < 3 && r.unit() < 1.0));
    }
}
