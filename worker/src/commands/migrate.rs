//! `tidings migrate`: updates the schema, warns about rows we would reject today, and registers search
//! attributes.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::{Duration, Instant},
};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use temporalio_client::{
    Client, NamespacedClient as _, WorkflowCountOptions,
    errors::ClientError,
    grpc::OperatorService,
    tonic::{Code, IntoRequest as _, Status},
};
use temporalio_common::protos::temporal::api::{
    enums::v1::IndexedValueType,
    operatorservice::v1::{AddSearchAttributesRequest, ListSearchAttributesRequest},
};
use tidings_model::{
    Key, PersonId, names,
    records::{ListPage, PageRequest, Recipient},
    settings::Settings,
    time_zone,
};
use tidings_services::installation;
use tidings_store::Store;
use tokio::time::sleep;

use crate::{Config, config::no_namespace, storage};

/// Both are keywords.
const SEARCH_ATTRIBUTES: [&str; 2] = [names::TENANT_ATTRIBUTE, names::DIGEST_TYPE_ATTRIBUTE];

/// Each frontend reloads its namespaces every two seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// By then, every frontend should see a new namespace.
const NAMESPACE: Duration = Duration::from_secs(5);
/// Poll interval.
const LOOK: Duration = Duration::from_millis(250);
/// Successful polls in a row, because one address may lead to several frontends.
const LOOKS: u32 = 10;

/// The options of `tidings migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateOptions {
    /// Take over a namespace of another installation that had no active worker for a minute, and give the database an
    /// identity of its own: for a copy, such as a production dump in staging
    #[arg(long)]
    adopt_namespace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Running this again changes nothing.
