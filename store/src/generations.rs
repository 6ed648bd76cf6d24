//! Who had an id when, and which ids a person had.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Key, PersonId,
    records::{AuditActor, AuditEntry, HeldId, MovedRows, NameKind, PersonsChoice, Preferences},
};

use crate::{
    Result, StoreError, catalogue,
    names::tenants,
    people::{CHOICES, workflows_between},
    sql::{
        SqlStore, calls, checked_number,
        columns::{record, row},
        dialect::Dialect,
    },
};

calls! {
    /// An id may belong to one person after another, distinguished by a number, the generation.
    pub trait GenerationStore {
        /// Returns the current owner of a link issued for `person` and this generation. Links survive renames
        /// and merges. `None` if that person was erased.
        #[span(person = %person, generation)]
        async fn link_owner(&self, person: &PersonId, generation: u64) -> Result<Option<PersonId>>;

        /// Raises the id's generation. Earlier links, to this id or a former one of the person, will open
        /// nothing for its next owner. A repeated call raises it again.
        #[span(person = %person)]
        async fn raise_generation(&self, person: &PersonId) -> Result<()>;

        #[span(person = %person)]
        async fn held_ids(&self, person: &PersonId) -> Result<Vec<HeldId>>;

        #[span(person = %person)]
        async fn forget_ids(&self, person: &PersonId) -> Result<()>;

        /// Records a planned move with an audit entry for each id. Returns `false` and records nothing while
        /// a move to another id is unfinished.
        #[span(from = %from, to = %to)]
        async fn begin_move(&self, from: &PersonId, to: &PersonId, entry: &AuditEntry) -> Result<bool>;

        /// Returns `true` if the owner of `from` is being moved to `to`, or if somebody was moved after
        /// `since` and the directory has nobody under `from` now.
        #[span(from = %from, to = %to)]
        async fn was_moved(&self, from: &PersonId, to: &PersonId, since: Timestamp) -> Result<bool>;

        /// Moves the rows of `from` to `to` in the same tenant, in one transaction, after
        /// [`begin_move`](Self::begin_move).
        ///
        /// Merges rows of both: the later choice counts, an opt-out of either stays, equal events become one.
        /// Events dropped with [`PersonId::move_reason`] wait for the next claim of the keys of `to`. `types`
        /// are digest types beyond the ledger's. A repeated call moves newly arrived rows.
        #[span(from = %from, to = %to)]
        async fn move_person(
            &self,
            from: &PersonId,
            to: &PersonId,
            types: &BTreeSet<String>,
            now: Timestamp,
        ) -> Result<MovedRows>;

        /// Users with any rows, sorted by id, after this one.
        /// [`users_of_workflows`](Self::users_of_workflows) finds more.
        #[span(tenant)]
        async fn users(&self, tenant: &str, after: &str, limit: u32) -> Result<Vec<String>>;

        /// Users in workflow ids of dead letters, job results or troubled runs.
        #[span(tenant)]
        async fn users_of_workflows(&self, tenant: &str) -> Result<BTreeSet<String>>;
    }
}

/// The most renames a link follows; people are renamed a few times in a life.
const RENAMES: usize = 32;

macro_rules! of_tenant {
    ($table:literal) => {
        concat!($table, ".tenant IN (SELECT t.tenant FROM ", tenants!(), " t)")
    };
}

