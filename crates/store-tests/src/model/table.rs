use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Deref;

/// Rows in order, with the way back to how they were at the last `keep`.
#[derive(Debug, Clone)]
pub(super) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    before: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), before: Vec::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub(super) fn put(&mut self, key: K, value: V) {
        let before = self.rows.insert(key.clone(), value);
        self.before.push((key, before));
    }

    pub(super) fn take(&mut self, key: &K) -> Option<V> {
        let value = self.rows.remove(key)?;
        self.before.push((key.clone(), Some(value.clone())));
        Some(value)
    }

    pub(super) fn take_all(&mut self, goes: impl Fn(&K, &V) -> bool) {
        let keys: Vec<K> =
            self.rows.iter().filter(|(key, value)| goes(key, value)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.take(&key);
        }
    }

    pub(super) fn has<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.rows.contains_key(key)
    }

    pub(super) fn keep(&mut self) {
        self.before.clear();
    }

    pub(super) fn go_back(&mut self) {
        while let Some((key, before)) = self.before.pop() {
            match before {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }
}

impl<K, V> Deref for Table<K, V> {
    type Target = BTreeMap<K, V>;
    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}
