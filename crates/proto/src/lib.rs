//! The gRPC protocols, generated from `proto/`, and their translation to and from
//! the core's words.

pub mod bounds;
pub mod convert;
pub mod identity;
mod short_bytes;

pub use short_bytes::ShortBytes;

/// Between a server and a worker.
pub mod worker {
    #![allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated code follows no lint of ours")]
    tonic::include_proto!("punctual.worker.v1");

    impl std::fmt::Debug for Secret {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Secret").field("name", &self.name).field("value", &"***").finish()
        }
    }
}

/// Between the servers of one cluster.
pub mod peer {
    #![allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated code follows no lint of ours")]
    tonic::include_proto!("punctual.peer.v1");
}

include!(concat!(env!("OUT_DIR"), "/calls.rs"));

/// No message is larger than this, on either side.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// A batch is cut at about this size, well below [`MESSAGE_BYTES_MAX`].
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// The output of an attempt that is kept. Longer ones are refused as a failure.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;
