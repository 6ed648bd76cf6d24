//! Ends a tenant: stops all sending, revokes its API tokens, and erases each of its people (rule 58).

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::{Client as Temporal, errors::ClientError};
use tidings_client::{CommandError, Commands};
use tidings_model::{
    PersonId,
    command::Order,
    pause::{Paused, Scope},
    records::{Erased, Page, SuppressionFilter},
    step::{AuditInput, Note},
};
use tidings_services::processes;
use tidings_store::{
    Store,
    archive::{Archive, LinesAbout, Whose},
};

use super::{
    erase::{self, Archives, Erasure},
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
pub struct Ended {
    pub people: u64,
    pub tokens: u64,
    pub erased: Erased,
    /// People with rows written during the erasure.
    pub left: u64,
    pub pending: u64,
    pub unreachable_archives: Vec<String>,
}

impl Ended {
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left == 0 && self.pending == 0 && self.unreachable_archives.is_empty()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Erase(#[from] erase::Error),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error("Temporal does not list the tenant's keys")]
    List(#[from] ClientError),
}

impl TenantEnd<'_> {
    /// Counts people found in the store, in Temporal or in a dead letter.
    ///
    /// # Errors
    /// If the store or Temporal fails.
    pub async fn count(&self, temporal: &Temporal) -> Result<usize, Error> {
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
        commands: &Commands,
        order: &Order,
        mut progress: impl FnMut(&Ended),
    ) -> Result<Ended, Error> {
        processes::agreed(self.store, None).await.map_err(erase::Error::from)?;
        let now = Timestamp::now();
        let mut ended = Ended { tokens: self.stop(order, now).await?, ..Ended::default() };
        let Archives { there, unreachable } = Archives::find(self.store, self.archive).await?;
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
            self.erase_addresses(&nobody(tenant), &mut ended.erased).await?;
        }
        for archive in &there {
            let lines = LinesAbout {
                tenants: self.tenants.iter().cloned().collect(),
                whose: Whose::Everyone,
                addresses: BTreeSet::new(),
                messages: messages.clone(),
                pseudonyms: self.store.pseudonyms().await?,
            };
            ended.erased.archived += archive.forget(lines).await.map_err(erase::Error::from)?;
        }
        for (user, PersonRuns { types, .. }) in person_keys::find_all(temporal, self.tenants).await? {
            let people = self.people(&user);
            let keys = people.iter().flat_map(|person| types.iter().map(|digest_type| person.key(digest_type)));
            ended.pending += erase::pending(commands, keys).await?;
        }
        Ok(ended)
    }

    /// Audits the end, pauses the tenant and revokes its API tokens, under each name. Returns the number of
    /// tokens.
    async fn stop(&self, order: &Order, now: Timestamp) -> Result<u64, Error> {
        let Order { by, why } = order;
        let mut tokens = 0;
        // Names for one tenant share a pause, created by the last command. This order gives it the current
        // name.
        for tenant in self.tenants.iter().rev() {
            let note = Note { at: now, by: by.clone(), action: "end tenant".to_owned(), why: why.clone() };
            self.store.audit(&AuditInput { key: nobody(tenant).key(""), notes: vec![note] }).await?;
            let scope = Scope { tenant: Some(tenant.clone()), digest_type: None };
            let paused = Paused { by: by.clone(), why: why.clone(), since: now, until: None };
            self.store.pause(&scope, true, &paused).await?;
            tokens += self.revoke_tokens(tenant, order, now).await?;
        }
        Ok(tokens)
    }

    /// Adds users with stored rows. The ledger also lists erased people, so check each one.
    async fn users(&self, mut users: BTreeSet<String>) -> Result<BTreeSet<String>, Error> {
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

    async fn has_rows(&self, user: &str) -> Result<bool, Error> {
        let people = self.people(user);
        let Some(erasure) = self.erasure(&people) else { return Ok(false) };
        Ok(!erasure.count_rows().await?.is_nothing())
    }

    fn people(&self, user: &str) -> Vec<PersonId> {
        let person = |tenant: &String| PersonId { tenant: tenant.clone(), user: user.to_owned() };
        self.tenants.iter().map(person).collect()
    }

    fn erasure<'a>(&'a self, people: &'a [PersonId]) -> Option<Erasure<'a>> {
        let Self { store, task_queue, .. } = *self;
        let person = people.first()?;
        Some(Erasure { store, archive: None, person, people, types: self.types.clone(), task_queue })
    }

    async fn revoke_tokens(&self, tenant: &str, order: &Order, now: Timestamp) -> Result<u64, Error> {
        let mut revoked = 0;
        for token in self.store.tokens(Some(tenant)).await? {
            if token.revoked_at.is_some() {
                continue;
            }
            self.store.revoke_token(&token.id, &order.entry(&format!("token_revoke {}", token.id), now)).await?;
            revoked += 1;
        }
        Ok(revoked)
    }

    /// Erases single messages to addresses outside the directory. Suppressed addresses become pseudonyms, so
    /// they stay suppressed.
    async fn erase_addresses(&self, nobody: &PersonId, erased: &mut Erased) -> Result<(), Error> {
        let mut page = Page { limit: PAGE, after: None };
        loop {
            let (some, next) = self.store.erase_messages(nobody, &BTreeSet::new(), &page, Timestamp::now()).await?;
            *erased += some;
            match next {
                None => break,
                after => page.after = after,
            }
        }
        let mut page = Page { limit: PAGE, after: None };
        let mut addresses = BTreeSet::new();
        loop {
            let filter = SuppressionFilter { tenant: Some(nobody.tenant.clone()), address: None, page };
            let listed = self.store.suppressions(&filter).await?;
            addresses.extend(listed.rows.into_iter().map(|suppression| suppression.address));
            match listed.next {
                None => break,
                after => page = Page { limit: PAGE, after },
            }
        }
        *erased += self.store.erase_addresses(nobody, &addresses).await?;
        Ok(())
    }
}

fn nobody(tenant: &str) -> PersonId {
    PersonId { tenant: tenant.to_owned(), user: String::new() }
}
