//! `tidings dead-letters list`: a page of the dead letters.

use jiff::Timestamp;
use serde_json::json;
use tidings_activities::operations::dead_letters::list::{EventsOf, Filter, Letter, Place, Source, list};
use tidings_model::{
    records::{Cursor, DeadLetterRecord, Emitted, Page, WebhookLetterRecord},
    subscription::{COUNTED, SubscriptionState},
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
    /// Only letters of this source
    #[arg(long, value_name = "SOURCE", value_parser = one_of(Source::ALL, Source::name))]
    source: Option<Source>,
    /// Only letters to keys of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Only letters to keys of this digest type
    #[arg(long = "type", value_name = "TYPE")]
    digest_type: Option<String>,
    /// Only letters to keys of this user
    #[arg(long, value_name = "USER", requires = "tenant")]
    user: Option<String>,
    /// Only letters of this time or later: a time as in RFC 3339, or a span before now as in `2h` or `14d`
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only letters before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// The largest number of letters
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continues after the page that ended with this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor<Place>>,
    /// Answer in JSON, one line each; the last line has the cursor, if another page follows
    #[arg(long)]
    json: bool,
}

/// Prints the page.
///
/// # Errors
/// The store does not answer.
pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { source, tenant, digest_type, user, since, until, limit, after, json: as_json } = options;
    let of = EventsOf { tenant, digest_type, user };
    let filter = Filter::new(source, of, [since, until], Page { limit, after });
    let store = storage::open(&config.database_url).await?;
    let listed = list(&*store, &filter).await?;
    let is_all = source.is_none() && filter.webhooks && listed.next.is_none() && !as_json;
    page::print(listed, as_json, |row| if as_json { json!(row).to_string() } else { in_words(row) });
    if is_all {
        let subscriptions = store.subscriptions(COUNTED).await?;
        subscriptions.iter().filter_map(undelivered).for_each(|line| anstream::eprintln!("{line}"));
    }
    Ok(true)
}

/// The line about the dead letters of a subscription, which are listed and delivered by name.
fn undelivered(SubscriptionState { name, dead_letters, .. }: &SubscriptionState) -> Option<String> {
    let notices = counted(*dead_letters, "notice");
    let (see, replay) = ("tidings subscriptions dead-letters", "tidings subscriptions replay");
    let line =
        format!("not delivered to {name}: {notices}; see {see} {name}, then {replay} {name} --since 2d --dead-letters");
    (*dead_letters > 0).then_some(line)
}

fn in_words(letter: &Letter) -> String {
    let (id, to, at, reason, emitted) = match letter {
        Letter::Events(letter) => {
            let DeadLetterRecord { id, buried_at, reason, emitted, .. } = letter;
            (id.to_string(), letter.receiver(), *buried_at, reason, emitted)
        }
        Letter::Webhook(WebhookLetterRecord { id, relay, buried_at, reason, emitted, .. }) => {
            (id.to_string(), format!("webhook of {relay}"), *buried_at, reason, emitted)
        }
    };
    let emitted = emitted.as_ref().map(|Emitted { at, by }| format!(", emitted by {by} at {}", local(*at)));
    format!("{id}  {}  {to}  {reason}{}", local(at), emitted.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_notices_are_named_with_their_remedy() {
        let state = |dead_letters| SubscriptionState { name: "crm".into(), dead_letters, ..Default::default() };
        assert_eq!(undelivered(&state(0)), None);
        let line = "not delivered to crm: 1 notice; see tidings subscriptions dead-letters crm, \
                    then tidings subscriptions replay crm --since 2d --dead-letters";
        assert_eq!(undelivered(&state(1)).as_deref(), Some(line));
    }

    #[test]
    fn a_line_has_the_key_the_reason_and_the_emission() {
        let mut letter = DeadLetterRecord {
            id: "0192f0c1.7".parse().unwrap(),
            workflow_id: "digest/acme/activity/ann".to_owned(),
            buried_at: Timestamp::UNIX_EPOCH,
            reason: "is not JSON".to_owned(),
            encoding: "json/plain".to_owned(),
            message_type: None,
            size: 1,
            sha256: String::new(),
            emitted: None,
        };
        let line = in_words(&Letter::Events(letter.clone()));
        assert!(line.starts_with("0192f0c1.7  ") && line.ends_with("  acme/activity/ann  is not JSON"), "{line}");
        letter.workflow_id = "order\u{1b}[2J".to_owned();
        letter.emitted = Some(Emitted { at: Timestamp::UNIX_EPOCH, by: "carol".to_owned() });
        let line = in_words(&Letter::Events(letter));
        assert!(line.contains("  \"order\\u{1b}[2J\"  is not JSON, emitted by carol at "), "{line}");
    }
}
