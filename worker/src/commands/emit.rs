//! `tidings emit`: sends events and waits for each acknowledgement.

use std::{
    fs::File,
    io::{IsTerminal as _, Write as _, stdin},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::json;
use tidings_client::{BatchRejection as Refusal, ByteBudget, Client, EmitError, HttpGateway};
use tidings_model::{limits::InvalidField, settings::Settings};
use tidings_proto::v1;
use tokio::sync::mpsc;

use crate::{
    Config, client,
    error::UsageError,
    line_input::{self, LineReport},
};

mod lines;

pub use crate::line_input::{LineRejection, decompress_text};
pub use lines::{EventLine, EventLines, KeyDefaults, ParsedLine};

/// The client accepts events in order, and keeps this order for each key.
const IN_FLIGHT: usize = 2_000;
/// The options of `tidings emit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct EmitCommandOptions {
    /// File with one JSON event per line, gzipped or not; `-` is standard input
    #[arg(value_name = "FILE|-", conflicts_with = "category")]
    file: Option<PathBuf>,
    #[command(flatten)]
    key: lines::KeyDefaults,
    #[command(flatten)]
    event: lines::EventFields,
    /// Send to the API of the gateway at this URL instead of Temporal, with the token in `TIDINGS_TOKEN`
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Write the key and id of each acknowledged event to this file
    #[arg(long, value_name = "FILE")]
    acknowledged: Option<PathBuf>,
    /// Print the rejected lines and the summary as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tidings emit events.ndjson.gz
  tidings emit --tenant acme --user ann --digest activity --category comment --title 'Bob replied to you'
  echo '{\"event_id\": \"1\", \"category\": \"comment\", \"occurred_at\": \"2026-01-31T08:00:00Z\"}' |
    tidings emit --tenant acme --user ann --digest activity -
  TIDINGS_TOKEN=$(cat token) tidings emit --http https://tidings.acme.example events.ndjson

An event that arrives twice counts once: after a failure, emit the same file again. A valid event that looks like a mistake is
emitted with a warning. If digest types are configured, events of any other type are rejected.";

/// Returns `false` if an event was rejected.
pub(crate) async fn run(options: EmitCommandOptions, config: &Config) -> anyhow::Result<bool> {
    let (mut emitting, lines) = EventEmitter::start(&options, config)?;
    emitting.emit_all(lines).await?;
    Ok(emitting.report.print_totals("events"))
}

struct EventEmitter<'a> {
    config: &'a Config,
    /// For looking up digest types; `None` if a gateway does this.
    settings: Option<Settings>,
    /// `None` sends to Temporal directly.
    http: Option<HttpGateway>,
    /// Connected at the first valid event.
    client: Option<Client>,
    report: LineReport,
    acknowledged: Option<File>,
}

impl<'a> EventEmitter<'a> {
    fn start(
        options: &EmitCommandOptions,
        config: &'a Config,
    ) -> anyhow::Result<(Self, mpsc::Receiver<anyhow::Result<ParsedLine>>)> {
        let http = options.http.as_deref().map(client::http).transpose()?;
        let acknowledged = options.acknowledged.as_deref().map(create).transpose()?;
        let (bar, lines) = if let Some(event) = options.event.to_event(&options.key) {
            (indicatif::ProgressBar::hidden(), lines::single_event(event))
        } else {
            let (bar, input) = line_input::open_input(&input_path(options)?)?;
            (bar, lines::read_ahead(EventLines::new(input, options.key.clone())))
        };
        let report = LineReport::new(options.json, bar);
        let settings = http.is_none().then(|| config.unchecked_settings());
        Ok((Self { config, settings, http, client: None, report, acknowledged }, lines))
    }

    async fn emit_all(&mut self, mut lines: mpsc::Receiver<anyhow::Result<ParsedLine>>) -> anyhow::Result<()> {
        let budget = &ByteBudget::default();
        let mut on_their_way = FuturesUnordered::new();
        let mut open = true;
        while open || !on_their_way.is_empty() {
            tokio::select! {
                line = lines.recv(), if open && on_their_way.len() < IN_FLIGHT => match line.transpose()? {
                    None => open = false,
                    Some(Err(rejection)) => self.report.report_rejection(&rejection),
                    Some(Ok(line)) => if let Some(rejection) = self.check_digest_type(&line) {
                        self.report.report_rejection(&rejection);
                    } else {
                        let line = self.with_current_names(line);
                        let client = self.connected_client().await?;
                        on_their_way.push(async move { (budget.emit(&client, line.event.clone()).await, line) });
                    },
                },
                Some((result, line)) = on_their_way.next() => self.record_result(result, line)?,
            }
        }
        Ok(())
    }

    async fn connected_client(&mut self) -> anyhow::Result<Client> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = match self.http.clone() {
            Some(http) => client::connect_over(http).await?,
            None => client::connect(self.config).await?,
        };
        Ok(self.client.insert(client).clone())
    }

    /// Rejects a digest type missing from our configuration. A gateway checks against its own.
    fn check_digest_type(&self, EventLine { number, key, .. }: &EventLine) -> Option<LineRejection> {
        let InvalidField { field, problem } = self.settings.as_ref()?.check_digest(key).err()?;
        Some(LineRejection::new(*number, &field, &problem))
    }

    /// Uses today's names of tenant and digest type. A gateway does this itself.
    fn with_current_names(&self, line: EventLine) -> EventLine {
        let Some(Settings { names, .. }) = &self.settings else { return line };
        let v1::Event { tenant, digest, .. } = &line.event;
        let (tenant, digest) = (names.tenant(tenant).to_owned(), names.digest_type(digest).to_owned());
        EventLine { key: names.key_today(&line.key), event: v1::Event { tenant, digest, ..line.event }, ..line }
    }

    fn record_result(&mut self, result: Result<Vec<InvalidField>, EmitError>, line: EventLine) -> anyhow::Result<()> {
        match result {
            Ok(warnings) => {
                // A gateway of this version has the same warnings, and more.
                let doubts = line.doubts.into_iter().filter(|doubt| !warnings.contains(doubt));
                for InvalidField { field, problem } in warnings.iter().cloned().chain(doubts) {
                    self.report.report_warning(&LineRejection::new(line.number, &field, &problem));
                }
                self.report.count_accepted(1);
                self.acknowledge(&line.event)
            }
            // No other event would be accepted either.
            Err(error @ EmitError::Rejected(Refusal::Token(_) | Refusal::Gateway(_))) => {
                Err(UsageError(error.to_string()).into())
            }
            Err(error) => {
                self.report.report_rejection(&LineRejection::new(line.number, "", &error.to_string()));
                Ok(())
            }
        }
    }

    /// Unbuffered, so the file survives a crash.
    fn acknowledge(&mut self, event: &v1::Event) -> anyhow::Result<()> {
        let Some(file) = &mut self.acknowledged else { return Ok(()) };
        let v1::Event { tenant, user, digest, event_id, .. } = event;
        let line = format!("{}\n", json!({"tenant": tenant, "user": user, "digest": digest, "event_id": event_id}));
        file.write_all(line.as_bytes()).context("the --acknowledged file cannot be written")
    }
}

fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).map_err(|error| UsageError(format!("--acknowledged {}: {error}", path.display())).into())
}

fn input_path(options: &EmitCommandOptions) -> Result<PathBuf, UsageError> {
    match &options.file {
        Some(file) => Ok(file.clone()),
        None if stdin().is_terminal() => Err(UsageError(
            "name a file, or describe one event with --category; `tidings emit --help` has examples".into(),
        )),
        None => Ok(PathBuf::from("-")),
    }
}
