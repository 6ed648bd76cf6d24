//! Ends a tenant: stops all sending, revokes its API tokens, and erases each of its people (rule 58).

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::{Client as Temporal, errors::ClientError};
use tidings_client::{CommandError, WorkflowCommands};
use tidings_model::{
    PersonId,
    command::CommandContext,
    pause::{PauseDetails, PauseScope},
    records::{ErasedRows, PageRequest, SuppressionFilter},
    step::{AuditInput, AuditNote},
};
use tidings_services::processes;
use tidings_store::{
    Store,
    archive::{Archive, LineOwner, LinesAbout},
};

use super::{
    erase::{self, ArchiveFolders, PersonErasure},
    person_keys::{self, PersonRuns},
};

const PAGE: u32 = 500;

pub struct TenantEnd<'a> {
    pub store: &'a dyn Store,
    pub archive: Option<&'a Archive>,
    pub tenants: &'a [String],
    pub types: BTreeSet<String>,
    pub task_queue: &'a str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TenantEndResult {
    pub people: u64,
    pub tokens: u64,
    pub erased: ErasedRows,
    /// People with rows written during the erasure.
    pub left: u64,
    pub pending: u64,
    pub unreachable_archives: Vec<String>,
}

impl TenantEndResult {
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left == 0 && self.pending == 0 && self.unreachable_archives.is_empty()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TenantEndError {
    #[error(transparent)]
    Erase(#[from] erase::ErasureError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error("Temporal does not list the tenant's keys")]
    List(#[from] ClientError),
}

impl TenantEnd<'_> {
    /// Counts people found in the store, in Temporal or in a dead letter.
    ///
    /// # Errors
    /// If the store or Temporal fails.
    pub async fn count(&self, temporal: &Temporal) -> Result<usize, TenantEndError> {
        let runs = person_keys::find_all(temporal, self.tenants).await?;
        Ok(self.users(runs.into_keys().collect()).await?.len())
    }

    /// Ends the tenant, and calls `progress` after each person. The tenant stays paused, so late events are
    /// never sent. We query Temporal once, and read each archive once.
    ///
    /// # Errors
    /// If the workers disagree, a key, the store or Temporal fails, or an archive cannot be written.
    pub async fn run(
        &self,
        temporal: &Temporal,
        commands: &WorkflowCommands,
        order: &CommandContext,
        mut progress: impl FnMut(&TenantEndResult),
    ) -> Result<TenantEndResult, TenantEndError> {
        processes::require_agreement(self.store, None).await.map_err(erase::ErasureError::from)?;
        let now = Timestamp::now();
        let mut ended = TenantEndResult { tokens: self.stop_tenant(order, now).await?, ..TenantEndResult::default() };
        let ArchiveFolders { there, unreachable } = ArchiveFolders::find(self.store, self.archive).await?;
        ended.unreachable_archives = unreachable;
        let mut runs = person_keys::find_all(temporal, self.tenants).await?;
        let mut messages = BTreeSet::new();
        for user in self.users(runs.keys().cloned().collect()).await? {
            let people = self.people(&user);
            let Some(erasure) = self.erasure(&people) else { continue };
            let runs = runs.remove(&user).unwrap_or_default();
            let named = (!there.is_empty()).then_some(&mut messages);
            let (erased, left) = erasure.run_once(commands, order, runs, named).await?;
            ended.people += 1;
            ended.erased += erased;
            ended.left += u64::from(!left.is_nothing());
            progress(&ended);
        }
        for tenant in self.tenants {
            self.erase_addresses(&no_person(tenant), &mut ended.erased).await?;
        }
        for archive in &there {
            let lines = LinesAbout {
                tenants: self.tenants.iter().cloned().collect(),
                whose: LineOwner::Everyone,
                addresses: BTreeSet::new(),
                messages: messages.clone(),
                pseudonyms: self.store.pseudonyms().await?,
            };
            ended.erased.archived += archive.forget_lines(lines).await.map_err(erase::ErasureError::from)?;
        }
        for (user, PersonRuns { types, .. }) in person_keys::find_all(temporal, self.tenants).await? {
            let people = self.people(&user);
            let keys = people.iter().flat_map(|person| types.iter().map(|digest_type| person.key(digest_type)));
            ended.pending += erase::count_pending(commands, keys).await?;
        }
        Ok(ended)
    }

    /// Audits the end, pauses the tenant and revokes its API tokens, under each name. Returns the number of
    /// tokens.
    async fn stop_tenant(&self, order: &CommandContext, now: Timestamp) -> Result<u64, TenantEndError> {
        let CommandContext { by, why } = order;
        let mut tokens = 0;
        // Names for one tenant share a pause, created by the last command. This order gives it the current
        // name.
        for tenant in self.tenants.iter().rev() {
            let note = AuditNote { at: now, by: by.clone(), action: "end tenant".to_owned(), why: why.clone() };
            self.store.record_audit(&AuditInput { key: no_person(tenant).key(""), notes: vec![note] }).await?;
            let scope = PauseScope { tenant: Some(tenant.clone()), digest_type: None };
            let paused = PauseDetails { by: by.clone(), why: why.clone(), since: now, until: None };
            self.store.pause(&scope, true, &paused).await?;
            tokens += self.revoke_tokens(tenant, order, now).await?;
        }
        Ok(tokens)
    }

    /// Adds users with stored rows. The ledger also lists erased people, so check each one.
    async fn users(&self, mut users: BTreeSet<String>) -> Result<BTreeSet<String>, TenantEndError> {
        for tenant in self.tenants {
            users.extend(self.store.users_of_workflows(tenant).await?);
            let mut after = String::new();
            loop {
                let page = self.store.users(tenant, &after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after.clone_from(last);
                for user in page {
                    if !users.contains(&user) && self.has_rows(&user).await? {
                        users.insert(user);
                    }
                }
            }
        }
        Ok(users)
    }

    async fn has_rows(&self, user: &str) -> Result<bool, TenantEndError> {
        let people = self.people(user);
        let Some(erasure) = self.erasure(&people) else { return Ok(false) };
        Ok(!erasure.count_rows().await?.is_nothing())
    }

    fn people(&self, user: &str) -> Vec<PersonId> {
        let person = |tenant: &String| PersonId { tenant: tenant.clone(), user: user.to_owned() };
        self.tenants.iter().map(person).collect()
    }

    fn erasure<'a>(&'a self, people: &'a [PersonId]) -> Option<PersonErasure<'a>> {
        let Self { store, task_queue, .. } = *self;
        let person = people.first()?;
        Some(PersonErasure { store, archive: None, person, people, types: self.types.clone(), task_queue })
    }

    async fn revoke_tokens(&self, tenant: &str, order: &CommandContext, now: Timestamp) -> Result<u64, TenantEndError> {
        let mut revoked = 0;
        for token in self.store.tokens(Some(tenant)).await? {
            if token.revoked_at.is_some() {
                continue;
            }
            self.store.revoke_token(&token.id, &order.audit_entry(&format!("token_revoke {}", token.id), now)).await?;
            revoked += 1;
        }
        Ok(revoked)
    }

    /// Erases single messages to addresses outside the directory. Suppressed addresses become pseudonyms, so
    /// they stay suppressed.
    async fn erase_addresses(&self, nobody: &PersonId, erased: &mut ErasedRows) -> Result<(), TenantEndError> {
        let mut page = PageRequest { limit: PAGE, after: None };
        loop {
            let (some, next) = self.store.erase_messages(nobody, &BTreeSet::new(), &page, Timestamp::now()).await?;
            *erased += some;
            match next {
                None => break,
                after => page.after = after,
            }
        }
        let mut page = PageRequest { limit: PAGE, after: None };
        let mut addresses = BTreeSet::new();
        loop {
            let filter = SuppressionFilter { tenant: Some(nobody.tenant.clone()), address: None, page };
            let listed = self.store.suppressions(&filter).await?;
            addresses.extend(listed.rows.into_iter().map(|suppression| suppression.address));
            match listed.next {
                None => break,
                after => page = PageRequest { limit: PAGE, after },
            }
        }
        *erased += self.store.erase_addresses(nobody, &addresses).await?;
        Ok(())
    }
}

fn no_person(tenant: &str) -> PersonId {
    PersonId { tenant: tenant.to_owned(), user: String::new() }
}
