//! Renames a person, or merges two into one (rule 58).
//!
//! The earlier id's keys drop their events into the ledger, the store moves all rows in one transaction, and
//! the dropped events open windows under the later id, due at the same time as before. After a crash, run the
//! same command again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use temporalio_client::{Client as Temporal, errors::ClientError};
use tidings_client::{CommandError, WorkflowCommands, hand_over, start_later};
use tidings_model::{
    Key, PersonId,
    command::{CommandContext, HoldCommand, RetimeCommand, WHY_BYTES},
    inbox::InboxItem,
    limits::InvalidField,
    records::MovedRows,
    settings::Settings,
    troubled_run::FoundRun,
};
use tidings_services::choices;
use tidings_store::Store;
use tidings_workflows::{DigestStage, DigestStatus};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::person_keys::{self, PersonRuns};

const PAUSE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);
const HAND_OVER: Duration = Duration::from_secs(30);
/// How long a repeated command still moves late data. Later, the earlier id may belong to someone outside our
/// directory.
const REPEATED: SignedDuration = SignedDuration::from_hours(7 * 24);
const PASSES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKind {
    /// Requires the later id to be unused.
    Rename,
    Merge,
}

pub struct PersonMove<'a> {
    pub store: &'a dyn Store,
    pub temporal: &'a Temporal,
    pub commands: &'a WorkflowCommands,
    pub task_queue: &'a str,
    pub settings: &'a Settings,
    pub from: &'a PersonId,
    pub to: &'a PersonId,
}

/// The result of a move.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PersonMoved))]
pub struct MoveResult {
    /// Rows now stored under the later id.
    pub moved: MovedRows,
    /// Keys of the later id with an open window for the moved events.
    pub windows: Vec<Key>,
    /// Keys of the earlier id with new events: producers still use it. Run the command again to move these
    /// too.
    pub left: Vec<Key>,
}

