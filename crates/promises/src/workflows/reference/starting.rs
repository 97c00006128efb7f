//! What a node starts with: its condition, its list and its inputs.

use std::sync::Arc;

use punctual_core::Timestamp;
use serde_json::Value;

use super::{Due, Element, NodeStatus, OUTPUT_MAX, Phase, Reference, RunStatus, Try};
use crate::workflows::definition::{After, Node};
use crate::workflows::values::{follow, holds, object};

impl Reference {
    fn number(&mut self) -> Try {
        self.tries += 1;
        Try(self.tries)
    }

    pub(super) fn start(&mut self, place: usize, now: Timestamp, due: &mut Vec<Due>) {
        let rules = Arc::clone(&self.rules);
        let rule = &rules.nodes[place];
        if !rule.condition.as_ref().is_none_or(|condition| holds(condition, &|path| self.find(path, None))) {
            self.nodes[place].status = NodeStatus::Skipped;
            return;
        }
        if rule.gate.is_some() {
            self.nodes[place].status = NodeStatus::Open;
            self.nodes[place].opened_at = Some(now);
            return;
        }
        if let Some(for_each) = &rule.for_each {
            let list = self.find(&for_each.from, None).and_then(|list| list.as_array().map(Vec::len));
            let node = &mut self.nodes[place];
            match list.filter(|len| *len <= for_each.max) {
                None => node.status = NodeStatus::Failed,
                Some(len) => {
                    node.status = NodeStatus::Active;
                    // One that goes on keeps what has succeeded.
                    if node.list.as_ref().is_none_or(|before| before.len() != len) {
                        node.list = Some(vec![Element::Waiting; len]);
                    }
                }
            }
            return;
        }
        let number = self.number();
        match self.input_of(rule, None) {
            None => self.nodes[place].status = NodeStatus::Failed,
            Some(input) => {
                self.nodes[place].status = NodeStatus::Active;
                self.nodes[place].job = Some(number);
                due.push(Due { number, node: place, element: 0, input });
            }
        }
    }

    pub(super) fn start_element(&mut self, place: usize, element: u32, due: &mut Vec<Due>) {
        let rules = Arc::clone(&self.rules);
        let rule = &rules.nodes[place];
        let from = &rule.for_each.as_ref().expect("it is a list").from;
        let item = self.find(from, None).and_then(|list| list.get(element as usize).cloned()).unwrap_or_default();
        let number = self.number();
        let input = self.input_of(rule, Some(&item));
        let list = self.nodes[place].list.as_mut().expect("it has begun");
        match input {
            None => list[element as usize] = Element::Failed,
            Some(input) => {
                list[element as usize] = Element::Active(number);
                due.push(Due { number, node: place, element, input });
            }
        }
    }

    fn input_of(&self, rule: &Node, item: Option<&Value>) -> Option<Value> {
        match &rule.input {
            None => Some(item.unwrap_or(&self.input).clone()),
            Some(fields) => object(fields, &|path| self.find(path, item)),
        }
    }

    /// What stands at a path now.
    fn find(&self, path: &str, item: Option<&Value>) -> Option<Value> {
        let mut steps = path.split('.');
        match steps.next()? {
            "run" => follow(&self.input, steps),
            "item" => follow(item?, steps),
            name => {
                let place = self.rules.nodes.iter().position(|node| node.name == name)?;
                let node = Some(&self.nodes[place]).filter(|node| node.status == NodeStatus::Succeeded)?;
                let output = match &node.list {
                    None => node.outputs.get(&0)?.clone(),
                    Some(list) => {
                        let output = |element: u32| node.outputs.get(&element).cloned().unwrap_or_default();
                        Value::Array((0..list.len() as u32).map(output).collect())
                    }
                };
                follow(&output, steps)
            }
        }
    }

    pub(super) fn nodes_are_over(&mut self, now: Timestamp, due: &mut Vec<Due>) {
        let rules = Arc::clone(&self.rules);
        if self.outcome() == RunStatus::Succeeded
            && let Some(fields) = &rules.output
        {
            let output = object(fields, &|path| self.find(path, None));
            self.returned = output.filter(|output| output.to_string().len() <= OUTPUT_MAX);
            self.is_without_output = self.returned.is_none();
        }
        self.phase = Phase::Handlers;
        let outcome = self.outcome();
        for (place, after) in (rules.order.len()..).zip(&rules.handlers) {
            let is_for_it = match after {
                After::Failure => outcome == RunStatus::Failed,
                After::Success => outcome == RunStatus::Succeeded,
                After::Any => true,
            };
            if is_for_it {
                self.start(place, now, due);
            } else {
                self.nodes[place].status = NodeStatus::Skipped;
            }
        }
    }
}
