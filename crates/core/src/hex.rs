//! Bytes as hexadecimal digits: digests in names and URLs, secrets in headers, ids as a database shows them.

/// Two lowercase digits for each byte.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// The bytes of exactly `2 * N` digits in either case. Signs and spaces, which the standard library's parsers of numbers
/// accept, are refused.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? * 16 + digit(*low)?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_reads_back() {
        let all: Vec<u8> = (0..=255).collect();
        let text = encode(&all);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"), "{text}");
        assert_eq!(decode::<256>(&text).unwrap()[..], all);
        assert_eq!(decode(&text.to_uppercase()), decode::<256>(&text));
    }

    #[test]
    fn only_digits_of_the_right_number_are_read() {
        for bad in ["", "0", "000", "0000", "+0", " 0", "0x", "g0", "é"] {
            assert_eq!(decode::<1>(bad), None, "{bad}");
        }
    }
}
