//! Pauses (rule 35): scopes from `--filter`, resumes, affected workflows.

use futures::TryStreamExt as _;
use jiff::Timestamp;
use temporalio_client::{Client, WorkflowListOptions, errors::ClientError};
use tidings_model::{
    Key, MessageKey, names,
    pause::{Pause, PauseScope},
    records::AuditEntry,
    settings::FormerNames,
};
use tidings_store::Store;
use tracing::instrument;
use uuid::Uuid;

use crate::key_filter::KeyFilter;

pub struct ResumeOutcome {
    /// `None` if the pause was no longer in force.
    pub ended: Option<Pause>,
    pub still: Vec<Pause>,
}

/// Returns the latest pause with this scope under any name, even an ended one.
///
/// # Errors
/// If the store fails.
pub async fn latest_pause(
    store: &dyn Store,
    names: &FormerNames,
    scope: &PauseScope,
) -> tidings_store::Result<Option<Pause>> {
    let scope = names.scope_today(scope);
    Ok(store.pauses(true, Timestamp::now()).await?.into_iter().find(|pause| names.scope_today(&pause.scope) == scope))
}

/// Returns the pause, even an ended one.
///
/// # Errors
/// If the store fails.
pub async fn by_id(store: &dyn Store, id: Uuid) -> tidings_store::Result<Option<Pause>> {
    Ok(store.pauses(true, Timestamp::now()).await?.into_iter().find(|pause| pause.id == id))
}

/// Does nothing if the pause has already ended.
///
/// # Errors
/// If the store fails.
pub async fn resume(
    store: &dyn Store,
    names: &FormerNames,
    known: &Pause,
    entry: &AuditEntry,
) -> tidings_store::Result<ResumeOutcome> {
    let ended = if known.ended.is_none() { store.resume(&known.scope, entry).await? } else { None };
    let still = store.pauses(false, entry.at).await?;
    let scope = names.scope_today(&known.scope);
    let still = still.into_iter().filter(|other| names.scope_today(&other.scope).overlaps(&scope)).collect();
    Ok(ResumeOutcome { ended, still })
}

/// Lists workflows covered under each of the scope's names; with `messages`, also single messages. Visibility
/// lags.
///
/// # Errors
/// If Temporal fails.
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "list_workflows", ?scope), err(level = "debug"))]
pub async fn running_workflows(
    temporal: &Client,
    names: &FormerNames,
    scope: &PauseScope,
    messages: bool,
) -> Result<Vec<String>, ClientError> {
    let mut ids = Vec::new();
    for scope in names.all_scopes(scope) {
        ids.extend(running_under(temporal, &scope, messages).await?);
    }
    Ok(ids)
}

async fn running_under(temporal: &Client, scope: &PauseScope, messages: bool) -> Result<Vec<String>, ClientError> {
    let PauseScope { tenant, digest_type } = scope.clone();
    let keys = KeyFilter { tenant, digest_type, user: None }.keys(temporal).await?;
    let mut ids: Vec<_> = keys.iter().map(Key::workflow_id).collect();
    if messages {
        let found = temporal.list_workflows(messages_query(scope), WorkflowListOptions::default());
        let keys = found.try_filter_map(async |found| Ok(MessageKey::from_workflow_id(found.id())));
        let keys: Vec<_> = keys.try_collect().await?;
        ids.extend(keys.iter().filter(|key| scope.covers_tenant(&key.tenant)).map(MessageKey::workflow_id));
    }
    Ok(ids)
}

fn messages_query(scope: &PauseScope) -> String {
    // A message id with an empty key ends with the slash after its tenant.
    let tenant = scope.tenant.clone().map(|tenant| MessageKey { tenant, key: String::new() }.workflow_id());
    let ids = tenant.unwrap_or_else(|| "message/".to_owned());
    format!(
        "WorkflowType = '{}' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{ids}'",
        names::MESSAGE_WORKFLOW_TYPE
    )
}

const NOT_ONE_USER: &str = "a pause stops tenants and digest types, and no single user; \
     hold the key with `tidings digest hold TENANT/TYPE/USER --why TEXT`, \
     or set the recipient's own pause with `tidings preferences set TENANT/TYPE/USER --pause-until TIME`";

/// Parses `tenant=`, `digest_type=` or both, or `all`.
///
/// # Errors
/// Points at the wrong word, or explains the alternative for a single user.
pub fn parse_scope(words: &str) -> Result<PauseScope, String> {
    if words.trim() == "all" {
        return Ok(PauseScope::default());
    }
    let KeyFilter { tenant, digest_type, user } = words.parse().map_err(|error| format!("{error}"))?;
    match user {
        Some(_) => Err(NOT_ONE_USER.to_owned()),
        None => Ok(PauseScope { tenant, digest_type }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_by_their_tenant() {
        for (tenant, prefix) in
            [(None, "message/"), (Some("acme"), "message/acme/"), (Some("a b'"), "message/a%20b%27/")]
        {
            let scope = PauseScope { tenant: tenant.map(str::to_owned), digest_type: None };
            assert!(messages_query(&scope).ends_with(&format!("STARTS_WITH '{prefix}'")), "{}", messages_query(&scope));
        }
    }

    #[test]
    fn the_words_name_tenants_and_types_and_no_user() {
        for (words, expected) in [
            ("tenant=acme", "tenant=acme"),
            ("digest_type=alerts and tenant='big corp'", "tenant='big corp' and digest_type=alerts"),
            (" all ", "all"),
        ] {
            let scope = parse_scope(words).unwrap();
            assert_eq!(scope.to_string(), expected);
            assert_eq!(super::parse_scope(&scope.to_string()), Ok(scope), "the words come back");
        }
        for (words, problem) in [
            ("tenant=acme and user=ann", "tidings digest hold"),
            ("user=ann", "--pause-until"),
            ("all and tenant=acme", "\"all\" selects nothing"),
            ("", "write tenant="),
        ] {
            assert!(parse_scope(words).unwrap_err().contains(problem), "{words:?}");
        }
    }
}
