//! Signals to the running workflows that a pause covers, at a limited rate.

use std::fmt;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use temporalio_client::{Client, WorkflowListOptions, errors::ClientError};
use tidings_activities::choices;
use tidings_model::{MessageKey, names, pause::Scope};
use tracing::instrument;

use crate::{
    Config,
    commands::digest::{bulk::at_rate, key_filter::KeyFilter},
    phrases::counted,
};

/// The number of signals.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Woken {
    pub signalled: u64,
    pub failed: u64,
}

impl fmt::Display for Woken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} signalled, {} failed", counted(self.signalled, "running workflow"), self.failed)
    }
}

/// Signals the keys of the scope whose workflow runs, and with `messages` the single messages of its tenant. A workflow that
/// has ended meanwhile needs no signal.
///
/// # Errors
/// Temporal does not answer at all.
pub(super) async fn wake(config: &Config, scope: &Scope, messages: bool, rate: u32) -> anyhow::Result<Woken> {
    let temporal = config.temporal.connect().await?;
    let ids = running(&temporal, scope, messages).await.context("Temporal does not list the running workflows")?;
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} signals, {eta} left")?;
    let bar = ProgressBar::new(ids.len() as u64).with_style(style);
    let mut woken = Woken::default();
    let send = async |id: String| (choices::signal(&temporal, id.clone()).await, id);
    at_rate(ids, rate, send, |(answer, id)| {
        match answer {
            Ok(()) => woken.signalled += 1,
            Err(error) => {
                woken.failed += 1;
                bar.suspend(|| anstream::eprintln!("{id} was not signalled: {error:#}"));
            }
        }
        bar.inc(1);
    })
    .await;
    bar.finish_and_clear();
    Ok(woken)
}

/// The ids of the running workflows, as far as visibility knows them: that is a moment behind.
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "list_workflows", ?scope), err(level = "debug"))]
async fn running(temporal: &Client, scope: &Scope, messages: bool) -> Result<Vec<String>, ClientError> {
    let Scope { tenant, digest_type } = scope.clone();
    let keys = KeyFilter { tenant, digest_type, user: None }.keys(temporal).await?;
    let mut ids: Vec<_> = keys.iter().map(tidings_model::Key::workflow_id).collect();
    if messages {
        let found = temporal.list_workflows(messages_query(scope), WorkflowListOptions::default());
        let keys = found.try_filter_map(async |found| Ok(MessageKey::from_workflow_id(found.id())));
        let keys: Vec<_> = keys.try_collect().await?;
        ids.extend(keys.iter().filter(|key| scope.covers_tenant(&key.tenant)).map(MessageKey::workflow_id));
    }
    Ok(ids)
}

/// Asks by workflow id, as [`KeyFilter`] does.
fn messages_query(scope: &Scope) -> String {
    // The id of a message without a key ends with the slash after its tenant.
    let tenant = scope.tenant.clone().map(|tenant| MessageKey { tenant, key: String::new() }.workflow_id());
    let ids = tenant.unwrap_or_else(|| "message/".to_owned());
    format!(
        "WorkflowType = '{}' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{ids}'",
        names::MESSAGE_WORKFLOW_TYPE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_by_their_tenant() {
        for (tenant, prefix) in
            [(None, "message/"), (Some("acme"), "message/acme/"), (Some("a b'"), "message/a%20b%27/")]
        {
            let scope = Scope { tenant: tenant.map(str::to_owned), digest_type: None };
            assert!(messages_query(&scope).ends_with(&format!("STARTS_WITH '{prefix}'")), "{}", messages_query(&scope));
        }
    }
}
