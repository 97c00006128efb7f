use std::io::Result;
use std::process::Command;

use crate::find::Binaries;
use crate::process;

/// The address of a running server and one of its databases, for a user who may create others.
#[derive(Debug, Clone)]
pub struct Address {
    url: String,
}

impl Address {
    /// `url` names a database, such as `postgresql://user:password@host:port/postgres`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into() }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn url_for(&self, database: &str) -> String {
        let (address, options) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let server = address.rsplit_once('/').map_or(address, |(server, _)| server);
        let question = if options.is_empty() { "" } else { "?" };
        format!("{server}/{database}{question}{options}")
    }

    /// Answers the URL of the new database.
    pub fn create_database(&self, name: &str) -> Result<String> {
        self.execute(&format!("CREATE DATABASE \"{name}\""))?;
        Ok(self.url_for(name))
    }

    /// Drops a database, even if it is in use; does nothing if it does not exist.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        self.execute(&format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)")).map(drop)
    }

    /// Runs one statement in the database that the URL names. The answer is what `psql` prints:
    /// a line for each row, columns apart by `|`.
    pub fn execute(&self, sql: &str) -> Result<String> {
        self.execute_at(&self.url, sql)
    }

    pub fn execute_in(&self, database: &str, sql: &str) -> Result<String> {
        self.execute_at(&self.url_for(database), sql)
    }

    fn execute_at(&self, url: &str, sql: &str) -> Result<String> {
        let psql = Binaries::find()?.program("psql");
        let mut command = Command::new(psql);
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        command.args(["--dbname", url, "--command", sql]);
        process::run(&mut command).map(|text| text.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_in_a_url_is_replaced_and_its_options_stay() {
        let address = Address::new("postgresql://me:secret@127.0.0.1:5433/postgres?sslmode=disable");
        assert_eq!(address.url_for("jobs"), "postgresql://me:secret@127.0.0.1:5433/jobs?sslmode=disable");
        assert_eq!(Address::new("postgresql://h:1/a").url_for("b"), "postgresql://h:1/b");
    }
}
