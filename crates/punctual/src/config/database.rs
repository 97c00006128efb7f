//! The database of a server, and how to speak of it without its password.

use std::fmt;
use std::path::Path;

/// Stands for what is not shown.
const HIDDEN: &str = "***";

/// Where jobs are kept. Shown without its password, whoever asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    /// A file in the data folder.
    Embedded,
    Postgres(Connection),
}

/// How to reach a PostgreSQL: a URL, or key=value pairs as libpq reads them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Connection(String);

impl Connection {
    /// With the password; for the driver alone. Like libpq, takes it from PGPASSWORD if there is
    /// none.
    pub(crate) fn reveal(&self) -> String {
        self.with_password(std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty()))
    }

    fn with_password(&self, password: Option<String>) -> String {
        let text = &self.0;
        let Some(password) = password.filter(|_| masked(text) == *text) else {
            return text.clone();
        };
        if is_url(text) {
            let escaped: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let sign = if text.contains('?') { '&' } else { '?' };
            return format!("{text}{sign}password={escaped}");
        }
        let escaped = password.replace('\\', r"\\").replace('\'', r"\'");
        format!("{text} password='{escaped}'")
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Postgres(connection) => fmt::Display::fmt(connection, f),
        }
    }
}

impl Database {
    /// Never repeats the text in a refusal: it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Embedded);
        }
        if !is_url(text) && (text.contains("://") || !text.contains('=')) {
            return Err(
                "is neither a URL (postgres://user@localhost/punctual) nor pairs (host=localhost dbname=punctual)"
                    .to_owned(),
            );
        }
        Ok(Self::Postgres(Connection(text.to_owned())))
    }

    pub(crate) fn has_password(&self) -> bool {
        match self {
            Self::Embedded => false,
            Self::Postgres(Connection(text)) => masked(text) != *text,
        }
    }

    /// Where it is, for people.
    pub(crate) fn place(&self, data_dir: &Path) -> String {
        match self {
            Self::Embedded => data_dir.display().to_string(),
            Self::Postgres(connection) => connection.to_string(),
        }
    }

    /// One process drains 4 shards of SQLite fastest; servers of a cluster share 64.
    pub(crate) const fn usual_shards(&self) -> u16 {
        match self {
            Self::Embedded => 4,
            Self::Postgres(_) => 64,
        }
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

fn is_secret(key: &str) -> bool {
    matches!(key, "password" | "sslpassword" | "passfile")
}

/// A connection string without its passwords. A text that cannot be read is hidden as a whole.
pub(crate) fn masked(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let masked = if text.contains("://") { masked_url(text) } else { masked_pairs(text) };
    masked.unwrap_or_else(|| HIDDEN.to_owned())
}

fn masked_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    // A password may hold any sign but those that end the authority; the last @ ends it.
    let place = match place.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
            None => format!("{user}@{host}"),
        },
        None => place.to_owned(),
    };
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, _)) if is_secret(key) => format!("{key}={HIDDEN}"),
        _ => pair.to_owned(),
    };
    let query = query.map(|query| format!("?{}", query.split('&').map(pair).collect::<Vec<_>>().join("&")));
    Some(format!("{scheme}://{place}{}", query.unwrap_or_default()))
}

/// `key = value` pairs, where a value may stand in quotes and backslashes escape.
fn masked_pairs(text: &str) -> Option<String> {
    let mut masked = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return None;
        }
        let after = after.trim_start();
        let value_len = value_len(after)?;
        let (value, left) = after.split_at(value_len);
        let shown = if is_secret(key) { HIDDEN } else { value };
        masked += &format!("{}{key}={shown}", if masked.is_empty() { "" } else { " " });
        rest = left.trim_start();
    }
    Some(masked)
}

/// How many bytes of `text` are its first value.
fn value_len(text: &str) -> Option<usize> {
    let is_quoted = text.starts_with('\'');
    let mut is_escaped = false;
    for (place, letter) in text.char_indices().skip(usize::from(is_quoted)) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\'' if is_quoted => return Some(place + 1),
            letter if !is_quoted && letter.is_whitespace() => return Some(place),
            _ => {}
        }
    }
    (!is_quoted).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("", ""),
            ("postgres://me:s3cret@h:5432/p", "postgres://me:***@h:5432/p"),
            ("postgres://me@h/p", "postgres://me@h/p"),
            ("postgresql:///p?host=/run", "postgresql:///p?host=/run"),
            ("postgres://h/p?password=s3cret&user=me", "postgres://h/p?password=***&user=me"),
            ("host=h password=s3cret user=me", "host=h password=*** user=me"),
            (r"host=h password='s3\'c ret' user=me", "host=h password=*** user=me"),
            ("password = s3cret", "password=***"),
            // What nobody can read may be anything.
            ("host=h password='s3cret", "***"),
            ("s3cret", "***"),
            ("postgres://me:s3c/r@et@h1:5432,h2:5433/p", "postgres://me:***@h1:5432,h2:5433/p"),
        ] {
            assert_eq!(masked(text), shown, "{text}");
            let debugged = format!("{:?}", Database::parse(text));
            assert!(!debugged.contains("s3c"), "{debugged}");
        }
    }

    #[test]
    fn a_password_of_the_environment_is_used_if_there_is_no_other() {
        for (text, whole) in [
            ("postgres://me@h/p", "postgres://me@h/p?password=%61%27%20%62"),
            ("postgres://me@h/p?a=b", "postgres://me@h/p?a=b&password=%61%27%20%62"),
            ("host=h", r"host=h password='a\' b'"),
            ("postgres://me:own@h/p", "postgres://me:own@h/p"),
        ] {
            assert_eq!(Connection(text.to_owned()).with_password(Some("a' b".to_owned())), whole);
            assert_eq!(Connection(text.to_owned()).with_password(None), text);
        }
    }

    #[test]
    fn a_text_that_is_no_connection_is_refused_without_repeating_it() {
        for bad in ["s3cret", "mysql://me:s3cret@h/p?a=b"] {
            let refused = Database::parse(bad).unwrap_err();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        assert_eq!(Database::parse(" "), Ok(Database::Embedded));
        assert!(Database::parse("postgres://me:s3cret@h/p").unwrap().has_password());
        assert!(!Database::parse("host=/run dbname=p").unwrap().has_password());
    }
}
