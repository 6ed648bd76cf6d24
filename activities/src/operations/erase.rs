//! The erasure of a person (GDPR, article 17): stop, erase, look again.
//!
//! The person's keys drop what they collect, so that no step of theirs writes a text any more. Each store call is a transaction of its
//! own. After a crash another erasure goes on with what is left, because the row of the directory goes last.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::{Client as Temporal, NamespacedClient as _, grpc::WorkflowService, tonic::IntoRequest as _};
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest;
use tidings_client::{CommandError, Commands};
use tidings_model::{
    Key,
    command::Order,
    records::{Erased, Listed, Page, Part, PersonId},
    step::{AuditInput, Note},
};
use tidings_store::{
    Store,
    archive::{self, Archive, LinesAbout},
};
use tidings_workflows::Status;
use tokio::time::{Instant, sleep};

/// The pause between two looks at a key that drops its events.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for a key. An attempt past the dot may take longer, and ends by itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// Passes over the store. A later one finds what came during the one before.
const PASSES: usize = 3;
/// Single messages of a call.
const MESSAGES: u32 = 500;

/// An erasure of one person.
pub struct Erasure<'a> {
    pub store: &'a dyn Store,
    /// The archive of retention, if there is one.
    pub archive: Option<&'a Archive>,
    pub person: &'a PersonId,
    /// The tenant's digest types. Those that the store knows of the person are added.
    pub types: BTreeSet<String>,
}

/// The result of an erasure.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Erasure))]
pub struct Answer {
    /// Events that waited in workflows and were dropped.
    pub dropped: u64,
    /// Rows that were erased.
    pub erased: Erased,
    /// Rows that came meanwhile and are still there.
    pub left: Erased,
    /// Addresses that another person in the directory has too, and that stay there.
    pub shared_addresses: u64,
    /// Time until which Temporal may keep histories with events. `None`: Temporal does not say.
    pub histories_until: Option<Timestamp>,
}

/// An erasure that is not complete. Another one goes on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key did not drop its events.
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error(transparent)]
    Archive(#[from] archive::Error),
}

