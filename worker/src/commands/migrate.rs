//! `tidings migrate`: the database's tables, rows that today's rules refuse, and Temporal's search attributes.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::bail;
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
use tidings_activities::installation;
use tidings_model::names;
use tokio::time::sleep;

use crate::{Config, config::no_namespace, storage};

mod refused_rows;

/// The search attributes of workflows. Both are keywords.
const SEARCH_ATTRIBUTES: [&str; 2] = [names::TENANT_ATTRIBUTE, names::DIGEST_TYPE_ATTRIBUTE];

/// The longest wait until the search attributes count, or the namespace. Each frontend reads its namespaces every two seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// A namespace that was made a moment ago is known to each frontend by then.
const NAMESPACE: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// The looks in a row that must find the attributes: behind one address there may be several frontends.
const LOOKS: u32 = 10;

/// The options of `tidings migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Takes over a namespace of another installation, in which no worker has been at work for a minute, and gives the database an
    /// identity of its own: for a copy, such as a dump of production in staging
    #[arg(long)]
    adopt_namespace: bool,
}

/// Brings both up to this version, and says what it did. Doing it again changes nothing.
///
/// # Errors
/// The database or Temporal does not answer, or refuses.
pub(crate) async fn run(options: &Options, config: &Config) -> anyhow::Result<()> {
    storage::migrate(&config.database_url).await?;
    anstream::println!("Database {}: its tables are this version's", config.database_url);
    let store = storage::open(&config.database_url).await?;
    refused_rows::report(&*store, &config.unsigned()).await?;
    let client = config.temporal.connect().await?;
    // First, because a namespace that was made a moment ago is waited for.
    let registered = register(&client).await?;
    installation::claim(&*store, &client, options.adopt_namespace).await?;
    match registered {
        Registered::ByHand(reason) => match count(&client).await {
            Counted::Known => anstream::println!("Temporal: the search attributes are there already"),
            Counted::Unsaid => anstream::eprintln!("warning: {}", by_hand(&client.namespace(), &reason)),
            Counted::Unknown(_) => bail!(by_hand(&client.namespace(), &reason)),
        },
        Registered::Now(added) if added.is_empty() => {
            anstream::println!("Temporal: the search attributes are there already");
        }
        Registered::Now(added) => {
            await_attributes(&client).await?;
            anstream::println!("Temporal: registered {}", added.join(", "));
        }
    }
    Ok(())
}

/// The result of the registration.
#[derive(Debug, PartialEq, Eq)]
enum Registered {
    /// These were missing.
    Now(Vec<&'static str>),
    /// This client may not do it, for this reason: Temporal Cloud, or a key without the role `admin`.
    ByHand(String),
}

/// The meaning of an error of the operator's service.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Another migration was faster, or the server does not list what it has.
    Known,
    /// The namespace does not exist, or the frontend does not know it yet.
    NoNamespace,
    /// Someone else must do it.
    ByHand,
    /// Neither.
    Failed,
}

fn verdict(status: &Status) -> Verdict {
    match status.code() {
        Code::AlreadyExists => Verdict::Known,
        Code::NotFound if status.message().starts_with("Namespace ") => Verdict::NoNamespace,
        Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented | Code::NotFound => Verdict::ByHand,
        _ => Verdict::Failed,
    }
}

