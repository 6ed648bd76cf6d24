//! `tidings audit`: lists the audit trail without SQL.

use serde_json::json;
use tidings_model::{
    Key,
    records::{AuditFilter, AuditPlace, AuditRecord},
};

use super::page::{self, PageOptions};
use crate::{Config, phrases::local, storage};

const EXAMPLES: &str = "\
Examples:
  tidings audit --since 1d                          who did what today?
  tidings audit --tenant acme --digest-type activity --user ann
                                                    what was done to ann's key?
  tidings audit --actor carol --action hold --json

--action matches the first words of an action: --action relay_open finds `relay_open ses`. Every page but the last ends
with a cursor for --after. A pause of everything has no tenant: find it with --action pause.";

/// The filter, the page and the form of the answer.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("limit", |arg| arg.help("Maximum number of entries")))]
pub struct AuditOptions {
    #[command(flatten)]
    filter: AuditFilter,
    #[command(flatten)]
    page: PageOptions<AuditPlace>,
    /// Print reasons unredacted, with any addresses that operators wrote into them
    #[arg(long)]
    addresses: bool,
    /// Print JSON, one line each; the last line has the cursor if another page follows
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: AuditOptions, config: &Config) -> anyhow::Result<bool> {
    let AuditOptions { filter, page, addresses, json: as_json } = options;
    let store = storage::open(&config.database_url).await?;
    let mut listed = store.audit_entries(&AuditFilter { page: page.into(), ..filter }).await?;
    if !addresses {
        listed.rows.iter_mut().for_each(AuditRecord::forget_addresses);
    }
    page::print_page(listed, as_json, ("audit entries", "TIME  ACTION, OPERATOR  SUBJECT: REASON"), |row| {
        if as_json { json!(row).to_string() } else { in_words(row) }
    });
    Ok(true)
}

fn in_words(entry: &AuditRecord) -> String {
    let AuditRecord { at, actor, action, why, .. } = entry;
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{}  {action} by {actor}  {}{why}", local(*at), audit_subject(entry))
}

/// Names the key, or its known parts, and the digest or message.
fn audit_subject(entry: &AuditRecord) -> String {
    let AuditRecord { tenant, digest_type, user, digest_id, message, .. } = entry;
    let key = Key::new(tenant.clone(), digest_type.clone(), user.clone());
    let parts = [("tenant", tenant), ("digest_type", digest_type), ("user", user)];
    let parts = parts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}={value}"));
    let mut words = key.map_or_else(|_| parts.collect(), |key| vec![key.to_string()]);
    words.extend(digest_id.map(|id| format!("digest {id}")));
    words.extend(message.map(|id| format!("message {id}")));
    if words.is_empty() { "everything".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_line_names_the_key_or_as_much_as_there_is() {
        let mut entry = AuditRecord {
            audit_id: 1,
            at: Timestamp::UNIX_EPOCH,
            tenant: "acme".to_owned(),
            digest_type: "activity".to_owned(),
            user: "a/b".to_owned(),
            digest_id: None,
            message: None,
            actor: "carol".into(),
            action: "hold".to_owned(),
            why: "ticket 812".to_owned(),
        };
        let line = in_words(&entry);
        assert!(line.ends_with("  hold by carol  acme/activity/a%2Fb: ticket 812"), "{line}");
        entry.user.clear();
        entry.why.clear();
        assert_eq!(audit_subject(&entry), "tenant=acme digest_type=activity");
        assert!(in_words(&entry).ends_with("digest_type=activity"), "{}", in_words(&entry));
        (entry.tenant, entry.digest_type) = (String::new(), String::new());
        assert_eq!(audit_subject(&entry), "everything");
        entry.message = Some(uuid::Uuid::nil());
        assert_eq!(audit_subject(&entry), "message 00000000-0000-0000-0000-000000000000");
    }
}
