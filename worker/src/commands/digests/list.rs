//! `tidings digests list`: a page of the ledger's digests.

use jiff::Timestamp;
use serde_json::json;
use tidings_model::{
    records::{Cursor, DigestFilter, DigestPlace, DigestRecord, DigestState, Page},
    window::Outcome,
};

use crate::{
    Config,
    args::{moment, one_of},
    commands::page,
    phrases::{counted, local},
    storage,
};

/// The filter, the page and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only digests of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Only digests of this type
    #[arg(long = "type", value_name = "TYPE")]
    digest_type: Option<String>,
    /// Only digests of this user
    #[arg(long, value_name = "USER", requires = "tenant")]
    user: Option<String>,
    /// Only digests that ended like this
    #[arg(long, value_name = "OUTCOME", value_parser = one_of(Outcome::ALL, Outcome::name))]
    outcome: Option<Outcome>,
    /// Only digests in this state
    #[arg(long, value_name = "STATE", value_parser = one_of(DigestState::ALL, DigestState::name))]
    state: Option<DigestState>,
    /// Only windows opened at this time or later: a time as in RFC 3339, or a span before now as in `2h` or `14d`
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only windows opened before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Only digests that are past due and have no end
    #[arg(long, conflicts_with = "outcome")]
    overdue: bool,
    /// The largest number of digests
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continues after the page that ended with this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor<DigestPlace>>,
    /// Answer in JSON, one line each; the last line has the cursor, if another page follows
    #[arg(long)]
    json: bool,
}

/// Prints the page.
///
/// # Errors
/// The store does not answer.
pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let now = Timestamp::now();
    let Options { tenant, digest_type, user, outcome, state, since, until, overdue, limit, after, json: as_json } =
        options;
    let page = Page { limit, after };
    let overdue_at = overdue.then_some(now);
    let filter = DigestFilter { tenant, digest_type, user, outcome, state, since, until, overdue_at, page };
    let store = storage::open(&config.database_url).await?;
    let listed = store.list_digests(&filter).await?;
    page::print(listed, as_json, |row| if as_json { json!(row).to_string() } else { in_words(row, now) });
    Ok(true)
}

fn in_words(digest: &DigestRecord, now: Timestamp) -> String {
    let DigestRecord { digest_id, key, opened_at, due_at, state, closed, items, .. } = digest;
    let end = closed.as_ref().map_or(state.name(), |closed| closed.outcome.name());
    let overdue = if digest.is_overdue(now) { ", overdue" } else { "" };
    let (opened, due, items) = (local(*opened_at), local(*due_at), counted(*items, "event"));
    format!("{digest_id}  {end:<10}  {key}  opened {opened}, due {due}{overdue}, {items}")
}

#[cfg(test)]
mod tests {
    use tidings_model::window::Closed;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_line_has_the_end_or_that_the_digest_is_overdue() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut digest = DigestRecord {
            digest_id: Uuid::nil(),
            key: "acme/activity/ann".parse().unwrap(),
            opened_at: at(0),
            due_at: at(60),
            state: DigestState::Rendered,
            claimed_at: Some(at(60)),
            sent_at: None,
            closed: None,
            closed_at: None,
            returned_at: None,
            purged_at: None,
            items: 1,
            plan_why: String::new(),
            cadence: String::new(),
            zone: String::new(),
            attempts: 0,
            ambiguous: 0,
        };
        let line = in_words(&digest, at(61));
        assert!(line.contains("rendered    acme/activity/ann") && line.ends_with(", overdue, 1 event"), "{line}");
        digest.state = DigestState::Closed;
        digest.closed = Some(Closed { outcome: Outcome::Failed, why: "550".to_owned() });
        let line = in_words(&digest, at(61));
        assert!(line.contains("failed ") && !line.contains("overdue"), "{line}");
    }
}
