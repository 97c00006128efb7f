//! Artifacts: files that are declared, uploaded, checked, and then run or read by tasks.
//!
//! The row comes first, then the file. A file is believed to be there only after its size, its
//! digest and its kind were checked by this server; until then tasks that refer to it wait.

mod arrival;
mod delete;
mod download;
mod upload;

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use punctual_api::{
    ArtifactKind, ArtifactList, ArtifactQuery, ArtifactRequest, ArtifactView, ErrorKind, UploadTarget, limits,
};
use punctual_blobs::{BlobError, Key, SignedUrl};
use punctual_core::namespace::NamespaceId;
use punctual_core::run::Run;
use punctual_core::size::ByteSize;
use punctual_core::{ArtifactId, Span, Timestamp, hex};
use punctual_store::{Artifact, ArtifactKind as StoredKind, ArtifactState, CreatedArtifact, NewArtifact, Unfit};
use tokio::sync::Semaphore;

pub use download::Download;
pub use upload::Sent;

use crate::principal::permission::{EditArtifacts, ViewArtifacts};
use crate::principal::{By, Permission};
use crate::tasks::Defined;
use crate::{App, AppError, Checked, Faults, Result, cut, parameters, validate};

/// How long an upload may take from its declaration on.
pub const UPLOAD_WITHIN: Span = Span::from_secs(3600);

/// Uploads that this server takes at a time. Each costs a file and a buffer.
const UPLOADS_MAX: usize = 64;

/// What this server does with files at the moment.
pub(crate) struct Handling {
    uploads: Semaphore,
    /// Artifacts whose file is being checked here.
    checked: Mutex<HashSet<ArtifactId>>,
}

impl Default for Handling {
    fn default() -> Self {
        Self { uploads: Semaphore::new(UPLOADS_MAX), checked: Mutex::default() }
    }
}

/// Where the file of a ready artifact is.
pub(crate) fn file_key(id: ArtifactId) -> Key {
    key("artifacts", &id.to_string())
}

/// Where a file is sent that does not pass through this server. Whoever has the URL can replace
/// it until that expires, so it is never read as the artifact's own.
fn upload_key(id: ArtifactId) -> Key {
    key("uploads", &id.to_string())
}

fn key(folder: &str, name: &str) -> Key {
    Key::new(format!("{folder}/{name}")).expect("ids and hexadecimal digits are words of a key")
}

impl App {
    /// Declares a file. `reached` is the address at which the client reached this server, such as
    /// `http://127.0.0.1:8020`.
    pub async fn create_artifact(
        &self,
        by: &By<EditArtifacts>,
        request: ArtifactRequest,
        reached: &str,
    ) -> Result<(ArtifactView, Defined)> {
        let new = self.check_artifact(by.namespace(), request)?;
        let new = NewArtifact { bytes_max: self.artifact_bytes_max(by.namespace()).await?, ..new };
        let size = new.size;
        let (artifact, defined) = match self.0.store.create_artifact(new).await? {
            CreatedArtifact::New(artifact) => (artifact, Defined::Created),
            CreatedArtifact::Known(artifact) => (artifact, Defined::Updated),
            CreatedArtifact::Full { bytes } => {
                return Err(self.no_room_for_artifact(by.namespace(), bytes, size).await?);
            }
        };
        by.changes(artifact.id.to_string());
        let is_lost = defined == Defined::Updated && self.is_lost(&artifact).await;
        let upload = match artifact.state {
            ArtifactState::Pending { until } => Some(self.upload_target(&artifact, until, reached).await?),
            ArtifactState::Ready { .. } if is_lost => {
                Some(self.upload_target(&artifact, self.now() + UPLOAD_WITHIN, reached).await?)
            }
            ArtifactState::Ready { .. } | ArtifactState::Refused { .. } => None,
        };
        let view = if is_lost { lost_view(&artifact) } else { self.artifact_view(&artifact) };
        Ok((ArtifactView { upload, ..view }, defined))
    }

    /// Whether the file of a ready artifact has gone from the storage. If that cannot be known, it is believed to be there.
    async fn is_lost(&self, artifact: &Artifact) -> bool {
        matches!(artifact.state, ArtifactState::Ready { .. })
            && matches!(self.0.blobs.head(&file_key(artifact.id)).await, Ok(None))
    }

    fn check_artifact(&self, namespace: NamespaceId, request: ArtifactRequest) -> Result<NewArtifact> {
        let digest = check(&request)?;
        let ArtifactRequest { name, size, sha256: _, kind } = request;
        let kind = match kind {
            ArtifactKind::Binary => StoredKind::Binary,
            ArtifactKind::File => StoredKind::File,
        };
        let largest = self.0.settings.artifact_max;
        if size > largest.get() {
            let detail = format!("the file of {size} bytes is larger than the {largest} that are allowed");
            let error = AppError::new(ErrorKind::PayloadTooLarge, detail);
            return Err(error.hint("the server's setting `artifact_max` is the limit"));
        }
        let now = self.now();
        let id = ArtifactId::new(now, self.random());
        let until = now + UPLOAD_WITHIN;
        Ok(NewArtifact { id, namespace, name, size, sha256: digest, kind, created_at: now, until, bytes_max: None })
    }

