//! Links to pages. A token for one page does not open another, and an unsubscribe token opens none (rule 42).

use url::Url;
use uuid::Uuid;

use crate::{
    Key,
    limits::check_id,
    link::{signed_bytes, signed_person_bytes, signed_token, verified_person_token, verified_token},
    link_keys::{LinkKeys, TokenPurpose},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferencesLink {
    /// Also has the digest type of this message.
    pub key: Key,
    /// Contains the link.
    pub message: Uuid,
    /// Identifies who had the id ([`KeyFacts::generation`](crate::records::KeyFacts::generation)).
    pub generation: u64,
}

/// Leads to the page for pinning the digest type's cadence, if the recipient's was adapted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsBeforeLink {
    pub key: Key,
    pub message: Uuid,
    /// See [`PreferencesLink::generation`].
    pub generation: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewLink {
    pub tenant: String,
    pub message: Uuid,
}

impl PreferencesLink {
    /// In base64url; `None` without a signing key.
    #[must_use]
    pub fn token(&self, keys: &LinkKeys) -> Option<String> {
        signed_token(keys, TokenPurpose::Preferences, &signed_person_bytes(&self.key, self.message, self.generation))
    }

    /// `None` unless one of the keys signed this token for this page.
    #[must_use]
    pub fn from_token(keys: &LinkKeys, token: &str) -> Option<Self> {
        let (key, message, generation) = verified_person_token(keys, TokenPurpose::Preferences, token)?;
        Some(Self { key, message, generation })
    }
}

impl AsBeforeLink {
    /// In base64url; `None` without a signing key.
    #[must_use]
    pub fn token(&self, keys: &LinkKeys) -> Option<String> {
        signed_token(keys, TokenPurpose::AsBefore, &signed_person_bytes(&self.key, self.message, self.generation))
    }

    /// `None` unless one of the keys signed this token for this page.
    #[must_use]
    pub fn from_token(keys: &LinkKeys, token: &str) -> Option<Self> {
        let (key, message, generation) = verified_person_token(keys, TokenPurpose::AsBefore, token)?;
        Some(Self { key, message, generation })
    }
}

impl ViewLink {
    /// In base64url; `None` without a signing key.
    #[must_use]
    pub fn token(&self, keys: &LinkKeys) -> Option<String> {
        signed_token(keys, TokenPurpose::View, &signed_bytes(self.message, &[&self.tenant]))
    }

    /// `None` unless one of the keys signed this token for this page.
    #[must_use]
    pub fn from_token(keys: &LinkKeys, token: &str) -> Option<Self> {
        let (message, [tenant]) = verified_token(keys, TokenPurpose::View, token)?;
        check_id("tenant", &tenant).ok()?;
        Some(Self { tenant, message })
    }
}

// The click target is part of the signed token, so we never redirect to an address Tidings did not sign, and
// need no database (rule 44).

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLink {
    pub tenant: String,
    pub message: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickLink {
    pub tenant: String,
    pub message: Uuid,
    /// HTTP or HTTPS, up to 2,000 characters.
    pub target: String,
}

/// Targets in messages are shorter, because of [`COUNTED_LINK_CHARS`](crate::limits::COUNTED_LINK_CHARS).
pub const TARGET_CHARS: usize = 2_000;

impl OpenLink {
    /// In base64url; `None` without a signing key.
    #[must_use]
    pub fn token(&self, keys: &LinkKeys) -> Option<String> {
        signed_token(keys, TokenPurpose::Open, &signed_bytes(self.message, &[&self.tenant]))
    }

    /// `None` unless one of the keys signed this token for an image.
    #[must_use]
    pub fn from_token(keys: &LinkKeys, token: &str) -> Option<Self> {
        let (message, [tenant]) = verified_token(keys, TokenPurpose::Open, token)?;
        check_id("tenant", &tenant).ok()?;
        Some(Self { tenant, message })
    }
}

impl ClickLink {
    /// In base64url; `None` without a signing key or if the target cannot be counted.
    #[must_use]
    pub fn token(&self, keys: &LinkKeys) -> Option<String> {
        if !is_countable(&self.target) {
            return None;
        }
        signed_token(keys, TokenPurpose::Click, &signed_bytes(self.message, &[&self.tenant, &self.target]))
    }

    /// `None` unless one of the keys signed this token for a click.
    #[must_use]
    pub fn from_token(keys: &LinkKeys, token: &str) -> Option<Self> {
        let (message, [tenant, target]) = verified_token(keys, TokenPurpose::Click, token)?;
        check_id("tenant", &tenant).ok()?;
        is_countable(&target).then_some(Self { tenant, message, target })
    }
}

/// Only HTTP and HTTPS URLs in ASCII. Other links are not changed.
#[must_use]
pub fn is_countable(target: &str) -> bool {
    let is_plain = target.len() <= TARGET_CHARS && target.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain && Url::parse(target).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    use super::*;
    use crate::UnsubscribeLink;

    const OLD: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const NEW: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

    fn keys(text: &str) -> LinkKeys {
        text.parse().unwrap()
    }

    fn ann() -> Key {
        Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()
    }

    fn preferences() -> PreferencesLink {
        PreferencesLink { key: ann(), message: Uuid::from_u128(7), generation: 0 }
    }

    fn view() -> ViewLink {
        ViewLink { tenant: "acme".into(), message: Uuid::from_u128(7) }
    }

    #[test]
    fn a_token_opens_only_the_page_it_was_signed_for() {
        let keys = keys(OLD);
        let unsubscribe = UnsubscribeLink::Unsubscribe { key: ann(), message: Uuid::from_u128(7), generation: 0 }
            .token(&keys)
            .unwrap();
        let (preferences, view) = (preferences().token(&keys).unwrap(), view().token(&keys).unwrap());
        let as_before = AsBeforeLink { key: ann(), message: Uuid::from_u128(7), generation: 0 }.token(&keys).unwrap();
        for (opens, token) in [&unsubscribe, &preferences, &view, &as_before].into_iter().enumerate() {
            let read = [
                UnsubscribeLink::from_token(&keys, token).is_some(),
                PreferencesLink::from_token(&keys, token).is_some(),
                ViewLink::from_token(&keys, token).is_some(),
                AsBeforeLink::from_token(&keys, token).is_some(),
            ];
            assert_eq!(read, [0, 1, 2, 3].map(|page| page == opens));
        }
    }

    #[test]
    fn a_token_names_the_person_who_had_the_id() {
        let keys = keys(OLD);
        let next = PreferencesLink { generation: 3, ..preferences() };
        assert_ne!(next.token(&keys), preferences().token(&keys));
        assert_eq!(PreferencesLink::from_token(&keys, &next.token(&keys).unwrap()), Some(next));
        let next = AsBeforeLink { key: ann(), message: Uuid::from_u128(7), generation: 3 };
        assert_eq!(AsBeforeLink::from_token(&keys, &next.token(&keys).unwrap()), Some(next));
    }

    #[test]
    fn every_key_verifies_and_another_does_not() {
        let both = keys(&format!("{NEW} {OLD}"));
        let (old, new) = (preferences().token(&keys(OLD)).unwrap(), preferences().token(&both).unwrap());
        for token in [&old, &new] {
            assert_eq!(PreferencesLink::from_token(&both, token), Some(preferences()));
        }
        assert_eq!(PreferencesLink::from_token(&keys(NEW), &old), None);
        assert_eq!(ViewLink::from_token(&keys(NEW), &view().token(&both).unwrap()), Some(view()));
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_refused() {
        let keys = keys(OLD);
        let token = preferences().token(&keys).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PreferencesLink::from_token(&keys, &URL_SAFE_NO_PAD.encode(changed)), None, "bit {bit}");
        }
        for cut in 0..token.len() {
            assert_eq!(PreferencesLink::from_token(&keys, &token[..cut]), None, "cut {cut}");
        }
    }
    const MESSAGE: Uuid = Uuid::from_u128(7);

    fn click(target: &str) -> ClickLink {
        ClickLink { tenant: "acme".into(), message: MESSAGE, target: target.into() }
    }

    fn open() -> OpenLink {
        OpenLink { tenant: "acme".into(), message: MESSAGE }
    }

    #[test]
    fn a_token_counts_only_what_it_was_signed_for() {
        let keys = keys(OLD);
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        let others = [
            UnsubscribeLink::Unsubscribe { key: key.clone(), message: MESSAGE, generation: 0 }.token(&keys).unwrap(),
            PreferencesLink { key, message: MESSAGE, generation: 0 }.token(&keys).unwrap(),
            ViewLink { tenant: "acme".into(), message: MESSAGE }.token(&keys).unwrap(),
        ];
        let (opens, clicks) = (open().token(&keys).unwrap(), click("https://a.example/").token(&keys).unwrap());
        assert_eq!(OpenLink::from_token(&keys, &opens), Some(open()));
        assert_eq!(ClickLink::from_token(&keys, &clicks), Some(click("https://a.example/")));
        for token in others.iter().chain([&clicks]) {
            assert_eq!(OpenLink::from_token(&keys, token), None);
        }
        for token in others.iter().chain([&opens]) {
            assert_eq!(ClickLink::from_token(&keys, token), None);
        }
        for token in [&opens, &clicks] {
            assert!(UnsubscribeLink::from_token(&keys, token).is_none());
            assert_eq!((PreferencesLink::from_token(&keys, token), ViewLink::from_token(&keys, token)), (None, None));
        }
    }

    #[test]
    fn only_web_addresses_are_counted() {
        let longest = format!("https://a.example/{}", "x".repeat(TARGET_CHARS - 18));
        for target in ["http://a.example", "https://a.example/?a=b&c=%20#d", &longest] {
            assert_eq!(
                ClickLink::from_token(&keys(OLD), &click(target).token(&keys(OLD)).unwrap()),
                Some(click(target))
            );
        }
        for target in [
            "mailto:a@b.example",
            "javascript:x",
            "#top",
            "/page",
            "",
            "https://a.example/\r\nx",
            "https://ü.example/",
            &format!("{longest}x"),
        ] {
            assert_eq!(click(target).token(&keys(OLD)), None, "{target:?}");
        }
    }

    #[test]
    fn another_key_reads_no_target() {
        let token = click("https://a.example/").token(&keys(OLD)).unwrap();
        assert_eq!(ClickLink::from_token(&keys(NEW), &token), None);
        assert!(ClickLink::from_token(&keys(&format!("{NEW} {OLD}")), &token).is_some());
    }

    proptest! {
        #[test]
        fn a_changed_character_leads_nowhere(path in "[a-z0-9/?&=%]{0,40}", at: usize, to in "[A-Za-z0-9_-]") {
            let link = click(&format!("https://a.example/{path}"));
            let token = link.token(&keys(OLD)).unwrap();
            let at = at % token.len();
            let changed = format!("{}{to}{}", &token[..at], &token[at + 1..]);
            let read = ClickLink::from_token(&keys(OLD), &changed);
            let expected = (changed == token).then_some(link);
            prop_assert_eq!(read, expected);
        }
    }
}
