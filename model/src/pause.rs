//! Pauses (rule 35): an operator stops a tenant, a digest type or both. Events are still collected.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Key;

/// Includes future keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PauseScope))]
pub struct PauseScope {
    /// Missing for every tenant.
    pub tenant: Option<String>,
    /// Missing for every digest type.
    pub digest_type: Option<String>,
}

/// A pause as shown to an affected key or message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PauseDetails {
    /// Empty, as is `why`, if the reader should not see the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Time of the operator's command.
    pub since: Timestamp,
    /// Missing if only a resume ends the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A pause in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pause {
    pub id: Uuid,
    #[serde(flatten)]
    pub scope: PauseScope,
    /// `true` if the tenant's single messages are paused, too.
    pub messages: bool,
    #[serde(flatten)]
    pub paused: PauseDetails,
    /// Missing if no operator ended the pause. Its time may still be up.
    pub ended: Option<PauseEnd>,
}

/// The end of a pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PauseEnd {
    pub at: Timestamp,
    /// `tidings` if the pause ended by itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl PauseScope {
    #[must_use]
    pub fn covers_key(&self, key: &Key) -> bool {
        self.covers_tenant(&key.tenant) && self.digest_type.as_ref().is_none_or(|of| *of == key.digest_type)
    }

    /// For pauses which include single messages.
    #[must_use]
    pub fn covers_tenant(&self, tenant: &str) -> bool {
        self.tenant.as_ref().is_none_or(|of| of == tenant)
    }

    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        meet(&self.tenant, &other.tenant) && meet(&self.digest_type, &other.digest_type)
    }
}

impl Pause {
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.ended.is_none() && self.paused.in_force(now)
    }

    /// Keeps the times.
    pub fn forget_operator(&mut self) {
        self.paused.forget_operator();
        if let Some(ended) = &mut self.ended {
            ended.by.clear();
            ended.why.clear();
        }
    }
}

impl PauseDetails {
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }

    pub fn forget_operator(&mut self) {
        self.by.clear();
        self.why.clear();
    }
}

impl fmt::Display for PauseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |name: &str, value: &Option<String>| Some(format!("{name}={}", quote_value(value.as_ref()?)));
        let words: Vec<_> =
            [word("tenant", &self.tenant), word("digest_type", &self.digest_type)].into_iter().flatten().collect();
        f.write_str(&if words.is_empty() { "all".to_owned() } else { words.join(" and ") })
    }
}

impl fmt::Display for PauseDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, why, since, until } = self;
        let is_known = !by.is_empty();
        if is_known { write!(f, "paused by {by} since {since:.0}") } else { write!(f, "paused since {since:.0}") }?;
        if let Some(until) = until {
            write!(f, " until {until:.0}")?;
        }
        if is_known { write!(f, ": {why}") } else { Ok(()) }
    }
}

fn quote_value(value: &str) -> String {
    let plain = !value.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    match value.contains('\'') {
        _ if plain => value.to_owned(),
        true => format!("\"{value}\""),
        false => format!("'{value}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(tenant: &str, digest_type: &str) -> PauseScope {
        let part = |part: &str| Some(part.to_owned()).filter(|part| !part.is_empty());
        PauseScope { tenant: part(tenant), digest_type: part(digest_type) }
    }

    #[test]
    fn a_scope_covers_its_tenant_and_type_and_nothing_else() {
        let key: Key = "acme/alerts/ann".parse().unwrap();
        for (tenant, digest_type, covers, words) in [
            ("", "", true, "all"),
            ("acme", "", true, "tenant=acme"),
            ("", "alerts", true, "digest_type=alerts"),
            ("acme", "alerts", true, "tenant=acme and digest_type=alerts"),
            ("acm", "", false, "tenant=acm"),
            ("acme", "activity", false, "tenant=acme and digest_type=activity"),
            ("big corp", "it's", false, "tenant='big corp' and digest_type=\"it's\""),
        ] {
            let scope = scope(tenant, digest_type);
            assert_eq!((scope.covers_key(&key), scope.to_string().as_str()), (covers, words));
        }
    }

    #[test]
    fn scopes_overlap_where_one_key_can_be_in_both() {
        let acme = scope("acme", "");
        for (other, overlaps) in [
            (scope("acme", "alerts"), true),
            (scope("", "alerts"), true),
            (scope("", ""), true),
            (scope("zeta", "alerts"), false),
        ] {
            assert_eq!((acme.overlaps(&other), other.overlaps(&acme)), (overlaps, overlaps), "{other}");
        }
        assert!(!scope("acme", "activity").overlaps(&scope("", "alerts")));
    }

    #[test]
    fn a_pause_is_over_at_its_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let paused = PauseDetails { by: "ann".into(), why: "wrong prices".into(), since: at(0), until: Some(at(60)) };
        assert_eq!((paused.in_force(at(59)), paused.in_force(at(60))), (true, false));
        let words = "paused by ann since 1970-01-01T00:00:00Z until 1970-01-01T00:01:00Z: wrong prices";
        assert_eq!(paused.to_string(), words);
        assert!(PauseDetails { until: None, ..paused }.in_force(Timestamp::MAX));
    }
}
