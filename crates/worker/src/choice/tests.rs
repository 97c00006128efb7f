//! Facts about the choice of servers.

use punctual_core::{ServerId, Timestamp};

use super::*;
use crate::held::PeerAddress;

const MAX: usize = 5;

fn server(number: u32) -> ServerId {
    ServerId::new(Timestamp::EPOCH, u64::from(number))
}

fn url(number: u32) -> String {
    format!("http://10.0.0.{number}:8020")
}

fn choice(configured: &[u32]) -> Choice {
    let configured = configured.iter().map(|number| url(*number)).collect();
    Choice { worker: WorkerId::new(Timestamp::EPOCH, 7), servers_max: MAX, configured }
}

/// The servers in the order in which the worker prefers them.
fn order(servers: u32) -> Vec<u32> {
    let urls: Vec<String> = (0..servers).map(url).collect();
    let preferred = preferred(choice(&[]).worker, urls.iter().map(String::as_str));
    preferred.iter().map(|address| urls.iter().position(|url| url == address).unwrap() as u32).collect()
}

/// A link that is up and in use; its number is that of its server.
fn link(number: u32) -> KnownLink {
    let survey = LinkSurvey {
        no: LinkNo(number),
        stage: LinkStage::Up,
        server: Some(server(number)),
        is_used: true,
        is_demanded: false,
        is_released: false,
    };
    KnownLink { url: url(number), survey, down_for: Duration::ZERO, idle_for: Duration::ZERO, asked_ago: None }
}

fn down(number: u32, down_for: Duration) -> KnownLink {
    let mut link = link(number);
    link.survey.stage = LinkStage::Down;
    KnownLink { down_for, ..link }
}

fn survey(servers: u32, links: &[KnownLink]) -> Survey {
    let peers = (0..servers).map(|number| PeerAddress { server: server(number), address: url(number) }).collect();
    let is_cut_off = !links.iter().any(|link| link.survey.stage == LinkStage::Up);
    Survey { links: links.iter().map(|link| link.survey).collect(), peers, invited: Vec::new(), is_cut_off }
}

fn numbers(links: &[LinkNo]) -> Vec<u32> {
    links.iter().map(|link| link.0).collect()
}

fn opened(plan: &Plan) -> Vec<String> {
    plan.open.iter().map(|(address, _)| address.clone()).collect()
}

#[test]
fn a_small_cluster_is_connected_to_whole() {
    assert!(choice(&[0]).is_all(&survey(5, &[])));
    assert!(!choice(&[0]).is_all(&survey(6, &[])));
    assert!(!choice(&[0, 1, 2, 3, 4, 5]).is_all(&survey(0, &[])));
    assert!(Choice { servers_max: 0, ..choice(&[0]) }.is_all(&survey(20, &[])));
    assert_eq!(choice(&[3, 1]).first(), [url(3), url(1)]);
}

#[test]
fn a_worker_starts_with_as_many_configured_servers_as_it_will_use() {
    let configured: Vec<u32> = (0..20).collect();
    let expected: Vec<String> = order(20)[..MAX].iter().copied().map(url).collect();
    assert_eq!(choice(&configured).first(), expected);
}

#[test]
fn a_worker_that_knows_one_server_connects_to_those_that_it_prefers_and_then_leaves_it() {
    let order = order(20);
    let last = order[19];
    let links = [link(last)];
    let plan = choice(&[last]).plan(&survey(20, &links), &links);
    assert_eq!(opened(&plan), order[..MAX].iter().copied().map(url).collect::<Vec<_>>());
    assert!(plan.open.iter().all(|(_, haste)| *haste == Haste::Spread));
    assert!(plan.release.is_empty(), "it has no other yet");
    let mut links: Vec<KnownLink> = order[..MAX].iter().copied().map(link).collect();
    links.push(link(last));
    let plan = choice(&[last]).plan(&survey(20, &links), &links);
    assert_eq!((plan.open.len(), numbers(&plan.release), plan.close.len()), (0, vec![last], 0));
    links[MAX].survey.is_released = true;
    let plan = choice(&[last]).plan(&survey(20, &links), &links);
    assert_eq!((numbers(&plan.release), numbers(&plan.close)), (vec![], vec![last]));
}

