//! Retracts that go to the ledger before they reach their workflows (rule 6).

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_model::{
    Key, Retract,
    records::{Reach, Reached},
};
use tidings_store::{Result, Store};

/// Reads what the retracts reach, and keeps messages that wait from going out with a retracted event. The workflows of the keys need the
/// retracts as well, for events that the ledger does not have. `now` is a time before they got them: what an alert's next firing brought
/// to the ledger meanwhile stays.
///
/// # Errors
/// The store cannot answer.
pub async fn take_back(store: &dyn Store, retracts: &[(Key, Retract)], now: Timestamp) -> Result<Vec<Reached>> {
    let reached = store.reach(retracts, now).await?;
    let mut waiting: BTreeMap<&Key, Vec<Retract>> = BTreeMap::new();
    for ((key, retract), _) in retracts.iter().zip(&reached).filter(|(_, reached)| reached.reach == Reach::Waiting) {
        waiting.entry(key).or_default().push(retract.clone().until(now));
    }
    if waiting.is_empty() {
        return Ok(reached);
    }
    for (key, retracts) in waiting {
        store.put_retracts(key, &retracts, now).await?;
    }
    // An attempt may have passed the dot before.
    store.reach(retracts, now).await
}
