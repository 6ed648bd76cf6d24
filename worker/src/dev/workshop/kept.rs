//! JSON that was pasted into a page. The page's address has its id, so that the page can be loaded again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use uuid::Uuid;

/// The limit of one JSON in bytes.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// JSON that is kept; older ones are dropped.
const MOST: usize = 50;

/// The latest JSON of all pages, in memory.
#[derive(Default)]
pub(super) struct Kept(Mutex<VecDeque<(Uuid, Arc<str>)>>);

impl Kept {
    /// Keeps a JSON. The same text has the same id.
    pub fn put(&self, json: &str) -> Uuid {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, json.as_bytes());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != id);
        kept.push_front((id, json.into()));
        kept.truncate(MOST);
        id
    }

    /// The JSON with this id, if it is kept.
    pub fn get(&self, id: &str) -> Option<Arc<str>> {
        let id: Uuid = id.parse().ok()?;
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(other, _)| *other == id).map(|(_, json)| Arc::clone(json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_json_is_kept_under_its_id() {
        let kept = Kept::default();
        let first = kept.put("{}");
        assert_eq!(kept.get(&first.to_string()).as_deref(), Some("{}"));
        for n in 0..MOST - 1 {
            kept.put(&n.to_string());
        }
        assert_eq!(kept.put("{}"), first);
        kept.put("new");
        assert!(kept.get(&first.to_string()).is_some(), "it was put again");
        for n in 0..MOST {
            kept.put(&format!("x{n}"));
        }
        assert_eq!(kept.get(&first.to_string()), None);
        assert_eq!(kept.get("nonsense"), None);
    }
}
