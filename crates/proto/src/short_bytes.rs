//! Many short pieces of bytes, such as ids and tokens, in few allocations.

use bytes::{Bytes, BytesMut};

/// Copies short pieces into shared chunks. A chunk stays in memory until the last of its pieces is dropped, so its size
/// bounds what one piece that lives long keeps with it.
#[derive(Debug)]
pub struct ShortBytes {
    chunk: BytesMut,
    chunk_len: usize,
}

impl ShortBytes {
    /// For pieces that are dropped together, such as those of one message.
    pub fn of_a_message() -> Self {
        Self::in_chunks_of(4096)
    }

    /// For pieces of which some live long.
    pub fn of_attempts() -> Self {
        Self::in_chunks_of(512)
    }

    fn in_chunks_of(chunk_len: usize) -> Self {
        Self { chunk: BytesMut::new(), chunk_len }
    }

    pub fn copy(&mut self, piece: &[u8]) -> Bytes {
        if piece.is_empty() {
            return Bytes::new();
        }
        // A longer one would leave nothing for others.
        if piece.len() > self.chunk_len / 4 {
            return Bytes::copy_from_slice(piece);
        }
        if self.chunk.capacity() < piece.len() {
            self.chunk = BytesMut::with_capacity(self.chunk_len);
        }
        self.chunk.extend_from_slice(piece);
        self.chunk.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_they_were_copied_from() {
        let mut bytes = ShortBytes::of_attempts();
        let pieces: Vec<Vec<u8>> = (0..200).map(|n: u8| vec![n; usize::from(n)]).collect();
        let copies: Vec<Bytes> = pieces.iter().map(|piece| bytes.copy(piece)).collect();
        assert_eq!(copies, pieces);
    }

    #[test]
    fn neighbours_share_a_chunk_and_none_is_larger_than_it_should_be() {
        let mut bytes = ShortBytes::of_attempts();
        let copies: Vec<Bytes> = (0..64).map(|n: u8| bytes.copy(&[n; 16])).collect();
        let follows = |pair: &[Bytes]| pair[0].as_ptr().wrapping_add(16) == pair[1].as_ptr();
        let shared = copies.windows(2).filter(|pair| follows(pair)).count();
        assert!(shared >= 62, "512 bytes hold 32 pieces of 16: {shared}");
        assert!(copies.chunks(32).all(|chunk| chunk.windows(2).all(follows)));
    }
}
