//! `tidings copy`: moves from a SQLite file to PostgreSQL.

use anyhow::Context as _;
use clap::builder::{StringValueParser, TypedValueParser};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::Client;
use tidings_model::installation::Installation;
use tidings_services::installation::{InstallationError, check, hand_over};
use tidings_store::{CopiedTable, CopyProgress, InstallationStore as _, PostgresStore, SoleFile, SqliteStore, Store};
use uuid::Uuid;

use crate::{
    Config,
    config::{SecretUrl, database_url},
    error::{UsageError, in_words},
    phrases::format_count,
    storage,
};

pub(crate) const EXAMPLES: &str = "Examples:
  tidings copy --to postgres://tidings@db.example/tidings --dry-run
                                                show what would be copied; the worker may run
  tidings copy --to postgres://tidings@db.example/tidings
                                                copy, compare, and mark the file as moved
  tidings copy --undo                           use the file again

Set TIDINGS_COPY_TO instead of --to to keep a password out of process lists. Stop every worker and gateway first.
The database must be empty; the command creates its tables. An interrupted copy leaves nothing in the database: run the command again.";

/// The options of `tidings copy`.
#[derive(Debug, clap::Args)]
pub(crate) struct CopyOptions {
    /// The PostgreSQL database to copy into
    #[arg(long, value_name = "URL", env = "TIDINGS_COPY_TO", hide_env_values = true, value_parser = unchecked_url())]
    to: Option<SecretUrl>,
    /// Use a copied file again instead of copying it; it lacks what the other database recorded since
    #[arg(long, conflicts_with = "dry_run")]
    undo: bool,
    /// Only count what would be copied, and check that the database is empty
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Accepts any text, because clap's own error would show the password.
fn unchecked_url() -> impl TypedValueParser<Value = SecretUrl> {
    StringValueParser::new().map(|text| SecretUrl::new(&text))
}

/// Copies, only counts, or takes the file back into use.
///
/// # Errors
/// [`UsageError`] if a URL is unsuitable. Also fails if a process has the file open, the database is not empty, or
/// the copy differs.
pub(crate) async fn run(options: CopyOptions, config: &Config) -> anyhow::Result<()> {
    let from = &config.database_url;
    let Some(file) = from.sqlite_file() else {
        return Err(UsageError(format!(
            "database_url is {from}: `tidings copy` copies a SQLite file. PostgreSQL moves with its own tools, such as pg_dump"
        ))
        .into());
    };
    if !file.exists() {
        return Err(UsageError(format!("database_url is {from}: there is no such file")).into());
    }
    if options.undo {
        return undo(from, options.json).await;
    }
    let Some(to) = options.to else {
        return Err(UsageError("name the database with --to URL or TIDINGS_COPY_TO".to_owned()).into());
    };
    let refused = |problem: &str| UsageError(format!("--to {to} {problem}"));
    database_url(to.reveal()).map_err(|problem| refused(&problem))?;
    if to.sqlite_file().is_some() {
        return Err(refused("is a SQLite file; write \"postgres://user:password@host/database\"").into());
    }
    let target = storage::connect_to("--to", &to).await?;
    let (tables, effect) = if options.dry_run {
        (
            SqliteStore::connect(from.reveal()).await?.plan_copy(&target).await.with_context(|| to.to_string())?,
            CopyEffect::Planned,
        )
    } else {
        (copy(config, &target, &to).await?, CopyEffect::Copied)
    };
    let summary = CopySummary { from: from.to_string(), to: to.to_string(), effect, tables };
    anstream::println!("{}", if options.json { serde_json::to_string_pretty(&summary)? } else { summary.in_words() });
    Ok(())
}

async fn undo(from: &SecretUrl, as_json: bool) -> anyhow::Result<()> {
    let taken = SoleFile::open(from.reveal()).await?.take_back().await?;
    let text = match (as_json, taken) {
        (true, taken) => serde_json::json!({ "undone": taken }).to_string(),
        (false, true) => format!(
            "{from} is in use again. Stop the workers and gateways of the other database: those of this one wait for a minute until they are \
             gone"
        ),
        (false, false) => format!("{from} was not copied: nothing to undo"),
    };
    anstream::println!("{text}");
    Ok(())
}

async fn copy(config: &Config, target: &PostgresStore, to: &SecretUrl) -> anyhow::Result<Vec<CopiedTable>> {
    let file = SoleFile::open(config.database_url.reveal()).await?;
    let store = file.checked_store().await?;
    let before = store.put_installation(Uuid::new_v4(), false).await?;
    let temporal = check_namespace(config, &*store).await?;
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template("{bar:30} {percent}%, {msg}, {eta} left")?);
    let mut show = |progress: &CopyProgress| {
        bar.set_length(progress.all);
        bar.set_position(progress.done);
        bar.set_message(format!("{} {}", if progress.checking { "checking" } else { "copying" }, progress.table));
    };
    let copied = Box::pin(file.copy_to(target, &to.to_string(), Timestamp::now(), &mut show)).await;
    bar.finish_and_clear();
    let copied = copied.with_context(|| to.to_string())?;
    if let Some(temporal) = temporal
        && let Err(error) = hand_namespace(&before, target, &temporal).await
    {
        warn_worker_delay(&error);
    }
    Ok(copied)
}

