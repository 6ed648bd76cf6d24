//! The service that knows which events were seen, as `tidings config check` shows it.

use serde::Serialize;
use tidings_model::settings::SeenService;

/// The keys of a digest type.
#[derive(Serialize)]
pub(super) struct SeenView<'a> {
    seen_url: &'a str,
    seen_secret_env: &'a str,
}

impl<'a> SeenView<'a> {
    pub fn new(service: &'a SeenService) -> Self {
        Self { seen_url: service.url.url().as_str(), seen_secret_env: &service.secret_env }
    }
}
