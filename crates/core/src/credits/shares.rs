//! Dividing a number.

/// Divides slots as evenly as possible; the remainder goes to the first servers. If there is not one for each, the turn
/// decides who is first.
pub(super) fn divide(total: u32, among: usize, turn: usize) -> Vec<u32> {
    let Ok(count) = u32::try_from(among) else { return vec![0; among] };
    if count == 0 {
        return Vec::new();
    }
    let first = if total < count { turn % among } else { 0 };
    let share = |place: usize| {
        let place = (place + among - first) % among;
        total / count + u32::from((place as u32) < total % count)
    };
    (0..among).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_the_rest_goes_to_the_first() {
        assert_eq!(divide(5, 2, 0), [3, 2]);
        assert_eq!(divide(5, 2, 1), [3, 2], "no turns where everyone has some");
        assert_eq!(divide(0, 2, 0), [0, 0]);
        assert_eq!(divide(3, 0, 0), [0; 0]);
    }

    #[test]
    fn everyone_has_a_turn_where_there_is_not_enough_for_all() {
        assert_eq!([0, 1, 2, 3].map(|turn| divide(1, 3, turn)), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]);
        assert_eq!(divide(2, 3, 2), [1, 0, 1]);
    }
}
