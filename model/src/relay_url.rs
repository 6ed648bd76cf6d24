//! Relay URLs: `smtp://user:password@host:587` or `smtps://...`.

use std::{fmt, path::PathBuf, str::FromStr};

use percent_encoding::percent_decode_str;
use url::Url;

use crate::{attempt::AttemptPhase, host_name::is_loopback, is_host_name};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("relay: {part} {problem}")]
pub struct RelayUrlError {
    pub part: &'static str,
    /// With a remedy, and never the password.
    pub problem: String,
}

#[derive(Clone, PartialEq, Eq)]
pub struct RelayCredentials {
    pub user: String,
    pub secret: LoginSecret,
}

#[derive(Clone, PartialEq, Eq)]
pub enum LoginSecret {
    Password(String),
    Token(TokenSource),
}

#[derive(Clone, PartialEq, Eq)]
pub enum TokenSource {
    File(PathBuf),
    Command(Vec<String>),
}

impl fmt::Debug for RelayCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(***)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS from the first byte (RFC 8314): `smtps://`.
    Implicit,
    /// STARTTLS or no connection (`?tls=required`). The default, except for a loopback host.
    Required,
    /// STARTTLS if the relay offers it (`?tls=opportunistic`). Note: an active attacker can switch it off.
    Opportunistic,
    /// No TLS (`?tls=none`). The default for a loopback host.
    None,
}

/// A relay, parsed from `smtp://[user:password@]host[:587]` or `smtps://[user:password@]host[:465]`. User and
/// password are percent-encoded. Parameters:
///
/// - `tls`: `required`, `opportunistic` or `none`; only with `smtp`.
/// - `ca`: a PEM file with certificate authorities to trust in addition to the system's.
/// - `hello`: our name in EHLO.
#[derive(Clone)]
pub struct RelayUrl {
    pub host: String,
    pub port: u16,
    pub tls: TlsMode,
    pub credentials: Option<RelayCredentials>,
    pub ca: Option<PathBuf>,
    pub hello: Option<String>,
}

impl FromStr for RelayUrl {
    type Err = RelayUrlError;

    fn from_str(text: &str) -> Result<Self, RelayUrlError> {
        Self::parse(text, None)
    }
}

impl RelayUrl {
    /// For a relay with token login: `smtp://user@host`.
    ///
    /// # Errors
    /// As for a password login, or the user is missing or there is a password.
    pub fn with_token(text: &str, source: TokenSource) -> Result<Self, RelayUrlError> {
        Self::parse(text, Some(source))
    }

