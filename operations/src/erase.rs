//! Erases a person (GDPR, article 17): stop, erase, then check again.
//!
//! We search Temporal, each table, and each folder ever archived to, whatever the current configuration (rule
//! 58). The person's keys drop their events first, so they write no more text. Each store call is a
//! transaction. The directory row is deleted last, so after a crash the erasure can be repeated.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::{
    Client as Temporal, NamespacedClient as _, errors::ClientError, grpc::WorkflowService, tonic::IntoRequest as _,
};
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest;
use tidings_client::{CommandError, WorkflowCommands};
use tidings_model::{
    Key, PersonId,
    command::CommandContext,
    records::{ErasedRows, ListPage, PageRequest, PersonRowKind},
    retention::ArchiveRecord,
    step::{AuditInput, AuditNote},
    troubled_run::{FoundRun, RunResolution},
};
use tidings_services::processes::{self, AgreementError};
use tidings_store::{
    Store,
    archive::{self, Archive, LineOwner, LinesAbout},
};
use tidings_workflows::DigestStatus;
use tokio::time::{Instant, sleep};

use super::person_keys::{self, PersonRuns};

const PAUSE: Duration = Duration::from_millis(100);
/// Timeout for one key. A committed attempt may take longer, but it ends without our help.
const PATIENCE: Duration = Duration::from_secs(30);
const PASSES: usize = 3;
const MESSAGES: u32 = 500;

pub struct PersonErasure<'a> {
    pub store: &'a dyn Store,
    /// Retention's archive folder, if configured. Other folders recorded in the store are added.
    pub archive: Option<&'a Archive>,
    pub person: &'a PersonId,
    /// The person under each name of the tenant ([`person_keys::person_under_each_name`]).
    pub people: &'a [PersonId],
    /// The tenant's configured digest types. Types found in the store or Temporal are added.
    pub types: BTreeSet<String>,
    pub task_queue: &'a str,
}

/// The result of an erasure.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Erasure))]
pub struct ErasureResult {
    /// Events dropped from open workflows.
    pub dropped: u64,
    /// Rows we erased.
    pub erased: ErasedRows,
    /// Rows written during the erasure and still stored.
    pub left: ErasedRows,
    /// Events which arrived during the erasure and are pending in workflows.
    pub pending: u64,
    /// Folders of the archive that were looked through.
    #[serde(skip)]
    pub archives: Vec<PathBuf>,
    /// Former archive folders missing on this machine. They may still contain lines about the person.
    pub unreachable_archives: Vec<String>,
    /// Addresses also used by another person in the directory. We keep these.
    pub shared_addresses: u64,
    /// When Temporal will have deleted the last history with events. `None` if Temporal did not return its
    /// retention.
    pub histories_until: Option<Timestamp>,
}

impl ErasureResult {
    /// Rows and events written during the erasure.
    #[must_use]
    pub fn came_meanwhile(&self) -> u64 {
        self.pending + self.left.counts().map(|(_, rows)| rows).sum::<u64>()
    }

    /// Returns `true` if nothing is left.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.came_meanwhile() == 0 && self.unreachable_archives.is_empty()
    }
}

#[derive(Debug, Default)]
pub struct ArchiveFolders {
    pub there: Vec<Archive>,
    pub unreachable: Vec<String>,
}

