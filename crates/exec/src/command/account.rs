//! The operating system user that commands run as.

use std::path::PathBuf;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub home: PathBuf,
}

impl Account {
    /// The user that this process runs as.
    pub fn own() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::find(&known, user).unwrap_or_else(|| Self::told(user))
    }

    /// Finds a user in a text in the format of `/etc/passwd`.
    fn find(known: &str, user: u32) -> Option<Self> {
        known.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, _password, id) = (fields.next()?, fields.next()?, fields.next()?);
            let (_group, _comment, home) = (fields.next()?, fields.next()?, fields.next()?);
            let is_meant = id.parse() == Ok(user) && !name.is_empty() && home.starts_with('/');
            is_meant.then(|| Self { name: name.to_owned(), home: home.into() })
        })
    }

    /// A user that is not in the file: one of a directory service, or of a container that has only its number.
    fn told(user: u32) -> Self {
        let name = std::env::var("LOGNAME").or_else(|_| std::env::var("USER")).unwrap_or_else(|_| user.to_string());
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Self { name, home: home.unwrap_or_else(|| "/".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_number() {
        let known = "root:x:0:0:root:/root:/bin/bash\nbroken\n:x:7:7::/nameless:\nrelative:x:8:8::home:\n\
                     cron:x:1000:1000:C. Ron,,,:/home/cron:/usr/sbin/nologin\n";
        let found = |user| Account::find(known, user);
        assert_eq!(found(1000), Some(Account { name: "cron".to_owned(), home: "/home/cron".into() }));
        assert_eq!(found(0).unwrap().name, "root");
        for unknown in [7, 8, 10, 100] {
            assert_eq!(found(unknown), None);
        }
    }
}
