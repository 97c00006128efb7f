//! What nodes read: the fields of inputs, and the paths in them.

use std::collections::BTreeMap;

use super::FIELDS_MAX;
use super::node::{Reader, Scope};
use crate::workflow::graph::{InputField, InputSource};
use crate::workflow::path::{ITEM, PATH_CHARS_MAX, Path, RUN, Root};
use crate::workflow::spec::InputSpec;

impl Reader<'_> {
    pub(super) fn input(&mut self, at: &str, input: &BTreeMap<String, InputSpec>, scope: Scope) -> Vec<InputField> {
        self.fields(&format!("{at}/input"), input, scope)
    }

    pub(super) fn fields(&mut self, at: &str, input: &BTreeMap<String, InputSpec>, scope: Scope) -> Vec<InputField> {
        if input.len() > FIELDS_MAX {
            self.faults.add(at, format!("must be at most {FIELDS_MAX} fields, not {}", input.len()));
            return Vec::new();
        }
        let mut fields = Vec::with_capacity(input.len());
        for (name, spec) in input {
            let at = format!("{at}/{}", escaped(name));
            let source = match (&spec.from, &spec.value) {
                (None, Some(value)) if spec.default.is_none() => Some(InputSource::Value(value.clone())),
                (Some(from), None) => self
                    .path(&format!("{at}/from"), from, scope)
                    .map(|path| InputSource::From { path, default: spec.default.clone() }),
                (None, Some(_)) => {
                    self.faults.add(format!("{at}/default"), "only `from` has a `default`");
                    None
                }
                (Some(_), Some(_)) | (None, None) => {
                    self.faults.add(at, "must have exactly one of `from` and `value`");
                    None
                }
            };
            fields.extend(source.map(|source| InputField { name: name.clone(), source }));
        }
        fields
    }

    pub(super) fn path(&mut self, at: &str, text: &str, scope: Scope) -> Option<Path> {
        let mut steps = text.split('.');
        let root = steps.next().unwrap_or_default();
        let steps: Vec<String> = steps.map(str::to_owned).collect();
        if text.len() > PATH_CHARS_MAX || root.is_empty() || steps.iter().any(String::is_empty) {
            let detail = format!("must be a path of at most {PATH_CHARS_MAX} characters, such as `extract.rows.0`");
            self.faults.add(at, detail);
            return None;
        }
        let root = match root {
            RUN => Root::Run,
            ITEM if scope.has_item => Root::Item,
            ITEM => {
                self.faults.add(at, "`item` is only there in the `input` of a node with `for_each`");
                return None;
            }
            name => Root::Node(self.readable(at, name, scope)?),
        };
        Some(Path { root, steps, text: text.to_owned() })
    }

    /// A node that has ended whenever the one that reads it starts.
    fn readable(&mut self, at: &str, name: &str, scope: Scope) -> Option<u16> {
        let Some(&read) = self.names.get(name).filter(|read| **read < self.spec.nodes.len()) else {
            let hint = "a path begins with the name of a node, with `run` for the input of the run, or with `item`";
            self.faults.add_with_hint(at, format!("there is no node `{name}`"), hint);
            return None;
        };
        let comes_before = |node: usize| self.ancestors[node][read / 64] & (1 << (read % 64)) != 0;
        if !scope.node.is_none_or(comes_before) {
            let detail = format!("`{name}` does not come before this node, so it may have no output yet");
            self.faults.add_with_hint(at, detail, "add it to `needs`");
            return None;
        }
        if self.spec.nodes[read].gate.as_ref().is_some_and(|gate| gate.event.is_none()) {
            self.faults.add(at, format!("`{name}` is a gate that people decide, which has no output"));
            return None;
        }
        Some(read as u16)
    }
}

/// A field as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
