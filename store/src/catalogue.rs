//! Each table and column: its owner, the maximum age of a row, and its treatment by an erasure.
//!
//! Retention and erasure take their statements from here, and tests compare it with the schema, so a new
//! table or column needs a decision here first.

#![cfg_attr(not(test), expect(dead_code, reason = "tests compare the rest with the schema"))]

use tidings_model::{records::ErasedRows, retention::RetentionKind};

use crate::{inbox, installations, jobs, troubled_runs, webhook_requests};

pub struct CatalogueTable {
    pub name: &'static str,
    pub whose: RowOwner,
    pub age: RowAge,
    pub erasure: ErasureRule,
    pub columns: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOwner {
    Person,
    Key,
    Indirect,
    /// Only the user id. It stays (e.g. in the audit trail) or expires soon.
    Id,
    Nobody,
}

#[derive(Clone, Copy)]
pub enum RowAge {
    Unlimited,
    /// Retention's statement. `{each}` is a primary key.
    Upkeep(RetentionKind, &'static str),
    /// As old as its row in this table.
    With(&'static str),
    /// The owning module's statement.
    Swept(&'static str),
}

#[derive(Clone, Copy)]
pub enum ErasureRule {
    Deletes(&'static RowDeletion),
    /// Clears these columns, or replaces an address by a pseudonym.
    Blanks(&'static [&'static str]),
    /// Deleted by cascade.
    Cascades,
    /// Deleted last: [`GenerationStore::forget_ids`](crate::Generations::forget_ids).
    Forgets,
    Keeps,
}

pub struct RowDeletion {
    pub by: DeletionKey,
    pub delete: &'static str,
    pub count: &'static str,
    pub counted: Option<fn(&mut ErasedRows) -> &mut u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DeletionKey {
    /// Tenant and user, but deleted last.
    Directory,
    Person,
    Key,
    Workflow,
}

macro_rules! deletion {
    ($by:ident, $rows:expr, $counted:expr) => {
        RowDeletion {
            by: DeletionKey::$by,
            delete: concat!("DELETE FROM ", $rows),
            count: concat!("SELECT COUNT(*) FROM ", $rows),
            counted: $counted,
        }
    };
}

pub const RECIPIENTS: RowDeletion =
    deletion!(Directory, "recipients WHERE tenant = $1 AND user_id = $2", Some(|erased| &mut erased.recipients));
pub const PREFERENCES: RowDeletion =
    deletion!(Person, "preferences WHERE tenant = $1 AND user_id = $2", Some(|erased| &mut erased.preferences));
pub const CONSENTS: RowDeletion =
    deletion!(Person, "consents WHERE tenant = $1 AND user_id = $2", Some(|erased| &mut erased.consents));
pub const READINGS: RowDeletion =
    deletion!(Person, "readings WHERE tenant = $1 AND user_id = $2", Some(|erased| &mut erased.delivery_events));
/// Includes waiting items, because the forwarder would otherwise bring the person back.
pub const INBOX: RowDeletion =
    deletion!(Person, "inbox WHERE tenant = $1 AND user_id = $2", Some(|erased| &mut erased.inbox));
/// Includes pending notices: an erased person should appear in none.
pub const NOTICES: RowDeletion = deletion!(Person, "notices WHERE tenant = $1 AND user_id = $2", None);
/// Letters naming one of the person's messages. The table of ids is small, so this joins from it, one lookup
/// per id.
pub const WEBHOOK_LETTERS: RowDeletion = deletion!(
    Person,
    "webhook_dead_letters WHERE (relay, sha256) IN
    (SELECT l.relay, l.sha256 FROM webhook_letter_ids l JOIN messages m ON m.id = l.id
     WHERE m.tenant = $1 AND m.user_id = $2)",
    Some(|erased| &mut erased.dead_letters)
);
pub const RETRACTS: RowDeletion = deletion!(
    Key,
    "retracts WHERE tenant = $1 AND digest_type = $2 AND user_id = $3",
    Some(|erased| &mut erased.retracts)
);
pub const DEAD_LETTERS: RowDeletion =
    deletion!(Workflow, "dead_letters WHERE workflow_id = $1", Some(|erased| &mut erased.dead_letters));
/// Includes keys of running jobs.
pub const JOB_KEYS: RowDeletion = deletion!(Workflow, "job_keys WHERE workflow_id = $1", None);

const DELETE_INBOX: &str = "DELETE FROM inbox WHERE id IN (SELECT CAST(value->>0 AS BIGINT) FROM {each})";

const DELETE_NOTICES: &str = "DELETE FROM notices WHERE seq IN (SELECT CAST(value->>0 AS BIGINT) FROM {each})";

const DELETE_ATTEMPTS: &str = "DELETE FROM attempts WHERE message IN (SELECT value->>0 FROM {each})";

const DELETE_MESSAGES: &str = "DELETE FROM messages WHERE id IN (SELECT value->>0 FROM {each})";

const DELETE_EVENTS: &str = "
DELETE FROM events WHERE (tenant, digest_type, user_id, event_id) IN
    (SELECT value->>0, value->>1, value->>2, value->>3 FROM {each})";

const DELETE_RETRACTS: &str = "
DELETE FROM retracts WHERE (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) IN
    (SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6 FROM {each})";

const DELETE_DEAD_LETTERS: &str = "
DELETE FROM dead_letters WHERE (workflow_id, run_id, seq) IN
    (SELECT value->>0, value->>1, CAST(value->>2 AS BIGINT) FROM {each})";

const DELETE_WEBHOOK_LETTERS: &str = "
DELETE FROM webhook_dead_letters WHERE (relay, sha256) IN (SELECT value->>0, value->>1 FROM {each})";

const DELETE_REPORTS: &str =
    "DELETE FROM delivery_events WHERE (message, event) IN (SELECT value->>0, value->>1 FROM {each})";

macro_rules! tables {
    ($($name:ident: $whose:ident, $age:ident $(($($limit:tt)+))?, $erasure:ident $(($($what:tt)+))?, [$($column:ident)+];)+) => {
        &[$(CatalogueTable {
            name: stringify!($name),
            whose: RowOwner::$whose,
            age: RowAge::$age $(($($limit)+))?,
            erasure: ErasureRule::$erasure $(($($what)+))?,
            columns: &[$(stringify!($column)),+],
        }),+]
    };
}

/// Ordered: a table comes before the tables it refers to, and rows are deleted in this order.
pub const TABLES: &[CatalogueTable] = tables! {
    recipients: Person, Unlimited, Deletes(&RECIPIENTS),
        [tenant user_id address address_lower name zone locale zone_revision zone_changed_at pseudonym answered_at];
    preferences: Key, Unlimited, Deletes(&PREFERENCES),
        [tenant digest_type user_id chosen revision changed_at];
    consents: Key, Unlimited, Deletes(&CONSENTS),
        [tenant digest_type user_id consent changed_at];
    readings: Key, Unlimited, Deletes(&READINGS),
        [tenant digest_type user_id read_at sign_at];
    inbox: Key, Upkeep(RetentionKind::Inbox, DELETE_INBOX), Deletes(&INBOX),
        [id workflow_id tenant user_id kind json bytes received_at forwarded_at];
    inbox_leases: Id, Swept(inbox::FORGET_LEASES), Keeps,
        [workflow_id holder free_at failures];
    notices: Key, Upkeep(RetentionKind::Notices, DELETE_NOTICES), Deletes(&NOTICES),
        [seq id subscription event lane tenant digest_type user_id digest_id message outcome reason occurred_at
        recorded_at tries first_tried_at retry_at result ended_at];
    suppressions: Indirect, Unlimited, Blanks(&["address_lower", "detail"]),
        [tenant reason suppressed_at];
    digests: Key, Unlimited, Blanks(&["why", "plan_why"]),
        [digest_id tenant digest_type user_id opened_at due_at state claimed_at sent_at closed_at outcome returned_at
        purged_at emptied_at erased_at cadence zone event_count slot_at];
    events: Key, Upkeep(RetentionKind::Events, DELETE_EVENTS),
        Blanks(&["entity_type", "entity_id", "actor", "counts", "payload", "content_sha256", "other_categories", "refused_sha256"]),
        [tenant digest_type user_id event_id digest_id category occurred_at urgent recorded_at returned_at
        returned_from erased_at returns refused_at];
    retracts: Key, Upkeep(RetentionKind::Retracts, DELETE_RETRACTS), Deletes(&RETRACTS),
        [tenant digest_type user_id event_id category entity_type entity_id until_at retracted_at needed_at];
    attempts: Indirect, Upkeep(RetentionKind::Messages, DELETE_ATTEMPTS),
        Blanks(&["reply", "late_reply"]),
        [message number tenant relay begun_at past_the_dot_at ended_at phase class fenced_at late_at late_phase
        late_class relay_id nonce];
    messages: Person, Upkeep(RetentionKind::Messages, DELETE_MESSAGES),
        Blanks(&["envelope_to", "subject", "bytes", "why", "made_from", "former_envelopes", "thread"]),
        [id digest_id tenant digest_type user_id idempotency_key content_sha256 stream envelope_from message_id
        template created_at state sent_at closed_at may_repeat shrunk erased_at epoch reported counted outdated
        made_at missing_since thread_at];
    delivery_events: Indirect, Upkeep(RetentionKind::DeliveryEvents, DELETE_REPORTS),
        Blanks(&["address_lower", "diagnostic", "url"]),
        [message event tenant kind bounce status relay event_id occurred_at received_at never_sent machine];
    dead_letters: Key, Upkeep(RetentionKind::DeadLetters, DELETE_DEAD_LETTERS), Deletes(&DEAD_LETTERS),
        [workflow_id run_id seq reason encoding size sha256 head buried_at message_type emitted_at emitted_by];
    webhook_dead_letters: Indirect, Upkeep(RetentionKind::DeadLetters, DELETE_WEBHOOK_LETTERS), Deletes(&WEBHOOK_LETTERS),
        [relay sha256 reason size head buried_at whole emitted_at emitted_by];
    webhook_letter_ids: Indirect, With("webhook_dead_letters"), Cascades,
        [id relay sha256];
    job_keys: Key, With("jobs"), Deletes(&JOB_KEYS),
        [job_id workflow_id state answer problem ended_at];
    troubled_runs: Key, Swept(troubled_runs::FORGET), Blanks(&["ended_by", "why"]),
        [workflow_id run_id tenant trouble since found_at due_at tries resolution resolved_at];
    audit: Id, Unlimited, Keeps,
        [audit_id acted_at tenant digest_type user_id digest_id message actor action why];
    generations: Id, Unlimited, Keeps,
        [tenant user_id generation];
    renames: Id, Unlimited, Forgets,
        [tenant user_id generation renamed_to renamed_generation moved_at];
    jobs: Nobody, Swept(jobs::FORGET), Keeps,
        [job_id tenant words task dry_run asked_by why state problem matched done failed posted_at started_at ended_at
        place holder free_at];
    idempotency_keys: Nobody, Swept(jobs::FORGET_IDEMPOTENCY_KEYS), Keeps,
        [id content_sha256 used_at];
    webhook_tokens: Nobody, Swept(webhook_requests::DELETE_OLD_TOKENS), Keeps,
        [relay token body_sha256 received_at];
    processes: Nobody, Swept(installations::FORGET_PROCESSES), Keeps,
        [id seen_at profile];
    aliases: Nobody, Unlimited, Keeps,
        [kind name alias is_today];
    api_tokens: Nobody, Unlimited, Keeps,
        [id secret_sha256 tenant scopes note created_at created_by expires_at revoked_at last_used_at];
    archives: Nobody, Unlimited, Keeps,
        [folder begun_at first_file last_file failed_at failure];
    erased_addresses: Nobody, Unlimited, Keeps,
        [tenant pseudonym];
    installation: Nobody, Unlimited, Keeps,
        [one identity beat before_beat beat_at zone_release upkeep_at moved_to moved_at moved_identity];
    message_days: Nobody, Unlimited, Keeps,
        [tenant day digest_type template relay sent delivered deferred bounced_hard bounced_soft bounced_policy
        never_sent complained unsubscribed opened_people opened_machines opened_unknown clicked_people
        clicked_machines clicked_unknown];
    pauses: Nobody, Unlimited, Keeps,
        [pause_id tenant digest_type messages paused_at paused_by why until_at ended_at ended_by ended_why];
    relays: Nobody, Unlimited, Keeps,
        [name revision state cause why opened_at until_at times failures failing_since sent bounced probe_message
        probe_until changed_at taken complained refusals];
    secrets: Nobody, Unlimited, Keeps,
        [name value created_at];
    subscriptions: Nobody, Unlimited, Keeps,
        [name event tenant digest_type gone_at];
    sweep: Nobody, Unlimited, Keeps,
        [name holder free_at until_at far_at open_at];
};

impl CatalogueTable {
    pub fn all_columns(&self) -> impl Iterator<Item = &'static str> {
        let blanked = if let ErasureRule::Blanks(blanked) = self.erasure { blanked } else { &[] };
        self.columns.iter().chain(blanked).copied()
    }
}

pub fn deletions_by(by: DeletionKey) -> impl Iterator<Item = &'static RowDeletion> {
    TABLES.iter().filter_map(move |table| match table.erasure {
        ErasureRule::Deletes(deletion) if deletion.by == by => Some(deletion),
        _ => None,
    })
}

pub fn upkeep_statements(of: RetentionKind) -> impl Iterator<Item = &'static str> {
    TABLES.iter().filter_map(move |table| match table.age {
        RowAge::Upkeep(kind, delete) if kind == of => Some(delete),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{erasure, generations, lines, people};

    /// The columns a statement sets.
    fn set_by(update: &str) -> BTreeSet<&str> {
        let set = update.split_once(" SET ").map_or("", |(_, set)| set.split_once("WHERE").map_or(set, |(set, _)| set));
        let columns = set.split([',', '\n']).filter_map(|part| part.trim().split_once(" = "));
        columns
            .map(|(column, _)| column)
            .filter(|column| column.chars().all(|c| c.is_alphanumeric() || c == '_'))
            .collect()
    }

    #[test]
    fn an_erasure_blanks_the_columns_of_the_catalogue() {
        let marks = ["erased_at", "purged_at", "returned_at", "due_at", "resolution", "resolved_at"];
        let statements = [
            ("digests", erasure::ERASE_DIGEST),
            ("events", erasure::ERASE_EVENTS),
            ("messages", erasure::ERASE_MESSAGE),
            ("attempts", erasure::ERASE_ATTEMPTS),
            ("delivery_events", erasure::ERASE_REPORTS),
            ("delivery_events", erasure::ERASE_REPORTS_OF_ADDRESS),
            ("troubled_runs", erasure::ERASE_RUNS),
        ];
        for (name, statement) in statements {
            let mut set = set_by(statement);
            set.retain(|column| !marks.contains(column));
            let table = TABLES.iter().find(|table| table.name == name).unwrap();
            let ErasureRule::Blanks(blanked) = table.erasure else { panic!("{name} is not blanked") };
            assert_eq!(set, blanked.iter().copied().collect(), "{name}");
        }
        // A suppression is written again under the pseudonym.
        let blanked = TABLES
            .iter()
            .filter(|table| matches!(table.erasure, ErasureRule::Blanks(_)) && table.name != "suppressions");
        assert!(blanked.map(|table| table.name).all(|name| statements.iter().any(|(of, _)| *of == name)));
    }

    #[test]
    fn each_statement_about_all_tables_of_people_names_each() {
        let moves = generations::MOVES.concat();
        for CatalogueTable { name, whose, columns, .. } in TABLES {
            if !matches!(whose, RowOwner::Person | RowOwner::Key) {
                continue;
            }
            let from = format!(" FROM {name} ");
            // Each event is of a digest.
            if !columns.contains(&"user_id") {
                assert!(
                    people::WORKFLOWS_OF.contains(&from) && generations::WORKFLOWS_OF_TENANT.contains(&from),
                    "{name}"
                );
            } else if *name != "events" {
                assert!(generations::USERS.contains(&from), "{name}");
            }
            // What became of a former key is its own.
            if !["job_keys", "troubled_runs"].contains(name) {
                let moved = [format!("UPDATE {name} SET"), format!("INSERT INTO {name} ")];
                assert!(moved.iter().any(|moved| moves.contains(moved)), "{name}");
            }
        }
    }

    #[test]
    fn rows_that_go_go_by_a_statement_about_their_table() {
        for CatalogueTable { name, age, erasure, .. } in TABLES {
            if let RowAge::Upkeep(_, delete) | RowAge::Swept(delete) = age {
                assert!(delete.trim().starts_with(&format!("DELETE FROM {name} ")), "{delete}");
            }
            if let RowAge::With(of) = age {
                assert!(TABLES.iter().any(|table| table.name == *of), "{name}");
            }
            if let ErasureRule::Deletes(RowDeletion { delete, count, .. }) = erasure {
                assert_eq!(delete.strip_prefix("DELETE"), count.strip_prefix("SELECT COUNT(*)"));
                assert!(delete.starts_with(&format!("DELETE FROM {name} ")), "{delete}");
            }
        }
    }

    #[test]
    fn lines_have_columns_of_their_table() {
        for lines in lines::ALL {
            let table = TABLES.iter().find(|table| table.name == lines.table).unwrap();
            // The end of an event's digest is in its line.
            let mut columns = lines.columns.iter().map(|column| column.name).filter(|name| *name != "closed_at");
            assert!(columns.all(|name| table.all_columns().any(|column| column == name)), "{}", lines.table);
        }
    }
}
