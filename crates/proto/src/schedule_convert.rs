//! Commands on schedules in the words of the peer protocol and back.
//!
//! They are JSON, but for the inputs, which JSON would make four times as long.

use bytes::Bytes;
use punctual_core::ScheduleId;
use punctual_core::schedule::{ScheduleCommand, ScheduleEdit, ScheduleReply};

use crate::convert::{BadMessage, id_bytes};
use crate::peer as wire;

pub fn schedule_id(bytes: &[u8]) -> Result<ScheduleId, BadMessage> {
    ScheduleId::from_bytes(bytes).ok_or(BadMessage("a schedule id is 16 bytes of UUID version 7"))
}

pub fn command_to_wire(id: ScheduleId, mut command: ScheduleCommand) -> wire::ScheduleCommand {
    let input = edit_of(&mut command).and_then(|edit| edit.input.take());
    let command = serde_json::to_vec(&command).expect("a command is JSON");
    wire::ScheduleCommand { schedule_id: id_bytes(id.to_bytes()), command: command.into(), input }
}

pub fn command_from_wire(message: wire::ScheduleCommand) -> Result<(ScheduleId, ScheduleCommand), BadMessage> {
    let id = schedule_id(&message.schedule_id)?;
    let command = serde_json::from_slice(&message.command);
    let mut command = command.map_err(|_| BadMessage("a command on a schedule cannot be read"))?;
    if let Some(edit) = edit_of(&mut command) {
        edit.input = message.input;
    }
    match &command {
        ScheduleCommand::Create(new) if new.id != id => Err(BadMessage("a schedule is created under another id")),
        _ => Ok((id, command)),
    }
}

/// What it says of the definition.
fn edit_of(command: &mut ScheduleCommand) -> Option<&mut ScheduleEdit> {
    match command {
        ScheduleCommand::Create(new) => Some(&mut new.edit),
        ScheduleCommand::Edit { edit, .. } => Some(edit),
        ScheduleCommand::Delete
        | ScheduleCommand::Pause { .. }
        | ScheduleCommand::Resume { .. }
        | ScheduleCommand::SkipNext { .. }
        | ScheduleCommand::RunNow { .. }
        | ScheduleCommand::ClearQueue => None,
    }
}

pub fn replies_to_wire(replies: &[ScheduleReply]) -> wire::SchedulesReply {
    wire::SchedulesReply { replies: Bytes::from(serde_json::to_vec(replies).expect("replies are JSON")) }
}

pub fn replies_from_wire(reply: &wire::SchedulesReply) -> Result<Vec<ScheduleReply>, BadMessage> {
    serde_json::from_slice(&reply.replies).map_err(|_| BadMessage("the replies cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::schedule::{NewSchedule, Overlap};
    use punctual_core::task::Priority;
    use punctual_core::{JobId, ShardId, TaskId, Timestamp};

    fn id() -> ScheduleId {
        ScheduleId::new(Timestamp::from_micros(1_700_000_000_123_456).unwrap(), ShardId(3), 9)
    }

    fn edit(input: Option<&'static [u8]>) -> ScheduleEdit {
        ScheduleEdit {
            task: TaskId::new(Timestamp::EPOCH, 1),
            spec: r#"{"when":{}}"#.into(),
            calendars: vec!["holidays".to_owned()],
            priority: Priority::new(-7),
            input: input.map(Bytes::from_static),
        }
    }

    #[test]
    fn commands_survive_the_wire() {
        let new = NewSchedule { id: id(), name: "nightly".to_owned(), edit: edit(Some(b"{\"a\":1}")) };
        for command in [
            ScheduleCommand::Create(Box::new(new)),
            ScheduleCommand::Edit { revision: Some(4), edit: Box::new(edit(None)) },
            ScheduleCommand::Edit { revision: None, edit: Box::new(edit(Some(b"7"))) },
            ScheduleCommand::Delete,
            ScheduleCommand::Pause { note: Some("on holiday".to_owned()) },
            ScheduleCommand::Resume { note: None },
            ScheduleCommand::SkipNext { count: 3 },
            ScheduleCommand::RunNow { overlap: None },
            ScheduleCommand::RunNow { overlap: Some(Overlap::CancelPrevious) },
            ScheduleCommand::ClearQueue,
        ] {
            assert_eq!(command_from_wire(command_to_wire(id(), command.clone())), Ok((id(), command)));
        }
    }

    #[test]
    fn replies_survive_the_wire() {
        let replies = vec![
            ScheduleReply::Done { revision: 2 },
            ScheduleReply::Fired(JobId::new(Timestamp::EPOCH, ShardId(3), 9)),
            ScheduleReply::Queued { at: Timestamp::EPOCH },
            ScheduleReply::CancelsPrevious { at: Timestamp::EPOCH },
            ScheduleReply::SkippedOverlap { at: Timestamp::EPOCH, reason: "a run had not ended".to_owned() },
            ScheduleReply::Cleared { count: 3 },
            ScheduleReply::Skipping(Timestamp::EPOCH),
            ScheduleReply::NotFound,
            ScheduleReply::NotOwner,
            ScheduleReply::NameTaken,
            ScheduleReply::Conflict { revision: 5 },
            ScheduleReply::Refused("no more planned times".to_owned()),
        ];
        assert_eq!(replies_from_wire(&replies_to_wire(&replies)), Ok(replies));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let good = command_to_wire(id(), ScheduleCommand::Delete);
        let bad_id = wire::ScheduleCommand { schedule_id: Bytes::from_static(b"short"), ..good.clone() };
        let bad_json = wire::ScheduleCommand { command: Bytes::from_static(b"{"), ..good };
        let new = NewSchedule { id: id(), name: "nightly".to_owned(), edit: edit(None) };
        let other = ScheduleId::new(Timestamp::EPOCH, ShardId(4), 1);
        let misplaced = command_to_wire(other, ScheduleCommand::Create(Box::new(new)));
        for bad in [bad_id, bad_json, misplaced] {
            assert!(command_from_wire(bad).is_err());
        }
        assert!(replies_from_wire(&wire::SchedulesReply::default()).is_err());
    }
}
