//! Numbers, times and texts as bytes, and back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::time::Timestamp;

pub(super) struct Writer {
    bytes: Vec<u8>,
    /// The time that was written last, in microseconds.
    last: i64,
}

impl Writer {
    pub(super) fn new(len: usize) -> Self {
        Self { bytes: Vec::with_capacity(len), last: 0 }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Seven bits in each byte, the lowest first; the eighth says that there are more.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// How much later it is than the one before. Small distances are short, whatever their sign.
    pub(super) fn time(&mut self, at: Timestamp) {
        let distance = at.as_micros().wrapping_sub(self.last);
        self.last = at.as_micros();
        self.number(((distance << 1) ^ (distance >> 63)) as u64);
    }

    pub(super) fn is_last(&self, at: Timestamp) -> bool {
        at.as_micros() == self.last
    }

    pub(super) fn json(&mut self, value: &impl Serialize) {
        let text = serde_json::to_vec(value).expect("what runs and nodes have is JSON");
        self.number(text.len() as u64);
        self.raw(&text);
    }
}

pub(super) struct Reader<'b> {
    rest: &'b [u8],
    last: i64,
}

impl<'b> Reader<'b> {
    pub(super) fn new(rest: &'b [u8]) -> Self {
        Self { rest, last: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    pub(super) fn raw(&mut self, len: usize) -> Option<&'b [u8]> {
        let (raw, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(raw)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn time(&mut self) -> Option<Timestamp> {
        let number = self.number()?;
        let distance = (number >> 1) as i64 ^ -((number & 1) as i64);
        self.last = self.last.wrapping_add(distance);
        self.last_time()
    }

    pub(super) fn last_time(&self) -> Option<Timestamp> {
        Timestamp::from_micros(self.last)
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Option<T> {
        let len = usize::try_from(self.number()?).ok()?;
        serde_json::from_slice(self.raw(len)?).ok()
    }
}
