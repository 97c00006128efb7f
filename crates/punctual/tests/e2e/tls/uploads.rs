//! Files that the command line uploads over TLS.

use std::process::{Command, Output};

use super::{authority_file, path, punctual, said};
use crate::artifacts::program;
use crate::harness::{Home, PUNCTUAL};

#[test]
fn an_upload_trusts_the_authority_of_the_cluster_however_it_is_named() {
    let home = Home::new();
    let server = home.server_at("127.0.0.1:0", &["--tls", "cluster"]);
    let ca_file = authority_file(&home);
    let uploaded = |output: Output| {
        let said = said(&output);
        assert!(output.status.success() && said.contains("for x86_64"), "{said}");
    };
    for (file, salt) in [("flag", 1), ("variable", 2), ("found", 3)] {
        std::fs::write(home.file(file), program(10_000, salt)).expect("it is written");
    }
    let url = server.url.as_str();
    uploaded(punctual(&home, &["--server", url, "--ca-file", path(&ca_file), "artifact", "create", "flag"]));
    let mut variable = Command::new(PUNCTUAL);
    variable.args(["--server", url, "artifact", "create", "variable"]);
    uploaded(variable.env("PUNCTUAL_CA_FILE", &ca_file).current_dir(home.path()).output().expect("the command runs"));
    // In the data folder of a server of the same user.
    uploaded(punctual(&home, &["--server", url, "artifact", "create", "found"]));
}
