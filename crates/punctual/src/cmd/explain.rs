//! `punctual explain`: a job, a state, an error code or an exit code in words.

use clap::Args;
use punctual_api::ErrorKind;
use punctual_core::{JobId, JobState};

use super::Context;
use crate::exit::{Exit, usage};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A job's id, a state, an error code or an exit code
    #[arg(value_name = "ID|WORD")]
    what: String,
}

pub(crate) async fn run(args: ExplainArgs, context: &Context) -> anyhow::Result<Exit> {
    let text = if let Ok(id) = args.what.parse::<JobId>() {
        let job = context.client()?.job(id).await?;
        format!("{}: {}", context.out.state_text(&job.state), job.explanation)
    } else {
        word(&args.what).ok_or_else(|| {
            usage(
                format!("nothing is called `{}`", args.what),
                "name a job's id, a state, an error code or an exit code",
            )
        })?
    };
    context.out.line(&text)?;
    Ok(Exit::Ok)
}

fn word(word: &str) -> Option<String> {
    if let Some(state) = JobState::parse(word) {
        return Some(of_state(state).to_owned());
    }
    if let Some(kind) = ErrorKind::from_code(word) {
        return Some(format!("{} (HTTP status {}, exit code {})", kind.title(), kind.http_status(), kind.exit_code()));
    }
    let code: u8 = word.parse().ok()?;
    let exit = Exit::ALL.iter().find(|exit| exit.code() == code)?;
    Some(exit.meaning().to_owned())
}

fn of_state(state: JobState) -> &'static str {
    match state {
        JobState::Scheduled => "It waits for its time, for a worker, or for its next try.",
        JobState::Running => "A worker executes it.",
        JobState::Succeeded => "It did what it should.",
        JobState::Failed => "It failed for good: no retry is left, or none is allowed.",
        JobState::Cancelled => "It was ended on request.",
        JobState::Lost => {
            "Nobody can know whether it ran, and its delivery mode forbids another start. Its late result \
             still settles it; `punctual job retry` runs it again."
        }
        JobState::Quarantined => {
            "Its workers died too often while they ran it. Only `punctual job retry` starts it again."
        }
        JobState::Deleted => "It was removed before it started, and never will.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_that_we_print_can_be_explained() {
        for state in JobState::ALL {
            assert!(word(state.as_str()).is_some());
        }
        for kind in ErrorKind::ALL {
            assert!(word(kind.code()).is_some());
        }
        for exit in Exit::ALL {
            assert!(word(&exit.code().to_string()).is_some());
        }
        assert_eq!(word("nonsense"), None);
    }
}
