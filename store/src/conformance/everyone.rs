//! All data about a person is found, whichever table has it (rule 58). The catalogue lists every table, so a
//! new one needs a decision.

use std::collections::BTreeSet;

use tidings_model::{
    Key, MessageKey, PersonId, Retract,
    decode::DeadLetter,
    records::{
        ErasedRows, MessageOrigin, OutboxMessage, PageRequest, PersonRowKind, Preferences, Recipient, Suppression,
        SuppressionReason,
    },
    step::DeadLettersInput,
};

use super::{Bench, at, entry, events, message, recipient, titled, window_of};
use crate::catalogue::{CatalogueTable, RowOwner, TABLES};

pub async fn each_table_is_in_the_catalogue(bench: &Bench) {
    let tables: BTreeSet<_> = bench.tables().await.into_iter().collect();
    let catalogue: BTreeSet<_> = TABLES.iter().map(|table| table.name.to_owned()).collect();
    assert_eq!(tables, catalogue, "a table without a decision about people");
    for table in TABLES {
        let CatalogueTable { name, whose, .. } = table;
        let columns: BTreeSet<_> = bench.columns(name).await.into_iter().collect();
        let catalogue: BTreeSet<_> = table.all_columns().map(str::to_owned).collect();
        assert_eq!(columns, catalogue, "a column of {name} without a decision about people");
        let names_somebody = columns.contains("user_id") || columns.contains("workflow_id");
        let is_known = matches!(whose, RowOwner::Person | RowOwner::Key | RowOwner::Id);
        assert_eq!(names_somebody, is_known, "{name}: {whose:?}, {columns:?}");
    }
}

/// The tables about people, each with its owner.
pub(super) fn of_people() -> impl Iterator<Item = (&'static str, RowOwner)> {
    let tables = TABLES.iter().map(|table| (table.name, table.whose));
    tables.filter(|(_, whose)| matches!(whose, RowOwner::Person | RowOwner::Key))
}

/// In no configuration file.
const TYPE: &str = "acti_vty";

/// Puts one row about the key's person into the table, with `MARK` wherever text may be.
pub(super) async fn put(bench: &Bench, table: &str, key: &Key) {
    let Key { tenant, digest_type, user } = key;
    let workflow = key.workflow_id();
    match table {
        "recipients" => {
            let person = Recipient { name: "MARK".into(), ..recipient(user, "mark@example.com") };
            bench.store.put_recipients(&[person], at(0)).await.unwrap();
            let suppression = Suppression {
                tenant: tenant.clone(),
                address: "mark@example.com".into(),
                reason: SuppressionReason::Complaint,
                detail: "MARK".into(),
                at: at(1),
            };
            bench.store.suppress(&suppression).await.unwrap();
        }
        "preferences" => {
            let off = Preferences { off: ["MARK".to_owned()].into(), ..Preferences::default() };
            bench.store.put_preferences(key, &off, None, &entry(1, "carol", "preferences")).await.unwrap();
        }
        "consents" => bench.store.put_consent(key, false, &entry(1, "carol", "withdraw consent")).await.unwrap(),
        "readings" => {
            let columns = "tenant, digest_type, user_id, sign_at";
            bench
                .execute(&format!("INSERT INTO readings ({columns}) VALUES ('{tenant}', '{digest_type}', '{user}', 1)"))
                .await;
        }
        "digests" | "events" => {
            let mut events = events(&["e1"]);
            events[0].payload = titled("MARK".into());
            bench.store.stash_events(&window_of(key, 1), &events, None, at(1)).await.unwrap();
        }
        "retracts" => bench.store.put_retracts(key, &[Retract::Event("MARK".into())], at(1)).await.unwrap(),
        "messages" => {
            let of = MessageKey { tenant: tenant.clone(), key: format!("welcome {user}") };
            let id = of.message_id();
            let origin = MessageOrigin::Single { key: of, user: Some(user.clone()), content_sha256: "00".into() };
            let single = message(&window_of(key, 1), "MARK");
            let single =
                OutboxMessage { id, origin, subject: "MARK".into(), envelope_to: "mark@example.com".into(), ..single };
            bench.store.put_message(&single, None).await.unwrap();
        }
        "dead_letters" => {
            let letter = DeadLetter {
                seq: 1,
                reason: "no JSON".into(),
                encoding: "json/plain".into(),
                message_type: None,
                size: 4,
                sha256: "00".into(),
                head: "MARK".into(),
            };
            let input = DeadLettersInput { workflow_id: workflow, run_id: "run".into(), letters: vec![letter] };
            bench.store.put_dead_letters(&input, at(1)).await.unwrap();
        }
        "inbox" => {
            let columns = "workflow_id, tenant, user_id, kind, json, bytes, received_at";
            let values = format!("'{workflow}', '{tenant}', '{user}', 'event', '{{\"actor\":\"MARK\"}}', 16, 1");
            bench.execute(&format!("INSERT INTO inbox ({columns}) VALUES ({values})")).await;
        }
        "notices" => {
            let columns = "subscription, event, lane, tenant, digest_type, user_id, occurred_at, recorded_at, reason";
            let values = format!("'crm', 'digest.sent', 'l', '{tenant}', '{digest_type}', '{user}', 1, 1, 'MARK'");
            bench.execute(&format!("INSERT INTO notices ({columns}) VALUES ({values})")).await;
        }
        "job_keys" => {
            let values = format!("'job', '{workflow}', 'done', '\"MARK\"'");
            bench
                .execute(&format!("INSERT INTO job_keys (job_id, workflow_id, state, answer) VALUES ({values})"))
                .await;
        }
        "troubled_runs" => {
            let columns = "workflow_id, run_id, tenant, trouble, since, found_at, due_at, ended_by, why";
            let values = format!("'{workflow}', 'run', '{tenant}', 'terminated', 1, 1, 1, 'MARK', 'MARK'");
            bench.execute(&format!("INSERT INTO troubled_runs ({columns}) VALUES ({values})")).await;
        }
        other => panic!("no row of {other} is put"),
    }
}