    fn parse(text: &str, token: Option<TokenSource>) -> Result<Self, RelayUrlError> {
        let url = Url::parse(text).map_err(|e| url_error("URL", format!("cannot be read ({e}); {EXAMPLE}")))?;
        // An unescaped `@`, `/`, `?` or `#` in a password moves part of it into the path or a parameter, and
        // we print those.
        let before_the_host = usize::from(!url.username().is_empty() || url.password().is_some());
        if text.matches('@').count() > before_the_host {
            return Err(url_error(
                "URL",
                format!("has one @ too many; write %40 instead in user and password; {EXAMPLE}"),
            ));
        }
        let implicit = match url.scheme() {
            "smtp" => false,
            "smtps" => true,
            other => return Err(url_error("scheme", format!("{other:?} is neither smtp nor smtps"))),
        };
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(url_error("path", format!("is not part of a relay; {EXAMPLE}")));
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(url_error("host", format!("is missing; {EXAMPLE}")));
        }
        let mut relay = Self {
            port: url.port().unwrap_or(if implicit { 465 } else { 587 }),
            tls: if implicit { TlsMode::Implicit } else { default_tls(&host) },
            credentials: credentials(&url, token)?,
            ca: None,
            hello: None,
            host,
        };
        for (key, value) in url.query_pairs() {
            relay.set_parameter(&key, &value)?;
        }
        relay.guard_password()?;
        Ok(relay)
    }

    #[must_use]
    pub fn token_source(&self) -> Option<&TokenSource> {
        match self.credentials.as_ref()?.secret {
            LoginSecret::Token(ref source) => Some(source),
            LoginSecret::Password(_) => None,
        }
    }

    #[must_use]
    pub fn session_phases(&self) -> Vec<AttemptPhase> {
        let mut phases = match self.tls {
            TlsMode::Implicit => {
                vec![AttemptPhase::Connect, AttemptPhase::Tls, AttemptPhase::Greeting, AttemptPhase::Ehlo]
            }
            TlsMode::Required | TlsMode::Opportunistic => {
                vec![AttemptPhase::Connect, AttemptPhase::Greeting, AttemptPhase::Ehlo, AttemptPhase::Tls]
            }
            TlsMode::None => vec![AttemptPhase::Connect, AttemptPhase::Greeting, AttemptPhase::Ehlo],
        };
        if self.credentials.is_some() {
            phases.push(AttemptPhase::Auth);
        }
        phases
    }

    fn set_parameter(&mut self, key: &str, value: &str) -> Result<(), RelayUrlError> {
        match (key, value) {
            ("tls", _) if self.tls == TlsMode::Implicit => {
                return Err(url_error("tls", "is a parameter of smtp; smtps has TLS from the first byte"));
            }
            ("tls", "required") => self.tls = TlsMode::Required,
            ("tls", "opportunistic") => self.tls = TlsMode::Opportunistic,
            ("tls", "none") => self.tls = TlsMode::None,
            ("tls", other) => {
                return Err(url_error("tls", format!("{other:?} is not one of required, opportunistic and none")));
            }
            ("ca", path) if !path.is_empty() => self.ca = Some(path.into()),
            ("hello", name) if is_host_name(name) => self.hello = Some(name.to_owned()),
            ("hello", name) => return Err(url_error("hello", format!("{name:?} is not a host name"))),
            (key, _) => {
                return Err(url_error("parameter", format!("{key:?} is not one of tls, ca=FILE and hello=NAME")));
            }
        }
        Ok(())
    }

    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// A password or token must never leave this machine in clear text, even if an attacker strips STARTTLS.
    fn guard_password(&self) -> Result<(), RelayUrlError> {
        let private = matches!(self.tls, TlsMode::Implicit | TlsMode::Required) || self.is_loopback();
        if private || self.credentials.is_none() {
            return Ok(());
        }
        Err(url_error(
            "tls",
            "must be required where there is a password or a token; only a loopback host may see it in the clear",
        ))
    }
}

/// `smtp://host:port`, without credentials.
impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls == TlsMode::Implicit { "smtps" } else { "smtp" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelayUrl({self}, {:?})", self.tls)
    }
}

const EXAMPLE: &str = "a relay looks like smtp://user:password@mail.example.com:587";

fn url_error(part: &'static str, problem: impl Into<String>) -> RelayUrlError {
    RelayUrlError { part, problem: problem.into() }
}

fn credentials(url: &Url, token: Option<TokenSource>) -> Result<Option<RelayCredentials>, RelayUrlError> {
    let decoded = |part: &'static str, text: &str| match percent_decode_str(text).decode_utf8() {
        // NUL separates the fields of AUTH PLAIN, and U+0001 those of XOAUTH2.
        Ok(text) if !text.contains(['\0', '\u{1}']) => Ok(text.into_owned()),
        _ => Err(url_error(part, "is not percent-encoded UTF-8 without NUL and 0x01")),
    };
    let (user, secret) = match (url.username(), url.password(), token) {
        ("", None, None) => return Ok(None),
        ("", None, Some(_)) => {
            return Err(url_error("user", "is missing, whose token is sent; write smtp://ann%40acme.example@host:587"));
        }
        ("", Some(_), _) => return Err(url_error("user", "is missing, but there is a password")),
        (_, None, None) => {
            return Err(url_error(
                "password",
                "is missing, but there is a user; [relay.NAME] may have token_command instead",
            ));
        }
        (_, Some(_), Some(_)) => {
            return Err(url_error("password", "is there beside an access token; leave one of them out"));
        }
        (user, None, Some(source)) => (user, LoginSecret::Token(source)),
        (user, Some(password), None) => (user, LoginSecret::Password(decoded("password", password)?)),
    };
    Ok(Some(RelayCredentials { user: decoded("user", user)?, secret }))
}

