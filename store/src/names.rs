//! Equivalent names for digest types and tenants.
//!
//! Rows stay under the name they were written with, and statements look under all equivalent names. So it
//! does not matter which process wrote a row, with which configuration file.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::{query, query_as};
use tidings_model::{
    Key, PersonId,
    records::{DependentKind, NameKind, StoredName},
    settings::FormerNames,
};
use uuid::Uuid;

use crate::{
    Result,
    sql::{
        CachedAliases, SqlStore, calls,
        columns::row,
        dialect::{Dialect, StatementVariants},
    },
};

calls! {
    pub trait NameStore {
        /// Stores which names are equivalent according to a configuration file; `tables` are the names with a
        /// table there. Pairs from other files stay, because an older file may still be in use. But two names
        /// with a table each in one file become separate.
        async fn put_names(&self, names: &FormerNames, tables: &BTreeMap<NameKind, BTreeSet<String>>) -> Result<()>;

        #[span(person = %person)]
        async fn same_person(&self, person: &PersonId) -> Result<Vec<PersonId>>;

        /// All names in use, with row counts. Scans whole tables.
        async fn stored_names(&self) -> Result<Vec<StoredName>>;

        /// Names for digest types, tenants, relays and subscriptions that may have rows. Fast.
        async fn names_in_use(&self) -> Result<Vec<(NameKind, String)>>;
    }
}

/// The cache expires, because a process with another file may have started.
const FRESH: Duration = Duration::from_secs(10);

macro_rules! tenants {
    () => {
        "(SELECT CAST($1 AS TEXT) AS tenant, 1 AS place
          UNION ALL SELECT alias, CASE WHEN is_today THEN 0 ELSE 2 END FROM aliases WHERE kind = 'tenant' AND name = $1)"
    };
}

macro_rules! names {
    () => {
        concat!(
            "
names AS MATERIALIZED (
    SELECT t.tenant, t.place, d.digest_type
    FROM ",
            $crate::names::tenants!(),
            " t
    CROSS JOIN (SELECT CAST($2 AS TEXT) AS digest_type
                UNION ALL SELECT alias FROM aliases WHERE kind = 'digest' AND name = $2) d)"
        )
    };
}

macro_rules! of_name {
    ($table:literal, $user:literal) => {
        concat!(
            $table,
            ".tenant = k.tenant AND ",
            $table,
            ".digest_type = k.digest_type AND ",
            $table,
            ".user_id = ",
            $user
        )
    };
}

/// A condition: the tenant `$1` or the digest type `$2` has another name.
macro_rules! has_other_names {
    () => {
        "EXISTS (SELECT 1 FROM aliases WHERE kind = 'tenant' AND name = $1 OR kind = 'digest' AND name = $2)"
    };
}
pub(super) use {has_other_names, names, of_name, tenants};

pub const ALIASES: &str = "SELECT kind, name, alias, is_today FROM aliases ORDER BY kind, name, alias";

pub const PUT_ALIAS: &str = "
INSERT INTO aliases (kind, name, alias, is_today) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, name, alias) DO UPDATE SET is_today = excluded.is_today";

pub const DELETE_ALIAS: &str = "DELETE FROM aliases WHERE kind = $1 AND name = $2 AND alias = $3";

macro_rules! copy_consents {
    ($tenant:literal, $digest_type:literal, $column:literal) => {
        concat!(
            "
INSERT INTO consents (tenant, digest_type, user_id, consent, changed_at)
SELECT ",
            $tenant,
            ", ",
            $digest_type,
            ", user_id, consent, changed_at FROM consents WHERE ",
            $column,
            " = $1
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET consent = excluded.consent, changed_at = excluded.changed_at
WHERE excluded.changed_at > consents.changed_at OR excluded.changed_at = consents.changed_at AND NOT excluded.consent"
        )
    };
}

/// Copies each key's latest preferences from name `$1` in the column to name `$2`. Adds up the revisions, so
/// the key's total stays the same.
macro_rules! copy_preferences {
    ($tenant:literal, $digest_type:literal, $column:literal) => {
        concat!(
            "
INSERT INTO preferences (tenant, digest_type, user_id, chosen, revision, changed_at)
SELECT ",
            $tenant,
            ", ",
            $digest_type,
            ", user_id, chosen, revision, changed_at FROM preferences WHERE ",
            $column,
            " = $1
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET
    chosen = CASE WHEN excluded.changed_at > preferences.changed_at THEN excluded.chosen ELSE preferences.chosen END,
    changed_at = CASE WHEN excluded.changed_at > preferences.changed_at THEN excluded.changed_at ELSE preferences.changed_at END,
    revision = preferences.revision + excluded.revision"
        )
    };
}

