//! A flood of signals to one key.

use anyhow::Result;
use futures::future::try_join_all;
use temporalio_common::data_converters::RawValue;
use tidings_model::Key;
use tidings_store::Store;

use crate::{env::Env, signals::signal};

/// The server fails a workflow task during which more than 100 signals arrive. temporalio-sdk-core 0.10.1 then sometimes takes the
/// result of a local activity of that task for one of the next (`Missing associated machine for LocalActivity`). It answers for the
/// run no more until the worker restarts. The changelog of 0.11.0 names a cure, but the newest temporalio-sdk, 1.1.1, needs 0.10.1.
/// The fault is gone when floods without pauses always pass.
const AT_ONCE: usize = 80;

/// Sends the signals as fast as the run takes them: the answer to a query says that it has taken all before.
///
/// # Errors
/// When the server refuses a signal, or no worker answers the query.
pub async fn flood<S: Store>(env: &Env<S>, key: &Key, signals: impl IntoIterator<Item = RawValue>) -> Result<()> {
    let mut signals = signals.into_iter().peekable();
    while signals.peek().is_some() {
        try_join_all(signals.by_ref().take(AT_ONCE).map(|inbound| signal(&env.temporal, key, inbound))).await?;
        env.status(key).await?;
    }
    Ok(())
}
