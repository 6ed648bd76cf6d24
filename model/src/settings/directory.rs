//! The address of a team's own directory of recipients.

use std::str::FromStr;

use percent_encoding::utf8_percent_encode;

use super::ServiceUrl;
use crate::{PersonId, key::ESCAPED};

const TENANT: &str = "{tenant}";
const USER: &str = "{user}";
const RIGHT: &str = "write for example \"https://app.example.com/recipients/{tenant}/{user}\"";

/// An address with `{tenant}` and `{user}` in its path or its query: https, or http on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryUrl {
    service: ServiceUrl,
    /// Path and query, with placeholders.
    target: String,
}

impl DirectoryUrl {
    /// The service behind the address. Its path and query are those of an example.
    #[must_use]
    pub const fn service(&self) -> &ServiceUrl {
        &self.service
    }

    /// Path and query of the question about a person, with each id percent-encoded. `None`: an id would be `.` or `..` in the path, which
    /// servers take for another path.
    #[must_use]
    pub fn target(&self, person: &PersonId) -> Option<String> {
        let path = self.target.split('?').next().unwrap_or_default();
        let mut target = self.target.clone();
        for (placeholder, id) in [(TENANT, &person.tenant), (USER, &person.user)] {
            let climbs = id.split(['/', '\\']).any(|part| part == "." || part == "..");
            if climbs && path.contains(placeholder) {
                return None;
            }
            target = target.replace(placeholder, &utf8_percent_encode(id, ESCAPED).to_string());
        }
        Some(target)
    }
}

/// The address with its placeholders.
impl std::fmt::Display for DirectoryUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", &self.service.url()[..url::Position::BeforePath], self.target)
    }
}

impl FromStr for DirectoryUrl {
    type Err = String;

    /// # Errors
    /// Says what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let example = |id: &str| text.replace(TENANT, id).replace(USER, id);
        if !text.contains(TENANT) || !text.contains(USER) {
            return Err(format!("needs {{tenant}} and {{user}}, the ids of the person; {RIGHT}"));
        }
        if example("").contains(['{', '}']) {
            return Err(format!("has another placeholder than {{tenant}} and {{user}}; {RIGHT}"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("has a character that must be percent-encoded; {RIGHT}"));
        }
        let service = ServiceUrl::read(&example("a"), RIGHT)?;
        let host = |service: &ServiceUrl| service.url()[..url::Position::BeforePath].to_owned();
        if ServiceUrl::read(&example("b"), RIGHT).is_ok_and(|other| host(&other) != host(&service)) {
            return Err(format!("has a placeholder in its host; {RIGHT}"));
        }
        let after_scheme = text.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
        let target = match after_scheme.find(['/', '?']) {
            Some(at) if after_scheme[at..].starts_with('/') => after_scheme[at..].to_owned(),
            Some(at) => format!("/{}", &after_scheme[at..]),
            None => return Err(format!("has no path; {RIGHT}")),
        };
        Ok(Self { service, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, tenant: &str, user: &str) -> Option<String> {
        url.parse::<DirectoryUrl>().unwrap().target(&PersonId { tenant: tenant.into(), user: user.into() })
    }

    #[test]
    fn ids_stay_within_their_part_of_the_address() {
        let path = "https://app.example.com/recipients/{tenant}/{user}";
        let query = "http://localhost:8080?of={tenant}&id={user}&v=1";
        for (url, user, asked) in [
            (path, "ann", Some("/recipients/acme/ann")),
            (path, "a/b?c#d e", Some("/recipients/acme/a%2Fb%3Fc%23d%20e")),
            (path, "{tenant}", Some("/recipients/acme/%7Btenant%7D")),
            (path, "a..b", Some("/recipients/acme/a..b")),
            (path, "..", None),
            (path, "../bo", None),
            (path, "x\\..", None),
            (query, "..", Some("/?of=acme&id=..&v=1")),
            (query, "a&id=bo", Some("/?of=acme&id=a%26id%3Dbo&v=1")),
        ] {
            assert_eq!(target(url, "acme", user).as_deref(), asked, "{url} {user}");
        }
        assert_eq!(path.parse::<DirectoryUrl>().unwrap().to_string(), path);
    }

    #[test]
    fn an_address_has_both_ids_and_a_host_of_its_own() {
        for (url, problem) in [
            ("https://app.example.com/recipients", "needs {tenant} and {user}"),
            ("https://app.example.com/{tenant}", "needs {tenant} and {user}"),
            ("https://{tenant}.example.com/{user}", "has a placeholder in its host"),
            ("https://app.example.com/{tenant}/{user}/{zone}", "has another placeholder"),
            ("https://app.example.com/{tenant}/{user}/ä", "has a character"),
            ("https://app.example.com/{tenant}#{user}", "has a #"),
            ("http://app.example.com/{tenant}/{user}", "has http, which only this machine may have"),
            ("https://u:p@app.example.com/{tenant}/{user}", "has a password"),
            ("{tenant}/{user}", "is not a URL"),
        ] {
            let said = url.parse::<DirectoryUrl>().unwrap_err();
            assert!(said.starts_with(problem), "{url}: {said}");
        }
    }
}
