//! `tidings recipients export` (GDPR, articles 15 and 20). The document is streamed, so its size does not
//! matter.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use anyhow::Context as _;
use futures::TryStreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use temporalio_client::Client;
use tidings_client::WorkflowCommands;
use tidings_model::{
    Event, Key, PersonId,
    command::DuePreview,
    records::{ListPage, PageCursor, PageRequest, PersonRecord, PersonRowKind, RowPlace},
    troubled_run::{FoundRun, RunId},
};
use tidings_operations::{
    erase::{ArchiveFolders, lines_about},
    person_keys::{self, PersonRuns},
};
use tidings_services::history::run_inputs;
use tidings_store::{Store, archive::Archive};
use tidings_workflows::DigestStatus;

use super::show::report_unknown;
use crate::{Config, error::UsageError, storage};

/// Page sizes. Messages come with their content.
const ROWS: u32 = 500;
const MESSAGES: u32 = 20;

/// Returns `false` if nothing is stored, or something was unreachable; the document and stderr list it. Fails
/// if the file exists.
pub(super) async fn run(id: &PersonId, out: Option<&Path>, config: &Config) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let settings = config.unchecked_settings();
    let people = person_keys::person_under_each_name(&*store, &settings, id).await?;
    let person = person_keys::stored_person(&*store, &people).await?;
    let mut types = &settings.digest_types(&id.tenant) | &person.digest_types;
    let ArchiveFolders { there: archives, mut unreachable } =
        ArchiveFolders::find(&*store, config.retention.settings.archive.as_ref()).await?;
    for folder in &mut unreachable {
        folder.insert_str(0, "the archive ");
    }
    let (mut commands, mut ended, mut is_unknown) = (None, Vec::new(), person.is_empty());
    match runs(&people, config).await {
        Ok((temporal, found)) => {
            is_unknown &= found.types.is_empty();
            types.extend(found.types);
            for FoundRun { id, trouble, since } in &found.ended {
                match left_events(&temporal, &*store, id).await {
                    Ok(events) if events.is_empty() => {}
                    Ok(events) => ended.push(json!({
                        "workflow_id": id.workflow_id, "run_id": id.run_id, "trouble": trouble, "since": since, "events": events,
                    })),
                    Err(error) => unreachable.push(format!("the events of run {}: {error:#}", id.run_id)),
                }
            }
            commands = Some(WorkflowCommands::new(temporal, &config.task_queue));
        }
        Err(error) => unreachable.push(format!("open windows: {error:#}")),
    }
    let export = PersonExport {
        store: &*store,
        id,
        people: &people,
        person: &person,
        types,
        commands,
        ended,
        archives,
        unreachable: &unreachable,
    };
    if is_unknown && !export.has_audit().await? {
        return Ok(report_unknown(id));
    }
    for missing in &unreachable {
        anstream::eprintln!("missing from the document, because it cannot be reached: {missing}");
    }
    let Some(path) = out else {
        export.write(&mut BufWriter::new(io::stdout())).await?;
        return Ok(unreachable.is_empty());
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => UsageError(format!("{} exists; name a new file", path.display())).into(),
        _ => anyhow::Error::from(error).context(format!("{} cannot be written", path.display())),
    })?;
    let written = export.write(&mut BufWriter::new(file)).await;
    if written.is_err() {
        // It could be mistaken for a complete export.
        fs::remove_file(path).with_context(|| format!("{} is incomplete and cannot be deleted", path.display()))?;
    }
    written.map(|()| unreachable.is_empty())
}

async fn runs(people: &[PersonId], config: &Config) -> anyhow::Result<(Client, PersonRuns)> {
    let temporal = crate::installation::connect(config).await?;
    let runs = person_keys::find_runs(&temporal, people).await?;
    Ok((temporal, runs))
}

/// For a run that ended without its code and was not recovered.
async fn left_events(temporal: &Client, store: &dyn Store, run: &RunId) -> anyhow::Result<Vec<Event>> {
    if store.resolved_runs(&run.workflow_id).await?.contains(&run.run_id) {
        return Ok(Vec::new());
    }
    let key = Key::from_workflow_id(&run.workflow_id)?;
    let inputs: Vec<_> = run_inputs(temporal.clone(), &key, &run.run_id).try_collect().await?;
    Ok(inputs.into_iter().flat_map(|input| input.events).collect())
}

