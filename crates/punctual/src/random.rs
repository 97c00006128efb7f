//! Real randomness. It enters here and is passed on from here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use punctual_core::random::SplitMix64;

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
        // Each call takes the next number of a sequence without repetition.
        SplitMix64::new(state.fetch_add(SplitMix64::STEP, Ordering::Relaxed)).bits()
    }))
}
