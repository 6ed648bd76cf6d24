//! The inbox of the gateway, as `[inbox]` sets its limits.

use serde::Deserialize;
use tidings_model::{inbox::Limits, words};
use toml::Spanned;

use super::problem::Checks;

const MEBIBYTE: u64 = 1 << 20;

/// The keys of `[inbox]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInbox {
    keep: Option<Spanned<String>>,
    max_age: Option<Spanned<String>>,
    max_mebibytes: Option<Spanned<i64>>,
}

impl RawInbox {
    pub fn check(&self, checks: &mut Checks<'_>) -> Limits {
        let default = Limits::default();
        let keep = checks.value("inbox.keep", self.keep.as_ref(), words::duration);
        let age = checks.value("inbox.max_age", self.max_age.as_ref(), words::duration);
        let mebibytes = checks.count("inbox.max_mebibytes", self.max_mebibytes.as_ref());
        Limits {
            bytes: mebibytes.map_or(default.bytes, |count| u64::from(count) * MEBIBYTE),
            age: age.unwrap_or(default.age),
            keep: keep.unwrap_or(default.keep),
        }
    }
}
