//! Link targets in messages: the gateway's pages, or a team's own.

use std::{fmt, str::FromStr};

use percent_encoding::utf8_percent_encode;

use crate::{UnsubscribeLink, key::ESCAPED};

/// Maximum length of a URL in a header. Its line must stay below the 998 octets of RFC 5322.
pub(super) const HEADER_CHARS: usize = 900;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipientPages {
    pub public_url: Option<String>,
    pub unsubscribe: Option<PageUrl>,
    pub preferences: Option<PageUrl>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageUrl(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{{{0}}} is not a placeholder; use {{tenant}}, {{digest_type}}, {{user}} and {{token}}")]
pub struct UnknownPlaceholder(String);

#[derive(Clone, Default, PartialEq, Eq)]
pub struct RecipientLinks {
    /// Also accepts one-click POST requests (RFC 8058).
    pub unsubscribe_url: Option<String>,
    /// A `mailto:` URI, because some clients do not POST.
    pub unsubscribe_mailto: Option<String>,
    pub preferences_url: Option<String>,
    pub view_url: Option<String>,
}

impl PageUrl {
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.0.contains("{token}")
    }

    /// Values are percent-encoded, so they cannot add another placeholder.
    pub(super) fn fill_placeholders(&self, link: &UnsubscribeLink, user: &str, token: &str) -> String {
        let digest_type = match link {
            UnsubscribeLink::Unsubscribe { key, .. } => &key.digest_type,
            UnsubscribeLink::Suppress { .. } => "",
        };
        let values =
            [("{tenant}", link.tenant()), ("{digest_type}", digest_type), ("{user}", user), ("{token}", token)];
        values.into_iter().fold(self.0.clone(), |url, (placeholder, value)| {
            url.replace(placeholder, &utf8_percent_encode(value, ESCAPED).to_string())
        })
    }
}

impl FromStr for PageUrl {
    type Err = UnknownPlaceholder;

    fn from_str(text: &str) -> Result<Self, UnknownPlaceholder> {
        for rest in text.split('{').skip(1) {
            let name = rest.split('}').next().unwrap_or_default();
            if !rest.contains('}') || !["tenant", "digest_type", "user", "token"].contains(&name) {
                return Err(UnknownPlaceholder(name.to_owned()));
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        Key, PreferencesLink, ViewLink,
        link_keys::{EmailToken, TokenPurpose},
        settings::{DeliveryStreams, ReturnPath, SenderIdentity, Settings, StreamName, StreamSettings},
    };

    const TOKEN: &str = "AWZ1ASNFZ4mrXe-BI0VniavN72FjbWUAYWN0aXZpdHkAYW5upA2-PMHof7wlTdNx2M2PeA";

    fn link(tenant: &str, user: &str) -> UnsubscribeLink {
        let key = Key { tenant: tenant.into(), digest_type: "activity".into(), user: user.into() };
        UnsubscribeLink::Unsubscribe { key, message: Uuid::from_u128(7), generation: 0 }
    }

    #[test]
    fn values_are_encoded_and_fill_no_other_placeholder() {
        let page: PageUrl = "https://app.example/{tenant}/{digest_type}?u={user}&t={token}".parse().unwrap();
        let filled = page.fill_placeholders(&link("a&b={token}", "ü/?#"), "ü/?#", TOKEN);
        assert_eq!(filled, format!("https://app.example/a%26b%3D%7Btoken%7D/activity?u=%C3%BC%2F%3F%23&t={TOKEN}"));
    }

    #[test]
    fn an_unknown_placeholder_is_named() {
        for wrong in ["https://a.example/{id}", "https://a.example/{token", "https://a.example/{}"] {
            let error = wrong.parse::<PageUrl>().unwrap_err().to_string();
            assert!(error.contains("is not a placeholder; use {tenant}, {digest_type}, {user} and {token}"), "{error}");
        }
        assert!("https://a.example/{token}/{token}".parse::<PageUrl>().unwrap().has_token());
    }

    fn settings(pages: RecipientPages, return_path: bool) -> Settings {
        let sender = SenderIdentity {
            name: String::new(),
            address: "a@b.example".parse().unwrap(),
            reply_to: None,
            domain: "b.example".into(),
        };
        let (local, domain) = ("bounce".to_owned(), "mail.b.example".to_owned());
        let return_path = return_path.then_some(ReturnPath { local, domain });
        let stream = StreamSettings { return_path, ..StreamSettings::new(&[], sender) };
        Settings {
            pages,
            link_keys: Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap()),
            ..Settings::new(DeliveryStreams { bulk: stream.clone(), transactional: stream })
        }
    }

    fn links(settings: &Settings, link: &UnsubscribeLink) -> RecipientLinks {
        let links = settings.recipient_links(link, "ann", StreamName::Bulk);
        assert!(links == settings.recipient_links(link, "ann", StreamName::Bulk), "the same each time");
        links
    }

    #[test]
    fn a_message_has_links_where_there_are_keys_and_a_page() {
        let public_url = Some("https://mail.example".to_owned());
        let ours = settings(RecipientPages { public_url, ..RecipientPages::default() }, false);
        let ann = link("acme", "ann");
        let url = links(&ours, &ann).unsubscribe_url.unwrap();
        let token = url.strip_prefix("https://mail.example/u/").unwrap();
        assert!(UnsubscribeLink::from_token(ours.link_keys.as_ref().unwrap(), token) == Some(ann.clone()));
        assert_eq!(links(&ours, &ann).unsubscribe_mailto, None);
        let keys = ours.link_keys.as_ref().unwrap();
        let url = links(&ours, &ann).preferences_url.unwrap();
        let page = PreferencesLink::from_token(keys, url.strip_prefix("https://mail.example/p/").unwrap()).unwrap();
        assert!(page.key.user == "ann" && page.message == ann.message());
        let url = links(&ours, &ann).view_url.unwrap();
        let view = ViewLink::from_token(keys, url.strip_prefix("https://mail.example/v/").unwrap()).unwrap();
        assert!(view.tenant == "acme" && view.message == ann.message());
        let unsigned = Settings { link_keys: None, ..ours };
        assert!(links(&unsigned, &ann) == RecipientLinks::default());
        assert!(links(&settings(RecipientPages::default(), true), &ann) == RecipientLinks::default());
    }

    #[test]
    fn a_return_path_takes_unsubscriptions_by_mail() {
        let public_url = Some("https://mail.example".to_owned());
        let settings = settings(RecipientPages { public_url, ..RecipientPages::default() }, true);
        let mailto = links(&settings, &link("acme", "ann")).unsubscribe_mailto.unwrap();
        let token = EmailToken::find_tokens(&mailto).next().unwrap();
        let verifies = |purpose| settings.link_keys.as_ref().unwrap().verify(purpose, "acme", &token);
        assert!(
            mailto.starts_with("mailto:bounce+") && mailto.ends_with("@mail.b.example?subject=unsubscribe"),
            "{mailto}"
        );
        assert!(verifies(TokenPurpose::Leave) && !verifies(TokenPurpose::Report));
    }

    #[test]
    fn pages_of_ones_own_replace_the_gateways() {
        let pages = RecipientPages {
            public_url: Some("https://mail.example".into()),
            unsubscribe: Some("https://app.example/u/{digest_type}?t={token}".parse().unwrap()),
            preferences: Some("https://app.example/{user}".parse().unwrap()),
        };
        let settings = settings(pages, false);
        let digest = links(&settings, &link("acme", "ann"));
        assert!(digest.unsubscribe_url.unwrap().starts_with("https://app.example/u/activity?t=AWZ1"));
        assert_eq!(digest.preferences_url.as_deref(), Some("https://app.example/ann"));
        let single =
            UnsubscribeLink::Suppress { tenant: "acme".into(), address: "a@b.example".into(), message: Uuid::nil() };
        let single = links(&settings, &single);
        assert!(single.unsubscribe_url.unwrap().starts_with("https://app.example/u/?t=AWZz"));
        assert_eq!(single.preferences_url, None);
    }
}
