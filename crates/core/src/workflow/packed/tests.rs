use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::id::ShardId;
use crate::random::SplitMix64;
use crate::time::Span;
use crate::workflow::state::FanState;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(1_795_000_000_000_000 + micros).unwrap()
}

fn run() -> RunId {
    RunId::new(at(0), ShardId(9), 77)
}

fn node(number: u16, round: u16) -> NodeRef {
    NodeRef { run: run(), node: number, round, item: 0 }
}

fn ended(number: u16) -> NodeState {
    let released = at(i64::from(number) * 700);
    NodeState {
        status: NodeStatus::Succeeded,
        job: Some(job_of(node(number, 0), released)),
        released_at: Some(released),
        ended_at: Some(at(i64::from(number) * 700 + 9_000)),
        ..NodeState::waiting(0)
    }
}

fn reads_back(state: &RunState) -> usize {
    let bytes = state.to_bytes(run());
    assert_eq!(RunState::from_bytes(&bytes, run()).as_ref(), Some(state), "{bytes:?}");
    for len in 0..bytes.len() {
        assert_eq!(RunState::from_bytes(&bytes[..len], run()), None, "cut after {len} of {} bytes", bytes.len());
    }
    let json = serde_json::to_vec(state).unwrap();
    assert_eq!(RunState::from_bytes(&json, run()).as_ref(), Some(state), "as earlier versions wrote it");
    bytes.len()
}

#[test]
fn a_node_that_has_ended_takes_few_bytes() {
    let mut state = RunState::new(0, at(0) + Span::from_secs(7 * 86_400));
    let empty = reads_back(&state);
    assert!(empty <= 14, "{empty}");
    state.nodes = (0..100).map(ended).collect();
    let each = (reads_back(&state) - empty) / 100;
    assert!(each <= 8, "{each}");
    let waiting = RunState::new(1_000, at(0));
    assert!(reads_back(&waiting) <= 1_015, "one byte for each node that waits");
}

#[test]
fn everything_that_a_run_can_have_reads_back() {
    let note = || Note { at: at(5), by: "ann \u{fc}\0".to_owned() };
    let foreign = JobId::new(at(3), ShardId(1), 5);
    let (item, other) = (NodeRef { item: 1, ..node(4, 2) }, NodeRef { item: 9_000, ..node(4, 2) });
    let fan = FanState {
        items: format!("sa{}fa", "w".repeat(8_997)),
        active: BTreeMap::from([(1, job_of(item, at(8))), (9_000, job_of(other, at(8)))]),
        failed: BTreeMap::from([(8_999, foreign)]),
    };
    let nodes = vec![
        NodeState { reason: Some("why".to_owned()), decided: Some(note()), ..ended(0) },
        NodeState { status: NodeStatus::Failed, job: Some(foreign), ..ended(1) },
        NodeState { released_at: None, output_too_long: true, ..ended(2) },
        NodeState { ended_at: Some(Timestamp::EPOCH), retried: 300, ..NodeState::waiting(u16::MAX) },
        NodeState { status: NodeStatus::Active, fan: Some(Box::new(fan)), ..NodeState::waiting(2) },
    ];
    let state = RunState {
        phase: Phase::Ended,
        deadline: Timestamp::MAX,
        cancelled: Some(note()),
        timed_out: true,
        broken: Some("it broke".to_owned()),
        job: Some(RunJob { job: foreign, attempt: 7, is_reported: true }),
        output: Some(json!({ "rows": [1, null] })),
        ended_at: Some(at(99)),
        nodes,
    };
    reads_back(&state);
    for phase in [Phase::Nodes, Phase::Handlers] {
        reads_back(&RunState { phase, ..state.clone() });
    }
    for status in NodeStatus::ALL {
        let nodes = vec![NodeState { status, ..NodeState::waiting(0) }];
        reads_back(&RunState { nodes, ..state.clone() });
    }
}

/// The jobs of a list that are under way were mostly released together.
#[test]
fn a_wide_list_is_short() {
    let mut random = SplitMix64::new(3);
    let items: String = (0..10_000).map(|item| if item < 4_000 { 's' } else { 'w' }).collect();
    let mut items = items.into_bytes();
    let mut active = BTreeMap::new();
    for item in 4_000..5_000_u32 {
        items[item as usize] = if random.below(8) == 0 { b's' } else { b'a' };
        if items[item as usize] == b'a' {
            active.insert(item, job_of(NodeRef { item, ..node(0, 0) }, at(i64::from(item / 100))));
        }
    }
    let fan = FanState { items: String::from_utf8(items).unwrap(), active, failed: BTreeMap::new() };
    let nodes = vec![NodeState { status: NodeStatus::Active, fan: Some(Box::new(fan)), ..NodeState::waiting(0) }];
    let len = reads_back(&RunState { nodes, ..RunState::new(0, at(0)) });
    assert!(len <= 3_000, "{len}");
}

#[test]
fn what_is_damaged_is_refused() {
    for bytes in [&b""[..], b"\x02", b"\x01", b"{", b"[]", &[0xff; 40], &[1; 40], b"\x01\x00\x00\x00\xff\xff\xff\x7f"] {
        assert_eq!(RunState::from_bytes(bytes, run()), None, "{bytes:?}");
    }
    let mut random = SplitMix64::new(1);
    let bytes = RunState { nodes: (0..20).map(ended).collect(), ..RunState::new(0, at(0)) }.to_bytes(run());
    for _ in 0..10_000 {
        let mut damaged = bytes.clone();
        let place = random.below(bytes.len() as u64) as usize;
        damaged[place] = random.bits() as u8;
        // Whatever it is taken for, nothing breaks.
        let _ = RunState::from_bytes(&damaged, run());
    }
}
