//! `tidings migrate`: the database's tables and Temporal's search attributes.

use std::collections::HashMap;

use anyhow::Context as _;
use temporalio_client::{Client, NamespacedClient as _, tonic::IntoRequest as _};
use temporalio_common::protos::temporal::api::{
    enums::v1::IndexedValueType,
    operatorservice::v1::{AddSearchAttributesRequest, ListSearchAttributesRequest},
};
use tidings_activities::installation;
use tidings_model::names;

use crate::{Config, storage};

/// The search attributes of workflows. Both are keywords.
const SEARCH_ATTRIBUTES: [&str; 2] = [names::TENANT_ATTRIBUTE, names::DIGEST_TYPE_ATTRIBUTE];

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
    let client = config.temporal.connect().await?;
    let store = storage::open(&config.database_url).await?;
    installation::claim(&*store, &client, options.adopt_namespace).await?;
    let added = add_search_attributes(&client).await.context("Temporal's search attributes cannot be registered")?;
    if added.is_empty() {
        anstream::println!("Temporal: the search attributes are there already");
    } else {
        anstream::println!("Temporal: registered {}", added.join(", "));
    }
    Ok(())
}

async fn add_search_attributes(client: &Client) -> anyhow::Result<Vec<&'static str>> {
    let mut operator = client.connection().operator_service();
    let namespace = client.namespace();
    let known = operator
        .list_search_attributes(ListSearchAttributesRequest { namespace: namespace.clone() }.into_request())
        .await?
        .into_inner()
        .custom_attributes;
    let missing: Vec<_> = SEARCH_ATTRIBUTES.into_iter().filter(|name| !known.contains_key(*name)).collect();
    if !missing.is_empty() {
        let search_attributes: HashMap<_, _> =
            missing.iter().map(|name| ((*name).to_owned(), IndexedValueType::Keyword as i32)).collect();
        operator
            .add_search_attributes(AddSearchAttributesRequest { search_attributes, namespace }.into_request())
            .await?;
    }
    Ok(missing)
}
