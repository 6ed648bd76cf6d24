//! The retention periods in `tidings config check`.

use std::path::Path;

use serde::Serialize;
use tidings_store::archive::Archive;

use crate::config;

#[derive(Serialize)]
pub(super) struct RetentionView<'a> {
    events: String,
    messages: String,
    delivery_events: String,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<&'a Path>,
}

impl<'a> RetentionView<'a> {
    pub fn new(retention: &'a config::Retention) -> Self {
        let settings = &retention.settings;
        Self {
            events: config::age_text(settings.events),
            messages: config::age_text(settings.messages),
            delivery_events: config::age_text(settings.delivery_events),
            at: retention.at.strftime("%H:%M").to_string(),
            archive: settings.archive.as_ref().map(Archive::folder),
        }
    }
}
