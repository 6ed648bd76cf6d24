use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    PersonId,
    records::{AuditEntry, HeldId, MovedRows},
};

use crate::Result;

/// The people who have one id after the other, told apart by a number, and the ids that one person had.
#[async_trait]
pub trait Generations: Send + Sync + 'static {
    /// Returns the person to whom a link to `person` of this number belongs today: who is renamed or merged keeps the links of before.
    /// `None`: that person was erased.
    async fn link_owner(&self, person: &PersonId, generation: u64) -> Result<Option<PersonId>>;

    /// Raises the number of the id. No link of before, to this id or an earlier one of the person, opens anything of whoever has the id
    /// next. A repeated call raises it again.
    async fn raise_generation(&self, person: &PersonId) -> Result<()>;

    /// The ids of the person, also while an erasure of theirs is under way.
    async fn held_ids(&self, person: &PersonId) -> Result<Vec<HeldId>>;

    /// Forgets the earlier ids of the person, whose erasure is complete.
    async fn forget_ids(&self, person: &PersonId) -> Result<()>;

    /// Records that everything of `from` is to be moved to `to`, with an audit entry for each. `false`, and nothing is recorded: a move
    /// to another id began before and must end first.
    async fn begin_move(&self, from: &PersonId, to: &PersonId, entry: &AuditEntry) -> Result<bool>;

    /// Reports if whoever has the id `from` is being moved to the other one, or if somebody was after `since` and the directory has nobody
    /// else under the earlier id now.
    async fn was_moved(&self, from: &PersonId, to: &PersonId, since: Timestamp) -> Result<bool>;

    /// Moves the rows of `from` to `to`, of the same tenant, under each of its names, in one transaction, after [`begin_move`](Self::begin_move). What both have
    /// becomes one: of choices the later ones count, what either turned off or refused stays off, and an event that both have is one
    /// event. Events that the keys of `from` dropped with [`PersonId::move_reason`] wait for the next claim of those of `to`. `types` are
    /// digest types besides those of the ledger. A repeated call moves what came meanwhile.
    async fn move_person(
        &self,
        from: &PersonId,
        to: &PersonId,
        types: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<MovedRows>;

    /// The users of whom the store has something, in the order of their ids, after this one. Those of
    /// [`users_of_workflows`](Self::users_of_workflows) come on top.
    async fn users(&self, tenant: &str, after: &str, limit: u32) -> Result<Vec<String>>;

    /// The users of the workflows of whom the store has dead letters, results of jobs or runs in trouble.
    async fn users_of_workflows(&self, tenant: &str) -> Result<BTreeSet<String>>;
}
