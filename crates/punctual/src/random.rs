//! Real randomness. It enters here and is passed on from here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;

/// 256 bits that nobody can guess.
pub(crate) fn secret() -> anyhow::Result<[u8; 32]> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| anyhow::anyhow!("{error}")).context("no randomness for a secret")?;
    Ok(secret)
}

/// Numbers that tell ids apart: distinct within a process, and unrelated between
/// processes. Not secret.
pub(crate) fn numbers() -> anyhow::Result<Arc<dyn Fn() -> u64 + Send + Sync>> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("{error}")).context("no randomness to begin with")?;
    let state = AtomicU64::new(u64::from_le_bytes(seed));
    Ok(Arc::new(move || {
        // SplitMix64: each call takes the next number of a sequence without repetition.
        let mut bits = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }))
}