/// Returns `true` if an export has anything about the person besides the audit trail.
async fn is_exported(bench: &Bench, person: &PersonId) -> bool {
    let known = bench.store.person(person).await.unwrap();
    let is_known = known.recipient.is_some()
        || !known.preferences.is_empty()
        || !known.consents.is_empty()
        || !known.readings.is_empty();
    if is_known {
        return true;
    }
    let page = PageRequest { limit: 9, after: None };
    for part in PersonRowKind::ALL.into_iter().filter(|part| *part != PersonRowKind::Audit) {
        for digest_type in known.digest_types.iter().map(String::as_str).chain([""]) {
            let key = person.key(digest_type);
            if !bench.store.person_rows(&key, &known.addresses, part, &page).await.unwrap().rows.is_empty() {
                return true;
            }
        }
    }
    false
}

/// Erases everything in the store about the person, as without a configuration file.
async fn erase(bench: &Bench, person: &PersonId) {
    let known = bench.store.person(person).await.unwrap();
    let addresses = bench.store.own_addresses(person, &known.addresses).await.unwrap();
    bench.store.erase_addresses(person, &addresses).await.unwrap();
    for digest_type in &known.digest_types {
        while !bench.store.erase_digests(&person.key(digest_type), at(900)).await.unwrap().is_nothing() {}
    }
    let page = PageRequest { limit: 500, after: None };
    bench.store.erase_messages(person, &addresses, &page, at(900)).await.unwrap();
    bench.store.erase_choices(person, &known.digest_types).await.unwrap();
    bench.store.erase_recipient(person).await.unwrap();
    let left = bench.store.preview_erasure(person, &known.digest_types, &addresses).await.unwrap();
    assert_eq!(left, ErasedRows::default(), "{person}");
}

pub async fn a_person_with_a_row_in_one_table_only_is_found_exported_and_erased(bench: &Bench) {
    for (table, whose) in of_people() {
        // The underscores are no wildcards.
        let person = PersonId { tenant: "acme".into(), user: format!("only_{table}") };
        let key = person.key(TYPE);
        put(bench, table, &key).await;
        let known = bench.store.person(&person).await.unwrap();
        assert!(!known.is_empty(), "{table}: the person is not found");
        let types: BTreeSet<_> = (whose == RowOwner::Key).then(|| TYPE.to_owned()).into_iter().collect();
        assert_eq!(known.digest_types, types, "{table}");
        assert!(is_exported(bench, &person).await, "{table}: the row is not exported");
        let other = PersonId { user: format!("onlyX{table}"), ..person.clone() };
        assert!(bench.store.person(&other).await.unwrap().is_empty(), "{table}: another person");
        erase(bench, &person).await;
        let left = bench.dump().await.to_lowercase();
        assert!(!left.contains("mark"), "{table}: {left}");
    }
}
