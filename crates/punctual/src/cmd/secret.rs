//! `punctual secret …` and `punctual root-key …`.

use std::io::{IsTerminal, Read};

use clap::{Args, Subcommand};
use punctual_api::{DataKeyQuery, SecretQuery};
use punctual_client::ClientError;
use punctual_core::secret::SECRET_BYTES_MAX;
use zeroize::Zeroizing;

use super::Context;
use crate::exit::{Exit, usage};
use crate::field_flags::{SECRET_WORDS, in_words};
use crate::input::io_reason;
use crate::output::Format;
use crate::secret_files;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Store a secret, or a new value of one
    #[command(aliases = ["create", "put", "apply"])]
    Set(SetArgs),
    /// List secrets by name, without their values
    #[command(aliases = ["ls"])]
    List,
    /// Seal secrets with new data keys
    ///
    /// Each namespace has a data key of its own. The values stay the same, and running servers and attempts go on. To replace
    /// the key that seals the data keys, use `punctual root-key rotate`.
    RotateKey {
        /// The namespace whose data key is replaced [default: all namespaces]
        #[arg(value_name = "NAMESPACE")]
        name: Option<String>,
    },
    /// Delete secrets that no task refers to
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The secrets' names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Also those that tasks refer to: their attempts fail from then on
        #[arg(long)]
        force: bool,
    },
}

/// The value is read from stdin or a file: everybody on a machine can read the arguments of its processes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual secret set stripe-key < stripe.key\n  \
    pass show db/shop | punctual secret set db-password\n  \
    punctual secret set tls-key --file key.pem --exact\n\n\
    Tasks refer to it as {{ secret.stripe-key }}, in headers, bodies, URLs and environments.")]
pub(crate) struct SetArgs {
    /// The secret's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The file that holds the value [default: stdin]
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,
    /// Keep a line break at the end, which is left out otherwise
    #[arg(long)]
    exact: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RootKeyVerb {
    /// Seal the database's keys with a new root key
    ///
    /// The server that answers makes the key and puts it into its file, before the former one. Running servers go on. Copy
    /// the file to the other servers of the database before they start again.
    Rotate,
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(error, SECRET_WORDS).into()
}

pub(crate) async fn run(verb: SecretVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        SecretVerb::Set(args) => {
            let value = args.value()?;
            let secret = client.put_secret(&args.name, value.to_vec()).await.map_err(named)?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&secret)?,
                Format::Name | Format::Table => out.line(&secret.name)?,
            }
            out.hint(&format!("Revision {}. Tasks refer to it as {{{{ secret.{} }}}}", secret.revision, secret.name));
        }
        SecretVerb::List => {
            let list = client.secrets().await.map_err(named)?;
            out.rows(&list.secrets, &list)?;
            if list.secrets.is_empty() {
                out.hint("No secrets. Store one: punctual secret set NAME < FILE");
            }
        }
        SecretVerb::RotateKey { name } => {
            let rotated = client.rotate_data_key(&DataKeyQuery { namespace: name }).await.map_err(named)?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&rotated)?,
                Format::Name | Format::Table => {
                    for namespace in &rotated.namespaces {
                        out.line(&namespace.current)?;
                    }
                }
            }
            out.hint(&format!("Secrets that were sealed anew: {}. Their values stay the same.", rotated.resealed));
        }
        SecretVerb::Delete { names, force } => {
            let query = SecretQuery { force: force.then(|| true.to_string()) };
            for name in &names {
                client.delete_secret(name, &query).await.map_err(named)?;
                out.hint(&format!("{name} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

pub(crate) async fn run_root_key(verb: RootKeyVerb, context: &Context) -> anyhow::Result<Exit> {
    let RootKeyVerb::Rotate = verb;
    let rotated = context.client()?.rotate_root_key().await.map_err(named)?;
    let out = &context.out;
    match out.format {
        Format::Json | Format::Jsonl => out.json(&rotated)?,
        Format::Name | Format::Table => out.line(&rotated.current)?,
    }
    out.hint(&format!(
        "It takes the place of {} and is in {}. Copy it to the other servers of this database before they start again.",
        rotated.former, rotated.place
    ));
    Ok(Exit::Ok)
}

impl SetArgs {
    fn value(&self) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let mut value = Zeroizing::new(Vec::new());
        // One byte too many, so that the server says what is wrong.
        let most = SECRET_BYTES_MAX as u64 + 3;
        // `@file` as curl and the other flags have it.
        let file = self.file.as_deref().map(|file| file.strip_prefix('@').unwrap_or(file)).filter(|file| *file != "-");
        match file {
            Some(path) => {
                secret_files::warn(path);
                let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut value));
                read.map_err(|error| {
                    usage(format!("cannot read {path}: {}", io_reason(&error)), "name a file that exists")
                })?;
            }
            None => {
                let stdin = std::io::stdin();
                if stdin.is_terminal() {
                    return Err(usage(
                        "the value is read from stdin, and would be shown here",
                        "write `punctual secret set NAME < FILE`, or use --file",
                    ));
                }
                let read = stdin.lock().take(most).read_to_end(&mut value);
                read.map_err(|error| usage(format!("cannot read stdin: {}", io_reason(&error)), "use --file"))?;
            }
        }
        if !self.exact {
            let kept =
                value.strip_suffix(b"\n").map_or(value.len(), |line| line.strip_suffix(b"\r").unwrap_or(line).len());
            value.truncate(kept);
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_line_break_at_the_end_of_a_file_is_no_part_of_the_value() {
        let value = |text: &str, exact| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let file = Some(file.path().to_str().unwrap().to_owned());
            // The file lives until the value was read.
            let args = SetArgs { name: "a".to_owned(), file, exact };
            String::from_utf8(
                std::fs::read(args.file.as_deref().unwrap()).map(|_| args.value().unwrap().to_vec()).unwrap(),
            )
        };
        for (text, exact, expected) in [
            ("s3cret", false, "s3cret"),
            ("s3cret\n", false, "s3cret"),
            ("s3cret\r\n", false, "s3cret"),
            ("s3cret\n\n", false, "s3cret\n"),
            ("s3cret\n", true, "s3cret\n"),
        ] {
            assert_eq!(value(text, exact).unwrap(), expected, "{text:?}");
        }
    }
}
