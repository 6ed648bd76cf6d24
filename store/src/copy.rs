//! Copies a SQLite file into PostgreSQL, for an installation which outgrew its file.
//!
//! Tables and columns come from the schema. All rows travel as text in one transaction, and are read back and
//! compared before it commits. After a crash between this commit and the mark in the file, a repeated copy
//! finds equal rows and sets the mark.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use futures::TryStreamExt as _;
use jiff::Timestamp;
use serde::Serialize;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Decode, PgConnection, Row, SqliteConnection, Type, query, query_as, query_scalar,
    raw_sql,
};
use uuid::Uuid;

use crate::{
    InstallationStore as _, Result, StoreError,
    sql::{
        PostgresStore, SqliteStore, checked_number, no_nul,
        postgres::CATCH_UP,
        schema::{self, MIGRATED},
    },
};

/// Bytes sent at once.
const CHUNK: usize = 1 << 20;
/// Rows between two progress updates.
const SHOWN_ROWS: u64 = 256;

const FILE_COLUMNS: &str = r"
SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND t.name <> '_sqlx_migrations' ORDER BY t.name, c.cid";

const REFERENCES: &str = r#"
SELECT DISTINCT t.name, r."table" FROM sqlite_schema t, pragma_foreign_key_list(t.name) r
WHERE t.type = 'table' AND r."table" <> t.name"#;

/// No timeouts, because a large table takes minutes. If the client dies, its connection ends the session.
const PATIENT: &str = "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0";

const FILE_NUMBERS: &str = "SELECT name, CAST(seq AS INTEGER) FROM sqlite_sequence WHERE seq > 0";

const TARGET_COLUMNS: &str = "
SELECT t.relname::text, a.attname::text, format_type(a.atttypid, NULL)
FROM pg_attribute a JOIN pg_class t ON t.oid = a.attrelid JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = current_schema() AND t.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''";

/// Keeps numbers from being reused, even if their rows are gone: `$1` table, `$2` latest number.
const SET_NUMBER: &str = "
SELECT setval(pg_get_serial_sequence(quote_ident($1), a.attname), $2)
FROM pg_attribute a WHERE a.attrelid = to_regclass(quote_ident($1)) AND a.attidentity <> ''";

const MARK: &str = "
UPDATE installation SET moved_identity = identity, identity = $1, moved_to = $2, moved_at = $3";

const TAKE_BACK: &str = "
UPDATE installation SET identity = moved_identity, moved_identity = NULL, moved_to = NULL, moved_at = NULL
WHERE moved_identity IS NOT NULL";

const IDENTITY: &str = "SELECT identity FROM installation";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedTable {
    pub table: String,
    pub rows: u64,
    /// The sum of all rows' hashes in hex, equal in both databases; `None` in a plan. Only comparable within
    /// one copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
}

/// Counts each row twice: when copied and when read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    pub table: String,
    pub checking: bool,
    pub done: u64,
    pub all: u64,
}

pub type ProgressCallback<'a> = &'a mut (dyn FnMut(&CopyProgress) + Send);

/// A SQLite store no other process has open.
pub struct SoleFile(Arc<SqliteStore>);

impl SoleFile {
    /// Opens the existing file at `sqlite:PATH`. No other process can open it meanwhile.
    ///
    /// # Errors
    /// The file is missing, open in another process, or cannot be opened.
    pub async fn open(url: &str) -> Result<Self> {
        Ok(Self(Arc::new(SqliteStore::connect_alone(url).await?)))
    }

    pub(crate) async fn checked_file(&self) -> Result<Arc<SqliteStore>> {
        self.0.check_schema().await?;
        Ok(Arc::clone(&self.0))
    }

