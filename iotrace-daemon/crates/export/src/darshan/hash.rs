//! Darshan's record ids: Bob Jenkins' public-domain 64-bit hash of 1997 (lookup8), with seed 0.

/// The golden ratio, by which the hash begins.
const START: u64 = 0x9e37_79b9_7f4a_7c13;
/// Shifts of the rounds of [`mix`].
const ROUNDS: [(u32, u32, u32); 4] = [(43, 9, 8), (38, 23, 5), (35, 49, 11), (12, 18, 22)];

/// The id of the record of a file: a hash of its name.
pub fn record_id(name: &[u8]) -> u64 {
    let mut state = [0, 0, START];
    let mut blocks = name.chunks_exact(24);
    for block in &mut blocks {
        for (word, bytes) in state.iter_mut().zip(block.chunks_exact(8)) {
            *word = word.wrapping_add(little_endian(bytes));
        }
        mix(&mut state);
    }
    let tail = blocks.remainder();
    let mut words = tail.chunks(8).map(little_endian);
    let mut word = || words.next().unwrap_or(0);
    state[0] = state[0].wrapping_add(word());
    state[1] = state[1].wrapping_add(word());
    // The lowest byte of the last word is the length's.
    state[2] = state[2]
        .wrapping_add(word() << 8)
        .wrapping_add(name.len() as u64);
    mix(&mut state);
    state[2]
}

/// Up to eight bytes as a number.
fn little_endian(bytes: &[u8]) -> u64 {
    let fold = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    bytes.iter().rev().fold(0, fold)
}

fn mix([a, b, c]: &mut [u64; 3]) {
    for (p, q, r) in ROUNDS {
        *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ (*c >> p);
        *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ (*a << q);
        *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ (*b >> r);
    }
}

#[cfg(test)]
mod tests {
    use super::record_id;

    /// As Darshan's own tools have them.
    #[test]
    fn ids_are_darshans() {
        for (name, id) in [
            ("", 0x8db6_3936_9385_75bf),
            ("a", 0x1d48_fd74_d886_33ac),
            ("/", 0xf6fe_f892_5df7_b321),
            ("/tmp/x", 0xd6b4_5d3b_1d97_5f4e),
            ("12345678901234567890123", 0x9a5f_b8e2_eb92_2f7a),
            ("123456789012345678901234", 0xa55b_434f_02ec_cee2),
            ("1234567890123456789012345", 0x43c0_0168_f76d_d7bd),
            ("/scratch/data/shard-000.tar", 0x7691_3909_abf2_fc86),
            ("heatmap:POSIX", 0xe643_0154_a9dc_c87d),
        ] {
            assert_eq!(record_id(name.as_bytes()), id, "{name}");
        }
    }
}