/// By table: copies from the former name `$1` to the digest type `$2`, once they are separate.
const COPIES_OF_DIGEST: &[(&str, &str)] = &[
    ("consents", copy_consents!("tenant", "$2", "digest_type")),
    ("preferences", copy_preferences!("tenant", "$2", "digest_type")),
];

const COPIES_OF_TENANT: &[(&str, &str)] = &[
    ("consents", copy_consents!("$2", "digest_type", "tenant")),
    ("preferences", copy_preferences!("$2", "digest_type", "tenant")),
    ("suppressions", COPY_SUPPRESSIONS),
];

pub const COPY_SUPPRESSIONS: &str = "
INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at)
SELECT $2, address_lower, reason, detail, suppressed_at FROM suppressions WHERE tenant = $1
ON CONFLICT DO NOTHING";

/// Keeps the higher generation, because link tokens carry it.
pub const COPY_GENERATIONS: &str = "
INSERT INTO generations (tenant, user_id, generation)
SELECT $2, user_id, generation FROM generations WHERE tenant = $1
ON CONFLICT (tenant, user_id) DO UPDATE SET generation = excluded.generation WHERE generations.generation < excluded.generation";

pub const RUNNING_PAUSES: &str = "
SELECT pause_id FROM pauses
WHERE CASE $1 WHEN 'tenant' THEN tenant ELSE digest_type END = $2 AND ended_at IS NULL";

/// Keeps a pause this name already has.
pub const COPY_PAUSE: &str = "
INSERT INTO pauses (pause_id, tenant, digest_type, messages, paused_at, paused_by, why, until_at)
SELECT $2, CASE $3 WHEN 'tenant' THEN $4 ELSE tenant END, CASE $3 WHEN 'tenant' THEN digest_type ELSE $4 END,
       messages, paused_at, paused_by, why, until_at FROM pauses WHERE pause_id = $1
ON CONFLICT (tenant, digest_type) WHERE ended_at IS NULL DO NOTHING";