    /// Creates the tables in an empty database, copies and compares all rows, and marks the file as moved to
    /// `address` so nobody opens it by mistake. After an interruption, a repeated call starts over, or
    /// finishes a complete copy.
    ///
    /// # Errors
    /// The file or the database has another version, the file was copied before, the database has rows of its
    /// own, or one of the two fails. The database stays empty unless the error says otherwise.
    pub async fn copy_to(
        &self,
        to: &PostgresStore,
        address: &str,
        now: Timestamp,
        show: ProgressCallback<'_>,
    ) -> Result<Vec<CopiedTable>> {
        let identity = self.0.put_installation(Uuid::new_v4(), false).await?.identity.to_string();
        let planned = self.0.plan_copy(to).await?;
        to.migrate().await?;
        let mut file = self.0.writer.acquire().await?;
        let mut work = to.begin_write().await?;
        raw_sql(PATIENT).execute(&mut *work).await?;
        check_versions(&mut file, &mut work).await?;
        let tables = shared_tables(&mut file, &mut work).await?;
        // This blocks even readers: a process seeing only some of the tables could miss opt-outs and email
        // those people.
        let names: Vec<_> = tables.iter().map(|table| quote_identifier(&table.name)).collect();
        raw_sql(AssertSqlSafe(format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", names.join(", "))))
            .execute(&mut *work)
            .await?;
        let found = occupied_table(&mut work, tables.iter().map(|table| table.name.as_str())).await?;
        let is_repeated = found.is_some() && identity_of(&mut work).await?.as_ref() == Some(&identity);
        if let (Some(table), false) = (&found, is_repeated) {
            return Err(not_empty(table));
        }

        let mut meter = ProgressMeter::new(&planned, show);
        let mut sums = Vec::with_capacity(tables.len());
        for table in &tables {
            meter.begin_table(&table.name, false);
            sums.push(if is_repeated {
                table.read_file(&mut file, None, &mut meter).await?
            } else {
                table.copy_rows(&mut file, &mut work, &mut meter).await?
            });
        }
        for (table, sum) in tables.iter().zip(&sums) {
            meter.begin_table(&table.name, true);
            let there = table.read_target(&mut work, &mut meter).await?;
            if there != *sum {
                return Err(if is_repeated {
                    not_empty(&table.name)
                } else {
                    mismatch_error(&table.name, sum, &there)
                });
            }
        }
        set_numbers(&mut file, &mut work).await?;
        work.commit().await?;

        mark_moved(&mut file, address, now).await.map_err(|error| {
            StoreError::Broken(format!(
                "everything was copied, and the file cannot be marked as moved: {error}. Run the same command again, which copies nothing \
                 twice"
            ))
        })?;
        file.release();
        Ok(tables.into_iter().zip(sums).map(|(table, sum)| sum.into_copied(table.name)).collect())
    }

    /// Puts a copied file back into service. Returns `false` if it was not copied.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn take_back(&self) -> Result<bool> {
        let taken = query(TAKE_BACK).execute(&mut *self.0.writer.acquire().await?).await?;
        Ok(taken.rows_affected() > 0)
    }
}

impl SqliteStore {
    /// Lists the tables to copy, with their row counts. Changes nothing.
    ///
    /// # Errors
    /// The file has another version or was copied before, or the database has another installation's rows.
    pub async fn plan_copy(&self, to: &PostgresStore) -> Result<Vec<CopiedTable>> {
        self.check_schema().await?;
        let mut file = self.reader.acquire().await?;
        let mut target = to.reader.acquire().await?;
        let columns: Vec<(String, String)> = query_as(FILE_COLUMNS).fetch_all(&mut *file).await?;
        let names: BTreeSet<_> = columns.into_iter().map(|(table, _)| table).collect();
        if let Some(table) = occupied_table(&mut target, names.iter().map(String::as_str)).await? {
            let here: Option<String> = query_scalar(IDENTITY).fetch_optional(&mut *file).await?;
            if here.is_none() || identity_of(&mut target).await? != here {
                return Err(not_empty(&table));
            }
        }
        if table_exists(&mut target, "_sqlx_migrations").await? {
            let version: i64 = query_scalar(MIGRATED).fetch_one(&mut *target).await?;
            schema::not_later(version)?;
        }
        let mut planned = Vec::with_capacity(names.len());
        for table in names {
            let rows = count_rows(&mut file, &table).await?;
            planned.push(CopiedTable { table, rows, sum: None });
        }
        Ok(planned)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnEncoding {
    /// Unchanged: text, numbers, and JSON which keeps its bytes.
    Plain,
    Boolean,
    Bytes,
    /// JSON which PostgreSQL reformats, so we compare values and not bytes.
    Json,
}

impl ColumnEncoding {
    /// `None` if the two databases may write this type differently.
    fn from_type_name(type_name: &str) -> Option<Self> {
        match type_name {
            "text" | "bigint" | "integer" | "json" => Some(Self::Plain),
            "boolean" => Some(Self::Boolean),
            "bytea" => Some(Self::Bytes),
            "jsonb" => Some(Self::Json),
            _ => None,
        }
    }
}

struct CopyTable {
    name: String,
    columns: Vec<(String, ColumnEncoding)>,
}

impl CopyTable {
    fn column_list(&self, written: impl Fn(&str, ColumnEncoding) -> String) -> String {
        self.columns.iter().map(|(name, kind)| written(&quote_identifier(name), *kind)).collect::<Vec<_>>().join(", ")
    }

    async fn copy_rows(
        &self,
        file: &mut SqliteConnection,
        target: &mut PgConnection,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<TableChecksum> {
        let name = quote_identifier(&self.name);
        // Removes the rows `tidings migrate` added. Triggers are off because the rows they would write are
        // already in the file.
        let prepare = format!("DELETE FROM {name}; ALTER TABLE {name} DISABLE TRIGGER USER");
        raw_sql(AssertSqlSafe(prepare)).execute(&mut *target).await?;
        let columns = self.column_list(|column, _| column.to_owned());
        let sum =
            self.read_file(file, Some((&mut *target, format!("COPY {name} ({columns}) FROM STDIN"))), meter).await?;
        // Without fresh statistics, PostgreSQL would plan for an empty table during the first hours.
        let finish = format!("ALTER TABLE {name} ENABLE TRIGGER USER; ANALYZE {name}");
        raw_sql(AssertSqlSafe(finish)).execute(&mut *target).await?;
        Ok(sum)
    }

    async fn read_file(
        &self,
        file: &mut SqliteConnection,
        target: Option<(&mut PgConnection, String)>,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<TableChecksum> {
        let columns = self.column_list(|column, kind| match kind {
            ColumnEncoding::Bytes => format!("CASE WHEN {column} IS NOT NULL THEN lower(hex({column})) END"),
            _ => format!("CAST({column} AS TEXT)"),
        });
        let select = AssertSqlSafe(format!("SELECT {columns} FROM {}", quote_identifier(&self.name)));
        let mut copying = match target {
            Some((target, statement)) => Some(target.copy_in_raw(&statement).await?),
            None => None,
        };
        let (mut sum, mut chunk) = (TableChecksum::default(), String::new());
        let mut rows = query(select).fetch(file);
        while let Some(row) = rows.try_next().await? {
            // PostgreSQL cannot store NUL in text, and the store keeps none there.
            let fields: Vec<_> = row_fields(&row)?.into_iter().map(|field| field.map(|text| no_nul(&text))).collect();
            sum.add_row(self, &fields)?;
            meter.count_row();
            if let Some(copying) = &mut copying {
                self.write_row(&fields, &mut chunk);
                if chunk.len() >= CHUNK {
                    copying.send(chunk.as_bytes()).await?;
                    chunk.clear();
                }
            }
        }
        if let Some(mut copying) = copying {
            copying.send(chunk.as_bytes()).await?;
            copying.finish().await?;
        }
        Ok(sum)
    }

    async fn read_target(&self, target: &mut PgConnection, meter: &mut ProgressMeter<'_>) -> Result<TableChecksum> {
        let columns = self.column_list(|column, kind| match kind {
            ColumnEncoding::Bytes => format!("encode({column}, 'hex')"),
            ColumnEncoding::Boolean => format!("CAST(CAST({column} AS INTEGER) AS TEXT)"),
            ColumnEncoding::Plain | ColumnEncoding::Json => format!("CAST({column} AS TEXT)"),
        });
        let select = AssertSqlSafe(format!("SELECT {columns} FROM {}", quote_identifier(&self.name)));
        let mut sum = TableChecksum::default();
        let mut rows = query(select).fetch(target);
        while let Some(row) = rows.try_next().await? {
            sum.add_row(self, &row_fields(&row)?)?;
            meter.count_row();
        }
        Ok(sum)
    }

    fn write_row(&self, fields: &[Option<String>], into: &mut String) {
        for (n, (field, (_, kind))) in fields.iter().zip(&self.columns).enumerate() {
            if n > 0 {
                into.push('\t');
            }
            let Some(text) = field else {
                into.push_str("\\N");
                continue;
            };
            if *kind == ColumnEncoding::Bytes {
                into.push_str("\\\\x");
            }
            for c in text.chars() {
                match c {
                    '\\' => into.push_str("\\\\"),
                    '\n' => into.push_str("\\n"),
                    '\r' => into.push_str("\\r"),
                    '\t' => into.push_str("\\t"),
                    other => into.push(other),
                }
            }
        }
        into.push('\n');
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TableChecksum {
    rows: u64,
    hashes: u64,
}

impl TableChecksum {
    fn add_row(&mut self, table: &CopyTable, fields: &[Option<String>]) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        for (field, (column, kind)) in fields.iter().zip(&table.columns) {
            match (kind, field) {
                (ColumnEncoding::Json, Some(text)) => {
                    let value: serde_json::Value = serde_json::from_str(text)
                        .map_err(|error| StoreError::Broken(format!("{}.{column} has no JSON: {error}", table.name)))?;
                    value.hash(&mut hasher);
                }
                _ => field.hash(&mut hasher),
            }
        }
        self.rows += 1;
        self.hashes = self.hashes.wrapping_add(hasher.finish());
        Ok(())
    }

    fn into_copied(self, table: String) -> CopiedTable {
        CopiedTable { table, rows: self.rows, sum: Some(format!("{:016x}", self.hashes)) }
    }
}

struct ProgressMeter<'a> {
    progress: CopyProgress,
    show: ProgressCallback<'a>,
}

impl<'a> ProgressMeter<'a> {
    fn new(planned: &[CopiedTable], show: ProgressCallback<'a>) -> Self {
        let rows: u64 = planned.iter().map(|table| table.rows).sum();
        Self { progress: CopyProgress { table: String::new(), checking: false, done: 0, all: 2 * rows }, show }
    }

    fn begin_table(&mut self, table: &str, checking: bool) {
        table.clone_into(&mut self.progress.table);
        self.progress.checking = checking;
        (self.show)(&self.progress);
    }

    fn count_row(&mut self) {
        self.progress.done += 1;
        if self.progress.done.is_multiple_of(SHOWN_ROWS) {
            (self.show)(&self.progress);
        }
    }
}

fn row_fields<R>(row: &R) -> sqlx::Result<Vec<Option<String>>>
where
    R: Row,
    usize: ColumnIndex<R>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
{
    (0..row.len()).map(|n| row.try_get(n)).collect()
}

fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

async fn count_rows(file: &mut SqliteConnection, table: &str) -> Result<u64> {
    let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM {}", quote_identifier(table)));
    checked_number(query_scalar(count).fetch_one(file).await?)
}

async fn table_exists(target: &mut PgConnection, table: &str) -> sqlx::Result<bool> {
    query_scalar("SELECT to_regclass(quote_ident($1)) IS NOT NULL").bind(table).fetch_one(target).await
}

/// The first of these tables with rows in the target. Ignores the identity from `tidings migrate` until a
/// worker has run.
async fn occupied_table<'t>(
    target: &mut PgConnection,
    names: impl Iterator<Item = &'t str>,
) -> sqlx::Result<Option<String>> {
    for name in names {
        if !table_exists(target, name).await? {
            continue;
        }
        let counted = if name == "installation" { " WHERE beat_at > 0" } else { "" };
        let rows = AssertSqlSafe(format!("SELECT EXISTS (SELECT 1 FROM {}{counted})", quote_identifier(name)));
        if query_scalar(rows).fetch_one(&mut *target).await? {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

async fn identity_of(target: &mut PgConnection) -> sqlx::Result<Option<String>> {
    if !table_exists(target, "installation").await? {
        return Ok(None);
    }
    query_scalar(IDENTITY).fetch_optional(target).await
}

fn not_empty(table: &str) -> StoreError {
    StoreError::Broken(format!(
        "the database has rows already, in the table {table}: copy into an empty one, which nothing has worked with; `tidings copy` makes \
         its tables"
    ))
}

fn mismatch_error(table: &str, here: &TableChecksum, there: &TableChecksum) -> StoreError {
    StoreError::Broken(format!(
        "the copy of the table {table} differs from the file ({} rows instead of {}): nothing of it is kept, and the file stays in use",
        there.rows, here.rows
    ))
}

async fn check_versions(file: &mut SqliteConnection, target: &mut PgConnection) -> Result<()> {
    let here: i64 = query_scalar(MIGRATED).fetch_one(file).await?;
    let there: i64 = query_scalar(MIGRATED).fetch_one(target).await?;
    if here == there {
        return Ok(());
    }
    Err(StoreError::Broken(format!(
        "the file has the tables of migration {here}, and the database those of {there}: run `tidings copy` of the later version of \
         Tidings, after its `tidings migrate`"
    )))
}

async fn shared_tables(file: &mut SqliteConnection, target: &mut PgConnection) -> Result<Vec<CopyTable>> {
    let here: Vec<(String, String)> = query_as(FILE_COLUMNS).fetch_all(&mut *file).await?;
    let there: Vec<(String, String, String)> = query_as(TARGET_COLUMNS).fetch_all(target).await?;
    let mut there: BTreeMap<_, _> =
        there.into_iter().map(|(table, column, type_name)| ((table, column), type_name)).collect();
    let mut tables = BTreeMap::<String, Vec<(String, ColumnEncoding)>>::new();
    for (table, column) in here {
        let Some(type_name) = there.remove(&(table.clone(), column.clone())) else {
            return Err(StoreError::Broken(format!(
                "the file has a column {table}.{column}, which Tidings does not know: a copy would lose it. Remove what is not Tidings' own"
            )));
        };
        let Some(kind) = ColumnEncoding::from_type_name(&type_name) else {
            return Err(StoreError::Broken(format!(
                "no copy of the type {type_name} is known, which {table}.{column} has"
            )));
        };
        tables.entry(table).or_default().push((column, kind));
    }
    if let Some((table, column)) = there.keys().find(|(table, _)| tables.contains_key(table)) {
        return Err(StoreError::Broken(format!(
            "the database has a column {table}.{column}, which the file does not have"
        )));
    }
    let references: Vec<(String, String)> = query_as(REFERENCES).fetch_all(file).await?;
    let names = in_order(tables.keys().cloned().collect(), &references);
    let table = |name: String| tables.remove(&name).map(|columns| CopyTable { name, columns });
    Ok(names.into_iter().filter_map(table).collect())
}

/// Sorts each name after those it refers to. Tables in a reference cycle come last.
fn in_order(mut names: Vec<String>, references: &[(String, String)]) -> Vec<String> {
    let mut ordered = Vec::with_capacity(names.len());
    while !names.is_empty() {
        let waits = |name: &String| references.iter().any(|(from, to)| from == name && names.contains(to));
        let (later, next): (Vec<_>, Vec<_>) = names.iter().cloned().partition(waits);
        if next.is_empty() {
            ordered.extend(later);
            break;
        }
        ordered.extend(next);
        names = later;
    }
    ordered
}

async fn mark_moved(file: &mut SqliteConnection, address: &str, now: Timestamp) -> sqlx::Result<()> {
    let mark = query(MARK).bind(Uuid::new_v4().to_string()).bind(address).bind(now.as_millisecond());
    mark.execute(&mut *file).await?;
    raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(file).await?;
    Ok(())
}

async fn set_numbers(file: &mut SqliteConnection, target: &mut PgConnection) -> Result<()> {
    let given: Vec<(String, i64)> = query_as(FILE_NUMBERS).fetch_all(file).await?;
    for (table, latest) in given {
        query(SET_NUMBER).bind(table).bind(latest).execute(&mut *target).await?;
    }
    raw_sql(CATCH_UP).execute(target).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_behind_those_that_it_refers_to() {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let refers = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(from, to)| (from.to_owned(), to.to_owned())).collect::<Vec<_>>()
        };
        let references = refers(&[("attempts", "messages"), ("messages", "digests"), ("events", "digests")]);
        let ordered = in_order(owned(&["attempts", "audit", "digests", "events", "messages"]), &references);
        assert_eq!(ordered, owned(&["audit", "digests", "events", "messages", "attempts"]));
        let circle = refers(&[("a", "b"), ("b", "a")]);
        assert_eq!(in_order(owned(&["a", "b", "c"]), &circle), owned(&["c", "a", "b"]));
    }

    #[test]
    fn a_row_is_written_as_copy_reads_it() {
        let columns = [
            ("text", ColumnEncoding::Plain),
            ("none", ColumnEncoding::Plain),
            ("bytes", ColumnEncoding::Bytes),
            ("yes", ColumnEncoding::Boolean),
        ];
        let columns = columns.map(|(name, kind)| (name.to_owned(), kind)).into();
        let table = CopyTable { name: "t".to_owned(), columns };
        let fields = [Some("a\tb\\N\r\nü".to_owned()), None, Some("00ff".to_owned()), Some("1".to_owned())];
        let mut written = String::new();
        table.write_row(&fields, &mut written);
        assert_eq!(written, "a\\tb\\\\N\\r\\nü\t\\N\t\\\\x00ff\t1\n");
    }

    #[test]
    fn sums_do_not_depend_on_the_order_of_rows_or_of_json() {
        let table = CopyTable { name: "t".to_owned(), columns: vec![("json".to_owned(), ColumnEncoding::Json)] };
        let sum = |rows: &[&str]| {
            let mut sum = TableChecksum::default();
            for row in rows {
                sum.add_row(&table, &[Some((*row).to_owned())]).unwrap();
            }
            sum
        };
        assert_eq!(sum(&[r#"{"a":1,"b":2}"#, "{}"]), sum(&["{}", r#"{"b": 2, "a": 1}"#]));
        assert_ne!(sum(&[r#"{"a":1}"#]), sum(&[r#"{"a":2}"#]));
        assert_ne!(sum(&["{}"]), sum(&["{}", "{}"]));
    }
}
