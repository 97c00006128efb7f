//! `punctual user …`.

use clap::{Args, Subcommand};
use punctual_api::{PasswordRequest, UserEdit, UserRequest};
use punctual_client::ClientError;

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{OF_USERS, USER_WORDS, in_flags, in_words};
use crate::output::Format;
use crate::password::Asking;
use crate::view;

#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// Add a person who may log in; asks for a password
    #[command(aliases = ["add", "new"])]
    Create(CreateArgs),
    /// List people by name
    #[command(aliases = ["ls"])]
    List,
    /// Show a person
    #[command(aliases = ["show"])]
    Get {
        /// The user's name
        #[arg(value_name = "USER")]
        name: String,
    },
    /// Change a person's role or mail address, or disable them
    Edit(EditArgs),
    /// Remove people: their sessions end, and their keys are revoked
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The users' names
        #[arg(required = true, value_name = "USER")]
        names: Vec<String>,
    },
    /// Set a password, one's own or another person's; ends the sessions of the person
    #[command(aliases = ["passwd"])]
    Password {
        /// The user's name
        #[arg(value_name = "USER")]
        name: String,
        /// Read the password from stdin; one's own takes two lines, the present one first
        #[arg(long)]
        password_stdin: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The user's name
    #[arg(value_name = "USER")]
    name: String,
    /// A role: viewer, operator, developer or admin
    #[arg(long, value_name = "ROLE")]
    role: String,
    /// A mail address
    #[arg(long, value_name = "ADDRESS")]
    mail: Option<String>,
    /// Read the password from stdin
    #[arg(long)]
    password_stdin: bool,
    /// Set no password, so that nobody can log in as this person
    #[arg(long, conflicts_with = "password_stdin")]
    no_password: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The user's name
    #[arg(value_name = "USER")]
    name: String,
    /// A role: viewer, operator, developer or admin
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// A mail address; empty for none
    #[arg(long, value_name = "ADDRESS")]
    mail: Option<String>,
    /// Refuse the person: their sessions end, and their keys do not work meanwhile
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Let the person in again
    #[arg(long)]
    enable: bool,
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_USERS), USER_WORDS).into()
}

pub(crate) async fn run(verb: UserVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        UserVerb::Create(CreateArgs { name, role, mail, password_stdin, no_password }) => {
            let password = if no_password {
                None
            } else {
                Some(Asking::new(password_stdin).ask_new(&format!("New password for {name}: "))?)
            };
            let user = client.create_user(&UserRequest { name, mail, role, password }).await.map_err(named)?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&user)?,
                Format::Table | Format::Name => out.line(&user.name)?,
            }
            out.hint(&format!("They log in with: punctual login --server {} --user {}", client.url(), user.name));
        }
        UserVerb::List => {
            let list = client.users().await.map_err(named)?;
            out.rows(&list.users, &list)?;
            if list.users.is_empty() {
                out.hint("No users. Add one: punctual user create ana --role admin");
            }
        }
        UserVerb::Get { name } => view::user(&client.user(&name).await.map_err(named)?, out)?,
        UserVerb::Edit(EditArgs { name, role, mail, disable, enable }) => {
            let disabled = (disable || enable).then_some(disable);
            let user = client.edit_user(&name, &UserEdit { mail, role, disabled }).await.map_err(named)?;
            view::user(&user, out)?;
        }
        UserVerb::Delete { names } => {
            for name in &names {
                client.delete_user(name).await.map_err(named)?;
                out.hint(&format!("{name} is removed."));
            }
        }
        UserVerb::Password { name, password_stdin } => {
            let asking = Asking::new(password_stdin);
            let is_own = client.whoami().await.map_err(named)?.name == format!("user:{name}");
            let current = is_own.then(|| asking.ask("Present password: ")).transpose()?;
            let password = asking.ask_new(&format!("New password for {name}: "))?;
            client.set_password(&name, &PasswordRequest { password, current }).await.map_err(named)?;
            out.hint(&format!("The password of {name} is set. Their sessions have ended."));
        }
    }
    Ok(Exit::Ok)
}
