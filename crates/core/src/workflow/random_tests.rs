//! Random graphs with random ends, played by the evaluator and by the [reference](super::reference).

use super::reference::Reference;
use super::spec::{NodeSpec, OnNodeFailure, Trigger, WorkflowSpec};
use super::state::{NodeStatus, RunStatus};
use super::testing::{Player, node, workflow};
use crate::random::SplitMix64;

fn random_spec(random: &mut SplitMix64) -> WorkflowSpec {
    let len_max = if random.one_in(10) { 200 } else { 12 };
    let len = 1 + random.below(len_max) as usize;
    let policy = if random.one_in(2) { OnNodeFailure::Stop } else { OnNodeFailure::Continue };
    let mut nodes: Vec<NodeSpec> = Vec::new();
    for place in 0..len {
        let mut needs: Vec<String> = Vec::new();
        for _ in 0..random.below(4).min(place as u64) {
            let need = format!("n{}", random.below(place as u64));
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        let when = *random.pick(&Trigger::ALL);
        let asks = matches!(when, Trigger::OneFailed | Trigger::OneSucceeded | Trigger::NoneFailedOneSucceeded);
        let never = (asks && needs.is_empty()) || (when == Trigger::OneFailed && policy == OnNodeFailure::Stop);
        let when = if never { Trigger::AllDone } else { when };
        let retries = if random.one_in(4) { random.below(3) as u16 } else { 0 };
        nodes.push(NodeSpec { needs, when, retries, ..node(&format!("n{place}")) });
    }
    WorkflowSpec { on_node_failure: policy, ..workflow(nodes) }
}

fn agree(player: &Player, reference: &Reference<'_>, seed: u64) {
    let mine: Vec<(String, NodeStatus)> = player.statuses();
    let theirs: Vec<(String, NodeStatus)> =
        mine.iter().map(|(name, _)| (name.clone(), reference.status[name])).collect();
    assert_eq!(mine, theirs, "seed {seed}");
    assert_eq!(player.status() == RunStatus::Running, !reference.has_ended(), "seed {seed}");
}

fn play(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let spec = random_spec(&mut random);
    let failure_percent = random.below(50);
    let mut player = Player::begin(&spec);
    let mut reference = Reference::begin(&spec);
    agree(&player, &reference, seed);
    let mut resumes = random.below(3);
    loop {
        let active = reference.active();
        assert_eq!(player.active(), active, "seed {seed}");
        if active.is_empty() {
            if resumes == 0 || player.status() == RunStatus::Succeeded {
                break;
            }
            resumes -= 1;
            player.resume();
            reference.resume();
            agree(&player, &reference, seed);
            continue;
        }
        let name = random.pick(&active).clone();
        let is_success = !random.percent(failure_percent);
        player.ended(&name, is_success);
        reference.ended(&name, is_success);
        agree(&player, &reference, seed);
        // A lost answer: the same end again.
        if random.one_in(5) {
            player.repeat();
            agree(&player, &reference, seed);
        }
        if random.one_in(60) && player.status() == RunStatus::Running {
            player.cancel();
            reference.cancel();
            agree(&player, &reference, seed);
        }
    }
    assert!(player.is_every_job_released_once(), "seed {seed}");
}

#[test]
fn random_graphs_end_as_the_reference_says() {
    let seeds = std::env::var("PUNCTUAL_WORKFLOW_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000);
    for seed in 0..seeds {
        play(seed);
    }
}
