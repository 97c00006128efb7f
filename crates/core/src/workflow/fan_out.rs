//! Nodes that run one job for each element of a list.

use serde_json::Value;

use super::evaluate::{Missing, Work};
use super::node_ref::NodeRef;
use super::planted::planted;
use super::release::NoInput;
use super::state::{FanState, ItemStatus, NodeStatus};
use crate::lifecycle::JobState;

/// Elements that one step releases: all that it stores is one submission. The others follow with the next end of a job.
const RELEASES_MAX: usize = 5_000;
/// Inputs that one step releases, in bytes, for the same reason. At least one job of a list is always released.
const RELEASED_BYTES_MAX: usize = 8 << 20;

impl FanState {
    fn new(len: usize) -> Self {
        Self { items: "w".repeat(len), ..Self::default() }
    }

    fn set(&mut self, item: u32, status: ItemStatus) {
        let mut items = std::mem::take(&mut self.items).into_bytes();
        if let Some(letter) = items.get_mut(item as usize) {
            *letter = status.letter();
        }
        self.items = String::from_utf8(items).expect("they are letters");
    }

    /// Everything but what succeeded begins again. Jobs are only under way here if the run was broken off.
    pub(super) fn again(self) -> Self {
        Self { items: self.items.replace(['f', 'a'], "w"), ..Self::default() }
    }

    fn next(&self) -> Option<u32> {
        self.items.bytes().position(|letter| letter == ItemStatus::Waiting.letter()).map(|item| item as u32)
    }
}

impl Work<'_> {
    /// The list that a node fans out over, or why there is none.
    fn list(&self, node: u16) -> Result<Result<Vec<Value>, String>, Missing> {
        let graph = self.graph.node(node);
        let fan_out = graph.fan_out.as_ref().expect("the caller knows that it fans out");
        let text = &fan_out.list.text;
        Ok(match self.find(graph, &fan_out.list, None)? {
            None => Err(format!("for_each: there is nothing at `{text}`")),
            Some(Value::Array(list)) if list.len() > fan_out.max as usize => {
                Err(format!("for_each: `{text}` has {} elements, and `max` is {}", list.len(), fan_out.max))
            }
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(format!("for_each: `{text}` is not a list")),
        })
    }

    pub(super) fn begin_fan_out(&mut self, node: u16) -> Result<(), Missing> {
        let list = match self.list(node)? {
            Ok(list) => list,
            Err(reason) => {
                self.finish(node, NodeStatus::Failed, Some(reason));
                return Ok(());
            }
        };
        let now = self.now;
        let state = self.node_mut(node);
        state.status = NodeStatus::Active;
        state.released_at = Some(now);
        // One that goes on keeps what has succeeded.
        if state.fan.as_ref().is_none_or(|fan| fan.len() != list.len()) {
            state.fan = Some(Box::new(FanState::new(list.len())));
        }
        self.release_from(node, &list)
    }

    /// Releases as many jobs as may be under way.
    pub(super) fn release_items(&mut self, node: u16) -> Result<(), Missing> {
        let at_once = self.graph.node(node).fan_out.as_ref().map_or(0, |fan_out| fan_out.at_once as usize);
        let fan = self.state.nodes[usize::from(node)].fan.as_ref().expect("it has begun");
        if fan.active.len() >= at_once || fan.next().is_none() || fan.count(ItemStatus::Failed) > 0 {
            self.end_fan_out_if_idle(node);
            return Ok(());
        }
        match self.list(node)? {
            Ok(list) => self.release_from(node, &list),
            Err(reason) => {
                self.finish(node, NodeStatus::Failed, Some(reason));
                Ok(())
            }
        }
    }

    fn release_from(&mut self, node: u16, list: &[Value]) -> Result<(), Missing> {
        let at_once = self.graph.node(node).fan_out.as_ref().map_or(0, |fan_out| fan_out.at_once as usize);
        let mut fan = self.node_mut(node).fan.take().expect("it has begun");
        let mut items = fan.items.clone().into_bytes();
        let waiting: Vec<usize> =
            (0..items.len()).filter(|&item| items[item] == ItemStatus::Waiting.letter()).collect();
        let mut reason = None;
        for item in waiting {
            let is_full = self.releases.len() >= RELEASES_MAX || self.released_bytes >= RELEASED_BYTES_MAX;
            if fan.active.len() >= at_once || (is_full && !fan.active.is_empty()) {
                break;
            }
            match self.release_one(node, item as u32, list.get(item)) {
                Ok(job) => {
                    items[item] = ItemStatus::Active.letter();
                    fan.active.insert(item as u32, job);
                }
                Err(NoInput::Missing(missing)) => return Err(missing),
                Err(NoInput::Reason(why)) => {
                    items[item] = ItemStatus::Failed.letter();
                    reason = Some(format!("element {item}: {why}"));
                    break;
                }
            }
        }
        fan.items = String::from_utf8(items).expect("they are letters");
        let state = self.node_mut(node);
        state.fan = Some(fan);
        state.reason = reason;
        self.end_fan_out_if_idle(node);
        Ok(())
    }

    pub(super) fn item_ended(&mut self, ended: NodeRef, state: JobState) {
        let node = self.node_mut(ended.node);
        let Some(fan) = node.fan.as_mut() else { return };
        let Some(job) = fan.active.remove(&ended.item) else { return };
        if state == JobState::Succeeded {
            fan.set(ended.item, ItemStatus::Succeeded);
        } else {
            fan.set(ended.item, ItemStatus::Failed);
            if fan.failed.len() < FanState::FAILED_SHOWN {
                fan.failed.insert(ended.item, job);
            }
        }
    }

    /// A node of which no job is under way has ended, unless more are to come.
    pub(super) fn end_fan_out_if_idle(&mut self, node: u16) {
        let is_stopping = self.is_stopping();
        let state = self.node_mut(node);
        let under_way = usize::from(planted!(JoinForgetsElement));
        let Some(fan) = state.fan.as_ref().filter(|fan| fan.active.len() <= under_way) else { return };
        let (failed, waiting) = (fan.count(ItemStatus::Failed), fan.count(ItemStatus::Waiting));
        let (status, reason) = match (failed, waiting) {
            (0, 0) => (NodeStatus::Succeeded, None),
            (0, _) if !is_stopping => return,
            (0, _) => (NodeStatus::Cancelled, Some("the run stopped".to_owned())),
            _ => {
                let reason = state.reason.clone();
                (NodeStatus::Failed, reason.or_else(|| Some(format!("{failed} of {} jobs did not succeed", fan.len()))))
            }
        };
        self.finish(node, status, reason);
    }
}
