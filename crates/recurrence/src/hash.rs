//! SipHash-2-4 with a fixed key, written out because hashed slots and jitter must not change with a compiler, a
//! platform or a dependency: a schedule that fires at minute 37 today fires at minute 37 after every upgrade.

/// Bytes 00 to 0f, the key of the published test vectors. It is no secret: it spreads load, it protects nothing.
const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

struct HashState([u64; 4]);

impl HashState {
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }

    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }
}

/// Takes bytes one by one, so that nobody has to put them together first.
fn siphash24(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut state = HashState([
        KEY[0] ^ 0x736f_6d65_7073_6575,
        KEY[1] ^ 0x646f_7261_6e64_6f6d,
        KEY[0] ^ 0x6c79_6765_6e65_7261,
        KEY[1] ^ 0x7465_6462_7974_6573,
    ]);
    let (mut word, mut len) = (0, 0_u64);
    bytes.for_each(|byte| {
        word |= u64::from(byte) << (len % 8 * 8);
        len += 1;
        if len.is_multiple_of(8) {
            state.absorb(word);
            word = 0;
        }
    });
    // The last word has what is left and, on top, the lowest byte of the length.
    state.absorb(word | len << 56);
    state.0[2] ^= 0xff;
    for _ in 0..4 {
        state.round();
    }
    state.0.iter().fold(0, |all, word| all ^ word)
}

/// A stable number in `0..choices` for a schedule's key. `purpose` and `salt` keep the draws of one key independent
/// of each other, so that `H H * * *` does not always choose hour 7 with minute 7.
pub(crate) fn draw(key: &str, purpose: &str, salt: i64, choices: u64) -> u64 {
    // A zero byte ends the purpose, so that no two pairs of purpose and key share their bytes.
    let bytes = purpose.bytes().chain([0]).chain(salt.to_le_bytes()).chain(key.bytes());
    ((u128::from(siphash24(bytes)) * u128::from(choices)) >> 64) as u64
}

/// What a schedule's draws come from, as a number: for those who keep a million of them and not their names.
pub fn seed(name: &str) -> u64 {
    siphash24(name.bytes())
}

/// A stable delay in `0..window_us` for one instant of a schedule.
pub fn delay_us(seed: u64, at_us: i64, window_us: u64) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(at_us.to_le_bytes());
    ((u128::from(siphash24(bytes)) * u128::from(window_us)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_gives_the_published_test_vectors() {
        assert_eq!(siphash24(0..0), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash24(0..1), 0x74f8_39c5_93dc_67fd);
        assert_eq!(siphash24(0..8), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash24(0..15), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash24(0..63), 0x958a_324c_eb06_4572);
    }

    #[test]
    fn delays_stay_within_their_window_and_differ() {
        let delays: std::collections::BTreeSet<u64> =
            (0..1000).map(|minute| delay_us(seed("nightly"), minute * 60_000_000, 60_000_000)).collect();
        assert!(delays.iter().all(|delay| *delay < 60_000_000) && delays.len() > 990);
        assert_eq!(delay_us(seed("nightly"), 0, 60_000_000), delay_us(seed("nightly"), 0, 60_000_000));
    }

    #[test]
    fn draws_cover_their_choices_evenly() {
        let mut counts = [0_u32; 60];
        for number in 0..60_000 {
            counts[draw(&format!("schedule-{number}"), "minute", 0, 60) as usize] += 1;
        }
        // 1,000 expected in each; five standard deviations are about 157.
        assert!(counts.iter().all(|count| (840..1160).contains(count)), "{counts:?}");
    }
}
