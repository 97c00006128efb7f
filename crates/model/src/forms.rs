//! The bounds within which every state is visited. Each form asks one kind of question, because
//! all of them at once would have more states than there is time for.

use crate::bounds::{Beginning, Bounds, DeliveryMode, Fates, Grain, Job, Leases, ServedBy};
use crate::properties::Sight::{
    Adopted, AssignmentRefused, Cancelled, Deleted, EveryJobSucceeds, Fenced, LateHelloIgnored, LostResolved,
    OldGreetingRefused, StaleAnswered, TakenBack, TakenOverRunning, Void,
};
use crate::state::FaultBudget;

const ONCE: Job = Job { delivery: DeliveryMode::ExactlyOnce, due: 0, attempts: 2, served_by: ServedBy::Any };
const LEAST: Job = Job { delivery: DeliveryMode::AtLeastOnce, due: 0, attempts: 2, served_by: ServedBy::Any };

const CALM: FaultBudget = FaultBudget {
    server_crashes: 0,
    worker_crashes: 0,
    breaks: 0,
    lost_answers: 0,
    deletes: 0,
    cancels: 0,
    late_hints: 0,
    releases: 0,
};

/// From nothing to a second owner, with a server that dies and a stream that breaks.
pub const HANDOVER: Bounds = Bounds {
    name: "handover",
    servers: 2,
    workers: 1,
    jobs: &[ONCE],
    epochs: 2,
    messages: 2,
    fates: Fates::Success,
    leases: Leases::Ignored,
    grain: Grain::Fine,
    beginning: Beginning::Cold,
    left: FaultBudget { breaks: 1, server_crashes: 1, ..CALM },
    sights: &[TakenOverRunning, Fenced, AssignmentRefused, Adopted, TakenBack, OldGreetingRefused, EveryJobSucceeds],
};

/// One server and one worker whose streams break again and again, and whose process dies.
pub const STREAMS: Bounds = Bounds {
    name: "streams",
    servers: 1,
    fates: Fates::Any,
    beginning: Beginning::Warm,
    left: FaultBudget { breaks: 3, worker_crashes: 1, lost_answers: 1, ..CALM },
    sights: &[TakenBack, LateHelloIgnored, LostResolved, Adopted, EveryJobSucceeds],
    ..HANDOVER
};

/// An at-least-once job that fails and is tried again, by two owners.
pub const RETRIES: Bounds = Bounds {
    name: "retries",
    jobs: &[LEAST],
    messages: 1,
    fates: Fates::Any,
    beginning: Beginning::Warm,
    left: CALM,
    sights: &[TakenOverRunning, Fenced, AssignmentRefused, Adopted, TakenBack, StaleAnswered, EveryJobSucceeds],
    ..HANDOVER
};

/// [`RETRIES`] with a stream that breaks.
pub const RETRIES_BROKEN: Bounds =
    Bounds { name: "retries-broken", left: FaultBudget { breaks: 1, ..CALM }, ..RETRIES };

/// Deletes and cancels, a job whose hint comes too late, and calls whose result is unknown.
pub const COMMANDS: Bounds = Bounds {
    name: "commands",
    beginning: Beginning::Warm,
    left: FaultBudget { deletes: 1, cancels: 1, lost_answers: 1, late_hints: 1, ..CALM },
    sights: &[TakenOverRunning, Fenced, TakenBack, Deleted, Cancelled, Void, EveryJobSucceeds],
    ..HANDOVER
};

/// A job that is not due yet, and leases that lapse, are renewed and released.
pub const LEASES: Bounds = Bounds {
    name: "leases",
    jobs: &[Job { due: 1, ..ONCE }],
    epochs: 3,
    messages: 1,
    leases: Leases::Kept,
    beginning: Beginning::Warm,
    left: FaultBudget { releases: 1, deletes: 1, ..CALM },
    sights: &[TakenOverRunning, Fenced, AssignmentRefused, Adopted, TakenBack, Deleted, EveryJobSucceeds],
    ..HANDOVER
};

/// Two jobs, each on its own worker.
pub const PAIR: Bounds = Bounds {
    name: "pair",
    workers: 2,
    jobs: &[Job { served_by: ServedBy::One(0), ..ONCE }, Job { served_by: ServedBy::One(1), attempts: 1, ..LEAST }],
    messages: 1,
    grain: Grain::Coarse,
    beginning: Beginning::Warm,
    left: CALM,
    sights: &[TakenOverRunning, Fenced, AssignmentRefused, Adopted, TakenBack, EveryJobSucceeds],
    ..HANDOVER
};

/// Together these take less than a minute.
pub const SMALL: &[Bounds] = &[HANDOVER, STREAMS, RETRIES, COMMANDS, LEASES, PAIR];

/// The forms with larger bounds, which take as long as it takes.
pub const FULL: &[Bounds] = &[
    Bounds {
        name: "handover-thrice",
        epochs: 3,
        beginning: Beginning::Warm,
        left: FaultBudget { server_crashes: 1, ..CALM },
        ..HANDOVER
    },
    Bounds {
        name: "handover-deaths",
        beginning: Beginning::Warm,
        left: FaultBudget { worker_crashes: 1, ..HANDOVER.left },
        ..HANDOVER
    },
    Bounds { name: "streams-long", epochs: 3, left: FaultBudget { breaks: 4, ..STREAMS.left }, ..STREAMS },
    RETRIES_BROKEN,
    Bounds { name: "commands-thrice", epochs: 3, ..COMMANDS },
    Bounds { name: "leases-broken", left: FaultBudget { breaks: 1, ..LEASES.left }, ..LEASES },
    Bounds { name: "pair-anywhere", jobs: &[ONCE, Job { attempts: 1, ..LEAST }], ..PAIR },
    Bounds {
        name: "pair-crash",
        jobs: &[
            Job { served_by: ServedBy::One(0), attempts: 1, ..ONCE },
            Job { served_by: ServedBy::One(1), attempts: 1, ..LEAST },
        ],
        left: FaultBudget { server_crashes: 1, ..CALM },
        ..PAIR
    },
];
