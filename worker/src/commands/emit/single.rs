//! One event from its fields on the command line.

use serde_json::Value;
use tidings_proto::v1;
use uuid::Uuid;

use super::lines::Key;

/// The fields of the event.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "One event, instead of a file")]
pub(super) struct Fields {
    /// The category of the event, which happens now
    #[arg(long, requires_all = ["tenant", "user", "digest"])]
    category: Option<String>,
    /// The title that the message shows
    #[arg(long, requires = "category")]
    title: Option<String>,
    /// The link that the message shows
    #[arg(long, requires = "category")]
    url: Option<String>,
    /// Its idempotency key [default: a random UUID]
    #[arg(long, requires = "category")]
    event_id: Option<String>,
}

impl Fields {
    /// The event, if one is described.
    pub fn to_event(&self, key: &Key) -> Option<v1::Event> {
        let shown = [("title", &self.title), ("url", &self.url)];
        let field = |(name, value): (&str, &Option<String>)| Some((name.to_owned(), Value::String(value.clone()?)));
        let mut event = v1::Event {
            event_id: self.event_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string()),
            category: self.category.clone()?,
            occurred_at: Some(jiff::Timestamp::now().into()),
            payload: Some(shown.into_iter().filter_map(field).collect()),
            ..v1::Event::default()
        };
        key.complete(&mut event);
        Some(event)
    }
}
