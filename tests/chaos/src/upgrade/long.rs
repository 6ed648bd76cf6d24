//! A key whose run has continued as new: its window outlasts the upgrade, and a thousand signals are behind it.

use std::fs;

use anyhow::{Result, anyhow};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use temporalio_client::Client;
use tidings_harness::{
    checker,
    signals::{json_events, signal},
};
use tidings_model::Key;

use crate::Files;

/// More signals than one run takes.
const SIGNALS: u32 = 1_010;
const AT_ONCE: usize = 4;

/// A key of the upgrade.
///
/// # Errors
/// When a part is invalid.
pub fn key(tenant: &str, digest_type: &str, user: &str) -> Result<Key> {
    Key::new(tenant.to_owned(), digest_type.to_owned(), user.to_owned()).map_err(|error| anyhow!("{error}"))
}

/// Signals until the run must have continued as new. The checker looks for the events.
///
/// # Errors
/// When the server refuses a signal, or the file cannot be written.
pub async fn grow(temporal: &Client, files: &Files) -> Result<()> {
    let key = key("acme", "hourly", "u7")?;
    let event = |number: u32| {
        let (id, occurred_at) = (format!("long-{number}"), jiff::Timestamp::now());
        json!({"event_id": id, "category": "comment", "occurred_at": occurred_at}).to_string()
    };
    let events: Vec<_> = (0..SIGNALS).map(event).collect();
    let signals = events.iter().map(|event| signal(temporal, &key, json_events([event.as_str()])));
    stream::iter(signals).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let told: String = (0..SIGNALS).map(|number| checker::acknowledged(&key, &format!("long-{number}"))).collect();
    Ok(fs::write(files.path("acknowledged/long.ndjson"), told)?)
}
