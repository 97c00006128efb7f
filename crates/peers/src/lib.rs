//! The peer protocol: what the servers of one cluster ask each other, over gRPC.
//!
//! Both ends are here, with one translation between the words of the core and those of the wire (`ask`, `convert`).
//! `client` asks the other servers; `service` answers them by calling one method of the app. Neither decides
//! anything, and nothing is remembered but connections.

mod ask;
mod client;
mod convert;
mod hints;
mod link;
mod proof;
mod service;
mod signed;
mod tls;
mod watch;

pub use client::GrpcPeers;
pub use proof::checked;
pub use service::{PeerService, service};
pub use tls::PeerTls;