    /// Where to send the file of a pending artifact, or of one whose file was lost.
    async fn upload_target(&self, artifact: &Artifact, until: Timestamp, reached: &str) -> Result<UploadTarget> {
        let key = match self.0.blobs.served_by() {
            punctual_blobs::ServedBy::Server => file_key(artifact.id),
            punctual_blobs::ServedBy::Storage => upload_key(artifact.id),
        };
        let signed = self.0.blobs.presign_put(&key, artifact.size, self.now(), until).await?;
        Ok(UploadTarget {
            method: "PUT".to_owned(),
            url: url_of(signed, artifact.id, reached),
            headers: BTreeMap::new(),
            expires_at: until,
        })
    }

    /// What is known of an artifact. Looks whether its file has arrived, if it is pending or was lost.
    pub async fn artifact(&self, by: &By<ViewArtifacts>, id: ArtifactId) -> Result<ArtifactView> {
        let artifact = self.own_artifact(by, id).await?;
        if self.is_lost(&artifact).await {
            self.check_arrival(artifact.clone()).await?;
            let is_still_lost = self.is_lost(&artifact).await;
            let view = if is_still_lost { lost_view(&artifact) } else { self.artifact_view(&artifact) };
            return Ok(cut::artifact(by, view));
        }
        if !matches!(artifact.state, ArtifactState::Pending { .. }) {
            return Ok(cut::artifact(by, self.artifact_view(&artifact)));
        }
        self.check_arrival(artifact).await?;
        Ok(cut::artifact(by, self.artifact_view(&self.read_artifact(id).await?)))
    }

    /// One of another namespace is not there.
    pub(crate) async fn own_artifact<R: Permission>(&self, by: &By<R>, id: ArtifactId) -> Result<Artifact> {
        let artifact = self.0.store.artifact(id).await?.filter(|artifact| artifact.namespace == by.namespace());
        artifact.ok_or_else(|| not_found(id))
    }

    /// For whoever proved that it is theirs, as with a signed address.
    pub(crate) async fn read_artifact(&self, id: ArtifactId) -> Result<Artifact> {
        self.0.store.artifact(id).await?.ok_or_else(|| not_found(id))
    }

    /// The newest first.
    pub async fn list_artifacts(&self, by: &By<ViewArtifacts>, query: &ArtifactQuery) -> Result<ArtifactList> {
        let (limit, after) = read_page(query)?;
        let artifacts = self.0.store.list_artifacts(by.namespace(), after, limit).await?;
        let next = artifacts.last().filter(|_| artifacts.len() == limit);
        let next_cursor = next.map(|artifact| artifact.id.to_string());
        Ok(ArtifactList {
            artifacts: artifacts.iter().map(|artifact| cut::artifact(by, self.artifact_view(artifact))).collect(),
            next_cursor,
        })
    }

    pub(crate) fn artifact_view(&self, artifact: &Artifact) -> ArtifactView {
        let is_ready = matches!(artifact.state, ArtifactState::Ready { .. });
        ArtifactView { path: is_ready.then(|| self.artifact_path(artifact.id)), ..view(artifact) }
    }

    /// Removes the files of an artifact that is gone. What cannot be removed now goes with the next sweep of the storage.
    pub async fn remove_files(&self, id: ArtifactId) {
        for key in [file_key(id), upload_key(id)] {
            if let Err(error) = self.0.blobs.delete(&key).await {
                tracing::warn!(%key, %error, "a file that nobody needs was not removed; trying again later");
            }
        }
    }
}

/// Everything that can be checked without the server's settings. The digest that was declared.
fn check(request: &ArtifactRequest) -> Result<[u8; 32]> {
    let mut faults = Faults::default();
    if let Some(name) = &request.name {
        faults.check(match name.trim() {
            "" => Err(AppError::field("/name", "must not be empty").hint("leave it out")),
            _ => validate::file_name("/name", name, limits::LABEL_CHARS_MAX),
        });
    }
    if request.size == 0 {
        faults.check(Err(AppError::out_of_range("/size", "must be more than 0: an empty file holds nothing")));
    }
    let digest = faults.value(hex::decode(&request.sha256).ok_or_else(|| {
        AppError::field("/sha256", "must be 64 hexadecimal digits").hint("`sha256sum FILE` prints them")
    }));
    faults.finish()?;
    Ok(digest.expect("it was read, or refused"))
}

impl Checked for ArtifactRequest {
    fn check(&self) -> Result<()> {
        check(self).map(drop)
    }
}