fn default_tls(host: &str) -> TlsMode {
    if is_loopback(host) { TlsMode::None } else { TlsMode::Required }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(url: &str) -> RelayUrl {
        url.parse().unwrap()
    }

    #[test]
    fn the_defaults_are_safe() {
        for (url, port, tls) in [
            ("smtp://mail.example.com", 587, TlsMode::Required),
            ("smtps://mail.example.com", 465, TlsMode::Implicit),
            ("smtp://localhost:1025", 1025, TlsMode::None),
            ("smtp://127.0.0.1:25", 25, TlsMode::None),
            ("smtp://[::1]:25", 25, TlsMode::None),
            ("smtp://inbox:1025?tls=none", 1025, TlsMode::None),
            ("smtp://u:p@mail.example.com?tls=required&hello=app.example.com", 587, TlsMode::Required),
        ] {
            let relay = relay(url);
            assert_eq!((relay.port, relay.tls), (port, tls), "{url}");
        }
    }

    #[test]
    fn a_password_over_a_plain_connection_is_refused_except_to_loopback() {
        for tls in ["none", "opportunistic"] {
            let error = format!("smtp://u:p@mail.example.com?tls={tls}").parse::<RelayUrl>().unwrap_err();
            assert!(error.to_string().starts_with("relay: tls must be required"), "{error}");
            assert!(format!("smtp://u:p@127.0.0.1?tls={tls}").parse::<RelayUrl>().is_ok());
        }
    }

    #[test]
    fn a_token_stands_in_place_of_the_password() {
        let token = |url: &str| RelayUrl::with_token(url, TokenSource::File("/run/token".into()));
        let relay = token("smtp://ann%40acme.example@smtp.office365.example:587").unwrap();
        assert_eq!(relay.credentials.as_ref().map(|login| login.user.as_str()), Some("ann@acme.example"));
        assert!(
            relay.token_source().is_some()
                && relay.tls == TlsMode::Required
                && relay.session_phases().contains(&AttemptPhase::Auth)
        );
        for (url, expected) in [
            ("smtp://mail.example.com", "user is missing"),
            ("smtp://ann:secret@mail.example.com", "beside an access token"),
            ("smtp://ann%01@mail.example.com", "without NUL and 0x01"),
            ("smtp://ann@mail.example.com?tls=none", "a password or a token"),
        ] {
            let error = token(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
        }
    }

    #[test]
    fn an_error_in_a_relay_url_names_the_correct_form() {
        for (url, expected) in [
            ("mail.example.com", "a relay looks like"),
            ("http://mail.example.com", "neither smtp nor smtps"),
            ("smtp://", "host"),
            ("smtp://mail.example.com/inbox", "path"),
            ("smtp://mail.example.com?tls=yes", "\"yes\" is not one of required"),
            ("smtp://mail.example.com?tsl=none", "\"tsl\" is not one of tls"),
            ("smtp://mail.example.com?hello=a%0d%0ab", "not a host name"),
            ("smtps://mail.example.com?tls=none", "parameter of smtp"),
            ("smtp://user@mail.example.com", "password is missing"),
            ("smtp://u:%FF@mail.example.com", "percent-encoded"),
            ("smtp://u:1?p@mail.example.com", "one @ too many"),
            ("smtp://ann@example.com:1/p@mail.example.com", "one @ too many"),
        ] {
            let error = url.parse::<RelayUrl>().unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_is_decoded_and_never_shown() {
        let relay = relay("smtp://ann:p%40ss%3Aword@mail.example.com:2525");
        assert_eq!(
            relay.credentials,
            Some(RelayCredentials { user: "ann".into(), secret: LoginSecret::Password("p@ss:word".into()) })
        );
        assert_eq!(
            format!("{relay} {relay:?}"),
            "smtp://mail.example.com:2525 RelayUrl(smtp://mail.example.com:2525, Required)"
        );
        assert_eq!(super::tests::relay("smtp://[::1]:25").to_string(), "smtp://[::1]:25");
    }
}
