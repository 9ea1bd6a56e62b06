//! SHA-256, for the hashes of discovery.

/// Returns the SHA-256 of a text.
pub(super) fn sha256(text: &str) -> [u8; 32] {
    let primes: Vec<u128> = (2..).filter(|n| (2..*n).all(|of| n % of != 0)).take(64).collect();
    let rounds: Vec<u32> = primes.iter().map(|prime| fraction(cube_root(prime << 96))).collect();
    let mut roots = primes.iter().map(|prime| fraction((prime << 64).isqrt()));
    let mut state: [u32; 8] = std::array::from_fn(|_| roots.next().unwrap_or_default());
    let mut message = text.as_bytes().to_vec();
    message.push(0x80);
    message.resize((message.len() + 8).next_multiple_of(64) - 8, 0);
    message.extend(u64::try_from(text.len()).unwrap_or_default().wrapping_mul(8).to_be_bytes());
    for chunk in message.chunks_exact(64) {
        let mixed = mix(state, &schedule(chunk), &rounds);
        for (one, other) in state.iter_mut().zip(mixed) {
            *one = one.wrapping_add(other);
        }
    }
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// Returns the first 32 bits of the fraction of a root.
fn fraction(root: u128) -> u32 {
    u32::try_from(root & 0xffff_ffff).unwrap_or_default()
}

fn cube_root(number: u128) -> u128 {
    let (mut low, mut high) = (0_u128, 1 << 40);
    while high - low > 1 {
        let middle = u128::midpoint(low, high);
        if middle.pow(3) <= number { low = middle } else { high = middle }
    }
    low
}

fn schedule(chunk: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let mut words: Vec<u32> = chunk.chunks_exact(4).map(word).collect();
    for index in 16..64 {
        let before = |distance: usize| words.get(index - distance).copied().unwrap_or_default();
        let (two, fifteen) = (before(2), before(15));
        let small = fifteen.rotate_right(7) ^ fifteen.rotate_right(18) ^ fifteen >> 3;
        let large = two.rotate_right(17) ^ two.rotate_right(19) ^ two >> 10;
        words.push(before(16).wrapping_add(small).wrapping_add(before(7)).wrapping_add(large));
    }
    words
}

fn mix(state: [u32; 8], words: &[u32], rounds: &[u32]) -> [u32; 8] {
    words.iter().zip(rounds).fold(state, |[a, b, c, d, e, f, g, h], (word, round)| {
        let large = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = e & f ^ !e & g;
        let one = h.wrapping_add(large).wrapping_add(chosen).wrapping_add(*round).wrapping_add(*word);
        let small = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let two = small.wrapping_add(a & b ^ a & c ^ b & c);
        [one.wrapping_add(two), a, b, c, d.wrapping_add(one), e, f, g]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        for (text, start) in [
            (String::new(), [0xe3, 0xb0, 0xc4, 0x42]),
            ("abc".to_owned(), [0xba, 0x78, 0x16, 0xbf]),
            ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".to_owned(), [0x24, 0x8d, 0x6a, 0x61]),
            ("a".repeat(1_000_000), [0xcd, 0xc7, 0x6e, 0x5c]),
        ] {
            assert!(sha256(&text).starts_with(&start), "{} bytes", text.len());
        }
    }
}
