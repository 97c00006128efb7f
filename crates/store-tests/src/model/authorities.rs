use punctual_core::Timestamp;
use punctual_store::{AuthorityRow, Result};

use super::ModelStore;

impl ModelStore {
    pub fn authorities_now(&self) -> Vec<AuthorityRow> {
        self.state().authorities.values().cloned().collect()
    }

    pub fn add_authority_now(&self, row: AuthorityRow, retire_others: Timestamp) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            if state.authorities.get(&row.generation).is_some() {
                return Ok(false);
            }
            let is_former = |known: &&AuthorityRow| known.generation < row.generation && known.retired_at.is_none();
            let former: Vec<AuthorityRow> = state.authorities.values().filter(is_former).cloned().collect();
            for known in former {
                state.authorities.put(known.generation, AuthorityRow { retired_at: Some(retire_others), ..known });
            }
            state.authorities.put(row.generation, row);
            Ok(true)
        })
    }
}