/// Distinct tenants and (tenant, digest type) pairs in a table, found by skipping through its primary key
/// instead of scanning people.
macro_rules! keys_in {
    ($tenants:literal, $keys:literal, $table:literal) => {
        concat!(
            $tenants,
            " (tenant) AS (
    SELECT MIN(tenant) FROM ",
            $table,
            "
    UNION ALL SELECT (SELECT MIN(n.tenant) FROM ",
            $table,
            " n WHERE n.tenant > t.tenant) FROM ",
            $tenants,
            " t WHERE t.tenant IS NOT NULL),
",
            $keys,
            " (tenant, digest_type) AS (
    SELECT t.tenant, (SELECT MIN(n.digest_type) FROM ",
            $table,
            " n WHERE n.tenant = t.tenant) FROM ",
            $tenants,
            " t WHERE t.tenant IS NOT NULL
    UNION ALL SELECT k.tenant, (SELECT MIN(n.digest_type) FROM ",
            $table,
            " n WHERE n.tenant = k.tenant AND n.digest_type > k.digest_type) FROM ",
            $keys,
            " k WHERE k.digest_type IS NOT NULL)"
        )
    };
}

pub const NAMES_IN_USE: &str = concat!(
    "
WITH RECURSIVE ",
    keys_in!("consenting", "consented", "consents"),
    ",
",
    keys_in!("choosing", "chosen", "preferences"),
    ",
suppressing (tenant) AS (
    SELECT MIN(tenant) FROM suppressions
    UNION ALL SELECT (SELECT MIN(n.tenant) FROM suppressions n WHERE n.tenant > t.tenant) FROM suppressing t WHERE t.tenant IS NOT NULL),
open (tenant, digest_type) AS (SELECT tenant, digest_type FROM digests WHERE closed_at IS NULL AND emptied_at IS NULL),
paused (tenant, digest_type) AS (SELECT tenant, digest_type FROM pauses WHERE ended_at IS NULL)
SELECT kind, name FROM (
    SELECT 'digest' AS kind, digest_type AS name FROM consented
    UNION SELECT 'digest', digest_type FROM chosen
    UNION SELECT 'digest', digest_type FROM paused
    UNION SELECT 'digest', digest_type FROM open
    UNION SELECT 'tenant', tenant FROM consenting
    UNION SELECT 'tenant', tenant FROM choosing
    UNION SELECT 'tenant', tenant FROM suppressing
    UNION SELECT 'tenant', tenant FROM paused
    UNION SELECT 'tenant', tenant FROM open
    UNION SELECT 'relay', name FROM relays WHERE state = 'open' AND until_at IS NULL
    UNION SELECT 'subscription', subscription FROM notices WHERE ended_at IS NULL) used
WHERE name <> '' ORDER BY kind, name"
);

macro_rules! stored_names {
    ($categories:literal) => {
        concat!(
            "
SELECT kind, name, what, COUNT(*) AS count FROM (
    SELECT 'digest' AS kind, digest_type AS name, 'unsubscribed' AS what FROM consents WHERE NOT consent
    UNION ALL SELECT 'tenant', tenant, 'unsubscribed' FROM consents WHERE NOT consent
    UNION ALL SELECT 'digest', digest_type, 'with choices' FROM preferences
    UNION ALL SELECT 'tenant', tenant, 'with choices' FROM preferences
    UNION ALL SELECT 'category', ",
            $categories,
            "
    UNION ALL SELECT 'digest', digest_type, 'paused' FROM pauses WHERE ended_at IS NULL AND digest_type <> ''
    UNION ALL SELECT 'tenant', tenant, 'paused' FROM pauses WHERE ended_at IS NULL AND tenant <> ''
    UNION ALL SELECT 'tenant', tenant, 'suppressed' FROM suppressions
    UNION ALL SELECT 'digest', digest_type, 'digests without an end' FROM digests WHERE closed_at IS NULL AND emptied_at IS NULL
    UNION ALL SELECT 'tenant', tenant, 'digests without an end' FROM digests WHERE closed_at IS NULL AND emptied_at IS NULL
    UNION ALL SELECT 'relay', name, 'open breaker' FROM relays WHERE state = 'open' AND until_at IS NULL
    UNION ALL SELECT 'subscription', subscription, 'webhook events that wait' FROM notices WHERE ended_at IS NULL) counted
GROUP BY kind, name, what ORDER BY kind, name, what"
        )
    };
}

pub const STORED_NAMES: StatementVariants = StatementVariants {
    sqlite: stored_names!("o.value, 'who turned it off' FROM preferences p, json_each(p.chosen, '$.off') o"),
    postgres: stored_names!(
        "o.value, 'who turned it off' FROM preferences p, jsonb_array_elements_text(COALESCE(p.chosen->'off', '[]')) o (value)"
    ),
};

type AliasPairs = BTreeMap<(String, String), bool>;

impl<D: Dialect> SqlStore<D> {
    async fn put_names(&self, names: &FormerNames, tables: &BTreeMap<NameKind, BTreeSet<String>>) -> Result<()> {
        let before = self.alias_pairs().await?;
        let kinds = [(NameKind::Digest, &names.digests), (NameKind::Tenant, &names.tenants)];
        let none = (BTreeSet::new(), AliasPairs::new());
        let changed = kinds.map(|(kind, former)| {
            let before = before.get(&kind).unwrap_or(&none.1);
            (kind, before, merge_pairs(before, former, tables.get(&kind).unwrap_or(&none.0)))
        });
        if changed.iter().all(|(_, before, after)| *before == after) {
            return Ok(());
        }
        let mut tx = self.begin_write().await?;
        for (kind, before, after) in &changed {
            for (name, alias) in before.keys().filter(|pair| !after.contains_key(*pair)) {
                // Today's name passes only its people's generations to a former one.
                if !before.get(&(alias.clone(), name.clone())).copied().unwrap_or_default() {
                    Self::separate_names(&mut tx, *kind, name, alias).await?;
                }
                if *kind == NameKind::Tenant {
                    let raise = query(COPY_GENERATIONS).bind(name.clone()).bind(alias.clone());
                    raise.execute(&mut *tx).await?;
                }
                let delete = query(DELETE_ALIAS).bind(kind.name().to_owned()).bind(name.clone()).bind(alias.clone());
                delete.execute(&mut *tx).await?;
            }
            for ((name, alias), is_today) in after {
                let put = query(PUT_ALIAS).bind(kind.name().to_owned()).bind(name.clone()).bind(alias.clone());
                put.bind(*is_today).execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        *self.known_aliases() = None;
        Ok(())
    }

    async fn same_person(&self, person: &PersonId) -> Result<Vec<PersonId>> {
        let others = self.other_names(NameKind::Tenant, &person.tenant).await?.into_iter();
        let others = others.map(|tenant| PersonId { tenant, user: person.user.clone() });
        Ok([person.clone()].into_iter().chain(others).collect())
    }

    async fn stored_names(&self) -> Result<Vec<StoredName>> {
        let rows = query_as(D::pick_variant(STORED_NAMES)).fetch_all(&mut *self.reader.acquire().await?).await?;
        let mut names = BTreeMap::<_, BTreeMap<_, _>>::new();
        for StoredNameRow { kind, name, what, count } in rows {
            names.entry((kind, name)).or_default().insert(what, count);
        }
        Ok(names.into_iter().map(|((kind, name), has)| StoredName { kind, name, has }).collect())
    }

    async fn names_in_use(&self) -> Result<Vec<(NameKind, String)>> {
        let rows = query_as(NAMES_IN_USE).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(rows.into_iter().map(|UsedNameRow { kind, name }| (kind, name)).collect())
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn alias_pairs(&self) -> Result<BTreeMap<NameKind, AliasPairs>> {
        let rows: Vec<AliasRow> = query_as(ALIASES).fetch_all(&mut *self.reader.acquire().await?).await?;
        let mut pairs = BTreeMap::<_, AliasPairs>::new();
        for AliasRow { kind, name, alias, is_today } in rows {
            pairs.entry(kind).or_default().insert((name, alias), is_today);
        }
        Ok(pairs)
    }

    /// Copies consents, preferences, pauses and (for tenants) suppressions from the former name to the other,
    /// before the two become separate.
    async fn separate_names(connection: &mut D::Connection, kind: NameKind, former: &str, other: &str) -> Result<()> {
        let copies = if kind == NameKind::Tenant { COPIES_OF_TENANT } else { COPIES_OF_DIGEST };
        for (table, copy) in copies {
            let copied = query(*copy).bind(former.to_owned()).bind(other.to_owned()).execute(&mut *connection).await?;
            let rows = D::changed_rows(&copied);
            tracing::info!(former, other, table, rows, "former name has its own table now: copied its rows");
        }
        let pauses = query_as(RUNNING_PAUSES).bind(kind.name().to_owned()).bind(former.to_owned());
        let pauses: Vec<(String,)> = pauses.fetch_all(&mut *connection).await?;
        for (pause,) in pauses {
            let copy = query(COPY_PAUSE).bind(pause).bind(Uuid::new_v4().to_string()).bind(kind.name().to_owned());
            copy.bind(other.to_owned()).execute(&mut *connection).await?;
            tracing::info!(former, other, "former name has its own table now: its pause applies to both names");
        }
        Ok(())
    }

    fn known_aliases(&self) -> MutexGuard<'_, Option<CachedAliases>> {
        self.aliases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names equivalent to this one, without it.
    pub(super) async fn other_names(&self, kind: NameKind, name: &str) -> Result<Vec<String>> {
        let known = self.known_aliases().clone().filter(|(read_at, _)| read_at.elapsed() < FRESH);
        let (_, aliases) = if let Some(known) = known {
            known
        } else {
            let kinds = self.alias_pairs().await?.into_iter();
            let pairs = kinds.flat_map(|(kind, pairs)| pairs.into_keys().map(move |(name, alias)| (kind, name, alias)));
            self.known_aliases().insert((Instant::now(), pairs.collect())).clone()
        };
        let of_name = aliases.iter().filter(|(of, today, _)| *of == kind && today == name);
        Ok(of_name.map(|(_, _, alias)| alias.clone()).collect())
    }

    pub(super) async fn other_keys(&self, key: &Key) -> Result<Vec<Key>> {
        let mut tenants = self.other_names(NameKind::Tenant, &key.tenant).await?;
        let mut types = self.other_names(NameKind::Digest, &key.digest_type).await?;
        if tenants.is_empty() && types.is_empty() {
            return Ok(Vec::new());
        }
        tenants.push(key.tenant.clone());
        types.push(key.digest_type.clone());
        let keys = tenants.iter().flat_map(|tenant| types.iter().map(move |digest_type| (tenant, digest_type)));
        let keys = keys.map(|(tenant, digest_type)| Key {
            tenant: tenant.clone(),
            digest_type: digest_type.clone(),
            user: key.user.clone(),
        });
        Ok(keys.filter(|other| other != key).collect())
    }
}

/// The pairs after a process started with a file. Pairs from other files stay; two names with a table each in
/// one file become separate.
fn merge_pairs(before: &AliasPairs, former: &BTreeMap<String, String>, tables: &BTreeSet<String>) -> AliasPairs {
    let mut classes: Vec<BTreeSet<&String>> = Vec::new();
    let are_two = |a: &String, b: &String| tables.contains(a) && tables.contains(b);
    let kept = before.keys().filter(|(name, alias)| !are_two(name, alias)).map(|(name, alias)| (name, alias));
    for (a, b) in kept.chain(former) {
        let (mut joined, apart): (Vec<_>, Vec<_>) =
            classes.into_iter().partition(|class| class.contains(a) || class.contains(b));
        joined.push(BTreeSet::from([a, b]));
        classes = apart;
        classes.push(joined.into_iter().flatten().collect());
    }
    let mut after = AliasPairs::new();
    for class in classes {
        for name in &class {
            for alias in class.iter().filter(|alias| *alias != name && !are_two(name, alias)) {
                let pair = ((*name).clone(), (*alias).clone());
                let was_today = || before.get(&pair).copied().unwrap_or_default();
                // A file without a table for any of these names cannot decide which one is today's.
                let is_known = class.iter().any(|name| tables.contains(*name));
                let is_today = if is_known { tables.contains(*alias) } else { was_today() };
                after.insert(pair, is_today);
            }
        }
    }
    after
}

row! {
pub struct AliasRow {
    kind: NameKind,
    name: String,
    alias: String,
    is_today: bool,
}
}

row! {
pub struct StoredNameRow {
    kind: NameKind,
    name: String,
    what: DependentKind,
    count: u64,
}
}

row! {
pub struct UsedNameRow {
    kind: NameKind,
    name: String,
}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str, bool)]) -> AliasPairs {
        pairs.iter().map(|(name, alias, is_today)| (((*name).into(), (*alias).into()), *is_today)).collect()
    }

    fn tables(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn was(names: &[(&str, &str)]) -> BTreeMap<String, String> {
        names.iter().map(|(was, today)| ((*was).to_owned(), (*today).to_owned())).collect()
    }

    #[test]
    fn names_mean_the_same_in_both_directions_until_a_file_has_both() {
        let first = merge_pairs(&AliasPairs::new(), &was(&[("activity", "news")]), &tables(&["news"]));
        assert_eq!(first, pairs(&[("activity", "news", true), ("news", "activity", false)]));
        let back = merge_pairs(&first, &BTreeMap::new(), &tables(&["activity"]));
        assert_eq!(back, pairs(&[("activity", "news", false), ("news", "activity", true)]), "an older file came back");
        assert_eq!(merge_pairs(&first, &BTreeMap::new(), &tables(&["alerts"])), first, "a file that has neither");
        assert_eq!(
            merge_pairs(&first, &BTreeMap::new(), &tables(&["activity", "news"])),
            AliasPairs::new(),
            "two types now"
        );
    }

    #[test]
    fn a_second_rename_joins_all_names() {
        let first = merge_pairs(&AliasPairs::new(), &was(&[("activity", "news")]), &tables(&["news"]));
        let second = merge_pairs(&first, &was(&[("news", "weekly")]), &tables(&["weekly"]));
        let all = second.keys().map(|(name, alias)| format!("{name} {alias}")).collect::<Vec<_>>();
        assert_eq!(
            all,
            ["activity news", "activity weekly", "news activity", "news weekly", "weekly activity", "weekly news"]
        );
        assert!(second.iter().all(|((_, alias), is_today)| *is_today == (alias == "weekly")));
    }
}
