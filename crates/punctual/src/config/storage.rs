//! Where uploaded files are kept.

use std::path::PathBuf;

use punctual_blobs::S3Settings;

use super::Config;
use crate::exit::usage;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Storage {
    /// `storage` in the data folder.
    InDataDir,
    Folder(PathBuf),
    S3(S3Settings),
}

/// What the setting `storage` names.
#[derive(Debug)]
pub(crate) enum Place {
    Default,
    Folder(PathBuf),
    Bucket { bucket: String, prefix: String },
}

impl Storage {
    pub(super) fn read(config: &Config) -> anyhow::Result<Self> {
        let (bucket, prefix) = match config.storage()? {
            Place::Default => return Ok(Self::InDataDir),
            Place::Folder(path) => return Ok(Self::Folder(path)),
            Place::Bucket { bucket, prefix } => (bucket, prefix),
        };
        let (key_id, secret) = (config.storage_key_id()?, config.storage_secret()?);
        if key_id.is_empty() || secret.is_empty() {
            return Err(usage(
                "storage is in S3, and there are no credentials for it",
                "set PUNCTUAL_STORAGE_KEY_ID and PUNCTUAL_STORAGE_SECRET, or AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY",
            ));
        }
        Ok(Self::S3(S3Settings {
            bucket,
            prefix,
            region: config.storage_region()?,
            endpoint: config.storage_endpoint()?,
            key_id,
            secret,
            session_token: config.storage_token()?,
        }))
    }
}

pub(super) fn place(text: &str) -> Result<Place, String> {
    if text.is_empty() {
        return Ok(Place::Default);
    }
    let Some(rest) = text.strip_prefix("s3://") else {
        if text.contains("://") {
            return Err(format!("`{text}` is neither a folder nor s3://bucket/prefix"));
        }
        return Ok(Place::Folder(PathBuf::from(text)));
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if bucket.len() < 3 || bucket.len() > 63 || !bucket.chars().all(is_letter) {
        return Err(format!("`{bucket}` is not the name of a bucket"));
    }
    let prefix = prefix.trim_matches('/');
    if !prefix.chars().all(|c| is_letter(c) || c == '/') || prefix.contains("//") {
        return Err(format!("`{prefix}` has more than letters, digits, dots, dashes, underscores and single slashes"));
    }
    Ok(Place::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}

/// Without TLS only on this machine: what is sent there opens the storage.
pub(super) fn endpoint(text: &str) -> Result<String, String> {
    let refused = || format!("`{text}` is not an address, such as https://s3.example.com");
    let is_plain = text.starts_with("http://");
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or_else(refused)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() || rest.contains(['/', '?', '#', '@', ' ', ',']) {
        return Err(refused());
    }
    let host = match rest.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => rest.rsplit_once(':').map_or(rest, |(host, _)| host),
    };
    let is_here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_plain && !is_here {
        return Err(format!("{text} is another machine, and credentials would be sent there in the open; use https"));
    }
    Ok(text.strip_suffix('/').unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_folders_or_buckets() {
        let shown = |text: &str| match place(text) {
            Ok(Place::Default) => "default".to_owned(),
            Ok(Place::Folder(path)) => format!("folder {}", path.display()),
            Ok(Place::Bucket { bucket, prefix }) => format!("bucket {bucket} prefix {prefix}"),
            Err(error) => format!("error {error}"),
        };
        for (text, expected) in [
            ("", "default"),
            ("/var/lib/punctual", "folder /var/lib/punctual"),
            ("files", "folder files"),
            ("s3://jobs", "bucket jobs prefix "),
            ("s3://jobs/a/b/", "bucket jobs prefix a/b"),
        ] {
            assert_eq!(shown(text), expected);
        }
        for bad in ["s3://", "s3://ab", "s3:///x", "gs://jobs", "s3://jobs/a b", "s3://jobs/a//b", "s3://jo bs"] {
            assert!(shown(bad).starts_with("error"), "{bad}: {}", shown(bad));
        }
    }

    #[test]
    fn endpoints_without_tls_are_on_this_machine() {
        for good in [
            "https://s3.example.com",
            "https://s3.example.com:9000/",
            "http://127.0.0.1:9000",
            "http://localhost:1",
            "http://[::1]:9000",
        ] {
            assert!(endpoint(good).is_ok(), "{good}: {:?}", endpoint(good));
        }
        for bad in [
            "s3.example.com",
            "http://s3.example.com",
            "http://10.0.0.1:9000",
            "http://user@127.0.0.1",
            "https://",
            "https://a/b",
            "ftp://a",
        ] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
