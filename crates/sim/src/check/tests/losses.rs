//! Histories of a database that loses commits, as a simulation records them.

use punctual_core::AttemptNo;
use punctual_core::attempt::Ending;
use punctual_core::task::DeliveryMode;

use crate::check::history_builder::{HistoryBuilder, secs};
use crate::history::Fact;

fn loses(builder: HistoryBuilder, open: bool) -> HistoryBuilder {
    let open = if open { vec![(builder.id, AttemptNo(1))] } else { vec![] };
    builder.fact(Fact::WentBack { open })
}

#[test]
fn what_was_lost_is_excused_and_a_start_that_is_left_is_not_taken_back() {
    let strict = || HistoryBuilder::new(|spec| spec.delivery = DeliveryMode::ExactlyOnce);
    loses(strict().succeed(1).acked(1), false).gone().holds();
    loses(strict().succeed(1).acked(1), false).start(1).begin(1).holds();
    let left = loses(strict().succeed(1).acked(1), true);
    let due_at = left.now() + secs(1);
    let taken_back = left.requeue(Some((1, Ending::NotStarted)), due_at);
    taken_back.start(2).begin(2).breaks("what is taken back never began");
    let left = loses(strict().succeed(1).acked(1), true);
    let due_at = left.now() + secs(1);
    left.requeue(Some((1, Ending::WorkerLost)), due_at).start(2).begin(2).breaks("strict modes begin once");
}
