//! Services of a team, which Tidings asks over HTTP.

use std::str::FromStr;

use url::Url;

use crate::{host_name::is_loopback, webhook_secret::Secret};

/// The service that knows which events a recipient has seen.
#[derive(Clone, Debug)]
pub struct SeenService {
    /// The address of its questions.
    pub url: ServiceUrl,
    /// The secret that signs questions; `None`: the environment lacks it, so that the configuration cannot send.
    pub secret: Option<Secret>,
    /// The environment variable with the secret.
    pub secret_env: String,
}

/// An address with https, or with http on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl(Url);

impl ServiceUrl {
    /// The address.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.0
    }

    /// The host without brackets; never empty.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Tells if the connection has TLS. Without TLS the host must be this machine.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }
}

impl ServiceUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// Says what is wrong, and that `right` would be right.
    pub fn read(text: &str, right: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
        match url.scheme() {
            "https" => {}
            // A name may mean another machine when the service is asked.
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
    /// Says what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, "write for example \"https://app.example.com/tidings/seen\"")
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
}
