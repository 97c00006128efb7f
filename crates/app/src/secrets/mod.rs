//! Secrets: named values that tasks refer to and nobody can read again.
//!
//! A value is sealed for its namespace, name and revision before it reaches the store. It is opened for one attempt at a time,
//! after the start of the attempt is durable. No view, list, event or error of a server holds one.

mod deliver;
mod references;
mod rotate;
mod vault;

use punctual_api::{DoneBy, ErrorKind, FieldCode, SecretList, SecretQuery, SecretView};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By as ChangedBy;
use punctual_core::secret::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRET_NAME_BYTES_MAX, is_secret_name};
use punctual_store::{SECRETS_MAX, SecretChange, SecretRow};
use zeroize::Zeroizing;

use crate::principal::By;
use crate::principal::permission::{EditSecrets, ViewSecrets};
use crate::{App, AppError, Checked, Result, parameters};

pub use deliver::AttemptSecrets;
pub(crate) use references::plain_credentials;
pub(crate) use rotate::not_opened;
pub(crate) use vault::Vault;
pub use vault::VaultParts;

/// Tasks that are named when a secret cannot be deleted because of them.
const TASKS_SHOWN_MAX: usize = 10;

/// Somebody else may change the same secret at the same moment.
const PUT_TRIES: usize = 5;

impl App {
    /// Stores a secret, or a new value of the one with this name. The answer does not hold the value.
    pub async fn put_secret(&self, by: &By<EditSecrets>, name: &str, value: Zeroizing<Vec<u8>>) -> Result<SecretView> {
        let who = by.who();
        check_name(name)?;
        check_value(&value)?;
        let mut revision = self.read_secret(by.namespace(), name).await?.map_or(0, |row| row.revision);
        if revision > 0 {
            by.was(format!("revision {revision}"));
        }
        for _ in 0..PUT_TRIES {
            let changed = ChangedBy { at: self.now(), who: who.to_owned() };
            let key = self.data_key(by.namespace()).await?;
            let row = self.0.vault.seal(&key, by.namespace(), name, revision.saturating_add(1), &value, changed)?;
            match self.0.store.put_secret(row).await? {
                SecretChange::Done => {
                    self.0.vault.forget(by.namespace(), name);
                    let stored = self.read_secret(by.namespace(), name).await?;
                    return stored.map(|row| view(row, None)).ok_or_else(|| not_found(name));
                }
                SecretChange::Conflict { revision: found } => revision = found,
                SecretChange::Full => {
                    let detail = format!("there are {SECRETS_MAX} secrets, the most there may be");
                    let error = AppError::new(ErrorKind::TooManySecrets, detail);
                    return Err(error.hint("delete those that no task refers to: GET /v1/secrets shows them"));
                }
            }
        }
        let error = AppError::new(ErrorKind::Unavailable, format!("{name} is being changed by many at once"));
        Err(error.hint("try again"))
    }

    /// All of them, without their values.
    pub async fn list_secrets(&self, by: &By<ViewSecrets>) -> Result<SecretList> {
        let rows = self.0.store.secrets(by.namespace()).await?;
        let uses = self.0.store.secret_uses(by.namespace()).await?;
        let used_by = |name: &str| {
            let place = uses.binary_search_by(|(used, _)| used.as_str().cmp(name));
            place.map_or(0, |place| uses[place].1)
        };
        let secrets = rows.into_iter().map(|row| {
            let tasks = used_by(&row.name);
            view(row, Some(tasks))
        });
        Ok(SecretList { secrets: secrets.collect() })
    }

    pub async fn delete_secret(&self, by: &By<EditSecrets>, name: &str, query: &SecretQuery) -> Result<()> {
        check_name(name)?;
        if is_forced(query)? {
            tracing::debug!(secret = name, "a secret is deleted although tasks may refer to it");
        } else {
            let (store, now) = (&self.0.store, self.now());
            let users = store.tasks_with_secret(by.namespace(), name, now, TASKS_SHOWN_MAX).await?;
            if !users.is_empty() && self.read_secret(by.namespace(), name).await?.is_some() {
                let detail = format!("tasks refer to {name}: {}", users.join(", "));
                let error = AppError::new(ErrorKind::SecretInUse, detail);
                return Err(error.hint("change or delete those tasks first, or delete it anyway with force=true"));
            }
        }
        let is_gone = self.0.store.delete_secret(by.namespace(), name).await?;
        self.0.vault.forget(by.namespace(), name);
        if is_gone { Ok(()) } else { Err(not_found(name)) }
    }

    /// As it is in the store now.
    async fn read_secret(&self, namespace: NamespaceId, name: &str) -> Result<Option<SecretRow>> {
        let rows = self.0.store.secrets_by_name(namespace, vec![name.to_owned()]).await?;
        Ok(rows.into_iter().next())
    }
}

fn is_forced(query: &SecretQuery) -> Result<bool> {
    Ok(parameters::flag("force", query.force.as_deref())?.unwrap_or(false))
}

impl Checked for SecretQuery {
    fn check(&self) -> Result<()> {
        is_forced(self).map(drop)
    }
}

fn check_name(name: &str) -> Result<()> {
    if is_secret_name(name) {
        return Ok(());
    }
    let detail = format!(
        "must be 1 to {SECRET_NAME_BYTES_MAX} letters, digits, dots, dashes or underscores, and begin with a letter or a digit"
    );
    Err(AppError::field("name", detail))
}

/// Says nothing of what is in it.
fn check_value(value: &[u8]) -> Result<()> {
    const POINTER: &str = "";
    if value.len() > SECRET_BYTES_MAX {
        let error = AppError::too_long(POINTER, format!("the value must be at most {SECRET_BYTES_MAX} bytes"));
        return Err(error.hint("upload large files as artifacts"));
    }
    if value.len() < SECRET_BYTES_MIN {
        let error = AppError::field(POINTER, format!("the value must be at least {SECRET_BYTES_MIN} bytes"));
        return Err(error.hint("a shorter one could not be removed from logs: it is in ordinary words"));
    }
    let is_text = std::str::from_utf8(value).is_ok_and(|text| !text.contains('\0'));
    if !is_text {
        let error = AppError::field(POINTER, "the value must be UTF-8 without NUL").code(FieldCode::ForbiddenCharacter);
        return Err(error.hint("encode binary values, such as with base64, and decode them where they are used"));
    }
    Ok(())
}

fn not_found(name: &str) -> AppError {
    let error = AppError::new(ErrorKind::SecretNotFound, format!("there is no secret named {name}"));
    error.hint("GET /v1/secrets lists them")
}

fn view(row: SecretRow, used_by_tasks: Option<u64>) -> SecretView {
    let done_by = |by: ChangedBy| DoneBy { at: by.at, who: by.who };
    let SecretRow { name, revision, created, changed, namespace: _, sealed: _ } = row;
    SecretView { name, revision, created: done_by(created), changed: done_by(changed), used_by_tasks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_does_not_repeat_the_value() {
        for (value, said) in [
            (b"abc".to_vec(), "at least 4"),
            (vec![b's'; SECRET_BYTES_MAX + 1], "at most 65536"),
            (b"s3cret\0".to_vec(), "UTF-8 without NUL"),
            (b"s3cret\xff".to_vec(), "UTF-8 without NUL"),
        ] {
            let refused = format!("{:?}", check_value(&value).unwrap_err());
            assert!(refused.contains(said) && !refused.contains("s3cret"), "{refused}");
        }
        assert!(check_value(b"four").is_ok() && check_value(&vec![b's'; SECRET_BYTES_MAX]).is_ok());
    }
}
