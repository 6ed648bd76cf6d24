//! Renames a person, and makes one of two: everything of one id goes on under another (rule 58).
//!
//! The keys of the earlier id drop what they collect and deliver into the ledger, the store moves all rows in one transaction, and
//! what was dropped opens windows of the later id, at the time at which it was due before. After a crash the same command goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use temporalio_client::{Client as Temporal, errors::ClientError};
use tidings_client::{CommandError, Commands, hand_over, start_later};
use tidings_model::{
    Key, PersonId,
    command::{Hold, Order, Retime, WHY_BYTES},
    inbox::Item,
    limits::Invalid,
    records::MovedRows,
    settings::Settings,
    troubled_run::FoundRun,
};
use tidings_services::choices;
use tidings_store::Store;
use tidings_workflows::{Stage, Status};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::person_keys::{self, PersonRuns};

/// The pause between two looks at a key.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for a key that drops, or that plans what it got.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for Temporal to take an event.
const HAND_OVER: Duration = Duration::from_secs(30);
/// A repeated command moves what came under the earlier id for this long. Later, the id may be somebody else's whom no directory here has.
const REPEATED: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Passes. A later one finds what came during the one before.
const PASSES: usize = 3;

/// The use of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKind {
    /// Nobody has the later id.
    Rename,
    /// Two ids are of one person.
    Merge,
}

/// A person's way from one id to another, of the same tenant.
pub struct PersonMove<'a> {
    pub store: &'a dyn Store,
    pub temporal: &'a Temporal,
    pub commands: &'a Commands,
    /// The digests'.
    pub task_queue: &'a str,
    pub settings: &'a Settings,
    pub from: &'a PersonId,
    pub to: &'a PersonId,
}

/// The result of a move.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PersonMoved))]
pub struct Answer {
    /// Rows that have the later id now.
    pub moved: MovedRows,
    /// Keys of the later id whose window has events of the earlier one.
    pub windows: Vec<Key>,
    /// Keys of the earlier id that got something meanwhile: producers still use it. The same command moves that, too.
    pub left: Vec<Key>,
}