fn read_page(query: &ArtifactQuery) -> Result<(usize, Option<ArtifactId>)> {
    let read_cursor = |text: &str| text.parse().map_err(|_| parameters::bad_cursor());
    parameters::page(query.limit.as_deref(), query.cursor.as_deref(), read_cursor)
}

impl Checked for ArtifactQuery {
    fn check(&self) -> Result<()> {
        read_page(self).map(drop)
    }
}

fn url_of(signed: SignedUrl, id: ArtifactId, reached: &str) -> String {
    match signed {
        SignedUrl::Of(url) => url,
        SignedUrl::Here(query) => format!("{reached}/v1/artifacts/{id}/content?{}", query.to_text()),
    }
}

pub(crate) fn not_found(id: ArtifactId) -> AppError {
    AppError::new(ErrorKind::ArtifactNotFound, format!("there is no {id}"))
        .hint("POST /v1/artifacts declares one; those that no task needs are removed after a while")
}

/// A task that cannot be stored because of its artifact.
pub(crate) fn unfit(id: ArtifactId, unfit: Unfit) -> AppError {
    match unfit {
        Unfit::Unknown => AppError::new(ErrorKind::UnknownArtifact, format!("there is no {id} for the task"))
            .hint("`punctual artifact create FILE` uploads one; `punctual artifact list` shows those that are there"),
        Unfit::Refused { reason } => refused(id, &reason),
        Unfit::NotArrived => AppError::new(ErrorKind::UnknownArtifact, format!("the file of {id} has not arrived"))
            .hint("upload it first: a file that a task reads must be there when the task is defined"),
        Unfit::NotAProgram => AppError::new(ErrorKind::ArtifactRefused, format!("{id} is a file and not a program"))
            .hint("declare it with the kind `binary` to run it, or list it in `files` to read it"),
    }
}

/// Where a definition names an artifact.
pub(crate) fn pointer(run: &Run, artifact: ArtifactId) -> String {
    let place = run.files().iter().position(|file| file.artifact == artifact);
    match place.filter(|_| run.artifact() != Some(artifact)) {
        Some(place) => format!("/run/{}/files/{place}/artifact", run.kind()),
        None => format!("/run/{}/artifact", run.kind()),
    }
}

fn refused(id: ArtifactId, reason: &str) -> AppError {
    AppError::new(ErrorKind::ArtifactRefused, format!("the file of {id} was refused: {reason}"))
        .hint("declare and upload another file")
}

/// One whose file has gone from the storage waits for it like one whose file has not arrived.
fn lost_view(artifact: &Artifact) -> ArtifactView {
    let state = ArtifactState::Pending { until: artifact.created_at };
    view(&Artifact { state, ..artifact.clone() })
}

fn view(artifact: &Artifact) -> ArtifactView {
    let (state, settled_at, machine, reason) = match &artifact.state {
        ArtifactState::Pending { .. } => ("pending", None, None, None),
        ArtifactState::Ready { at, machine } => ("ready", Some(*at), machine.clone(), None),
        ArtifactState::Refused { at, reason } => ("refused", Some(*at), None, Some(reason.clone())),
    };
    ArtifactView {
        id: artifact.id,
        name: artifact.name.clone(),
        kind: match artifact.kind {
            StoredKind::Binary => ArtifactKind::Binary,
            StoredKind::File => ArtifactKind::File,
        },
        size: artifact.size,
        sha256: hex::encode(artifact.sha256),
        state: state.to_owned(),
        created_at: artifact.created_at,
        settled_at,
        machine,
        reason,
        path: None,
        upload: None,
    }
}

impl From<BlobError> for AppError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::NotFound => Self::new(ErrorKind::ArtifactNotFound, "the file is not in the storage")
                .hint("upload it again; if it was there, look at the storage"),
            BlobError::Unavailable(_) => Self::new(ErrorKind::Unavailable, "the storage is not available")
                .because(error)
                .hint("try again in a few seconds; if it lasts, look at the server's log and at the storage"),
            // Retryable too: an operator corrects it, and nothing is lost meanwhile.
            BlobError::Denied(_) => Self::new(ErrorKind::Unavailable, "the storage refuses this server")
                .because(error)
                .hint("the server's log says why; its settings `storage…` name the place and the credentials"),
            BlobError::TooLarge { limit } => {
                Self::new(ErrorKind::PayloadTooLarge, format!("the file is larger than {}", ByteSize::bytes(limit)))
                    .hint("declare its true size")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_strictly() {
        assert_eq!(hex::decode::<32>(&"0aFF".repeat(16)), Some([0x0a, 0xff].repeat(16).try_into().unwrap()));
        for bad in [
            "",
            "00",
            &"0".repeat(63),
            &"0".repeat(65),
            &"0".repeat(66),
            &"g".repeat(64),
            &"+1".repeat(32),
            &"é".repeat(32),
        ] {
            assert_eq!(hex::decode::<32>(bad), None, "{bad}");
        }
    }
}
