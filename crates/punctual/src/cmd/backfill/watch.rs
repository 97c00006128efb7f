//! Follows a backfill to its end. On a terminal there is a line that says how far it is; elsewhere nothing is
//! printed before the end.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use punctual_api::{BackfillStanding, BackfillView};
use punctual_client::Client;
use punctual_core::BackfillId;
use tokio::time::Instant;

use super::named;
use crate::exit::{Exit, Refusal, Report};
use crate::output::{Chatter, Output, Size};
use crate::reconnection::RECONNECT_PAUSE;
use crate::view;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A restart is over by then; what takes longer needs a person.
const RECONNECT_FOR: Duration = Duration::from_secs(30);

pub(super) async fn run(id: BackfillId, client: &Client, out: &Output) -> anyhow::Result<Exit> {
    let mut line = Line::new(out);
    // One that is not there is said at once.
    let mut backfill = client.backfill(id).await.map_err(named)?;
    let mut lost_at = None;
    while !is_over(&backfill) {
        line.show(|columns| view::backfill::progress_line(&backfill, columns, out));
        tokio::time::sleep(LOOK_EVERY).await;
        match client.backfill(id).await {
            Ok(now) => (backfill, lost_at) = (now, None),
            Err(error) if error.may_pass() => {
                let lost_at = *lost_at.get_or_insert_with(Instant::now);
                if lost_at.elapsed() >= RECONNECT_FOR {
                    line.clear();
                    let message = Report::new(&error.into()).message;
                    let hint =
                        format!("it goes on without us; when the server is back: `punctual backfill watch {id}`");
                    return Err(Refusal { exit: Exit::Unreachable, message, hint }.into());
                }
                line.show(|_| "lost the server; the backfill goes on; reconnecting…".to_owned());
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            Err(error) => {
                line.clear();
                return Err(named(error));
            }
        }
    }
    line.clear();
    view::backfill::print(&backfill, out)?;
    // How some jobs ended may not be known; they count as nothing.
    let is_good = backfill.state == BackfillStanding::Done && backfill.succeeded == backfill.made;
    Ok(if is_good { Exit::Ok } else { Exit::JobFailed })
}

/// One that was aborted is over when its last job is.
fn is_over(backfill: &BackfillView) -> bool {
    match backfill.state {
        BackfillStanding::Running => false,
        BackfillStanding::Done => true,
        BackfillStanding::Aborted => backfill.running == 0,
    }
}

/// A line on stderr that is written over and over; nothing if that is no terminal.
struct Line {
    is_shown: bool,
    is_drawn: bool,
}

impl Line {
    fn new(out: &Output) -> Self {
        Self { is_shown: out.chatter == Chatter::Hints && std::io::stderr().is_terminal(), is_drawn: false }
    }

    fn show(&mut self, text: impl FnOnce(usize) -> String) {
        if self.is_shown {
            self.draw(&text(Size::of_stderr().columns));
            self.is_drawn = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            self.draw("");
        }
    }

    /// Nobody may be there to read it, and that is fine.
    fn draw(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r{text}\x1b[K").and_then(|()| stderr.flush());
    }
}
