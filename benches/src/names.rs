//! Index values as string constants, so that index functions format nothing, as in practice.
#![expect(clippy::indexing_slicing, reason = "constant indexes, checked when the constants are made")]

/// `000` to `499`.
pub(crate) const NAMES_OF_500: [&str; 500] = names();

const fn names() -> [&'static str; 500] {
    const DIGITS: &[u8; 1500] = &digits();
    let mut names = [""; 500];
    let mut i = 0;
    while i < 500 {
        let (_, rest) = DIGITS.split_at(i * 3);
        let (name, _) = rest.split_at(3);
        names[i] = match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => "",
        };
        i += 1;
    }
    names
}

const fn digits() -> [u8; 1500] {
    let mut digits = [b'0'; 1500];
    let mut i = 0;
    while i < 500 {
        digits[i * 3] += (i / 100) as u8;
        digits[i * 3 + 1] += (i / 10 % 10) as u8;
        digits[i * 3 + 2] += (i % 10) as u8;
        i += 1;
    }
    digits
}
