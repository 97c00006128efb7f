//! The id of a request, under which its answer and the log name it.

/// Such as `req_0123456789abcdef`. Each request has one, so it is written without the heap.
pub(crate) struct RequestId([u8; Self::PREFIX.len() + 16]);

impl RequestId {
    const PREFIX: &[u8] = b"req_";

    pub(crate) fn new(random: u64) -> Self {
        let mut text = [0; Self::PREFIX.len() + 16];
        let (prefix, digits) = text.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX);
        for (place, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(random >> (60 - 4 * place)) as usize & 15];
        }
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the prefix and the digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_number_in_sixteen_hexadecimal_digits() {
        for random in [0, 0xabc, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(RequestId::new(random).as_str(), format!("req_{random:016x}"));
        }
    }
}