/// Registers what is missing.
async fn register(client: &Client) -> anyhow::Result<Registered> {
    let until = Instant::now() + NAMESPACE;
    let mut operator = client.clone();
    let known = loop {
        let request = ListSearchAttributesRequest { namespace: client.namespace() };
        match OperatorService::list_search_attributes(&mut operator, request.into_request()).await {
            Ok(found) => break found.into_inner().custom_attributes,
            Err(status) => match verdict(&status) {
                Verdict::NoNamespace if Instant::now() < until => sleep(LOOK).await,
                Verdict::NoNamespace => bail!(no_namespace(&client.namespace())),
                // The time-skipping test server cannot list them. Adding one twice is harmless.
                Verdict::Known | Verdict::ByHand => break HashMap::new(),
                Verdict::Failed => bail!("Temporal's search attributes cannot be listed: {}", status.message()),
            },
        }
    };
    let missing: Vec<_> = SEARCH_ATTRIBUTES.into_iter().filter(|name| !known.contains_key(*name)).collect();
    // One by one, so that one that exists keeps no other away.
    let mut added = vec![];
    for name in missing {
        let search_attributes = HashMap::from([(name.to_owned(), IndexedValueType::Keyword as i32)]);
        let request = AddSearchAttributesRequest { search_attributes, namespace: client.namespace() };
        match OperatorService::add_search_attributes(&mut operator, request.into_request()).await {
            Ok(_) => added.push(name),
            Err(status) => match verdict(&status) {
                Verdict::Known => {}
                Verdict::NoNamespace => bail!(no_namespace(&client.namespace())),
                Verdict::ByHand => return Ok(Registered::ByHand(status.message().to_owned())),
                Verdict::Failed => {
                    bail!("Temporal's search attribute {name} cannot be registered: {}", status.message())
                }
            },
        }
    }
    Ok(Registered::Now(added))
}

/// Waits until the frontends know the attributes, so that the next event is accepted.
async fn await_attributes(client: &Client) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut looks = 0;
    loop {
        match count(client).await {
            Counted::Known => looks += 1,
            Counted::Unknown(reason) if Instant::now() >= until => {
                bail!(
                    "Temporal has registered the search attributes and does not know them yet ({reason}); run `tidings migrate` again"
                )
            }
            Counted::Unknown(_) => looks = 0,
            Counted::Unsaid => return Ok(()),
        }
        if looks == LOOKS {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

/// The knowledge that a frontend has of the attributes.
enum Counted {
    Known,
    /// The frontend refuses the query, as it would refuse a start.
    Unknown(String),
    /// This server has no visibility, or this client may not read it.
    Unsaid,
}

async fn count(client: &Client) -> Counted {
    let query = SEARCH_ATTRIBUTES.map(|name| format!("{name} = 'none'")).join(" AND ");
    match client.count_workflows(query, WorkflowCountOptions::default()).await {
        Ok(_) => Counted::Known,
        Err(ClientError::Rpc(status))
            if matches!(status.code(), Code::InvalidArgument | Code::NotFound | Code::Unavailable) =>
        {
            Counted::Unknown(status.message().to_owned())
        }
        Err(_) => Counted::Unsaid,
    }
}

fn by_hand(namespace: &str, reason: &str) -> String {
    let [tenant, digest] = SEARCH_ATTRIBUTES;
    format!(
        "the search attributes of namespace {namespace} cannot be registered from here ({reason}). Make {tenant} and {digest}, both \
         of type Keyword, by hand: in Temporal Cloud with its UI, `tcld namespace search-attributes add` or Terraform; on a cluster \
         with the role admin, `temporal operator search-attribute create -n {namespace} --name {tenant} --type Keyword --name \
         {digest} --type Keyword`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_whether_to_go_on() {
        for (code, message, expected) in [
            (Code::AlreadyExists, "Search attribute TidingsTenant already exists.", Verdict::Known),
            (Code::NotFound, "Namespace acme is not found.", Verdict::NoNamespace),
            (Code::NotFound, "unknown service", Verdict::ByHand),
            (Code::Unimplemented, "Method temporal.api.operatorservice.v1 is unimplemented", Verdict::ByHand),
            (Code::PermissionDenied, "Request unauthorized.", Verdict::ByHand),
            (Code::InvalidArgument, "cannot have more than 10 search attribute of type Keyword.", Verdict::Failed),
            (Code::Unavailable, "connection refused", Verdict::Failed),
        ] {
            assert_eq!(verdict(&Status::new(code, message)), expected, "{code:?} {message}");
        }
    }

    #[test]
    fn the_advice_has_the_command_to_type() {
        let told = by_hand("acme", "Request unauthorized.");
        assert!(told.contains("--name TidingsTenant --type Keyword --name TidingsDigestType --type Keyword"), "{told}");
    }
}
