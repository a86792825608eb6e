//! Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011) as `at::Philox4_32` runs it: a counter-based engine whose
//! 128-bit counter is (offset, subsequence) and whose 64-bit key is the seed.

const KEY_A: u32 = 0x9E37_79B9;
const KEY_B: u32 = 0xBB67_AE85;
const MUL_A: u32 = 0xD251_1F53;
const MUL_B: u32 = 0xCD9E_8D57;

/// One Philox block: `rounds` rounds over `counter` under `key`.
#[inline]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2], rounds: u32) -> [u32; 4] {
    for round in 0..rounds {
        if round > 0 {
            key = [key[0].wrapping_add(KEY_A), key[1].wrapping_add(KEY_B)];
        }
        let a = u64::from(MUL_A) * u64::from(counter[0]);
        let b = u64::from(MUL_B) * u64::from(counter[2]);
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}

/// A Philox engine that hands out one 32-bit word at a time.
#[derive(Clone, Debug)]
pub struct Philox4x32 {
    counter: [u32; 4],
    output: [u32; 4],
    key: [u32; 2],
    used: usize,
}

impl Philox4x32 {
    /// The engine for `seed`, at the start of `subsequence` (upstream: the thread index), `offset` blocks in.
    pub fn new(seed: u64, subsequence: u64, offset: u64) -> Self {
        let mut engine = Self {
            counter: [0, 0, subsequence as u32, (subsequence >> 32) as u32],
            output: [0; 4],
            key: [seed as u32, (seed >> 32) as u32],
            used: 0,
        };
        engine.skip(offset);
        engine
    }

    /// Sets the low half of the counter.
    pub fn set_offset(&mut self, offset: u64) {
        self.counter[0] = offset as u32;
        self.counter[1] = (offset >> 32) as u32;
    }

    /// The low half of the counter.
    pub fn offset(&self) -> u64 {
        u64::from(self.counter[0]) | (u64::from(self.counter[1]) << 32)
    }

    /// The next 32 random bits, after ten rounds.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.next_u32_rounds(10)
    }

    /// The next 32 random bits; a fresh block takes `rounds` rounds.
    #[inline]
    pub fn next_u32_rounds(&mut self, rounds: u32) -> u32 {
        if self.used == 0 {
            self.output = philox4x32(self.counter, self.key, rounds);
            self.increment();
        }
        let word = self.output[self.used];
        self.used = (self.used + 1) & 3;
        word
    }

    /// Skips `n` blocks of four words.
    pub fn skip(&mut self, n: u64) {
        let (low, carry) = self.counter[0].overflowing_add(n as u32);
        self.counter[0] = low;
        let high = ((n >> 32) as u32).wrapping_add(u32::from(carry));
        self.counter[1] = self.counter[1].wrapping_add(high);
        // Upstream's carry test, kept as it is: when the carry wraps `high` to zero it does propagate.
        let overflow = if carry { high == 0 || high > self.counter[1] } else { high > self.counter[1] };
        if overflow {
            self.counter[2] = self.counter[2].wrapping_add(1);
            if self.counter[2] == 0 {
                self.counter[3] = self.counter[3].wrapping_add(1);
            }
        }
    }

    fn increment(&mut self) {
        for word in &mut self.counter {
            *word = word.wrapping_add(1);
            if *word != 0 {
                return;
            }
        }
    }
}

impl Default for Philox4x32 {
    fn default() -> Self {
        Self::new(super::generator::DEFAULT_SEED, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_random123() {
        assert_eq!(philox4x32([0; 4], [0; 2], 10), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2], 10),
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
        );
        assert_eq!(
            philox4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0], 10),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn skipping_equals_drawing() {
        let mut drawn = Philox4x32::new(7, 3, 0);
        for _ in 0..4 * 5 {
            drawn.next_u32();
        }
        let mut skipped = Philox4x32::new(7, 3, 5);
        assert_eq!(drawn.offset(), 5);
        assert_eq!(drawn.next_u32(), skipped.next_u32());
        let mut far = Philox4x32::new(7, 3, u64::MAX);
        far.skip(1);
        assert_eq!((far.counter[2], far.offset()), (4, 0));
    }
}
