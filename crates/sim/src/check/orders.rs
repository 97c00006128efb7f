//! What people were told about their orders.

use punctual_core::JobState;
use punctual_core::attempt::Ending;
use punctual_core::shard::event::{Command, Reply};

use super::story::{Line, Story};

pub(super) fn deleted_means_never(story: &Story<'_>) -> Option<String> {
    let is_deleted = |line: &Line<'_>| {
        matches!(line, Line::Answered { command: Command::Delete, reply: Reply::Done(JobState::Deleted) })
    };
    story.lines.iter().find(|(_, line)| is_deleted(line))?;
    let (_, attempt) = story.begins().next()?;
    Some(format!("deleted, it was said, and attempt {attempt} began"))
}

/// Unless somebody asked for a rerun. A lost worker may still begin what it had
/// been given: nobody can tell it.
pub(super) fn cancelled_means_no_more(story: &Story<'_>) -> Option<String> {
    let (told, _) = story.lines.iter().find(|(_, line)| {
        matches!(line, Line::Answered { command: Command::Cancel, reply: Reply::Done(JobState::Cancelled) })
    })?;
    if story.asked(Command::Rerun, story.end) {
        return None;
    }
    let was_out_of_reach = |attempt| {
        let ending = story.record(attempt).map(|record| record.ending);
        matches!(ending, Some(Ending::WorkerLost | Ending::TimedOut))
    };
    let (_, attempt) = story.begins().find(|(at, attempt)| at > told && !was_out_of_reach(*attempt))?;
    Some(format!("cancelled, it was said, and attempt {attempt} began"))
}

/// A job that was asked to end gets no further start.
pub(super) fn a_wish_to_cancel_is_kept(story: &Story<'_>) -> Option<String> {
    let (told, _) = story
        .lines
        .iter()
        .find(|(_, line)| matches!(line, Line::Answered { command: Command::Cancel, reply: Reply::Asked }))?;
    if story.asked(Command::Rerun, story.end) {
        return None;
    }
    story.lines.iter().find_map(|(at, line)| match line {
        Line::Started(start) if at > told => {
            Some(format!("it was being asked to end, it was said, and attempt {} was started", start.attempt))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use punctual_core::JobState;
    use punctual_core::attempt::Ending;
    use punctual_core::shard::event::{Command, Refusal, Reply};
    use punctual_core::shard::write::{JobWrite, Write};
    use punctual_core::{JobKey, Timestamp};

    use super::super::test_history::{Tale, failed, secs};

    const DELETED: Reply = Reply::Done(JobState::Deleted);
    const CANCELLED: Reply = Reply::Done(JobState::Cancelled);

    #[test]
    fn a_begin_of_a_deleted_job_is_found_before_and_after() {
        Tale::new(|_| {}).settle(JobState::Deleted, None).order(Command::Delete, DELETED).holds();
        Tale::new(|_| {}).order(Command::Delete, DELETED).start(1).begin(1).breaks("deleted means never");
        Tale::new(|_| {}).start(1).begin(1).order(Command::Delete, DELETED).breaks("deleted means never");
    }

    #[test]
    fn a_refused_delete_promises_nothing() {
        let refused = Reply::Refused(JobState::Running, Refusal::AlreadyStarted);
        Tale::new(|_| {}).start(1).order(Command::Delete, refused).begin(1).holds();
    }

    #[test]
    fn a_begin_after_a_cancel_is_found() {
        let cancelled = || Tale::new(|_| {}).settle(JobState::Cancelled, None).order(Command::Cancel, CANCELLED);
        cancelled().holds();
        cancelled().begin(1).breaks("cancelled means no more");
        cancelled().start(1).begin(1).breaks("cancelled means no more");
        cancelled().ask(Command::Rerun).rerun().start(1).begin(1).holds();
    }

    fn asked() -> Tale {
        let tale = Tale::new(|_| {}).start(1).begin(1);
        let key = JobKey::original(tale.id);
        tale.write(Write::Job(JobWrite::RequestCancel { key })).order(Command::Cancel, Reply::Asked).end(1, failed())
    }

    #[test]
    fn a_start_after_a_wish_to_cancel_is_found() {
        let retried = |tale: Tale| {
            let due_at: Timestamp = tale.now() + secs(2);
            tale.requeue(Some((1, Ending::Failed)), due_at).start(2)
        };
        asked().settle(JobState::Cancelled, Some((1, Ending::Failed))).holds();
        retried(asked()).breaks("a wish to cancel is kept");
        retried(asked().ask(Command::Rerun)).holds();
    }
}
