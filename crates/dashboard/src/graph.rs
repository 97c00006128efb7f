//! A workflow as a drawing: layers from left to right, each node as far left as what it needs permits.

use std::collections::HashMap;

use maud::{Markup, html};

use crate::state::Meaning;
use crate::text::{clean, short};

/// A node as it is drawn.
pub(crate) struct GraphNode<'a> {
    pub(crate) name: &'a str,
    pub(crate) needs: &'a [String],
    pub(crate) meaning: Meaning,
    pub(crate) word: String,
    /// A line below the name.
    pub(crate) note: String,
    pub(crate) link: String,
}

const WIDTH: usize = 164;
const HEIGHT: usize = 42;
const COLUMN: usize = WIDTH + 44;
const ROW: usize = HEIGHT + 14;
/// Nobody reads a picture of more; the table has all of them.
const DRAWN_MAX: usize = 150;
const CHARS_MAX: usize = 18;
/// Passes over the layers. More change little.
const PASSES: usize = 6;

pub(crate) fn graph(nodes: &[GraphNode<'_>]) -> Markup {
    if nodes.len() > DRAWN_MAX {
        return html! { p.muted { "The graph has " (nodes.len()) " nodes, too many for a picture; the table has all of them." } };
    }
    let places = places(nodes);
    let columns = places.iter().map(|place| place.0 + 1).max().unwrap_or(0);
    let heights: Vec<usize> =
        (0..columns).map(|column| places.iter().filter(|place| place.0 == column).count()).collect();
    let rows = heights.iter().copied().max().unwrap_or(0);
    let (width, height) = ((columns * COLUMN).saturating_sub(44) + 4, (rows * ROW).saturating_sub(14) + 4);
    // Columns are centred, so that edges are short.
    let corner = |index: usize| {
        let (column, row) = places[index];
        (column * COLUMN + 2, row * ROW + (rows - heights[column]) * ROW / 2 + 2)
    };
    let index: HashMap<&str, usize> = nodes.iter().enumerate().map(|(index, node)| (node.name, index)).collect();
    html! {
        div.scroll tabindex="0" role="group" aria-label="Graph; the table below has the same" {
            svg.chart width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(format!("{} nodes in {columns} layers", nodes.len())) {
                @for (at, node) in nodes.iter().enumerate() {
                    @for need in node.needs {
                        @if let Some(from) = index.get(need.as_str()) {
                            @let (from, to) = (corner(*from), corner(at));
                            @let (x1, y1, x2, y2) = (from.0 + WIDTH, from.1 + HEIGHT / 2, to.0, to.1 + HEIGHT / 2);
                            path.edge d=(format!("M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}", x1 + 22, x2.saturating_sub(22))) {}
                        }
                    }
                }
                @for (at, node) in nodes.iter().enumerate() {
                    @let (x, y) = corner(at);
                    a href=(node.link) class=(node.meaning.class()) {
                        title { (clean(node.name)) ": " (node.word) }
                        rect.box x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="7" {}
                        svg x=(x + 10) y=(y + 7) width="14" height="14" viewBox="0 0 16 16" { g.s { (node.meaning.shape()) } }
                        text.label x=(x + 30) y=(y + 18) { (short(node.name, CHARS_MAX)) }
                        text x=(x + 30) y=(y + 33) { (short(&node.note, CHARS_MAX + 4)) }
                    }
                }
            }
        }
    }
}

/// Column and row of each node.
fn places(nodes: &[GraphNode<'_>]) -> Vec<(usize, usize)> {
    let index: HashMap<&str, usize> = nodes.iter().enumerate().map(|(index, node)| (node.name, index)).collect();
    let needs: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| node.needs.iter().filter_map(|need| index.get(need.as_str()).copied()).collect())
        .collect();
    let mut layers = vec![0_usize; nodes.len()];
    // A graph without cycles is done after as many rounds as it has layers.
    for _ in 0..nodes.len() {
        let mut has_changed = false;
        for node in 0..nodes.len() {
            let layer = needs[node].iter().map(|need| layers[*need] + 1).max().unwrap_or(0).min(nodes.len());
            has_changed |= layers[node] != layer;
            layers[node] = layer;
        }
        if !has_changed {
            break;
        }
    }
    let count = layers.iter().max().map_or(0, |layer| layer + 1);
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (node, layer) in layers.iter().enumerate() {
        columns[*layer].push(node);
    }
    let mut rows = vec![0.0_f64; nodes.len()];
    let number = |column: &[usize], rows: &mut [f64]| {
        for (row, node) in column.iter().enumerate() {
            // Around the middle, as they are drawn.
            rows[*node] = row as f64 - column.len() as f64 / 2.0;
        }
    };
    columns.iter().for_each(|column| number(column, &mut rows));
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (node, needs) in needs.iter().enumerate() {
        needs.iter().for_each(|need| followers[*need].push(node));
    }
    // A node stands where its neighbours are on average, from left to right and back.
    for pass in 0..PASSES {
        let neighbours = if pass % 2 == 0 { &needs } else { &followers };
        for step in 0..count {
            let column = if pass % 2 == 0 { step } else { count - 1 - step };
            let mean = |node: usize| match neighbours[node].as_slice() {
                [] => rows[node],
                all => all.iter().map(|other| rows[*other]).sum::<f64>() / all.len() as f64,
            };
            let mut wanted: Vec<(f64, usize)> = columns[column].iter().map(|node| (mean(*node), *node)).collect();
            wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
            columns[column] = wanted.into_iter().map(|(_, node)| node).collect();
            number(&columns[column], &mut rows);
        }
    }
    let mut places = vec![(0, 0); nodes.len()];
    for (column, nodes) in columns.iter().enumerate() {
        for (row, node) in nodes.iter().enumerate() {
            places[*node] = (column, row);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(edges: &[(&'static str, &[&str])]) -> Vec<(usize, usize)> {
        let needs: Vec<Vec<String>> =
            edges.iter().map(|(_, needs)| needs.iter().map(|need| (*need).to_owned()).collect()).collect();
        let nodes: Vec<GraphNode<'_>> = edges
            .iter()
            .zip(&needs)
            .map(|((name, _), needs)| GraphNode {
                name,
                needs,
                meaning: Meaning::Waiting,
                word: String::new(),
                note: String::new(),
                link: String::new(),
            })
            .collect();
        places(&nodes)
    }

    #[test]
    fn a_node_stands_right_of_all_that_it_needs() {
        let all = placed(&[("d", &["b", "c"]), ("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]);
        assert_eq!(all.iter().map(|place| place.0).collect::<Vec<_>>(), [3, 0, 1, 2]);
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        // Written so that the order of the file would cross them.
        let all = placed(&[("a", &[]), ("b", &[]), ("of-b", &["b"]), ("of-a", &["a"])]);
        assert_eq!(all[0].1 < all[1].1, all[3].1 < all[2].1);
    }

    #[test]
    fn no_two_nodes_share_a_place_and_a_cycle_ends() {
        let mut all = placed(&[("a", &["b"]), ("b", &["a"]), ("c", &["a", "gone"]), ("d", &[])]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
    }
}
