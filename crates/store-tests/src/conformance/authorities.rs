use punctual_core::Timestamp;
use punctual_store::{AuthorityRow, Store};

use crate::fixture::*;

fn authority(generation: u32, mark: u8) -> AuthorityRow {
    AuthorityRow {
        generation,
        certificate: vec![mark; 500],
        sealed_key: vec![mark, 0, 255],
        created_at: at(i64::from(generation)),
        retired_at: None,
    }
}

fn ends(rows: &[AuthorityRow]) -> Vec<(u32, u8, Option<Timestamp>)> {
    rows.iter().map(|row| (row.generation, row.certificate[0], row.retired_at)).collect()
}

pub(super) async fn the_first_authority_of_a_generation_stays(store: &dyn Store) {
    assert_eq!(store.authorities().await.unwrap(), []);
    assert!(store.add_authority(authority(1, 7), at(50)).await.unwrap());
    assert!(!store.add_authority(authority(1, 8), at(60)).await.unwrap(), "another server was first");
    assert_eq!(store.authorities().await.unwrap(), [authority(1, 7)]);
}

pub(super) async fn a_new_authority_retires_those_before_it_once(store: &dyn Store) {
    store.add_authority(authority(1, 1), at(50)).await.unwrap();
    assert!(store.add_authority(authority(2, 2), at(60)).await.unwrap());
    assert!(!store.add_authority(authority(2, 9), at(70)).await.unwrap());
    assert_eq!(ends(&store.authorities().await.unwrap()), [(1, 1, Some(at(60))), (2, 2, None)]);
    assert!(store.add_authority(authority(3, 3), at(80)).await.unwrap());
    let rows = store.authorities().await.unwrap();
    assert_eq!(ends(&rows), [(1, 1, Some(at(60))), (2, 2, Some(at(80))), (3, 3, None)]);
    assert!(!format!("{rows:?}").contains("255"), "the key is not for logs");
}
