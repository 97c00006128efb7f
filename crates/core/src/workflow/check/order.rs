//! What comes before what: unknown nodes and cycles.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Faults;
use crate::workflow::spec::WorkflowSpec;

pub(super) fn read_needs(spec: &WorkflowSpec, names: &HashMap<&str, usize>, faults: &mut Faults) -> Vec<Vec<usize>> {
    let mut all = Vec::with_capacity(spec.nodes.len());
    for (node, one) in spec.nodes.iter().enumerate() {
        let mut needs = Vec::with_capacity(one.needs.len());
        for (place, name) in one.needs.iter().enumerate() {
            let at = format!("/nodes/{node}/needs/{place}");
            match names.get(name.as_str()) {
                None => faults.add(at, format!("there is no node `{name}`")),
                Some(&need) if need >= spec.nodes.len() => {
                    faults.add(at, format!("`{name}` runs after all nodes, so no node can need it"));
                }
                Some(need) if needs.contains(need) => faults.add(at, format!("`{name}` is named twice")),
                Some(&need) => needs.push(need),
            }
        }
        all.push(needs);
    }
    all
}

/// An order in which each node comes after those that it needs; among those that could come next, the one that was written
/// first. An error with the nodes of a cycle, the first one again at its end.
pub(super) fn order(needs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut left: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (node, needs) in needs.iter().enumerate() {
        for &need in needs {
            children[need].push(node);
        }
    }
    let mut ready: BTreeSet<usize> = (0..needs.len()).filter(|&node| left[node] == 0).collect();
    let mut order = Vec::with_capacity(needs.len());
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for &child in &children[node] {
            left[child] -= 1;
            if left[child] == 0 {
                ready.insert(child);
            }
        }
    }
    if order.len() == needs.len() { Ok(order) } else { Err(cycle(needs, &left)) }
}

/// Each node that is left needs another that is left, so that whoever follows them comes back.
fn cycle(needs: &[Vec<usize>], left: &[usize]) -> Vec<usize> {
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let mut path = Vec::new();
    let mut node = left.iter().position(|left| *left > 0).expect("some are left");
    loop {
        if let Some(&from) = seen.get(&node) {
            // From cause to consequence, as the nodes would run.
            let mut cycle = path.split_off(from);
            cycle.push(node);
            cycle.reverse();
            return cycle;
        }
        seen.insert(node, path.len());
        path.push(node);
        node = *needs[node].iter().find(|need| left[**need] > 0).expect("a node of a cycle needs another one");
    }
}

/// A bit for each node that comes before, for each node.
pub(super) fn ancestors(needs: &[Vec<usize>], order: &[usize]) -> Vec<Vec<u64>> {
    let words = needs.len().div_ceil(64);
    let mut all = vec![vec![0_u64; words]; needs.len()];
    for &node in order {
        let mut mine = vec![0_u64; words];
        for &need in &needs[node] {
            mine.iter_mut().zip(&all[need]).for_each(|(mine, theirs)| *mine |= theirs);
            mine[need / 64] |= 1 << (need % 64);
        }
        all[node] = mine;
    }
    all
}