#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// We store nothing about the person to move, or about the person to merge with.
    #[error("nothing is held about {0}")]
    Unknown(PersonId),
    #[error("{0} is in use; `tidings recipients merge` makes one person of two")]
    InUse(PersonId),
    #[error("{0} is being moved to another id; run that command again first")]
    Moving(PersonId),
    /// The ids are equal or belong to different tenants, or the later id is too long for a digest type.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    #[error(
        "{0} has a run that ended without its code; `tidings recover` or `tidings runs dismiss` it, then run the command again"
    )]
    Ended(String),
    #[error("{0} still delivers; run the command again when that has ended")]
    Busy(Key),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error("Temporal does not list the person's keys")]
    List(#[from] ClientError),
    #[error(transparent)]
    Emit(#[from] tidings_client::EmitError),
}

#[derive(Default)]
struct DroppedWindow {
    due_at: Option<Timestamp>,
    hold: Option<HoldCommand>,
}

impl PersonMove<'_> {
    /// Moves the person.
    ///
    /// # Errors
    /// If the move is not allowed, a key does not respond or is still delivering, or the store fails.
    pub async fn run(&self, kind: MoveKind, order: &CommandContext) -> Result<MoveResult, MoveError> {
        let people = self.store.same_person(self.from).await?;
        self.check_move(kind, &people).await?;
        let entry = order.audit_entry(&format!("{} {} {}", kind.action(), self.from, self.to), Timestamp::now());
        let mut answer = MoveResult::default();
        for _ in 0..PASSES {
            let types = self.types(&people).await?;
            let keys = keys_of_people(&people, &types);
            for key in &keys {
                let PersonId { tenant, user } = PersonId::from_key(&self.later_key(key));
                Key::new(tenant, key.digest_type.clone(), user)?;
            }
            if !self.store.begin_move(self.from, self.to, &entry).await? {
                return Err(MoveError::Moving(self.from.clone()));
            }
            let mut stopped = self.drop_events(&keys, order).await?;
            answer.moved += self.store.move_person(self.from, self.to, &types, Timestamp::now()).await?;
            for earlier in &keys {
                let key = self.later_key(earlier);
                if self.open_window(&key, stopped.remove(earlier), order).await? && !answer.windows.contains(&key) {
                    answer.windows.push(key);
                }
            }
            answer.left = self.busy(&keys).await?;
            if answer.left.is_empty() {
                break;
            }
        }
        self.signal_windows().await;
        Ok(answer)
    }

    fn later_key(&self, key: &Key) -> Key {
        Key { user: self.to.user.clone(), ..key.clone() }
    }

    async fn check_move(&self, kind: MoveKind, people: &[PersonId]) -> Result<(), MoveError> {
        let Self { store, from, to, .. } = self;
        if from.tenant != to.tenant || from == to {
            let problem = "must be another id of the same tenant".to_owned();
            return Err(InvalidField { field: "to".to_owned(), problem }.into());
        }
        let runs = self.run_types(people).await?;
        // An interrupted command continues; a repeated one moves data written under the earlier id since.
        if store.was_moved(from, to, Timestamp::now() - REPEATED).await? {
            return Ok(());
        }
        let is_known =
            |known: bool, person: &PersonId| known.then_some(()).ok_or_else(|| MoveError::Unknown(person.clone()));
        is_known(!runs.is_empty() || !person_keys::stored_person(*store, people).await?.is_empty(), from)?;
        let later = person_keys::stored_person(*store, &store.same_person(to).await?).await?;
        match kind {
            MoveKind::Rename if later.is_free() => Ok(()),
            MoveKind::Rename => Err(MoveError::InUse((*to).clone())),
            MoveKind::Merge => is_known(!later.is_empty(), to),
        }
    }

    async fn types(&self, people: &[PersonId]) -> Result<BTreeSet<String>, MoveError> {
        let mut types = self.settings.digest_types(&self.from.tenant);
        types.extend(person_keys::stored_person(self.store, people).await?.digest_types);
        types.extend(self.run_types(people).await?);
        Ok(types)
    }

    /// Digest types from the person's runs. Fails on an unresolved failed run: recovering it later would emit
    /// events to the earlier id, which may belong to someone else by then.
    async fn run_types(&self, people: &[PersonId]) -> Result<BTreeSet<String>, MoveError> {
        let PersonRuns { types, ended } = person_keys::find_runs(self.temporal, people).await?;
        for FoundRun { id, .. } in ended {
            if !self.store.resolved_runs(&id.workflow_id).await?.contains(&id.run_id) {
                return Err(MoveError::Ended(id.workflow_id));
            }
        }
        Ok(types)
    }

    /// Makes each key drop its events, with a reason the store recognizes. First waits until no key is in an
    /// attempt, because dropping a window loses its hold.
    async fn drop_events(
        &self,
        keys: &[Key],
        order: &CommandContext,
    ) -> Result<BTreeMap<Key, DroppedWindow>, MoveError> {
        for key in keys {
            if !self.comes_to(key, |status| !is_in_attempt(status)).await? {
                return Err(MoveError::Busy(key.clone()));
            }
        }
        let mut why = self.to.move_reason() + &order.why;
        while why.len() > WHY_BYTES {
            why.pop();
        }
        let order = CommandContext { by: order.by.clone(), why };
        let mut stopped = BTreeMap::new();
        for key in keys {
            let commands = self.commands.digest(key);
            let Some(DigestStatus { due_at, hold, .. }) = commands.status::<DigestStatus>().await? else { continue };
            commands.drop_pending(order.clone()).await?;
            if !self.comes_to(key, |status| !is_busy(status)).await? {
                return Err(MoveError::Busy(key.clone()));
            }
            stopped.insert(key.clone(), DroppedWindow { due_at, hold });
        }
        Ok(stopped)
    }

    async fn open_window(
        &self,
        key: &Key,
        stopped: Option<DroppedWindow>,
        order: &CommandContext,
    ) -> Result<bool, MoveError> {
        let Some(event) = self.store.returned_event(key).await? else { return Ok(false) };
        let commands = self.commands.digest(key);
        let has_window = commands.status::<DigestStatus>().await?.as_ref().is_some_and(is_busy);
        // The ledger already has this event. Sending it only makes the workflow pick up all returned events.
        let InboxItem { json, kind, .. } = InboxItem::from_event(key.clone(), &event)?;
        let items = [(kind, json.as_str())];
        let DroppedWindow { due_at, hold } = stopped.unwrap_or_default();
        match hold {
            Some(hold) if has_window => {
                commands.hold(hold).await?;
                hand_over(self.temporal, self.task_queue, key, items, HAND_OVER).await?;
            }
            // A run without events ignores a hold. Delaying its first workflow task lets it find both.
            Some(hold) => {
                start_later(self.temporal, self.task_queue, key, items, HAND_OVER, Uuid::new_v4()).await?;
                commands.hold(hold).await?;
            }
            None => hand_over(self.temporal, self.task_queue, key, items, HAND_OVER).await?,
        }
        if let Some(at) = due_at.filter(|_| !has_window)
            && self.comes_to(key, is_planned).await?
        {
            let why = format!("moved from {}", self.from);
            commands
                .retime(RetimeCommand { order: CommandContext { by: order.by.clone(), why }, at: Some(at) })
                .await?;
        }
        Ok(true)
    }

    /// Polls until `is_so` returns `true` or the workflow is no longer running. Returns `false` after the
    /// timeout.
    async fn comes_to(&self, key: &Key, is_so: impl Fn(&DigestStatus) -> bool) -> Result<bool, CommandError> {
        let until = Instant::now() + PATIENCE;
        while let Some(status) = self.commands.digest(key).status::<DigestStatus>().await? {
            if is_so(&status) {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            sleep(PAUSE).await;
        }
        Ok(true)
    }

    async fn busy(&self, keys: &[Key]) -> Result<Vec<Key>, CommandError> {
        let mut busy = Vec::new();
        for key in keys {
            if self.commands.digest(key).status::<DigestStatus>().await?.as_ref().is_some_and(is_busy) {
                busy.push(key.clone());
            }
        }
        Ok(busy)
    }

    /// If a window misses this signal, it will check at its deadline.
    async fn signal_windows(&self) {
        let keys = keys_of_people(std::slice::from_ref(self.to), &self.settings.digest_types(&self.to.tenant));
        choices::wake_windows::<MoveError>(Ok(self.temporal), &self.settings.names, &keys, "the move").await;
    }
}

impl MoveKind {
    const fn action(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Merge => "merge",
        }
    }
}

fn is_planned(status: &DigestStatus) -> bool {
    status.returned > 0 && status.due_at.is_some() && status.state != DigestStage::Planning
}

/// Returns `true` during an attempt. A delivery waiting for a retry has a `next_attempt_at`.
fn is_in_attempt(status: &DigestStatus) -> bool {
    status.delivering.as_ref().is_some_and(|delivery| delivery.next_attempt_at.is_none())
}

fn keys_of_people(people: &[PersonId], types: &BTreeSet<String>) -> Vec<Key> {
    let of_person = |person: &PersonId| types.iter().map(|digest_type| person.key(digest_type)).collect::<Vec<_>>();
    people.iter().flat_map(of_person).collect()
}

fn is_busy(status: &DigestStatus) -> bool {
    status.pending > 0 || status.uncompared > 0 || status.delivering.is_some()
}