/// Events waiting for a plan, e.g. with an unconfigured type, are only counted.
async fn open_window(commands: &WorkflowCommands, key: &Key) -> anyhow::Result<Option<Value>> {
    if let Some(DuePreview { window, events, more, .. }) = commands.digest(key).due_window().await? {
        return Ok(Some(json!({
            "tenant": key.tenant, "digest_type": key.digest_type, "digest_id": window.digest_id, "opened_at": window.opened_at,
            "due_at": window.due_at, "events": events, "more": more,
        })));
    }
    let status = commands.digest(key).status::<DigestStatus>().await?;
    let waiting = status.map_or(0, |status| status.pending + status.uncompared);
    let counted = || json!({ "tenant": key.tenant, "digest_type": key.digest_type, "events": [], "more": waiting });
    Ok((waiting > 0).then(counted))
}

struct PersonExport<'a> {
    store: &'a dyn Store,
    id: &'a PersonId,
    /// The person under each name of the tenant.
    people: &'a [PersonId],
    person: &'a PersonRecord,
    types: BTreeSet<String>,
    /// `None` if Temporal is unreachable.
    commands: Option<WorkflowCommands>,
    /// Runs that ended without their code, with their events.
    ended: Vec<Value>,
    archives: Vec<Archive>,
    unreachable: &'a [String],
}

impl PersonExport<'_> {
    async fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let PersonRecord { recipient, preferences, consents, readings, suppressions, addresses, .. } = self.person;
        writeln!(out, "{{\"tenant\":{},\"user\":{},", json!(self.id.tenant), json!(self.id.user))?;
        writeln!(out, "\"exported_at\":{},", json!(Timestamp::now()))?;
        for (name, value) in [
            ("recipient", json!(recipient)),
            ("addresses", json!(addresses)),
            ("preferences", json!(preferences)),
            ("consents", json!(consents)),
            ("readings", json!(readings)),
            ("suppressions", json!(suppressions)),
        ] {
            writeln!(out, "\"{name}\":{value},")?;
        }
        for (n, part) in PersonRowKind::ALL.into_iter().enumerate() {
            write!(out, "{}\"{}\":[", if n == 0 { "" } else { ",\n" }, part.name())?;
            self.write_rows(part, out).await?;
            write!(out, "]")?;
        }
        writeln!(out, ",\n\"ended_runs\":{},", json!(self.ended))?;
        write!(out, "\"windows\":[")?;
        self.write_windows(out).await?;
        write!(out, "],\n\"archived\":[")?;
        self.write_archived(out).await?;
        writeln!(out, "],\n\"unreachable\":{}}}", json!(self.unreachable))?;
        Ok(out.flush()?)
    }

    /// Includes events that are not in any table yet.
    async fn write_windows(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let Some(commands) = &self.commands else { return Ok(()) };
        let mut separator = "\n";
        for (person, digest_type) in self.keys() {
            let Some(window) = open_window(commands, &person.key(digest_type)).await? else { continue };
            write!(out, "{separator}{window}")?;
            separator = ",\n";
        }
        Ok(())
    }

    async fn write_archived(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let about = Arc::new(lines_about(self.store, self.id, self.people, &self.types, &self.person.addresses).await?);
        let mut separator = "\n";
        for archive in &self.archives {
            for file in archive.files().await? {
                for line in Archive::read_lines(file, about.clone()).await? {
                    write!(out, "{separator}{line}")?;
                    separator = ",\n";
                }
            }
        }
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = (&PersonId, &str)> {
        self.people.iter().flat_map(|person| self.types.iter().map(move |digest_type| (person, digest_type.as_str())))
    }

    async fn has_audit(&self) -> anyhow::Result<bool> {
        for person in self.people {
            if !self.rows(PersonRowKind::Audit, &person.key(""), None).await?.rows.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// By digest type, then those without one.
    async fn write_rows(&self, part: PersonRowKind, out: &mut impl Write) -> anyhow::Result<()> {
        let mut separator = "\n";
        let of_none = self.people.iter().map(|person| (person, ""));
        for (person, digest_type) in self.keys().chain(of_none) {
            let mut after = None;
            loop {
                let ListPage { rows, next } = self.rows(part, &person.key(digest_type), after).await?;
                for row in rows {
                    write!(out, "{separator}{row}")?;
                    separator = ",\n";
                }
                if next.is_none() {
                    break;
                }
                after = next;
            }
        }
        Ok(())
    }

    async fn rows(
        &self,
        part: PersonRowKind,
        key: &Key,
        after: Option<PageCursor<RowPlace>>,
    ) -> anyhow::Result<ListPage<Value, RowPlace>> {
        let limit = if part == PersonRowKind::Messages { MESSAGES } else { ROWS };
        let page = PageRequest { limit, after };
        Ok(self.store.person_rows(key, &self.person.addresses, part, &page).await?)
    }
}
