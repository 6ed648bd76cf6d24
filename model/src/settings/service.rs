//! HTTP services run by a team, and the URL of their recipient directory.

use std::str::FromStr;

use percent_encoding::utf8_percent_encode;
use url::Url;

use crate::{PersonId, host_name::is_loopback, key::ESCAPED, webhook_secret::SigningSecret};

#[derive(Clone, Debug)]
pub struct SeenService {
    pub url: ServiceUrl,
    /// `None` if missing from the environment; this configuration cannot send.
    pub secret: Option<SigningSecret>,
    pub secret_env: String,
}

/// An https URL; http is only allowed on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl(Url);

impl ServiceUrl {
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.0
    }

    /// Never empty; IPv6 addresses have no brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Otherwise the host is this machine.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }
}

impl ServiceUrl {
    /// # Errors
    /// Describes the problem, followed by `right`.
    pub fn parse_url(text: &str, right: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
        match url.scheme() {
            "https" => {}
            // Only loopback addresses and `localhost`, because any other name may resolve to another machine
            // at the time of the request.
            "http" if url.host_str().is_some_and(is_loopback) => {}
            "http" => return Err(format!("has http, which only this machine may have; {right}")),
            other => return Err(format!("{other:?} is not https; {right}")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("has a password, but a signature proves who asks; {right}"));
        }
        if url.fragment().is_some() {
            return Err(format!("has a #, which no server gets; {right}"));
        }
        Ok(Self(url))
    }
}

impl FromStr for ServiceUrl {
    type Err = String;

    /// # Errors
    /// Describes the problem, with an example.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse_url(text, "write for example \"https://app.example.com/tidings/seen\"")
    }
}

const TENANT: &str = "{tenant}";
const USER: &str = "{user}";
const RIGHT: &str = "write for example \"https://app.example.com/recipients/{tenant}/{user}\"";

/// A URL with `{tenant}` and `{user}` in its path or query. Must be https; http is only allowed on this
/// machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryUrl {
    service: ServiceUrl,
    target: String,
}

impl DirectoryUrl {
    #[must_use]
    pub const fn service(&self) -> &ServiceUrl {
        &self.service
    }

    /// `None` if an id would put `.` or `..` into the path, which servers would resolve.
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

impl std::fmt::Display for DirectoryUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", &self.service.url()[..url::Position::BeforePath], self.target)
    }
}

impl FromStr for DirectoryUrl {
    type Err = String;

    /// # Errors
    /// Describes the problem, with an example.
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
        let service = ServiceUrl::parse_url(&example("a"), RIGHT)?;
        let host = |service: &ServiceUrl| service.url()[..url::Position::BeforePath].to_owned();
        if ServiceUrl::parse_url(&example("b"), RIGHT).is_ok_and(|other| host(&other) != host(&service)) {
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

    #[test]
    fn only_https_and_this_machine_are_asked() {
        for (text, problem) in [
            ("https://app.example.com/seen?x=1", ""),
            ("http://localhost:8080/seen", ""),
            ("http://127.1.2.3/", ""),
            ("http://[::1]:80/seen", ""),
            ("http://app.example.com/seen", "has http, which only this machine may have"),
            ("http://localhost.example.com/", "has http"),
            ("http://169.254.169.254/", "has http"),
            ("http://[::ffff:127.0.0.1]/", "has http"),
            ("ftp://localhost/", "\"ftp\" is not https"),
            ("https://ann:secret@app.example.com/", "has a password"),
            ("https://app.example.com/#a", "has a #"),
            ("/seen", "is not a URL"),
        ] {
            let said = text.parse::<ServiceUrl>().err().unwrap_or_default();
            assert!(said.starts_with(problem) && said.is_empty() == problem.is_empty(), "{text}: {said}");
        }
    }

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
