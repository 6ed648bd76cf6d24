//! The keys of the file that settings come from.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::Spanned;

use super::problem::Checks;

/// The key that a setting in force comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The key with its table.
    pub key: String,
    /// `tidings.toml:12`.
    pub place: String,
}

/// The origins of settings, by name. A setting without one is a default.
pub type Origins = BTreeMap<String, Origin>;

impl Origin {
    /// The origin of the value `raw` of `key`.
    pub(super) fn new<T>(key: &str, raw: &Spanned<T>, checks: &Checks<'_>) -> Self {
        Self { key: key.to_owned(), place: checks.place_of(raw) }
    }
}