/// A move that was refused or is not complete. The same command goes on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is known of the person who would move, or of the one with whom they would be merged.
    #[error("nothing is held about {0}")]
    Unknown(PersonId),
    /// The later id is somebody's.
    #[error("{0} is in use; `tidings recipients merge` makes one person of two")]
    InUse(PersonId),
    /// Another command did not come to its end.
    #[error("{0} is being moved to another id; run that command again first")]
    Moving(PersonId),
    /// Both are the same, or of two tenants, or the later id is too long for a digest type.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A run of the person ended without its code.
    #[error(
        "{0} has a run that ended without its code; `tidings recover` or `tidings runs dismiss` it, then run the command again"
    )]
    Ended(String),
    /// An attempt past the dot takes its time.
    #[error("{0} still delivers; run the command again when that has ended")]
    Busy(Key),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error("Temporal does not list the person's keys")]
    List(#[from] ClientError),
    #[error(transparent)]
    Emit(#[from] tidings_client::Error),
}

/// The window of a key before it was dropped.
#[derive(Default)]
struct Stopped {
    due_at: Option<Timestamp>,
    hold: Option<Hold>,
}

impl PersonMove<'_> {
    /// Moves the person.
    ///
    /// # Errors
    /// The move is not possible, a key does not answer or still delivers, or the store cannot answer.
    pub async fn run(&self, kind: MoveKind, order: &Order) -> Result<Answer, Error> {
        // The store moves the rows of each name that it knows.
        let people = self.store.same_person(self.from).await?;
        self.check(kind, &people).await?;
        let entry = order.entry(&format!("{} {} {}", kind.action(), self.from, self.to), Timestamp::now());
        let mut answer = Answer::default();
        for _ in 0..PASSES {
            let types = self.types(&people).await?;
            let keys = keys(&people, &types);
            for key in &keys {
                let PersonId { tenant, user } = PersonId::of(&self.later(key));
                Key::new(tenant, key.digest_type.clone(), user)?;
            }
            if !self.store.begin_move(self.from, self.to, &entry).await? {
                return Err(Error::Moving(self.from.clone()));
            }
            let mut stopped = self.stop(&keys, order).await?;
            answer.moved += self.store.move_person(self.from, self.to, &types, Timestamp::now()).await?;
            for earlier in &keys {
                let key = self.later(earlier);
                if self.resume(&key, stopped.remove(earlier), order).await? && !answer.windows.contains(&key) {
                    answer.windows.push(key);
                }
            }
            answer.left = self.busy(&keys).await?;
            if answer.left.is_empty() {
                break;
            }
        }
        self.tell().await;
        Ok(answer)
    }

    /// The key of the later id in the place of this one of the earlier id.
    fn later(&self, key: &Key) -> Key {
        Key { user: self.to.user.clone(), ..key.clone() }
    }

    async fn check(&self, kind: MoveKind, people: &[PersonId]) -> Result<(), Error> {
        let Self { store, from, to, .. } = self;
        if from.tenant != to.tenant || from == to {
            let problem = "must be another id of the same tenant".to_owned();
            return Err(Invalid { field: "to".to_owned(), problem }.into());
        }
        let runs = self.runs(people).await?;
        // An interrupted command goes on, and a repeated one moves what came under the earlier id since.
        if store.was_moved(from, to, Timestamp::now() - REPEATED).await? {
            return Ok(());
        }
        let is_known =
            |known: bool, person: &PersonId| known.then_some(()).ok_or_else(|| Error::Unknown(person.clone()));
        is_known(!runs.is_empty() || !person_keys::known(*store, people).await?.is_empty(), from)?;
        let later = person_keys::known(*store, &store.same_person(to).await?).await?;
        match kind {
            MoveKind::Rename if later.is_free() => Ok(()),
            MoveKind::Rename => Err(Error::InUse((*to).clone())),
            MoveKind::Merge => is_known(!later.is_empty(), to),
        }
    }

    /// The digest types of the earlier id: of the file, of the store and of runs.
    async fn types(&self, people: &[PersonId]) -> Result<BTreeSet<String>, Error> {
        let mut types = self.settings.digest_types(&self.from.tenant);
        types.extend(person_keys::known(self.store, people).await?.digest_types);
        types.extend(self.runs(people).await?);
        Ok(types)
    }

    /// The digest types of the person's runs. A run that ended without its code is recovered or dismissed first: its events would come
    /// back under the earlier id, for whoever has it then.
    async fn runs(&self, people: &[PersonId]) -> Result<BTreeSet<String>, Error> {
        let PersonRuns { types, ended } = person_keys::find(self.temporal, people).await?;
        for FoundRun { id, .. } in ended {
            if !self.store.resolved_runs(&id.workflow_id).await?.contains(&id.run_id) {
                return Err(Error::Ended(id.workflow_id));
            }
        }
        Ok(types)
    }

    /// Lets each key drop what it collects and delivers, with a reason by which the store knows it. No key drops anything while another
    /// one is in an attempt: what is dropped has no hold any more.
    async fn stop(&self, keys: &[Key], order: &Order) -> Result<BTreeMap<Key, Stopped>, Error> {
        for key in keys {
            if !self.comes_to(key, |status| !is_in_attempt(status)).await? {
                return Err(Error::Busy(key.clone()));
            }
        }
        let mut why = self.to.move_reason() + &order.why;
        while why.len() > WHY_BYTES {
            why.pop();
        }
        let order = Order { by: order.by.clone(), why };
        let mut stopped = BTreeMap::new();
        for key in keys {
            let commands = self.commands.digest(key);
            let Some(Status { due_at, hold, .. }) = commands.status::<Status>().await? else { continue };
            commands.drop_pending(order.clone()).await?;
            if !self.comes_to(key, |status| !is_busy(status)).await? {
                return Err(Error::Busy(key.clone()));
            }
            stopped.insert(key.clone(), Stopped { due_at, hold });
        }
        Ok(stopped)
    }

    /// Opens the window of what waits for the next claim of a later key, with the hold and the deadline of the earlier one. `false`:
    /// nothing waits.
    async fn resume(&self, key: &Key, stopped: Option<Stopped>, order: &Order) -> Result<bool, Error> {
        let Some(event) = self.store.returned_event(key).await? else { return Ok(false) };
        let commands = self.commands.digest(key);
        let has_window = commands.status::<Status>().await?.as_ref().is_some_and(is_busy);
        // The ledger knows this event, so that the event itself changes nothing. The workflow learns of all that wait.
        let Item { json, kind, .. } = Item::of(key.clone(), &event)?;
        let items = [(kind, json.as_str())];
        let Stopped { due_at, hold } = stopped.unwrap_or_default();
        match hold {
            // The window that takes the events is held before it learns of them.
            Some(hold) if has_window => {
                commands.hold(hold).await?;
                hand_over(self.temporal, self.task_queue, key, items, HAND_OVER).await?;
            }
            // A run without events takes no hold. The first workflow task waits, and finds both.
            Some(hold) => {
                start_later(self.temporal, self.task_queue, key, items, HAND_OVER, Uuid::new_v4()).await?;
                commands.hold(hold).await?;
            }
            None => hand_over(self.temporal, self.task_queue, key, items, HAND_OVER).await?,
        }
        // A window that was there before keeps its own deadline, and its claim takes all.
        if let Some(at) = due_at.filter(|_| !has_window)
            && self.comes_to(key, is_planned).await?
        {
            let why = format!("moved from {}", self.from);
            commands.retime(Retime { order: Order { by: order.by.clone(), why }, at: Some(at) }).await?;
        }
        Ok(true)
    }

    /// Waits until the key's status is as asked; one whose workflow does not run has an end. `false`: it took too long.
    async fn comes_to(&self, key: &Key, is_so: impl Fn(&Status) -> bool) -> Result<bool, CommandError> {
        let until = Instant::now() + PATIENCE;
        while let Some(status) = self.commands.digest(key).status::<Status>().await? {
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

    /// The keys of the earlier id that collect or deliver.
    async fn busy(&self, keys: &[Key]) -> Result<Vec<Key>, CommandError> {
        let mut busy = Vec::new();
        for key in keys {
            if self.commands.digest(key).status::<Status>().await?.as_ref().is_some_and(is_busy) {
                busy.push(key.clone());
            }
        }
        Ok(busy)
    }

    /// Tells the open windows of the later id that other choices hold. One that does not hear of it looks when it is due.
    async fn tell(&self) {
        let keys = keys(std::slice::from_ref(self.to), &self.settings.digest_types(&self.to.tenant));
        choices::wake::<Error>(Ok(self.temporal), &self.settings.names, &keys, "the move").await;
    }
}

impl MoveKind {
    /// The word of the audit trail.
    const fn action(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Merge => "merge",
        }
    }
}

/// Reports if the window has its deadline, with all that it is to have.
fn is_planned(status: &Status) -> bool {
    status.returned > 0 && status.due_at.is_some() && status.state != Stage::Planning
}

/// Reports that an attempt is under way, which nothing stops. One that waits for its time has one.
fn is_in_attempt(status: &Status) -> bool {
    status.delivering.as_ref().is_some_and(|delivery| delivery.next_attempt_at.is_none())
}

fn keys(people: &[PersonId], types: &BTreeSet<String>) -> Vec<Key> {
    let of_person = |person: &PersonId| types.iter().map(|digest_type| person.key(digest_type)).collect::<Vec<_>>();
    people.iter().flat_map(of_person).collect()
}

fn is_busy(status: &Status) -> bool {
    status.pending > 0 || status.uncompared > 0 || status.delivering.is_some()
}
