//! `tidings recipients show`: all an operator needs about a person.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::json;
use tidings_model::{
    Key, PersonId,
    records::{DigestRecord, KeyFacts, PersonRecord, Recipient, Suppression},
    settings::Settings,
};
use tidings_operations::person_keys;
use tidings_services::{
    choices::{PreferencesView, capped_from},
    team_directory,
};
use tidings_store::Store;

use crate::{
    Config,
    phrases::{format_count, local},
    storage,
};

/// Digests to show per type.
const RECENT: u32 = 5;

/// The person and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct RecipientShowOptions {
    /// The person
    #[arg(value_name = "TENANT/USER")]
    person: PersonId,
    /// Also print the address
    #[arg(long)]
    addresses: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if nothing is stored about the person.
pub(super) async fn run(
    RecipientShowOptions { person: id, addresses, json }: RecipientShowOptions,
    config: &Config,
) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let settings = config.unchecked_settings();
    let directory = config.team_directory()?;
    let looked = team_directory::facts_for_display(directory.as_deref(), &*store, &id.key("")).await?;
    let people = person_keys::person_under_each_name(&*store, &settings, &id).await?;
    let person = PersonRecord { recipient: looked.recipient, ..person_keys::stored_person(&*store, &people).await? };
    if let Some(directory) = directory {
        let why = looked.missing.map(|why| format!(": {why}")).unwrap_or_default();
        anstream::eprintln!("recipients come from {directory}{why}");
    }
    if person.is_empty() {
        return Ok(report_unknown(&id));
    }
    let types = load_types(&*store, &settings, &id, &person).await?;
    let text = if json {
        in_json(&id, &person, &types, &settings, addresses)
    } else {
        in_words(&id, &person, &types, &settings, addresses)
    };
    anstream::println!("{text}");
    Ok(true)
}

pub(super) fn report_unknown(person: &PersonId) -> bool {
    anstream::eprintln!("nothing is held about {person}; see tidings recipients list");
    false
}

struct PersonDigestType {
    name: String,
    facts: KeyFacts,
    /// The time of the oldest digest that counts, if the recipient's cap is used up.
    capped_from: Option<Timestamp>,
    /// Latest first.
    digests: Vec<DigestRecord>,
}

/// Includes unconfigured types if we have data for this person.
async fn load_types(
    store: &dyn Store,
    settings: &Settings,
    id: &PersonId,
    person: &PersonRecord,
) -> anyhow::Result<Vec<PersonDigestType>> {
    let mut types = Vec::new();
    for name in &settings.digest_types(&id.tenant) | &person.digest_types {
        let key = id.key(&name);
        let (facts, digests) = (store.facts(&key).await?, store.digests(&key, RECENT).await?);
        let capped_from = capped_from(store, settings.cap, &key, Timestamp::now()).await?;
        types.push(PersonDigestType { name, facts, capped_from, digests });
    }
    Ok(types)
}

/// Returns `None` if the digest type is not configured.
fn in_force<'a>(
    of: &'a PersonDigestType,
    key: &'a Key,
    settings: &Settings,
    now: Timestamp,
) -> Option<PreferencesView<'a>> {
    let digest = settings.digest(key)?;
    Some(PreferencesView::new(digest, &settings.frequency_limits(digest), of.capped_from, &of.facts, key, now))
}

fn in_json(
    id: &PersonId,
    person: &PersonRecord,
    types: &[PersonDigestType],
    settings: &Settings,
    addresses: bool,
) -> String {
    let PersonRecord { recipient, preferences, consents, suppressions, .. } = person;
    let mut shown = json!({"tenant": id.tenant, "user": id.user, "recipient": recipient, "preferences": preferences,
                           "consents": consents, "suppressions": suppressions});
    if !addresses {
        let held = shown["suppressions"].as_array_mut().into_iter().flatten();
        for part in held.filter_map(serde_json::Value::as_object_mut) {
            part.remove("address");
        }
        if let Some(recipient) = shown["recipient"].as_object_mut() {
            recipient.remove("address");
        }
    }
    let now = Timestamp::now();
    let types: Vec<_> = types
        .iter()
        .map(|of| {
            let key = id.key(&of.name);
            json!({"digest_type": of.name, "preferences": in_force(of, &key, settings, now), "digests": of.digests})
        })
        .collect();
    shown["digest_types"] = types.into();
    format!("{shown:#}")
}

fn in_words(
    id: &PersonId,
    person: &PersonRecord,
    types: &[PersonDigestType],
    settings: &Settings,
    addresses: bool,
) -> String {
    let mut text = format!("{BOLD}{id}{BOLD:#}: {}", describe_recipient(person.recipient.as_ref(), addresses));
    for Suppression { address, reason, detail, at, .. } in &person.suppressions {
        let whose = if addresses { format!("{address}: ") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  suppressed {whose}{reason} since {}: {detail}", local(*at));
    }
    let now = Timestamp::now();
    for of in types {
        let PersonDigestType { name, facts, digests, .. } = of;
        let key = id.key(name);
        let _ = match in_force(of, &key, settings, now) {
            Some(in_force) => write!(text, "\n\n{in_force}"),
            None => write!(text, "\n\n{key}: digest type {name:?} is not configured"),
        };
        let _ = write!(text, "\n  consent  {}", if facts.consent { "given" } else { "withdrawn" });
        for digest in digests {
            let _ = write!(text, "\n  {}", in_a_line(digest));
        }
    }
    text
}

fn describe_recipient(recipient: Option<&Recipient>, addresses: bool) -> String {
    let Some(Recipient { address, name, zone, locale, .. }) = recipient else {
        return "not in the directory".to_owned();
    };
    let address = if addresses { address.as_str() } else { "" };
    let parts = [name, address, zone, locale];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "in the directory".to_owned() } else { parts.join(", ") }
}

fn in_a_line(digest: &DigestRecord) -> String {
    let end = digest.closed.as_ref().map_or(digest.state.name(), |closed| closed.outcome.name());
    format!(
        "digest   {}  {end}, {}, due {}",
        digest.digest_id,
        format_count(digest.items, "event"),
        local(digest.due_at)
    )
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