/// Checks if another database of this installation is in use. If Temporal is unreachable this only warns,
/// because the copy does not need it.
///
/// # Errors
/// The namespace belongs to another installation, or workers on another database were seen.
async fn check_namespace(config: &Config, store: &dyn Store) -> anyhow::Result<Option<Client>> {
    let temporal = match config.temporal.connect().await {
        Ok(temporal) => temporal,
        Err(error) => {
            warn_worker_delay(&error.into());
            return Ok(None);
        }
    };
    match check(store, &temporal).await {
        Ok(()) => Ok(Some(temporal)),
        Err(InstallationError::Refused(refusal)) => Err(refusal.into()),
        Err(error) => {
            warn_worker_delay(&error.into());
            Ok(None)
        }
    }
}

async fn hand_namespace(before: &Installation, target: &PostgresStore, temporal: &Client) -> anyhow::Result<()> {
    let after = target.installation().await?.context("the copy has no identity")?;
    Ok(hand_over(before, &after, temporal).await?)
}

fn warn_worker_delay(error: &anyhow::Error) {
    anstream::eprintln!(
        "warning: {}. The first worker on the new database waits for up to a minute before it begins",
        in_words(error)
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CopyEffect {
    Planned,
    Copied,
}

#[derive(Serialize)]
struct CopySummary {
    from: String,
    to: String,
    effect: CopyEffect,
    tables: Vec<CopiedTable>,
}

impl CopySummary {
    fn in_words(&self) -> String {
        let Self { from, to, effect, tables } = self;
        let (all, filled) = (tables.iter().map(|table| table.rows).sum(), tables.iter().filter(|table| table.rows > 0));
        let listed: String =
            filled.map(|CopiedTable { table, rows, .. }| format!("\n  {table}: {}", HumanCount(*rows))).collect();
        let rows = format_count(all, "row");
        let tables = format_count(tables.len() as u64, "table");
        match effect {
            CopyEffect::Planned => format!(
                "{rows} of {tables} would be copied into {to}:{listed}\nStop every worker and gateway first, and run the command without \
                 --dry-run"
            ),
            CopyEffect::Copied => format!(
                "{rows} of {tables} are in {to}, and identical to those in the file:{listed}\nNow set database_url, or TIDINGS_DATABASE_URL, to \
                 the new address for every worker, gateway and command, and start them. {from} is no longer used; delete it once you \
                 will not go back"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn summary(effect: CopyEffect) -> CopySummary {
        let table = |table: &str, rows| CopiedTable { table: table.to_owned(), rows, sum: None };
        let tables = vec![table("consents", 1_200), table("jobs", 0)];
        CopySummary { from: "sqlite://tidings.db".to_owned(), to: "postgres://db/tidings".to_owned(), effect, tables }
    }

    #[test]
    fn it_says_what_was_copied_and_what_to_do_next() {
        let copied = summary(CopyEffect::Copied).in_words();
        let first = "1200 rows of 2 tables are in postgres://db/tidings, and identical to those in the file:\n  consents: 1,200\nNow set ";
        assert!(copied.starts_with(first), "{copied}");
        let planned = summary(CopyEffect::Planned).in_words();
        assert!(
            planned.contains("would be copied") && planned.contains("Stop every worker and gateway first"),
            "{planned}"
        );
        assert!(!planned.contains("jobs"), "an empty table: {planned}");
    }

    #[tokio::test]
    async fn an_address_that_will_not_do_is_refused_without_its_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidings.db");
        let here = format!("sqlite://{}", file.display());
        let said = async |from: &str, to: Option<&str>| {
            let text = format!("database_url = \"{from}\"");
            let config = Config::parse_text(Path::new("tidings.toml"), &text, &|_| None).unwrap();
            let options = CopyOptions { to: to.map(SecretUrl::new), undo: false, dry_run: true, json: false };
            let error = run(options, &config).await.unwrap_err();
            assert!(error.is::<UsageError>(), "{error}");
            error.to_string()
        };
        assert!(said(&here, Some("postgres://db/t")).await.contains("there is no such file"));
        assert!(!file.exists());
        std::fs::write(&file, "").unwrap();
        for (to, problem) in [
            (None, "name the database"),
            (Some("sqlite://other.db"), "is a SQLite file"),
            (Some("postgres://u:hunter2@db"), "names no database"),
            (Some("postgres://u:hunter2@a,b/t"), "several hosts"),
            (Some("mysql://u:hunter2@db/t"), "neither sqlite nor postgres"),
            (Some("u:hunter2@db/t"), "--to ***@db/t"),
        ] {
            let said = said(&here, to).await;
            assert!(said.contains(problem) && !said.contains("hunter2"), "{said}");
        }
        assert!(said("postgres://db/t", Some("postgres://db/u")).await.contains("pg_dump"));
    }
}
