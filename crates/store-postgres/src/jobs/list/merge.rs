//! Several lists as one, and the page that is cut from it.

use punctual_store::{Order, Page};

/// Rows in order, with where each stands.
pub(super) struct List<T, K = u128> {
    pub(super) rows: Vec<(K, T)>,
    /// There may be more behind them.
    pub(super) is_cut: bool,
}

/// The rows of several lists, and where they end, with the place of the list that was cut there.
pub(super) type Merged<T, K> = (Vec<(K, T)>, Option<(K, usize)>);

/// Several lists as one; and where it ends, if any of them was cut, and which of them that was: behind the end of that
/// list there may be rows that come before those of the others.
pub(super) fn merge<K: Ord + Copy, T>(lists: Vec<List<T, K>>, order: Order) -> Merged<T, K> {
    let is_before = |one: K, other: K| match order {
        Order::Ascending => one < other,
        Order::Descending => one > other,
    };
    let cut = lists.iter().enumerate().filter(|(_, list)| list.is_cut);
    let ends = cut.filter_map(|(place, list)| Some((list.rows.last()?.0, place)));
    let end = ends.reduce(|one, other| if is_before(other.0, one.0) { other } else { one });
    let mut merged: Vec<_> = lists.into_iter().flat_map(|list| list.rows).collect();
    merged.retain(|(key, _)| end.is_none_or(|(end, _)| !is_before(end, *key)));
    merged.sort_by_key(|(key, _)| *key);
    if order == Order::Descending {
        merged.reverse();
    }
    (merged, end)
}

/// A row is a key, and what it stands for if it belongs into the list.
pub(super) fn page<T, K: Copy>(examined: Vec<(K, Option<T>)>, is_cut: bool, limit: usize) -> Page<T, K> {
    let limit = limit.max(1);
    let last_examined = examined.last().map(|(key, _)| *key);
    let mut rows = Vec::new();
    let mut last_listed = None;
    for (key, found) in examined {
        let Some(found) = found else { continue };
        // Only the row after the last tells that there is a next page.
        if rows.len() == limit {
            return Page { rows, next: last_listed };
        }
        rows.push(found);
        last_listed = Some(key);
    }
    Page { rows, next: last_examined.filter(|_| is_cut) }
}

#[cfg(test)]
mod tests {
    use punctual_core::{JobId, ShardId, Timestamp};

    use super::*;

    fn id(n: i64) -> JobId {
        JobId::new(Timestamp::from_micros(n).unwrap(), ShardId(0), 0)
    }

    fn list(numbers: &[i64], each: usize) -> List<Option<i64>, JobId> {
        // Odd ones do not fit.
        let rows = numbers.iter().map(|&n| (id(n), (n % 2 == 0).then_some(n))).collect();
        List { rows, is_cut: numbers.len() >= each }
    }

    #[track_caller]
    fn check(lists: &[&[i64]], each: usize, order: Order, limit: usize, rows: &[i64], next: Option<i64>) {
        let lists = lists.iter().map(|numbers| list(numbers, each)).collect();
        let (examined, end) = merge(lists, order);
        let page = page(examined, end.is_some(), limit);
        assert_eq!((page.rows, page.next), (rows.to_vec(), next.map(id)));
    }

    #[test]
    fn lists_are_merged_as_far_as_all_of_them_were_read() {
        check(&[&[2, 8], &[4, 6]], 9, Order::Ascending, 9, &[2, 4, 6, 8], None);
        check(&[&[2, 8], &[4, 6]], 2, Order::Ascending, 9, &[2, 4, 6], Some(6));
        check(&[&[8, 2], &[6, 4]], 2, Order::Descending, 9, &[8, 6, 4], Some(4));
        check(&[&[2, 8], &[4, 6]], 9, Order::Ascending, 2, &[2, 4], Some(4));
        check(&[&[2, 3, 5], &[]], 3, Order::Ascending, 1, &[2], Some(5));
        check(&[&[1, 3], &[]], 2, Order::Ascending, 1, &[], Some(3));
        check(&[], 2, Order::Ascending, 1, &[], None);
    }
}
