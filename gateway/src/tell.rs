//! Tells open windows that the store has something new for their keys. A window looks again when it is due, so that a failure
//! delays only what the status shows and what a choice makes of the deadline.

use std::time::Duration;

use futures::future::join_all;
use tidings_activities::choices;
use tidings_model::Key;
use tokio::time::timeout;

use crate::State;

/// Time limit for each window.
const TELL: Duration = Duration::from_secs(2);

/// Tells the open windows of these keys, under each of their names, all at once.
pub(crate) async fn open_windows(state: &State, keys: &[Key]) {
    let client = &state.temporal();
    let keys: Vec<_> = keys.iter().flat_map(|key| state.settings.names.keys(key)).collect();
    let told = keys.iter().map(|key| async move {
        let told = async {
            match client {
                Some(client) => choices::tell(client, key).await.map_err(|error| error.to_string()),
                None => Err("Temporal has not answered yet".to_owned()),
            }
        };
        let told = timeout(TELL, told).await.unwrap_or_else(|_| Err("Temporal does not answer".to_owned()));
        if let Err(why) = told {
            tracing::warn!(%key, why, "the open window learns of the recipient's wish at its deadline");
        }
    });
    join_all(told).await;
}
