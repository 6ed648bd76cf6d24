//! Ends a tenant: nothing goes out any more, its tokens of the api are revoked, and each of its people is erased (rule 58).

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

/// People of a page.
const PAGE: u32 = 500;

/// The end of a tenant.
pub struct TenantEnd<'a> {
    pub store: &'a dyn Store,
    pub archive: Option<&'a Archive>,
    /// The names of the tenant, today's first.
    pub tenants: &'a [String],
    /// The tenant's digest types.
    pub types: BTreeSet<String>,
    /// The digests' task queue.
    pub task_queue: &'a str,
}

/// What was ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ended {
    pub people: u64,
    /// Tokens of the api that were revoked.
    pub tokens: u64,
    /// Rows that were erased.
    pub erased: Erased,
    /// People of whom something came meanwhile.
    pub left: u64,
    /// Events that came meanwhile and wait in workflows.
    pub pending: u64,
    /// Folders of the archive that this machine does not have. They may have lines about people of the tenant.
    pub unreachable_archives: Vec<String>,
}

impl Ended {
    /// Reports that nothing is left.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left == 0 && self.pending == 0 && self.unreachable_archives.is_empty()
    }
}

/// An end that is not complete. The same command goes on.
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
    /// Counts the people of whom the store, Temporal or a dead letter has something.
    ///
    /// # Errors
    /// The store or Temporal does not answer.
    pub async fn count(&self, temporal: &Temporal) -> Result<usize, Error> {
        let runs = person_keys::find_all(temporal, self.tenants).await?;
        Ok(self.users(runs.into_keys().collect()).await?.len())
    }

    /// Ends the tenant, and reports each person to `progress`. The pause comes first, and stays: what still comes goes nowhere. Temporal is
    /// asked once for all people, and each archive is read once.
    ///
    /// # Errors
    /// The workers do not agree, a key, the store or Temporal does not answer, or the archive cannot be written.
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

    /// Audits the end, pauses the tenant and revokes its tokens of the api, under each of its names. Returns the number of tokens.
    async fn stop(&self, order: &Order, now: Timestamp) -> Result<u64, Error> {
        let Order { by, why } = order;
        let mut tokens = 0;
        // Names that mean the same have one pause, that of the last command: it gets today's name.
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

    /// These users of Temporal, and each of whom the store has something. Ids of erased people stay in the ledger.
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

    /// `None`: the tenant has no name.
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

    /// Erases single messages to addresses that no directory has, and gives what is suppressed a pseudonym: it goes on holding.
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
