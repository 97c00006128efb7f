//! Makes the jobs of nodes, with their inputs.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::env::{OUTPUT_KEPT_MAX, kept_max, value_of};
use super::evaluate::{Missing, Release, Work};
use super::graph::{GraphNode, InputField, InputSource};
use super::node_ref::NodeRef;
use super::path::{Path, Root};
use super::state::NodeStatus;
use crate::id::JobId;
use crate::json;
use crate::random::SplitMix64;

/// As long as the input of a submitted job may be.
const INPUT_MAX: usize = 256 * 1024;

/// Why a node cannot have its input.
pub(super) enum NoInput {
    Missing(Missing),
    Reason(String),
}

impl From<Missing> for NoInput {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl Work<'_> {
    /// Remembers an output if other nodes read it.
    pub(super) fn keep(&mut self, ended: NodeRef, output: Option<&Bytes>, jobs: usize) {
        let Some(output) = output.filter(|_| self.graph.node(ended.node).is_read) else { return };
        if output.len() > kept_max(jobs) {
            self.node_mut(ended.node).output_too_long = true;
            return;
        }
        self.fresh.entry(ended.node).or_default().insert(ended.item, value_of(output));
        self.kept.push((ended, output.clone()));
    }

    pub(super) fn condition_holds(&self, node: u16) -> Result<bool, Missing> {
        let graph = self.graph.node(node);
        let Some(condition) = &graph.condition else { return Ok(true) };
        condition.holds(&mut |path| self.find(graph, path, None))
    }

    /// What stands at a path. An error if the output that it begins with has not been read.
    pub(super) fn find(&self, reader: &GraphNode, path: &Path, item: Option<&Value>) -> Result<Option<Value>, Missing> {
        let node = match path.root {
            Root::Run => return Ok(path.find(self.head.input).cloned()),
            Root::Item => return Ok(item.and_then(|item| path.find(item)).cloned()),
            Root::Node(node) => node,
        };
        let state = &self.state.nodes[usize::from(node)];
        if state.status != NodeStatus::Succeeded {
            return Ok(None);
        }
        let fresh = self.fresh.get(&node);
        let Some(fan) = &state.fan else {
            if let Some(output) = fresh.and_then(|outputs| outputs.get(&0)) {
                return Ok(path.find(output).cloned());
            }
            let outputs = self.known.outputs(node).ok_or_else(|| self.missing(reader))?;
            return Ok(outputs.get(&0).and_then(|output| path.find(output)).cloned());
        };
        let known = self.known.outputs(node).ok_or_else(|| self.missing(reader))?;
        let output = |item: u32| fresh.and_then(|fresh| fresh.get(&item)).or_else(|| known.get(&item));
        let list = (0..fan.len() as u32).map(|item| output(item).cloned().unwrap_or(Value::Null));
        Ok(path.find(&Value::Array(list.collect())).cloned())
    }

    /// All that the node reads and that is not known, so that it is read at once.
    fn missing(&self, reader: &GraphNode) -> Missing {
        Missing(reader.reads().filter(|&node| self.known.outputs(node).is_none()).collect())
    }

    /// What the run returns, or why it fails although its nodes have succeeded.
    pub(super) fn set_output(&mut self) -> Result<(), Missing> {
        let graph = self.graph;
        let Some(output) = &graph.output else { return Ok(()) };
        let fields = output.input.as_deref().unwrap_or_default();
        match self.fields(output, fields, None) {
            Ok(value) => {
                let len = value.to_string().len();
                if len > OUTPUT_KEPT_MAX {
                    let reason = format!("its output is too large ({len} bytes; the limit is {OUTPUT_KEPT_MAX})");
                    self.state.broken = Some(reason);
                } else {
                    self.state.output = Some(value);
                }
                Ok(())
            }
            Err(NoInput::Reason(reason)) => {
                self.state.broken = Some(format!("output: {reason}"));
                Ok(())
            }
            Err(NoInput::Missing(missing)) => Err(missing),
        }
    }

    fn fields(&self, reader: &GraphNode, fields: &[InputField], item: Option<&Value>) -> Result<Value, NoInput> {
        let mut object = Map::new();
        for field in fields {
            let value = match &field.source {
                InputSource::Value(value) => value.clone(),
                InputSource::From { path, default } => match self.find(reader, path, item)? {
                    Some(value) => value,
                    None => default.clone().ok_or_else(|| {
                        NoInput::Reason(format!("`{}`: there is nothing at `{}`", field.name, path.text))
                    })?,
                },
            };
            object.insert(field.name.clone(), value);
        }
        Ok(Value::Object(object))
    }

    pub(super) fn input(&self, node: u16, item: Option<&Value>) -> Result<Option<Bytes>, NoInput> {
        let graph = self.graph.node(node);
        let value = match &graph.input {
            None => item.unwrap_or(self.head.input).clone(),
            Some(fields) => self.fields(graph, fields, item).map_err(|error| match error {
                NoInput::Reason(reason) => NoInput::Reason(format!("input {reason}")),
                missing @ NoInput::Missing(_) => missing,
            })?,
        };
        if value.is_null() {
            return Ok(None);
        }
        let bytes = serde_json::to_vec(&value).expect("a value is JSON");
        if bytes.len() > INPUT_MAX || json::depth(&bytes) > json::DEPTH_MAX {
            let what = format!("{} bytes, {} levels", bytes.len(), json::depth(&bytes));
            let limit = format!("{INPUT_MAX} bytes and {} levels", json::DEPTH_MAX);
            return Err(NoInput::Reason(format!("its input is too large ({what}; the limit is {limit})")));
        }
        Ok(Some(Bytes::from(bytes)))
    }

    /// Releases the job of a node, or fails the node if it cannot have one.
    pub(super) fn release(&mut self, node: u16) -> Result<(), Missing> {
        match self.release_one(node, 0, None) {
            Ok(job) => {
                let now = self.now;
                let state = self.node_mut(node);
                state.status = NodeStatus::Active;
                state.job = Some(job);
                state.released_at = Some(now);
                Ok(())
            }
            Err(NoInput::Missing(missing)) => Err(missing),
            Err(NoInput::Reason(reason)) => {
                self.finish(node, NodeStatus::Failed, Some(reason));
                Ok(())
            }
        }
    }

    pub(super) fn release_one(&mut self, node: u16, item: u32, element: Option<&Value>) -> Result<JobId, NoInput> {
        let input = self.input(node, element)?;
        let task = self.head.tasks.get(usize::from(node)).copied().flatten();
        let Some((task, priority)) = task.filter(|(task, _)| !self.known.is_gone(*task)) else {
            return Err(NoInput::Reason("its task is not there any more".to_owned()));
        };
        let round = self.state.nodes[usize::from(node)].round;
        let node = NodeRef { run: self.head.id, node, round, item };
        let job = JobId::new(self.now, node.run.shard(), random_of(node));
        self.released_bytes += input.as_ref().map_or(0, Bytes::len);
        self.releases.push(Release { job, node, task, priority, input });
        Ok(job)
    }
}

/// The same bits whenever the same step is worked out.
pub(super) fn random_of(node: NodeRef) -> u64 {
    let run = node.run.as_u128();
    let seed = SplitMix64::new((run >> 64) as u64 ^ (run as u64).rotate_left(32)).bits();
    let place = u64::from(node.node) << 48 | u64::from(node.round) << 32 | u64::from(node.item);
    SplitMix64::new(seed ^ place).bits()
}