pub(crate) async fn run(options: &MigrateOptions, config: &Config) -> anyhow::Result<()> {
    storage::migrate(&config.database_url).await?;
    if !options.json {
        anstream::println!("Database {} is up to date", config.database_url);
    }
    let store = storage::open(&config.database_url).await?;
    warn_about_rows(&*store, &config.unchecked_settings()).await?;
    let client = config.temporal.connect().await?;
    // First, because this waits for a new namespace.
    let registered = register_attributes(&client).await?;
    installation::claim(&*store, &client, options.adopt_namespace).await?;
    let (added, is_known) = match registered {
        AttributeRegistration::ByHand(reason) => match probe_attributes(&client).await {
            AttributeProbe::Known => (Vec::new(), true),
            AttributeProbe::Unsaid => {
                anstream::eprintln!("warning: {}", by_hand(&client.namespace(), &reason));
                (Vec::new(), false)
            }
            AttributeProbe::Unknown(_) => bail!(by_hand(&client.namespace(), &reason)),
        },
        AttributeRegistration::Now(added) => {
            if !added.is_empty() {
                await_attributes(&client).await?;
            }
            (added, true)
        }
    };
    if options.json {
        let database = config.database_url.to_string();
        anstream::println!("{}", json!({ "database": database, "registered": added, "search_attributes": is_known }));
    } else if !added.is_empty() {
        anstream::println!("Temporal: registered {}", added.join(", "));
    } else if is_known {
        anstream::println!("Temporal: the search attributes are already registered");
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum AttributeRegistration {
    Now(Vec<&'static str>),
    /// This client may not register them, e.g. in Temporal Cloud or without the role `admin`. Holds the
    /// server's reason.
    ByHand(String),
}

/// How to treat an operator service error.
#[derive(Debug, PartialEq, Eq)]
enum OperatorStatus {
    /// Registered already, by a parallel migration or on a server that cannot list them.
    Known,
    /// Missing, or this frontend does not see it yet.
    NoNamespace,
    ByHand,
    Failed,
}

fn classify_status(status: &Status) -> OperatorStatus {
    match status.code() {
        Code::AlreadyExists => OperatorStatus::Known,
        Code::NotFound if status.message().starts_with("Namespace ") => OperatorStatus::NoNamespace,
        Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented | Code::NotFound => OperatorStatus::ByHand,
        _ => OperatorStatus::Failed,
    }
}

async fn register_attributes(client: &Client) -> anyhow::Result<AttributeRegistration> {
    let until = Instant::now() + NAMESPACE;
    let mut operator = client.clone();
    let known = loop {
        let request = ListSearchAttributesRequest { namespace: client.namespace() };
        match OperatorService::list_search_attributes(&mut operator, request.into_request()).await {
            Ok(found) => break found.into_inner().custom_attributes,
            Err(status) => match classify_status(&status) {
                OperatorStatus::NoNamespace if Instant::now() < until => sleep(LOOK).await,
                OperatorStatus::NoNamespace => bail!(no_namespace(&client.namespace())),
                // The time-skipping test server cannot list them. Adding one twice is harmless.
                OperatorStatus::Known | OperatorStatus::ByHand => break HashMap::new(),
                OperatorStatus::Failed => bail!("cannot list Temporal's search attributes: {}", status.message()),
            },
        }
    };
    let missing: Vec<_> = SEARCH_ATTRIBUTES.into_iter().filter(|name| !known.contains_key(*name)).collect();
    // One at a time, so an existing one does not prevent the others.
    let mut added = vec![];
    for name in missing {
        let search_attributes = HashMap::from([(name.to_owned(), IndexedValueType::Keyword as i32)]);
        let request = AddSearchAttributesRequest { search_attributes, namespace: client.namespace() };
        match OperatorService::add_search_attributes(&mut operator, request.into_request()).await {
            Ok(_) => added.push(name),
            Err(status) => match classify_status(&status) {
                OperatorStatus::Known => {}
                OperatorStatus::NoNamespace => bail!(no_namespace(&client.namespace())),
                OperatorStatus::ByHand => return Ok(AttributeRegistration::ByHand(status.message().to_owned())),
                OperatorStatus::Failed => {
                    bail!("cannot register search attribute {name} in Temporal: {}", status.message())
                }
            },
        }
    }
    Ok(AttributeRegistration::Now(added))
}

/// Otherwise the frontends might reject the next event.
async fn await_attributes(client: &Client) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut looks = 0;
    loop {
        match probe_attributes(client).await {
            AttributeProbe::Known => looks += 1,
            AttributeProbe::Unknown(reason) if Instant::now() >= until => {
                bail!(
                    "Temporal registered the search attributes but does not accept them yet ({reason}); run `tidings migrate` again"
                )
            }
            AttributeProbe::Unknown(_) => looks = 0,
            AttributeProbe::Unsaid => return Ok(()),
        }
        if looks == LOOKS {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

pub(super) enum AttributeProbe {
    Known,
    /// The query is rejected, as a workflow start would be.
    Unknown(String),
    /// No visibility store, or this client may not read it.
    Unsaid,
}

pub(super) async fn probe_attributes(client: &Client) -> AttributeProbe {
    let query = SEARCH_ATTRIBUTES.map(|name| format!("{name} = 'none'")).join(" AND ");
    match client.count_workflows(query, WorkflowCountOptions::default()).await {
        Ok(_) => AttributeProbe::Known,
        Err(ClientError::Rpc(status))
            if matches!(status.code(), Code::InvalidArgument | Code::NotFound | Code::Unavailable) =>
        {
            AttributeProbe::Unknown(status.message().to_owned())
        }
        Err(_) => AttributeProbe::Unsaid,
    }
}

fn by_hand(namespace: &str, reason: &str) -> String {
    let [tenant, digest] = SEARCH_ATTRIBUTES;
    format!(
        "cannot register the search attributes of namespace {namespace} from here ({reason}). Create {tenant} and {digest}, both \
         of type Keyword, by hand: in Temporal Cloud with its UI, `tcld namespace search-attributes add` or Terraform; on a cluster \
         with the role admin, `temporal operator search-attribute create -n {namespace} --name {tenant} --type Keyword --name \
         {digest} --type Keyword`"
    )
}

/// Page size.
const ROWS: u32 = 10_000;
/// Rows to list per fault.
const NAMED: usize = 20;

/// Warns about each row we would reject today, from an older version or another program, which only its owner
/// can correct. Warnings never show an address.
async fn warn_about_rows(store: &dyn Store, settings: &Settings) -> anyhow::Result<()> {
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {pos} rows, {elapsed}")?);
    let mut faults = FaultReport::default();
    let mut page = PageRequest { limit: ROWS, after: None };
    loop {
        let ListPage { rows, next } = store.directory_rows(&page).await?;
        bar.inc(rows.len().try_into()?);
        for row in &rows {
            faults.look_at(row, settings);
        }
        if next.is_none() {
            break;
        }
        page.after = next;
    }
    let mut page = PageRequest { limit: ROWS, after: None };
    loop {
        let ListPage { rows, next } = store.chosen_zones(&page).await?;
        bar.inc(rows.len().try_into()?);
        for (key, zone) in rows {
            faults.look_at_zone(&zone, RowFault::ChosenZone, || key.to_string());
        }
        if next.is_none() {
            break;
        }
        page.after = next;
    }
    bar.finish_and_clear();
    for (fault, refused) in &faults.refused {
        anstream::eprintln!("warning: {}{}", fault.warning_text(refused.count), refused);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowFault {
    Address,
    Zone,
    LongId,
    ChosenZone,
}

impl RowFault {
    fn warning_text(self, count: u64) -> String {
        let people = "of the directory: correct them with `tidings recipients import`, PUT /v1/recipients/USER or in your own directory";
        match self {
            Self::Address => format!("{count} rows have an invalid address, {people}"),
            Self::Zone => format!("{count} rows have an unknown time zone, so the digest type's applies, {people}"),
            Self::LongId => {
                format!(
                    "{count} rows have ids that are too long for events of a digest type, {people}; a user needs a shorter id"
                )
            }
            Self::ChosenZone => format!(
                "{count} recipients chose an unknown time zone, so the directory's applies: correct it with `tidings \
                 preferences set KEY --zone ZONE`"
            ),
        }
    }
}

#[derive(Default)]
struct FaultyRows {
    count: u64,
    /// The first `NAMED` rows with their owner and problem.
    named: Vec<String>,
}

impl fmt::Display for FaultyRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.named {
            write!(f, "\n  {row}")?;
        }
        if self.count > NAMED as u64 { write!(f, "\n  and {} more", self.count - NAMED as u64) } else { Ok(()) }
    }
}

#[derive(Default)]
struct FaultReport {
    refused: BTreeMap<RowFault, FaultyRows>,
    /// Cache of the problem per zone.
    zones: BTreeMap<String, Option<String>>,
}

impl FaultReport {
    fn look_at(&mut self, recipient: &Recipient, settings: &Settings) {
        let whose = || PersonId { tenant: recipient.tenant.clone(), user: recipient.user.clone() }.to_string();
        if let Err(error) = recipient.email_address() {
            self.add(RowFault::Address, &whose(), &error.0.to_string());
        }
        if !recipient.zone.is_empty() {
            self.look_at_zone(&recipient.zone, RowFault::Zone, whose);
        }
        for digest_type in settings.digest_types(&recipient.tenant) {
            if let Err(invalid) = Key::new(recipient.tenant.clone(), digest_type, recipient.user.clone()) {
                self.add(RowFault::LongId, &whose(), &invalid.to_string());
                break;
            }
        }
    }

    fn look_at_zone(&mut self, zone: &str, fault: RowFault, whose: impl Fn() -> String) {
        let problem = self.zones.entry(zone.to_owned()).or_insert_with(|| time_zone(zone).err()).clone();
        if let Some(problem) = problem {
            self.add(fault, &whose(), &format!("{zone:?} {problem}"));
        }
    }

    fn add(&mut self, fault: RowFault, whose: &str, problem: &str) {
        let refused = self.refused.entry(fault).or_default();
        refused.count += 1;
        if refused.named.len() < NAMED {
            refused.named.push(format!("{whose}: {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_model::settings::{DeliveryStreams, DigestSettings, SenderIdentity, StreamSettings};

    #[test]
    fn an_answer_says_whether_to_go_on() {
        for (code, message, expected) in [
            (Code::AlreadyExists, "Search attribute TidingsTenant already exists.", OperatorStatus::Known),
            (Code::NotFound, "Namespace acme is not found.", OperatorStatus::NoNamespace),
            (Code::NotFound, "unknown service", OperatorStatus::ByHand),
            (Code::Unimplemented, "Method temporal.api.operatorservice.v1 is unimplemented", OperatorStatus::ByHand),
            (Code::PermissionDenied, "Request unauthorized.", OperatorStatus::ByHand),
            (
                Code::InvalidArgument,
                "cannot have more than 10 search attribute of type Keyword.",
                OperatorStatus::Failed,
            ),
            (Code::Unavailable, "connection refused", OperatorStatus::Failed),
        ] {
            assert_eq!(classify_status(&Status::new(code, message)), expected, "{code:?} {message}");
        }
    }

    #[test]
    fn the_advice_has_the_command_to_type() {
        let told = by_hand("acme", "Request unauthorized.");
        assert!(told.contains("--name TidingsTenant --type Keyword --name TidingsDigestType --type Keyword"), "{told}");
    }

    fn settings() -> Settings {
        let address = "digest@acme.example".parse().unwrap();
        let sender = SenderIdentity { name: String::new(), address, reply_to: None, domain: "acme.example".into() };
        let stream = StreamSettings::new(&["default"], sender);
        let weekly = DigestSettings::new("weekly", "daily 08:00".parse().unwrap());
        Settings {
            digests: [("weekly".to_owned(), weekly)].into(),
            ..Settings::new(DeliveryStreams { bulk: stream.clone(), transactional: stream })
        }
    }

    #[test]
    fn a_refused_row_is_named_with_its_fault_and_without_its_address() {
        let mut faults = FaultReport::default();
        for (user, address, zone) in [
            ("ann", "ann@example.net", "Europe/Berlin"),
            ("bo", "bo@[127.0.0.1]", ""),
            ("cy", "cy@example.net", "localtime"),
            (&"d".repeat(240), "dan@example.net", ""),
        ] {
            let (tenant, user, address, zone) = ("acme".into(), user.into(), address.into(), zone.into());
            let row = Recipient { tenant, user, address, name: String::new(), zone, locale: String::new() };
            faults.look_at(&row, &settings());
        }
        let found: Vec<_> = faults.refused.iter().map(|(fault, refused)| (*fault, refused.count)).collect();
        assert_eq!(found, [(RowFault::Address, 1), (RowFault::Zone, 1), (RowFault::LongId, 1)]);
        let said = |fault| faults.refused[&fault].to_string();
        assert!(said(RowFault::Address).starts_with("\n  acme/bo: has an IP address"), "{}", said(RowFault::Address));
        assert!(said(RowFault::Zone).contains("acme/cy: \"localtime\" is not an IANA time zone"));
        assert!(!said(RowFault::Address).contains("127"));
    }

    #[test]
    fn the_first_rows_of_a_fault_are_named_and_the_rest_is_counted() {
        let mut faults = FaultReport::default();
        for user in 0..NAMED + 3 {
            faults.add(RowFault::Address, &format!("acme/{user}"), "is too long");
        }
        let said = faults.refused[&RowFault::Address].to_string();
        assert!(said.ends_with("\n  and 3 more") && said.lines().count() == NAMED + 2, "{said}");
    }
}
