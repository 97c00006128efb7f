//! How much text one rendering may work on. Fuel counts steps, and a step may be over a text of 64 KiB.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Object, Serde, Value};
use minijinja::{Error, ErrorKind};

/// The longest built-in text 256 times; what people write takes it once or twice.
const BYTES_MAX: usize = 16 << 20;
/// Lists are looked up to get at a part of them; to compare two is rare, and reads them whole.
const PART_OF_LIST: usize = 4;

/// What is left for a rendering.
#[derive(Debug)]
pub(super) struct Effort(AtomicUsize);

impl Effort {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(BYTES_MAX)))
    }

    pub(super) fn spend(&self, bytes: usize) -> Result<(), Error> {
        let spent = self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        let detail = "it works on too much text; does it use `text` or `events` within loops?";
        spent.map(drop).map_err(|_| Error::new(ErrorKind::OutOfFuel, detail))
    }
}

/// What templates see by name, and what it takes to look it up.
pub(super) type Named = BTreeMap<String, (Value, usize)>;

pub(super) fn named(seen: serde_json::Map<String, serde_json::Value>) -> Named {
    let sized = |(name, value): (String, serde_json::Value)| {
        let bytes = value.to_string().len();
        let is_list = value.is_array() || value.is_object();
        let taken = if is_list { bytes / PART_OF_LIST } else { bytes };
        (name, (Value::from(Serde(value)), taken))
    };
    seen.into_iter().map(sized).collect()
}

/// Each look-up is paid for, as operators may read all of what it brings.
#[derive(Debug)]
pub(super) struct Metered {
    pub(super) named: Arc<Named>,
    pub(super) effort: Arc<Effort>,
}

impl Object for Metered {
    fn get_value(self: &Arc<Self>, name: &Value) -> Option<Value> {
        let (value, taken) = self.named.get(name.as_str()?)?;
        // An error as a value is one as soon as it is used.
        Some(self.effort.spend(*taken).map_or_else(Value::from, |()| value.clone()))
    }
}
