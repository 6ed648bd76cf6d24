//! Finds a person's keys in Temporal (rule 58). Neither configuration nor ledger has all digest types: one
//! may be removed or misspelt.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
};

use futures::TryStreamExt as _;
use temporalio_client::{Client, WorkflowListOptions, errors::ClientError};
use tidings_model::{Key, PersonId, records::PersonRecord, settings::Settings, troubled_run::FoundRun};
use tidings_services::visibility::{self, ended_run};
use tidings_store::Store;
use tracing::{Instrument as _, debug_span};

/// A person's runs in Temporal. Visibility lags, so the newest may be missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PersonRuns {
    pub types: BTreeSet<String>,
    /// Runs which were terminated, timed out or failed. Recovering one would emit its events again.
    pub ended: Vec<FoundRun>,
}

/// Lists the person under each of the tenant's names, including names that other processes used in stored rows.
///
/// # Errors
/// If the store fails.
pub async fn person_under_each_name(
    store: &dyn Store,
    settings: &Settings,
    person: &PersonId,
) -> tidings_store::Result<Vec<PersonId>> {
    let mut people = settings.names.all_people(person);
    for other in store.same_person(person).await? {
        if !people.contains(&other) {
            people.push(other);
        }
    }
    Ok(people)
}

/// # Errors
/// If the store fails.
pub async fn stored_person(store: &dyn Store, people: &[PersonId]) -> tidings_store::Result<PersonRecord> {
    let mut known = PersonRecord::default();
    for person in people {
        known += store.person(person).await?;
    }
    Ok(known)
}

/// Finds the person's open, terminated, timed out and failed runs, under each of the tenant's names.
/// Completed runs left their events to the ledger.
///
/// # Errors
/// If Temporal fails.
pub async fn find_runs(temporal: &Client, people: &[PersonId]) -> Result<PersonRuns, ClientError> {
    let mut all = PersonRuns::default();
    for PersonId { tenant, user } in people {
        let PersonRuns { types, ended } =
            list_runs(temporal, tenant, |found| found == user).await?.remove(user).unwrap_or_default();
        all.types.extend(types);
        all.ended.extend(ended);
    }
    Ok(all)
}

/// Like [`find_runs`] for all people in a tenant.
///
/// # Errors
/// If Temporal fails.
pub async fn find_all(temporal: &Client, tenants: &[String]) -> Result<BTreeMap<String, PersonRuns>, ClientError> {
    let mut all = BTreeMap::<_, PersonRuns>::new();
    for tenant in tenants {
        for (user, PersonRuns { types, ended }) in list_runs(temporal, tenant, |_| true).await? {
            let runs = all.entry(user).or_default();
            runs.types.extend(types);
            runs.ended.extend(ended);
        }
    }
    Ok(all)
}

async fn list_runs(
    temporal: &Client,
    tenant: &str,
    is_wanted: impl Fn(&String) -> bool,
) -> Result<BTreeMap<String, PersonRuns>, ClientError> {
    let condition = format!("WorkflowId STARTS_WITH '{}'", Key::workflow_ids_of(tenant));
    let found = visibility::list_unfinished(temporal, &condition, WorkflowListOptions::default());
    let collected = async {
        let (mut found, mut runs) = (pin!(found), BTreeMap::<_, PersonRuns>::new());
        while let Some(run) = found.try_next().await? {
            if let Ok(key) = Key::from_workflow_id(run.id())
                && key.tenant == tenant
                && is_wanted(&key.user)
            {
                let of_user = runs.entry(key.user).or_default();
                of_user.types.insert(key.digest_type);
                of_user.ended.extend(ended_run(&run));
            }
        }
        Ok(runs)
    };
    collected.instrument(debug_span!("temporal", call = "list_workflows", tenant)).await
}
