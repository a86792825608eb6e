//! The Mersenne Twister MT19937 as `at::mt19937` runs it.
//!
//! The recurrence and the tempering are Matsumoto and Nishimura's (1998); the seeding is their 2002 initialisation
//! from one 32-bit word. `left` and `next` are kept exactly as upstream keeps them because both are visible in the
//! bytes of `torch.get_rng_state()`.

/// Words of state.
pub const STATE_LEN: usize = 624;
const SHIFT: usize = 397;
const MATRIX_A: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;
const LOWER: u32 = 0x7fff_ffff;

/// A seeded MT19937 engine.
#[derive(Clone, PartialEq, Eq)]
pub struct Mt19937 {
    seed: u64,
    /// Outputs left before the next regeneration, plus one.
    left: i32,
    /// Index of the next word to temper.
    next: u32,
    state: [u32; STATE_LEN],
}

impl Mt19937 {
    /// An engine seeded with the low 32 bits of `seed`; all 64 bits are remembered as [`Self::seed`].
    pub fn new(seed: u64) -> Self {
        let mut state = [0u32; STATE_LEN];
        state[0] = seed as u32;
        for j in 1..STATE_LEN {
            let previous = state[j - 1];
            state[j] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(j as u32);
        }
        Self { seed, left: 1, next: 0, state }
    }

    /// Rebuilds an engine from its parts, or `None` where upstream calls the state invalid.
    pub fn from_parts(
        seed: u64,
        left: i32,
        seeded: bool,
        next: u32,
        state: [u32; STATE_LEN],
    ) -> Option<Self> {
        let valid = seeded && left > 0 && left <= STATE_LEN as i32 && next <= STATE_LEN as u32;
        valid.then_some(Self { seed, left, next, state })
    }

    /// The seed given to [`Self::new`].
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Upstream's `left_` counter.
    pub fn left(&self) -> i32 {
        self.left
    }

    /// Upstream's `next_` index.
    pub fn next_index(&self) -> u32 {
        self.next
    }

    /// The raw state words.
    pub fn state(&self) -> &[u32; STATE_LEN] {
        &self.state
    }

    /// The next 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.left -= 1;
        // The second test is never true in a state this engine reached by itself; a loaded state may disagree
        // with itself, and upstream then reads past the array.
        if self.left <= 0 || self.next as usize >= STATE_LEN {
            self.regenerate();
        }
        let word = self.state[self.next as usize];
        self.next += 1;
        temper(word)
    }

    /// The next 64 random bits: the first draw is the high half.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let high = self.next_u32();
        let low = self.next_u32();
        (u64::from(high) << 32) | u64::from(low)
    }

    /// Fills `out` with what as many calls of [`Self::next_u32`] would return, a run of state words at a time.
    pub fn fill_u32(&mut self, mut out: &mut [u32]) {
        while !out.is_empty() {
            let ready = ((self.left - 1).max(0) as usize).min(STATE_LEN - self.next as usize);
            if ready == 0 {
                out[0] = self.next_u32();
                out = &mut out[1..];
                continue;
            }
            let n = ready.min(out.len());
            let (head, tail) = out.split_at_mut(n);
            let start = self.next as usize;
            for (o, &word) in head.iter_mut().zip(&self.state[start..start + n]) {
                *o = temper(word);
            }
            self.left -= n as i32;
            self.next += n as u32;
            out = tail;
        }
    }

    fn regenerate(&mut self) {
        self.left = STATE_LEN as i32;
        self.next = 0;
        let s = &mut self.state;
        for j in 0..STATE_LEN - SHIFT {
            s[j] = s[j + SHIFT] ^ twist(s[j], s[j + 1]);
        }
        for j in STATE_LEN - SHIFT..STATE_LEN - 1 {
            s[j] = s[j + SHIFT - STATE_LEN] ^ twist(s[j], s[j + 1]);
        }
        s[STATE_LEN - 1] = s[SHIFT - 1] ^ twist(s[STATE_LEN - 1], s[0]);
    }
}

impl Default for Mt19937 {
    fn default() -> Self {
        Self::new(5489)
    }
}

#[inline(always)]
fn twist(u: u32, v: u32) -> u32 {
    (((u & UPPER) | (v & LOWER)) >> 1) ^ ((v & 1).wrapping_neg() & MATRIX_A)
}

#[inline(always)]
fn temper(mut y: u32) -> u32 {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c_5680;
    y ^= (y << 15) & 0xefc6_0000;
    y ^ (y >> 18)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_outputs_of_the_original_program() {
        // The ten-thousandth output of MT19937 seeded with 5489 is fixed by the C++ standard (rand.predef).
        let mut engine = Mt19937::default();
        let mut last = 0;
        for _ in 0..10_000 {
            last = engine.next_u32();
        }
        assert_eq!(last, 4_123_659_995);
    }

    #[test]
    fn filling_equals_drawing_one_by_one() {
        for warm in [0usize, 1, 5, 623, 624, 625] {
            for n in [1usize, 2, 300, 623, 624, 625, 2000] {
                let mut a = Mt19937::new(42);
                for _ in 0..warm {
                    a.next_u32();
                }
                let mut b = a.clone();
                let mut filled = vec![0; n];
                a.fill_u32(&mut filled);
                let drawn: Vec<u32> = (0..n).map(|_| b.next_u32()).collect();
                assert!(filled == drawn && a == b, "warm {warm}, n {n}");
            }
        }
    }

    #[test]
    fn a_state_that_disagrees_with_itself_does_not_panic() {
        let mut engine = Mt19937::from_parts(1, 600, true, 624, [7; STATE_LEN]).unwrap();
        let mut out = [0; 1300];
        engine.fill_u32(&mut out);
        let mut engine = Mt19937::from_parts(1, 600, true, 600, [7; STATE_LEN]).unwrap();
        for _ in 0..1300 {
            engine.next_u32();
        }
        assert!(Mt19937::from_parts(1, 0, true, 0, [0; STATE_LEN]).is_none());
        assert!(Mt19937::from_parts(1, 1, false, 0, [0; STATE_LEN]).is_none());
        assert!(Mt19937::from_parts(1, 1, true, 625, [0; STATE_LEN]).is_none());
    }
}
