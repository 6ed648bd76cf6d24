//! `tidings recipients list`: a page of the directory.

use serde_json::json;
use tidings_model::{
    PersonId,
    records::{Cursor, ListedRecipient, Page, Recipient, RecipientFilter, RecipientPlace},
};

use crate::{Config, commands::page, storage};

/// The filter, the page and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only people of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Only people with this address, in any case
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only people with this zone in the directory
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Only people with this language in the directory
    #[arg(long, value_name = "LOCALE")]
    locale: Option<String>,
    /// Only people whose address is suppressed
    #[arg(long)]
    suppressed: bool,
    /// The largest number of people
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continues after the page that ended with this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor<RecipientPlace>>,
    /// Print the addresses too
    #[arg(long)]
    addresses: bool,
    /// Answer in JSON, one line each; the last line has the cursor, if another page follows
    #[arg(long)]
    json: bool,
}

/// Prints the page.
///
/// # Errors
/// The store does not answer.
pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { tenant, address, zone, locale, suppressed, limit, after, addresses, json: as_json } = options;
    let page = Page { limit, after };
    let filter = RecipientFilter { tenant, address, zone, locale, suppressed, page };
    let store = storage::open(&config.database_url).await?;
    let listed = store.recipients(&filter).await?;
    page::print(listed, as_json, |row| if as_json { in_json(row, addresses) } else { in_words(row, addresses) });
    Ok(true)
}

fn in_json(ListedRecipient { recipient, suppressed }: &ListedRecipient, addresses: bool) -> String {
    let Recipient { tenant, user, address, name, zone, locale } = recipient;
    let mut line =
        json!({"tenant": tenant, "user": user, "name": name, "zone": zone, "locale": locale, "suppressed": suppressed});
    if addresses {
        line["address"] = json!(address);
    }
    line.to_string()
}

fn in_words(ListedRecipient { recipient, suppressed }: &ListedRecipient, addresses: bool) -> String {
    let Recipient { tenant, user, address, name, zone, locale } = recipient;
    let id = PersonId { tenant: tenant.clone(), user: user.clone() }.to_string();
    let suppressed = suppressed.map(|reason| format!("suppressed: {reason}")).unwrap_or_default();
    let address = if addresses { address.as_str() } else { "" };
    let parts = [id.as_str(), address, name, zone, locale, &suppressed];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
}