impl ArchiveFolders {
    /// Collects the configured and all former folders.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find(store: &dyn Store, configured: Option<&Archive>) -> tidings_store::Result<Self> {
        let records = store.archives().await?;
        let written: Vec<_> = records.into_iter().filter(|record| record.begun_at.is_some()).collect();
        let mut found = Self::default();
        for ArchiveRecord { folder, first_file, last_file, .. } in &written {
            let archive = Archive::new(PathBuf::from(folder));
            if archive.holds_file(last_file) {
                found.there.push(archive);
            } else if last_file.is_empty() {
                found.unreachable.push(folder.clone());
            } else {
                found.unreachable.push(format!("{folder} (files {first_file} to {last_file})"));
            }
        }
        // Files from versions which did not record their folder.
        if let Some(archive) = configured
            && !written.iter().any(|record| record.folder == archive.absolute_path())
        {
            if archive.is_there() {
                found.there.push(archive.clone());
            } else {
                found.unreachable.push(archive.absolute_path());
            }
        }
        Ok(found)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error(transparent)]
    Archive(#[from] archive::ArchiveError),
    #[error("Temporal cannot list the person's keys: {0}")]
    Visibility(#[from] ClientError),
    /// Live workers run with different settings, so they may write erased data again or store it elsewhere.
    #[error(transparent)]
    Agreement(#[from] AgreementError),
}

impl PersonErasure<'_> {
    /// Counts the rows an erasure would change, without pending events in workflows.
    ///
    /// # Errors
    /// If the store fails, or an archive cannot be read.
    pub async fn count(&self) -> Result<ErasedRows, ErasureError> {
        let scope = self.find_scope().await?;
        let mut erased = self.count_erasable(&scope).await?;
        for archive in &ArchiveFolders::find(self.store, self.archive).await?.there {
            erased.archived += archive.count_lines(self.lines(&scope).await?).await?;
        }
        Ok(erased)
    }

    /// Erases the person, and calls `progress` after each step. `linger` is how long a run may stay open.
    ///
    /// # Errors
    /// If the workers disagree, a key does not respond, the store fails, or an archive cannot be written.
    pub async fn run(
        &self,
        temporal: &Temporal,
        commands: &WorkflowCommands,
        order: &CommandContext,
        linger: Duration,
        mut progress: impl FnMut(&ErasedRows),
    ) -> Result<ErasureResult, ErasureError> {
        processes::require_agreement(self.store, None).await?;
        let mut scope = self.begin(order).await?;
        let ArchiveFolders { there, unreachable } = ArchiveFolders::find(self.store, self.archive).await?;
        let mut answer = ErasureResult {
            dropped: 0,
            erased: ErasedRows::default(),
            left: ErasedRows::default(),
            pending: 0,
            archives: there.iter().map(|archive| archive.folder().to_owned()).collect(),
            unreachable_archives: unreachable,
            shared_addresses: scope.shared,
            histories_until: None,
        };
        for _ in 0..PASSES {
            let runs = person_keys::find_runs(temporal, self.people).await?;
            answer.dropped += self.drop_events(commands, runs, &mut scope, order).await?;
            self.erase_pass(&scope, &there, &mut answer.erased, &mut progress).await?;
            answer.left = self.count_left(&mut scope).await?;
            scope.types.extend(person_keys::find_runs(temporal, self.people).await?.types);
            answer.pending = count_pending(commands, self.all_keys(&scope.types)).await?;
            if answer.came_meanwhile() == 0 {
                break;
            }
        }
        if answer.is_complete() {
            // Keep the ids until the end: a later erasure needs them to find lines in unreachable archives.
            self.store.forget_ids(self.person).await?;
        }
        answer.histories_until = histories_until(temporal, linger).await;
        Ok(answer)
    }

    /// Runs one pass without archives. Returns the rows erased and left, and adds the ids which archive lines
    /// may contain to `messages`.
    pub(super) async fn run_once(
        &self,
        commands: &WorkflowCommands,
        order: &CommandContext,
        runs: PersonRuns,
        messages: Option<&mut BTreeSet<String>>,
    ) -> Result<(ErasedRows, ErasedRows), ErasureError> {
        let mut scope = self.begin(order).await?;
        let mut erased = ErasedRows::default();
        self.drop_events(commands, runs, &mut scope, order).await?;
        self.erase_pass(&scope, &[], &mut erased, &mut |_: &ErasedRows| ()).await?;
        let left = self.count_left(&mut scope).await?;
        if let Some(messages) = messages {
            messages.extend(messages_of(self.store, self.people, &scope.types, &scope.addresses).await?);
        }
        self.store.forget_ids(self.person).await?;
        Ok((erased, left))
    }

    pub(super) async fn count_rows(&self) -> Result<ErasedRows, ErasureError> {
        self.count_erasable(&self.find_scope().await?).await
    }

    /// Raises the person's generation, so clicks on old links write nothing from now on.
    async fn begin(&self, order: &CommandContext) -> Result<ErasureScope, ErasureError> {
        self.audit(order).await?;
        self.store.raise_generation(self.person).await?;
        self.find_scope().await
    }

    async fn audit(&self, order: &CommandContext) -> Result<(), ErasureError> {
        let note =
            AuditNote { at: Timestamp::now(), by: order.by.clone(), action: "erase".into(), why: order.why.clone() };
        Ok(self.store.record_audit(&AuditInput { key: self.person.key(""), notes: vec![note] }).await?)
    }

    async fn find_scope(&self) -> Result<ErasureScope, ErasureError> {
        let known = person_keys::stored_person(self.store, self.people).await?;
        let addresses = self.store.own_addresses(self.person, &known.addresses).await?;
        let shared = known.addresses.len().saturating_sub(addresses.len()) as u64;
        Ok(ErasureScope { types: &self.types | &known.digest_types, addresses, shared })
    }

    async fn count_erasable(
        &self,
        ErasureScope { types, addresses, .. }: &ErasureScope,
    ) -> Result<ErasedRows, ErasureError> {
        let mut erasable = ErasedRows::default();
        for person in self.people {
            erasable += self.store.preview_erasure(person, types, addresses).await?;
        }
        Ok(erasable)
    }

    async fn count_left(&self, scope: &mut ErasureScope) -> Result<ErasedRows, ErasureError> {
        let found = self.find_scope().await?;
        scope.types.extend(found.types);
        scope.addresses.extend(found.addresses);
        self.count_erasable(scope).await
    }

    fn all_keys(&self, types: &BTreeSet<String>) -> Vec<Key> {
        let of_person = |person: &PersonId| types.iter().map(|digest_type| person.key(digest_type)).collect::<Vec<_>>();
        self.people.iter().flat_map(of_person).collect()
    }

    async fn drop_events(
        &self,
        commands: &WorkflowCommands,
        PersonRuns { types, ended }: PersonRuns,
        scope: &mut ErasureScope,
        order: &CommandContext,
    ) -> Result<u64, ErasureError> {
        scope.types.extend(types);
        let mut dropped = 0;
        for key in self.all_keys(&scope.types) {
            dropped += commands.digest(&key).drop_pending(order.clone()).await?.events;
            wait_until_idle(commands, &key).await?;
        }
        self.dismiss(ended).await?;
        Ok(dropped)
    }

    /// Otherwise the sweep or an operator would recover these runs, along with the person's events.
    async fn dismiss(&self, ended: Vec<FoundRun>) -> Result<(), ErasureError> {
        for run in ended {
            self.store.resolve_run(&run, self.task_queue, RunResolution::Dismissed, None, Timestamp::now()).await?;
        }
        Ok(())
    }

    async fn erase_pass(
        &self,
        ErasureScope { types, addresses, .. }: &ErasureScope,
        archives: &[Archive],
        erased: &mut ErasedRows,
        progress: &mut impl FnMut(&ErasedRows),
    ) -> Result<(), ErasureError> {
        let mut done = |more: ErasedRows| {
            *erased += more;
            progress(erased);
        };
        for person in self.people {
            done(self.store.erase_addresses(person, addresses).await?);
        }
        for key in self.all_keys(types) {
            loop {
                let some = self.store.erase_digests(&key, Timestamp::now()).await?;
                done(some);
                if some.is_nothing() {
                    break;
                }
            }
        }
        for person in self.people {
            let mut page = PageRequest { limit: MESSAGES, after: None };
            loop {
                let (some, next) = self.store.erase_messages(person, addresses, &page, Timestamp::now()).await?;
                done(some);
                match next {
                    None => break,
                    after => page.after = after,
                }
            }
            done(self.store.erase_choices(person, types).await?);
        }
        for archive in archives {
            let lines = lines_about(self.store, self.person, self.people, types, addresses).await?;
            done(ErasedRows { archived: archive.forget_lines(lines).await?, ..ErasedRows::default() });
        }
        for person in self.people {
            done(self.store.erase_recipient(person).await?);
        }
        Ok(())
    }

    async fn lines(&self, ErasureScope { types, addresses, .. }: &ErasureScope) -> Result<LinesAbout, ErasureError> {
        Ok(lines_about(self.store, self.person, self.people, types, addresses).await?)
    }
}

/// Selects archive lines about the person, under each of the tenant's names.
///
/// # Errors
/// If the store fails.
pub async fn lines_about(
    store: &dyn Store,
    person: &PersonId,
    people: &[PersonId],
    types: &BTreeSet<String>,
    addresses: &BTreeSet<String>,
) -> tidings_store::Result<LinesAbout> {
    Ok(LinesAbout {
        tenants: people.iter().map(|person| person.tenant.clone()).collect(),
        whose: LineOwner::Ids(store.held_ids(person).await?),
        addresses: addresses.clone(),
        messages: messages_of(store, people, types, addresses).await?,
        pseudonyms: store.pseudonyms().await?,
    })
}

async fn messages_of(
    store: &dyn Store,
    people: &[PersonId],
    types: &BTreeSet<String>,
    addresses: &BTreeSet<String>,
) -> tidings_store::Result<BTreeSet<String>> {
    let mut messages = BTreeSet::new();
    let digests = types.iter().map(|name| (name.as_str(), PersonRowKind::Digests, "digest_id"));
    let parts: Vec<_> = digests.chain([("", PersonRowKind::Messages, "id")]).collect();
    for person in people {
        for (digest_type, part, id) in &parts {
            let mut page = PageRequest { limit: MESSAGES, after: None };
            loop {
                let ListPage { rows, next } =
                    store.person_rows(&person.key(digest_type), addresses, *part, &page).await?;
                messages.extend(rows.iter().filter_map(|row| row[*id].as_str().map(str::to_owned)));
                match next {
                    None => break,
                    after => page.after = after,
                }
            }
        }
    }
    Ok(messages)
}

pub(super) async fn count_pending(
    commands: &WorkflowCommands,
    keys: impl IntoIterator<Item = Key>,
) -> Result<u64, CommandError> {
    let mut pending = 0;
    for key in keys {
        let status = commands.digest(&key).status::<DigestStatus>().await?;
        pending += status.map_or(0, |status| status.pending + status.uncompared);
    }
    Ok(pending)
}

struct ErasureScope {
    types: BTreeSet<String>,
    addresses: BTreeSet<String>,
    shared: u64,
}

async fn wait_until_idle(commands: &WorkflowCommands, key: &Key) -> Result<(), ErasureError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = commands.digest(key).status::<DigestStatus>().await?;
        let busy = status.is_some_and(|status| status.pending > 0 || status.delivering.is_some());
        if !busy || Instant::now() >= until {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// Temporal deletes a run's history once the namespace's retention period has passed since the run closed.
async fn histories_until(temporal: &Temporal, linger: Duration) -> Option<Timestamp> {
    let request = DescribeNamespaceRequest { namespace: temporal.namespace(), ..DescribeNamespaceRequest::default() };
    let answer = WorkflowService::describe_namespace(&mut temporal.clone(), request.into_request()).await;
    let answer = answer.ok()?.into_inner();
    let kept = answer.config?.workflow_execution_retention_ttl?;
    let kept = Duration::from_secs(u64::try_from(kept.seconds).ok()?);
    Timestamp::now().checked_add(linger.checked_add(kept)?).ok()
}