/// Tenant, user, `$3` generation. The id's current generation, and where the person of generation `$3` moved.
pub const GENERATION: &str = concat!(
    "
SELECT COALESCE((SELECT MAX(g.generation) FROM generations g WHERE g.user_id = $2 AND ",
    of_tenant!("g"),
    "), 0) AS generation, r.renamed_to, r.renamed_generation
FROM (SELECT 1 AS one) always
LEFT JOIN renames r ON (r.tenant, r.user_id, r.generation) = (
    SELECT q.tenant, q.user_id, q.generation FROM renames q
    WHERE q.user_id = $2 AND q.generation = $3 AND q.moved_at IS NOT NULL AND ",
    of_tenant!("q"),
    " LIMIT 1)"
);

/// Locks the row. Returns the new generation, greater than that under every name of the tenant.
pub const RAISE_GENERATION: &str = concat!(
    "
INSERT INTO generations (tenant, user_id, generation)
SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), 1 + COALESCE(MAX(g.generation), 0) FROM generations g WHERE g.user_id = $2 AND ",
    of_tenant!("g"),
    "
ON CONFLICT (tenant, user_id) DO UPDATE SET generation =
    CASE WHEN excluded.generation > generations.generation THEN excluded.generation ELSE generations.generation + 1 END
RETURNING generation"
);

/// A common table expression: the ids which led to user `$2` of generation `$3`. Ids leading to a smaller
/// generation belong to a person being erased, unless this person has another id now.
macro_rules! earlier {
    () => {
        concat!(
            "
    WITH RECURSIVE earlier (user_id, generation) AS (
        SELECT f.user_id, f.generation FROM renames f
        WHERE f.renamed_to = $2 AND f.renamed_generation <= $3 AND f.moved_at IS NOT NULL AND ",
            of_tenant!("f"),
            " AND NOT EXISTS (SELECT 1 FROM renames o
              WHERE o.user_id = $2 AND o.generation = f.renamed_generation AND o.moved_at IS NOT NULL AND ",
            of_tenant!("o"),
            ")
        UNION
        SELECT r.user_id, r.generation FROM renames r JOIN earlier e
            ON r.renamed_to = e.user_id AND r.renamed_generation = e.generation AND r.moved_at IS NOT NULL AND ",
            of_tenant!("r"),
            ")"
        )
    };
}

pub const HELD_IDS: &str = concat!(
    earlier!(),
    "
    SELECT h.user_id, h.moved_at AS until_at,
           (SELECT MAX(b.moved_at) FROM renames b WHERE b.user_id = h.user_id AND b.generation < h.generation AND ",
    of_tenant!("b"),
    ") AS since_at
    FROM renames h JOIN earlier e ON h.user_id = e.user_id AND h.generation = e.generation WHERE ",
    of_tenant!("h"),
    "
    UNION ALL
    SELECT CAST($2 AS TEXT), CAST(NULL AS BIGINT),
           (SELECT MAX(b.moved_at) FROM renames b WHERE b.user_id = $2 AND ",
    of_tenant!("b"),
    ")"
);

pub const FORGET_IDS: &str = concat!(
    "
DELETE FROM renames WHERE ",
    of_tenant!("renames"),
    " AND (user_id, generation) IN (",
    earlier!(),
    "
    SELECT user_id, generation FROM earlier)"
);

pub const BEGIN_MOVE: &str = concat!(
    "
INSERT INTO renames (tenant, user_id, generation, renamed_to, renamed_generation)
SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS BIGINT)
WHERE NOT EXISTS (SELECT 1 FROM renames b WHERE b.user_id = $2 AND b.generation = $3 AND ",
    of_tenant!("b"),
    ")
ON CONFLICT DO NOTHING"
);

pub const BEGUN_MOVE: &str = concat!(
    "
SELECT b.renamed_to FROM renames b WHERE b.user_id = $2 AND b.generation = $3 AND ",
    of_tenant!("b")
);

pub const END_MOVE: &str = concat!(
    "
UPDATE renames SET renamed_generation = $4, moved_at = $5 WHERE user_id = $2 AND generation = $3 AND ",
    of_tenant!("renames")
);

pub const WAS_MOVED: &str = concat!(
    "
SELECT m.generation FROM renames m
WHERE m.user_id = $2 AND m.renamed_to = $3 AND ",
    of_tenant!("m"),
    "
  AND (m.moved_at IS NULL AND m.generation = $5
       OR m.moved_at >= $4 AND NOT EXISTS (SELECT 1 FROM recipients p WHERE p.user_id = $2 AND ",
    of_tenant!("p"),
    "))
LIMIT 1"
);

/// Key, `$4` now, `$5` prefix of the reason. Events of digests dropped for the move wait for the next claim.
pub const RETURN_DROPPED_EVENTS: &str = "
UPDATE events SET returned_at = $4 WHERE erased_at IS NULL AND digest_id IN
    (SELECT digest_id FROM digests WHERE tenant = $1 AND digest_type = $2 AND user_id = $3
     AND outcome = 'dropped' AND substr(why, 1, length($5)) = $5)";

pub const RETURN_DROPPED_DIGESTS: &str = "
UPDATE digests SET returned_at = $4
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND outcome = 'dropped'
  AND substr(why, 1, length($5)) = $5
  AND EXISTS (SELECT 1 FROM events e WHERE e.digest_id = digests.digest_id AND e.returned_at IS NOT NULL)";

/// Key, `$4` later id, here and below. Merges events both ids have.
pub const DROP_SAME_EVENTS: &str = "
DELETE FROM events WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND event_id IN
    (SELECT event_id FROM events WHERE tenant = $1 AND digest_type = $2 AND user_id = $4)";

pub const MOVE_EVENTS: &str = "
UPDATE events SET user_id = $4 WHERE tenant = $1 AND digest_type = $2 AND user_id = $3";

pub const MOVE_DIGEST_MESSAGES: &str = "
UPDATE messages SET user_id = $4 WHERE id IN
    (SELECT digest_id FROM digests WHERE tenant = $1 AND digest_type = $2 AND user_id = $3)";

pub const MOVE_DIGESTS: &str = "
UPDATE digests SET user_id = $4 WHERE tenant = $1 AND digest_type = $2 AND user_id = $3";

pub const COPY_RETRACTS: &str = "
INSERT INTO retracts (tenant, digest_type, user_id, event_id, category, entity_type, entity_id, until_at, retracted_at)
SELECT tenant, digest_type, $4, event_id, category, entity_type, entity_id, until_at, retracted_at FROM retracts
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3
ON CONFLICT (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) DO UPDATE
    SET until_at = excluded.until_at, retracted_at = excluded.retracted_at WHERE retracts.until_at < excluded.until_at";

pub const MOVE_DEAD_LETTERS: &str = "UPDATE dead_letters SET workflow_id = $2 WHERE workflow_id = $1";

pub const MOVE_INBOX: &str = "
UPDATE inbox SET workflow_id = $2, user_id = $3 WHERE workflow_id = $1";

pub const INBOX_OF: &str = "SELECT DISTINCT workflow_id FROM inbox WHERE tenant = $1 AND user_id = $2";

/// Tenant, user, `$3` later id, here and below. A refusal under either id or any name stays a refusal; `$4`
/// now.
pub const REFUSE_CONSENTS: &str = concat!(
    "
UPDATE consents SET consent = FALSE, changed_at = $4
WHERE user_id = $3 AND consent AND ",
    of_tenant!("consents"),
    " AND digest_type IN (SELECT n.digest_type FROM consents n WHERE n.user_id = $2 AND NOT n.consent AND ",
    of_tenant!("n"),
    ")"
);

pub const DROP_SAME_CONSENTS: &str = "
DELETE FROM consents WHERE tenant = $1 AND user_id = $2 AND digest_type IN
    (SELECT digest_type FROM consents WHERE tenant = $1 AND user_id = $3)";

pub const MOVE_CONSENTS: &str = "UPDATE consents SET user_id = $3 WHERE tenant = $1 AND user_id = $2";

pub const DROP_SAME_PREFERENCES: &str = "
DELETE FROM preferences WHERE tenant = $1 AND user_id = $2 AND digest_type IN
    (SELECT digest_type FROM preferences WHERE tenant = $1 AND user_id = $3)";

pub const MOVE_PREFERENCES: &str = "UPDATE preferences SET user_id = $3 WHERE tenant = $1 AND user_id = $2";

pub const COPY_READINGS: &str = "
INSERT INTO readings (tenant, digest_type, user_id, read_at, sign_at)
SELECT tenant, digest_type, $3, read_at, sign_at FROM readings WHERE tenant = $1 AND user_id = $2
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET
    read_at = CASE WHEN readings.read_at IS NULL OR excluded.read_at > readings.read_at
              THEN COALESCE(excluded.read_at, readings.read_at) ELSE readings.read_at END,
    sign_at = CASE WHEN excluded.sign_at > readings.sign_at THEN excluded.sign_at ELSE readings.sign_at END";

pub const MOVE_MESSAGES: &str = "
UPDATE messages SET user_id = $3 WHERE tenant = $1 AND user_id = $2 AND digest_id IS NULL";

pub const MOVE_NOTICES: &str = "UPDATE notices SET user_id = $3 WHERE tenant = $1 AND user_id = $2";

/// The later id's own directory row wins.
pub const MOVE_RECIPIENT: &str = "
UPDATE recipients SET user_id = $3 WHERE tenant = $1 AND user_id = $2
  AND NOT EXISTS (SELECT 1 FROM recipients r WHERE r.tenant = $1 AND r.user_id = $3)";

#[cfg(test)]
pub const MOVES: [&str; 12] = [
    MOVE_EVENTS,
    MOVE_DIGEST_MESSAGES,
    MOVE_DIGESTS,
    COPY_RETRACTS,
    MOVE_DEAD_LETTERS,
    MOVE_INBOX,
    MOVE_CONSENTS,
    MOVE_PREFERENCES,
    COPY_READINGS,
    MOVE_MESSAGES,
    MOVE_NOTICES,
    MOVE_RECIPIENT,
];

pub const USERS: &str = "
SELECT user_id FROM (
    SELECT user_id FROM recipients WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM preferences WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM consents WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM readings WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM digests WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM retracts WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM messages WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM inbox WHERE tenant = $1 AND user_id > $2
    UNION SELECT user_id FROM notices WHERE tenant = $1 AND user_id > $2) people
ORDER BY user_id LIMIT $3";

pub const WORKFLOWS_OF_TENANT: &str = "
SELECT workflow_id FROM dead_letters WHERE workflow_id > $1 AND workflow_id < $2
UNION SELECT workflow_id FROM job_keys WHERE workflow_id > $1 AND workflow_id < $2
UNION SELECT workflow_id FROM troubled_runs WHERE workflow_id > $1 AND workflow_id < $2 AND resolution IS NULL";

impl<D: Dialect> SqlStore<D> {
    async fn link_owner(&self, person: &PersonId, generation: u64) -> Result<Option<PersonId>> {
        let mut connection = self.reader.acquire().await?;
        let (mut owner, mut generation) = (person.clone(), generation);
        for _ in 0..RENAMES {
            let row = Self::read_generation(&mut connection, &owner, generation).await?;
            if row.generation == generation {
                connection.release();
                return Ok(Some(owner));
            }
            let Some((user, next)) = row.renamed_to.zip(row.renamed_generation) else { break };
            (owner.user, generation) = (user, next);
        }
        connection.release();
        Ok(None)
    }

    async fn raise_generation(&self, person: &PersonId) -> Result<()> {
        let mut tx = self.begin_write().await?;
        Self::bump_generation(&mut tx, person).await?;
        Ok(tx.commit().await?)
    }

    async fn held_ids(&self, person: &PersonId) -> Result<Vec<HeldId>> {
        let mut connection = self.reader.acquire().await?;
        let generation = Self::read_generation(&mut connection, person, 0).await?.generation;
        let held = query(HELD_IDS).bind(&person.tenant).bind(&person.user).bind(stored_generation(generation)?);
        let held = held.try_map(Self::to_record).fetch_all(&mut *connection).await?;
        connection.release();
        Ok(held)
    }

    async fn forget_ids(&self, person: &PersonId) -> Result<()> {
        let mut tx = self.begin_write().await?;
        let generation = Self::read_generation(&mut tx, person, 0).await?.generation;
        let forget = query(FORGET_IDS).bind(person.tenant.clone()).bind(person.user.clone());
        forget.bind(stored_generation(generation)?).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    async fn begin_move(&self, from: &PersonId, to: &PersonId, entry: &AuditEntry) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let generation = Self::read_generation(&mut tx, from, 0).await?.generation;
        let later = Self::read_generation(&mut tx, to, 0).await?.generation;
        let begin =
            query(BEGIN_MOVE).bind(from.tenant.clone()).bind(from.user.clone()).bind(stored_generation(generation)?);
        begin.bind(to.user.clone()).bind(stored_generation(later)?).execute(&mut *tx).await?;
        if Self::begun_move(&mut tx, from, generation).await?.as_ref() != Some(&to.user) {
            return Ok(false);
        }
        for person in [from, to] {
            Self::audit_once(&mut tx, &person.key(""), None, entry).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    async fn was_moved(&self, from: &PersonId, to: &PersonId, since: Timestamp) -> Result<bool> {
        let mut connection = self.reader.acquire().await?;
        let generation = Self::read_generation(&mut connection, from, 0).await?.generation;
        let moved = query_as(WAS_MOVED).bind(from.tenant.clone()).bind(from.user.clone()).bind(to.user.clone());
        let moved = moved.bind(since.as_millisecond()).bind(stored_generation(generation)?);
        let moved: Option<(i64,)> = moved.fetch_optional(&mut *connection).await?;
        connection.release();
        Ok(moved.is_some())
    }

    async fn move_person(
        &self,
        from: &PersonId,
        to: &PersonId,
        types: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<MovedRows> {
        let others = self.other_names(NameKind::Tenant, &from.tenant).await?;
        let mut tx = self.begin_write().await?;
        let before = Self::bump_generation(&mut tx, from).await?;
        if Self::begun_move(&mut tx, from, before).await?.as_ref() != Some(&to.user) {
            return Err(StoreError::Broken(format!("no move of {from} to {to} began: run the command again")));
        }
        let mut moved = MovedRows::default();
        let refuse = query(REFUSE_CONSENTS).bind(from.tenant.clone()).bind(from.user.clone()).bind(to.user.clone());
        refuse.bind(now.as_millisecond()).execute(&mut *tx).await?;
        for tenant in [from.tenant.clone()].into_iter().chain(others) {
            let [from, to] = [from, to].map(|id| PersonId { tenant: tenant.clone(), user: id.user.clone() });
            Self::move_rows(&mut tx, &from, &to, types, now, &mut moved).await?;
        }
        let later = Self::read_generation(&mut tx, to, 0).await?.generation;
        let end = query(END_MOVE).bind(from.tenant.clone()).bind(from.user.clone()).bind(stored_generation(before)?);
        end.bind(stored_generation(later)?).bind(now.as_millisecond()).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(moved)
    }

    async fn users(&self, tenant: &str, after: &str, limit: u32) -> Result<Vec<String>> {
        let users = query_as(USERS).bind(tenant.to_owned()).bind(after.to_owned()).bind(i64::from(limit));
        let users: Vec<(String,)> = users.fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(users.into_iter().map(|(user,)| user).collect())
    }

    async fn users_of_workflows(&self, tenant: &str) -> Result<BTreeSet<String>> {
        let [first, end] = workflows_between(tenant);
        let ids = query_as(WORKFLOWS_OF_TENANT).bind(first).bind(end);
        let ids: Vec<(String,)> = ids.fetch_all(&mut *self.reader.acquire().await?).await?;
        let keys = ids.into_iter().filter_map(|(id,)| Key::from_workflow_id(&id).ok());
        Ok(keys.filter(|key| key.tenant == tenant).map(|key| key.user).collect())
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn read_generation(
        connection: &mut D::Connection,
        person: &PersonId,
        generation: u64,
    ) -> Result<GenerationRow> {
        let row = query_as(GENERATION).bind(person.tenant.clone()).bind(person.user.clone());
        Ok(row.bind(stored_generation(generation)?).fetch_one(connection).await?)
    }

    async fn bump_generation(connection: &mut D::Connection, person: &PersonId) -> Result<u64> {
        let raise = query_as(RAISE_GENERATION).bind(person.tenant.clone()).bind(person.user.clone());
        let (raised,): (i64,) = raise.fetch_one(connection).await?;
        checked_number(raised - 1)
    }

    async fn begun_move(connection: &mut D::Connection, from: &PersonId, generation: u64) -> Result<Option<String>> {
        let begun =
            query_as(BEGUN_MOVE).bind(from.tenant.clone()).bind(from.user.clone()).bind(stored_generation(generation)?);
        let begun: Option<(String,)> = begun.fetch_optional(connection).await?;
        Ok(begun.map(|(user,)| user))
    }

    async fn move_rows(
        connection: &mut D::Connection,
        from: &PersonId,
        to: &PersonId,
        types: &BTreeSet<String>,
        now: Timestamp,
        moved: &mut MovedRows,
    ) -> Result<()> {
        for digest_type in types | &Self::types_of(&mut *connection, from).await? {
            let keys = [from.key(&digest_type), to.key(&digest_type)];
            Self::move_ledger(&mut *connection, &keys, now, moved).await?;
        }
        Self::move_inbox(&mut *connection, from, to).await?;
        Self::move_choices(&mut *connection, from, to, now, moved).await?;
        moved.messages += Self::of_both(&mut *connection, MOVE_MESSAGES, from, to).await?;
        Self::of_both(&mut *connection, MOVE_NOTICES, from, to).await?;
        moved.recipients += Self::of_both(&mut *connection, MOVE_RECIPIENT, from, to).await?;
        query(catalogue::RECIPIENTS.delete)
            .bind(from.tenant.clone())
            .bind(from.user.clone())
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn move_ledger(
        connection: &mut D::Connection,
        [from, to]: &[Key; 2],
        now: Timestamp,
        moved: &mut MovedRows,
    ) -> Result<()> {
        let of_key = |statement| query(statement).bind(&from.tenant).bind(&from.digest_type).bind(&from.user);
        let reason = PersonId::from_key(to).move_reason();
        let give_back = |statement| of_key(statement).bind(now.as_millisecond()).bind(reason.clone());
        moved.returned += D::changed_rows(&give_back(RETURN_DROPPED_EVENTS).execute(&mut *connection).await?);
        give_back(RETURN_DROPPED_DIGESTS).execute(&mut *connection).await?;
        for (statement, count) in [
            (DROP_SAME_EVENTS, None),
            (MOVE_EVENTS, Some(&mut moved.events)),
            (MOVE_DIGEST_MESSAGES, Some(&mut moved.messages)),
            (MOVE_DIGESTS, Some(&mut moved.digests)),
            (COPY_RETRACTS, Some(&mut moved.retracts)),
        ] {
            let rows = D::changed_rows(&of_key(statement).bind(&to.user).execute(&mut *connection).await?);
            if let Some(count) = count {
                *count += rows;
            }
        }
        of_key(catalogue::RETRACTS.delete).execute(&mut *connection).await?;
        let letters = query(MOVE_DEAD_LETTERS).bind(from.workflow_id()).bind(to.workflow_id());
        moved.dead_letters += D::changed_rows(&letters.execute(connection).await?);
        Ok(())
    }

    async fn move_inbox(connection: &mut D::Connection, from: &PersonId, to: &PersonId) -> Result<()> {
        let workflows = query_as(INBOX_OF).bind(from.tenant.clone()).bind(from.user.clone());
        let workflows: Vec<(String,)> = workflows.fetch_all(&mut *connection).await?;
        for (workflow,) in workflows {
            let Ok(key) = Key::from_workflow_id(&workflow) else { continue };
            let target = to.key(&key.digest_type).workflow_id();
            query(MOVE_INBOX).bind(workflow).bind(target).bind(to.user.clone()).execute(&mut *connection).await?;
        }
        Ok(())
    }

    async fn move_choices(
        connection: &mut D::Connection,
        from: &PersonId,
        to: &PersonId,
        now: Timestamp,
        moved: &mut MovedRows,
    ) -> Result<()> {
        let theirs: Vec<PersonsChoice> = Self::of_person(&mut *connection, CHOICES, to).await?;
        for earlier in Self::of_person::<PersonsChoice>(&mut *connection, CHOICES, from).await? {
            let Some(own) = theirs.iter().find(|own| own.digest_type == earlier.digest_type) else { continue };
            let [older, newer] = if own.changed_at < earlier.changed_at { [own, &earlier] } else { [&earlier, own] };
            let merged = Preferences::merge_choices(newer.chosen.clone(), &older.chosen);
            let entry = AuditEntry {
                at: now,
                actor: AuditActor::Tidings,
                action: "preferences".to_owned(),
                why: format!("merged with those of {from}"),
            };
            Self::write_preferences(&mut *connection, &to.key(&own.digest_type), &merged, -1, &entry).await?;
        }
        for (statement, count) in [
            (DROP_SAME_CONSENTS, None),
            (MOVE_CONSENTS, Some(&mut moved.consents)),
            (DROP_SAME_PREFERENCES, None),
            (MOVE_PREFERENCES, Some(&mut moved.preferences)),
            (COPY_READINGS, None),
        ] {
            let rows = Self::of_both(&mut *connection, statement, from, to).await?;
            if let Some(count) = count {
                *count += rows;
            }
        }
        query(catalogue::READINGS.delete).bind(from.tenant.clone()).bind(from.user.clone()).execute(connection).await?;
        Ok(())
    }

    async fn of_both(
        connection: &mut D::Connection,
        statement: &'static str,
        from: &PersonId,
        to: &PersonId,
    ) -> Result<u64> {
        let done = query(statement).bind(from.tenant.clone()).bind(from.user.clone()).bind(to.user.clone());
        Ok(D::changed_rows(&done.execute(connection).await?))
    }
}

fn stored_generation(generation: u64) -> Result<i64> {
    i64::try_from(generation).map_err(|_| StoreError::Broken(format!("a person's number {generation}")))
}

row! {
pub struct GenerationRow {
    generation: u64,
    renamed_to: Option<String>,
    renamed_generation: Option<u64>,
}
}

record!(row => HeldId { user = "user_id", since = "since_at", until = "until_at" });