impl Erasure<'_> {
    /// Counts the rows that an erasure would change. Events that wait in workflows are not among them.
    ///
    /// # Errors
    /// The store cannot answer, or the archive cannot be read.
    pub async fn count(&self) -> Result<Erased, Error> {
        let scope = self.scope().await?;
        let mut erased = self.store.erasable(self.person, &scope.types, &scope.addresses).await?;
        if let Some(archive) = self.archive {
            erased.archived = archive.count(self.lines(&scope).await?).await?;
        }
        Ok(erased)
    }

    /// Erases the person, and reports each step to `progress`. `linger` is the longest time for which a run of a key stays open.
    ///
    /// # Errors
    /// A key does not answer, the store cannot answer, or the archive cannot be written.
    pub async fn run(
        &self,
        temporal: &Temporal,
        commands: &Commands,
        order: &Order,
        linger: Duration,
        mut progress: impl FnMut(&Erased),
    ) -> Result<Answer, Error> {
        self.audit(order).await?;
        let mut scope = self.scope().await?;
        let mut answer = Answer {
            dropped: 0,
            erased: Erased::default(),
            left: Erased::default(),
            shared_addresses: scope.shared,
            histories_until: None,
        };
        for _ in 0..PASSES {
            answer.dropped += self.stop(commands, &scope.types, order).await?;
            self.pass(&scope, &mut answer.erased, &mut progress).await?;
            // What came meanwhile may have another address.
            let found = self.scope().await?;
            scope.types.extend(found.types);
            scope.addresses.extend(found.addresses);
            answer.left = self.store.erasable(self.person, &scope.types, &scope.addresses).await?;
            if answer.left.is_nothing() {
                break;
            }
        }
        answer.histories_until = histories_until(temporal, linger).await;
        Ok(answer)
    }

    async fn audit(&self, order: &Order) -> Result<(), Error> {
        let note = Note { at: Timestamp::now(), by: order.by.clone(), action: "erase".into(), why: order.why.clone() };
        Ok(self.store.audit(&AuditInput { key: self.person.key(""), notes: vec![note] }).await?)
    }

    async fn scope(&self) -> Result<Scope, Error> {
        let known = self.store.person(self.person).await?;
        let addresses = self.store.own_addresses(self.person, &known.addresses).await?;
        let shared = known.addresses.len().saturating_sub(addresses.len()) as u64;
        Ok(Scope { types: &self.types | &known.digest_types, addresses, shared })
    }

    /// Drops what the person's keys collect and deliver, and returns the number of dropped events.
    async fn stop(&self, commands: &Commands, types: &BTreeSet<String>, order: &Order) -> Result<u64, Error> {
        let mut dropped = 0;
        for key in types.iter().map(|digest_type| self.person.key(digest_type)) {
            dropped += commands.digest(&key).drop_pending(order.clone()).await?.events;
            idle(commands, &key).await?;
        }
        Ok(dropped)
    }

    async fn pass(
        &self,
        Scope { types, addresses, .. }: &Scope,
        erased: &mut Erased,
        progress: &mut impl FnMut(&Erased),
    ) -> Result<(), Error> {
        let mut done = |more: Erased| {
            *erased += more;
            progress(erased);
        };
        done(self.store.erase_addresses(self.person, addresses).await?);
        for key in types.iter().map(|digest_type| self.person.key(digest_type)) {
            loop {
                let some = self.store.erase_digests(&key, Timestamp::now()).await?;
                done(some);
                if some.is_nothing() {
                    break;
                }
            }
        }
        let mut page = Page { limit: MESSAGES, after: None };
        loop {
            let (some, next) = self.store.erase_messages(self.person, addresses, &page, Timestamp::now()).await?;
            done(some);
            match next {
                None => break,
                after => page.after = after,
            }
        }
        done(self.store.erase_choices(self.person, types).await?);
        if let Some(archive) = self.archive {
            let lines = self.lines(&Scope { types: types.clone(), addresses: addresses.clone(), shared: 0 }).await?;
            done(Erased { archived: archive.forget(lines).await?, ..Erased::default() });
        }
        done(self.store.erase_recipient(self.person).await?);
        Ok(())
    }

    async fn lines(&self, Scope { types, addresses, .. }: &Scope) -> Result<LinesAbout, Error> {
        let mut messages = BTreeSet::new();
        for (digest_type, part, id) in
            types.iter().map(|name| (name.as_str(), Part::Digests, "digest_id")).chain([("", Part::Messages, "id")])
        {
            let mut page = Page { limit: MESSAGES, after: None };
            loop {
                let key = self.person.key(digest_type);
                let Listed { rows, next } = self.store.held(&key, addresses, part, &page).await?;
                messages.extend(rows.iter().filter_map(|row| row[id].as_str().map(str::to_owned)));
                match next {
                    None => break,
                    after => page.after = after,
                }
            }
        }
        Ok(LinesAbout {
            person: self.person.clone(),
            workflows: types.iter().map(|digest_type| self.person.key(digest_type).workflow_id()).collect(),
            addresses: addresses.clone(),
            messages,
            pseudonyms: self.store.pseudonyms().await?,
        })
    }
}

/// The digest types and addresses that an erasure looks for.
struct Scope {
    types: BTreeSet<String>,
    /// Addresses that only this person has in the directory.
    addresses: BTreeSet<String>,
    /// Number of the other addresses.
    shared: u64,
}

/// Waits until the key has nothing pending and nothing in delivery.
async fn idle(commands: &Commands, key: &Key) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = commands.digest(key).status::<Status>().await?;
        let busy = status.is_some_and(|status| status.pending > 0 || status.delivering.is_some());
        if !busy || Instant::now() >= until {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// Temporal deletes a run's history when the namespace's retention has passed since its end.
async fn histories_until(temporal: &Temporal, linger: Duration) -> Option<Timestamp> {
    let request = DescribeNamespaceRequest { namespace: temporal.namespace(), ..DescribeNamespaceRequest::default() };
    let answer = WorkflowService::describe_namespace(&mut temporal.clone(), request.into_request()).await;
    let answer = answer.ok()?.into_inner();
    let kept = answer.config?.workflow_execution_retention_ttl?;
    let kept = Duration::from_secs(u64::try_from(kept.seconds).ok()?);
    Timestamp::now().checked_add(linger.checked_add(kept)?).ok()
}
