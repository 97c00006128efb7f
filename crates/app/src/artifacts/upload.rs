//! Takes a file that is sent to a URL of our own.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::Method;
use punctual_api::{ArtifactView, ErrorKind};
use punctual_blobs::{BadUrl, SignedQuery, Upload};
use punctual_core::ArtifactId;
use punctual_store::{Artifact, ArtifactState};
use tokio::time::Instant;

use super::arrival::Inspection;
use super::{file_key, refused};
use crate::elf::Machine;
use crate::{App, AppError, Result};

/// A client that sends nothing for so long has gone.
const PIECE_WITHIN: Duration = Duration::from_secs(60);

/// A client that sends a byte now and then keeps a place from others. The address is good for as long.
const UPLOAD_WITHIN: Duration = Duration::from_secs(3600);

/// A piece of what a client sends, or nothing if the connection broke.
pub type Sent = std::result::Result<Bytes, ()>;

impl App {
    /// Takes the file of an artifact that is pending or whose file was lost: checks it while it is written, and keeps it only if
    /// it is what was declared. `length` is what the client said that it will send.
    pub async fn upload_artifact(
        &self,
        id: ArtifactId,
        query: SignedQuery,
        length: Option<u64>,
        body: impl Stream<Item = Sent> + Send,
    ) -> Result<ArtifactView> {
        self.0.blobs.verify(&Method::PUT, &file_key(id), &query, self.now()).map_err(bad_url)?;
        let artifact = self.read_artifact(id).await?;
        match &artifact.state {
            ArtifactState::Pending { .. } => {}
            ArtifactState::Ready { .. } if self.is_lost(&artifact).await => {}
            ArtifactState::Ready { .. } => {
                let error = AppError::new(ErrorKind::ArtifactReady, format!("the file of {id} has arrived already"));
                return Err(error.hint("nothing needs to be uploaded"));
            }
            ArtifactState::Refused { reason, .. } => return Err(refused(id, reason)),
        }
        if let Some(length) = length.filter(|length| *length != artifact.size) {
            return Err(size_mismatch(&artifact, length));
        }
        let _place = self.0.handling.uploads.try_acquire().map_err(|_| {
            AppError::new(ErrorKind::TooManyRequests, "too many files are being uploaded").hint("try again in a moment")
        })?;
        let upload = self.0.blobs.upload(&file_key(id), artifact.size).await?;
        let machine = self.receive(&artifact, upload, body).await?;
        self.arrived(id, machine).await?;
        let artifact = self.read_artifact(id).await?;
        match &artifact.state {
            ArtifactState::Refused { reason, .. } => Err(refused(id, reason)),
            ArtifactState::Ready { .. } | ArtifactState::Pending { .. } => Ok(self.artifact_view(&artifact)),
        }
    }

    /// Nothing is left of the file unless it is good.
    async fn receive(
        &self,
        artifact: &Artifact,
        mut upload: Upload,
        body: impl Stream<Item = Sent> + Send,
    ) -> Result<Option<Machine>> {
        let mut inspection = Inspection::new();
        let mut body = std::pin::pin!(body);
        let begun = Instant::now();
        loop {
            let piece = match tokio::time::timeout_at(next_piece_by(begun, Instant::now()), body.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(None) => break,
                Ok(Some(Err(()))) | Err(_) => {
                    let detail = format!("the upload was interrupted after {} bytes", inspection.seen());
                    return Err(AppError::invalid(detail).hint("send the whole file again to the same address"));
                }
            };
            inspection.feed(&piece);
            if inspection.seen() > artifact.size {
                return Err(size_mismatch(artifact, inspection.seen()));
            }
            upload.write(piece).await?;
        }
        if inspection.seen() != artifact.size {
            return Err(size_mismatch(artifact, inspection.seen()));
        }
        let (digest, found) = inspection.finish(artifact.kind);
        if digest != artifact.sha256 {
            let detail = "the SHA-256 of the file is not the one that was declared";
            return Err(AppError::new(ErrorKind::DigestMismatch, detail)
                .hint("send the file that was declared to the same address, or declare this one"));
        }
        match found {
            Ok(machine) => {
                upload.finish().await?;
                Ok(machine)
            }
            // The digest says that it will never be another file.
            Err(reason) => {
                upload.abort().await;
                self.refuse(artifact.id, reason.clone()).await?;
                Err(refused(artifact.id, &reason))
            }
        }
    }
}

/// When the next piece of an upload must be here.
fn next_piece_by(begun: Instant, now: Instant) -> Instant {
    (now + PIECE_WITHIN).min(begun + UPLOAD_WITHIN)
}

fn size_mismatch(artifact: &Artifact, sent: u64) -> AppError {
    let more = if sent > artifact.size { "more than " } else { "" };
    let count = if sent > artifact.size { artifact.size } else { sent };
    let detail = format!("{} bytes were declared, and {more}{count} were sent", artifact.size);
    AppError::new(ErrorKind::SizeMismatch, detail)
        .hint("send the file that was declared to the same address, or declare this one")
}

pub(super) fn bad_url(bad: BadUrl) -> AppError {
    match bad {
        BadUrl::Signature => {
            AppError::new(ErrorKind::BadSignature, "the signature does not fit this method, address and size")
                .hint("use the address as it was given, unchanged")
        }
        BadUrl::Expired => AppError::new(ErrorKind::UrlExpired, "the time of this address is over")
            .hint("declare the file again with POST /v1/artifacts for a new one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_may_neither_be_silent_nor_drip_for_ever() {
        let begun = Instant::now();
        let after = |secs: u64| begun + Duration::from_secs(secs);
        assert_eq!(next_piece_by(begun, begun), after(60));
        assert_eq!(next_piece_by(begun, after(3_000)), after(3_060));
        assert_eq!(next_piece_by(begun, after(3_590)), after(3_600));
        assert_eq!(next_piece_by(begun, after(3_700)), after(3_600));
    }
}