#[test]
fn a_server_that_cannot_be_reached_is_replaced_and_still_tried() {
    let order = order(20);
    let mut links: Vec<KnownLink> = order[..MAX].iter().copied().map(link).collect();
    links[1] = down(order[1], Duration::from_secs(1));
    assert_eq!(choice(&[]).plan(&survey(20, &links), &links).open, []);
    links[1] = down(order[1], REPLACED_AFTER);
    let plan = choice(&[]).plan(&survey(20, &links), &links);
    assert_eq!(opened(&plan), [url(order[MAX])]);
    assert!(plan.retain.contains(&LinkNo(order[1])) && plan.close.is_empty());
    // It is back.
    links[1] = link(order[1]);
    links.push(link(order[MAX]));
    assert_eq!(numbers(&choice(&[]).plan(&survey(20, &links), &links).release), [order[MAX]]);
}

#[test]
fn a_server_that_is_gone_is_forgotten() {
    let order = order(20);
    let links: Vec<KnownLink> = order[1..=MAX].iter().copied().map(link).chain([down(99, REPLACED_AFTER)]).collect();
    let mut survey = survey(20, &links);
    survey.peers.retain(|peer| peer.server != server(order[0]));
    let plan = choice(&[]).plan(&survey, &links);
    assert_eq!((plan.open.len(), numbers(&plan.close)), (0, vec![99]));
}

#[test]
fn a_worker_that_reaches_nobody_tries_all_that_it_knows_in_turn_and_drops_none() {
    let configured: Vec<u32> = (0..20).collect();
    let order = order(20);
    for tried in [MAX, 2 * MAX, 3 * MAX] {
        let links: Vec<KnownLink> = order[..tried].iter().map(|number| down(*number, REPLACED_AFTER)).collect();
        let plan = choice(&configured).plan(&survey(0, &links), &links);
        // Not all at once: after a short outage, a fleet must not connect to every server.
        let next: Vec<String> = order[tried..tried + MAX].iter().copied().map(url).collect();
        assert_eq!(opened(&plan), next);
        assert!(plan.open.iter().all(|(_, haste)| *haste == Haste::AtOnce));
        assert_eq!(numbers(&plan.retain), order[..tried], "they are still tried");
        assert!(plan.close.is_empty() && plan.release.is_empty());
    }
    let all: Vec<KnownLink> = order.iter().map(|number| down(*number, REPLACED_AFTER)).collect();
    let plan = choice(&configured).plan(&survey(0, &all), &all);
    assert_eq!((plan.open.len(), plan.close.len(), plan.retain.len()), (0, 0, 20));
}

#[test]
fn an_invitation_is_followed_at_once_and_kept_while_it_is_used() {
    let order = order(20);
    let mut links: Vec<KnownLink> = order[..MAX].iter().copied().map(link).collect();
    let other = order[12];
    let mut survey = survey(20, &links);
    survey.invited = vec![server(other), server(77)];
    let plan = choice(&[]).plan(&survey, &links);
    assert_eq!(plan.open, [(url(other), Haste::AtOnce)], "a server that nobody announces is ignored");
    let (used, idle) = (Duration::from_secs(1), IDLE_MAX);
    for (asked_ago, idle_for, is_invited, is_released) in [
        (Some(used), used, true, false),
        (Some(used), idle, true, false),
        (Some(used), used, false, false),
        (Some(used), idle, false, true),
        (Some(TRIED_AFTER), used, false, true),
        (None, used, false, true),
    ] {
        links.truncate(MAX);
        links.push(KnownLink { asked_ago, idle_for, ..link(other) });
        survey.invited = if is_invited { vec![server(other)] } else { Vec::new() };
        let plan = choice(&[]).plan(&survey, &links);
        let expected = if is_released { vec![other] } else { Vec::new() };
        assert_eq!(numbers(&plan.release), expected, "{asked_ago:?} {idle_for:?} {is_invited}");
    }
}

#[test]
fn a_server_under_another_name_is_not_connected_to_twice() {
    let order = order(20);
    let mut links: Vec<KnownLink> = order[..MAX].iter().copied().map(link).collect();
    "http://balancer:80".clone_into(&mut links[0].url);
    let plan = choice(&[]).plan(&survey(20, &links), &links);
    assert_eq!((plan.open, plan.release, plan.close), (vec![], vec![], vec![]));
}
