//! Commands on schedules, cut into messages that a peer takes.

use punctual_core::ScheduleId;
use punctual_core::schedule::ScheduleCommand;
use punctual_proto::peer as wire;
use punctual_proto::schedule_convert as convert;

/// Of the commands in one message, about; well below what a peer takes. The largest command alone, with an
/// input of 256 KiB, is smaller.
const PART_BYTES_MAX: usize = 2 << 20;

/// In order; each part is asked for after the one before it was answered.
pub(crate) fn parts(commands: Vec<(ScheduleId, ScheduleCommand)>, who: &str) -> Vec<wire::SchedulesRequest> {
    let mut parts: Vec<wire::SchedulesRequest> = Vec::new();
    let mut room = 0;
    for (id, command) in commands {
        let command = convert::command_to_wire(id, command);
        let size = command.command.len() + command.input.as_ref().map_or(0, |input| input.len()) + 64;
        if parts.is_empty() || size > room {
            parts.push(wire::SchedulesRequest { commands: Vec::new(), who: who.to_owned() });
            room = PART_BYTES_MAX;
        }
        room = room.saturating_sub(size);
        if let Some(part) = parts.last_mut() {
            part.commands.push(command);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use punctual_core::schedule::{NewSchedule, ScheduleEdit};
    use punctual_core::{ShardId, TaskId, Timestamp};
    use punctual_proto::MESSAGE_BYTES_MAX;

    fn create(number: u64, input_len: usize) -> (ScheduleId, ScheduleCommand) {
        let id = ScheduleId::new(Timestamp::EPOCH, ShardId(0), number);
        let edit = ScheduleEdit {
            task: TaskId::new(Timestamp::EPOCH, 1),
            spec: "{}".into(),
            calendars: Vec::new(),
            priority: None,
            input: Some(vec![b'7'; input_len].into()),
        };
        (id, ScheduleCommand::Create(Box::new(NewSchedule { id, name: format!("s{number}"), edit })))
    }

    #[test]
    fn every_part_fits_a_message_and_nothing_is_lost_or_moved() {
        for (count, input_len) in [(10_000, 100), (40, 256 << 10), (1, 0), (0, 0)] {
            let commands: Vec<_> = (0..count).map(|number| create(number, input_len)).collect();
            let parts = parts(commands.clone(), "local");
            assert!(parts.iter().all(|part| part.encoded_len() <= MESSAGE_BYTES_MAX), "{count} of {input_len}");
            assert!(parts.iter().all(|part| part.who == "local" && !part.commands.is_empty()));
            let read: Result<Vec<_>, _> =
                parts.into_iter().flat_map(|part| part.commands).map(convert::command_from_wire).collect();
            assert_eq!(read, Ok(commands));
        }
    }
}
