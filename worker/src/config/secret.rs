//! URLs that may hold a password, and their text without the password.

use std::fmt;

use url::Url;

/// A checked URL whose passwords are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    pub(crate) fn new(url: &str) -> Self {
        Self(url.to_owned())
    }

    /// Returns the URL with its password, for connecting.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Parses the address of a database.
pub(super) fn database_url(text: &str) -> Result<SecretUrl, String> {
    let right = "write \"sqlite://path/to/tidings.db\" or \"postgres://user:password@host/database\"";
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
    match url.scheme() {
        "sqlite" if text.strip_prefix("sqlite://").is_some_and(|file| !file.is_empty()) => Ok(SecretUrl::new(text)),
        "postgres" | "postgresql" if url.path().len() > 1 => Ok(SecretUrl::new(text)),
        "sqlite" => Err(format!("names no file; {right}")),
        "postgres" | "postgresql" => Err(format!("names no database; {right}")),
        other => Err(format!("{other:?} is neither sqlite nor postgres; {right}")),
    }
}

/// Replaces every password with `***`: in the credentials, in the parameters, and in a user name that equals the password or
/// has none.
pub(super) fn masked(text: &str) -> String {
    // With a second `@`, either of them may end the password.
    let credentials_seen = |url: &Url| match text.matches('@').count() {
        0 => true,
        1 => !url.username().is_empty() || url.password().is_some(),
        _ => false,
    };
    let parsed = Url::parse(text).ok().filter(|url| url.has_host() && credentials_seen(url));
    let Some(mut url) = parsed else {
        // The parts are unknown, so everything before the last `@` is masked. It may hold a password.
        return text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, rest)| format!("***@{rest}"));
    };
    let secret = |name: &str| ["password", "sslpassword"].contains(&name);
    let in_query = url.query_pairs().any(|(name, _)| secret(&name));
    if url.username().is_empty() && url.password().is_none() && !in_query {
        return text.to_owned();
    }
    // Some providers take one token as both user name and password. A user name alone may be a token in the wrong place.
    let is_token = url.password().is_none_or(|password| password == url.username()) && !url.username().is_empty();
    let masked = (!is_token || url.set_username("***").is_ok())
        && (url.password().is_none() || url.set_password(Some("***")).is_ok());
    if !masked {
        return format!("{}:***", url.scheme());
    }
    if in_query {
        let pairs: Vec<_> = url.query_pairs().into_owned().collect();
        let shown = pairs.into_iter().map(|(name, value)| {
            let value = if secret(&name) { "***".to_owned() } else { value };
            (name, value)
        });
        url.query_pairs_mut().clear().extend_pairs(shown);
    }
    url.to_string()
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://u:hunter2@db.example/t", "postgres://u:***@db.example/t"),
            ("postgres://db.example/t?user=u&password=hunter2", "postgres://db.example/t?user=u&password=***"),
            ("smtp://u:hunter2@relay.example:587", "smtp://u:***@relay.example:587"),
            ("smtp://hunter2:hunter2@relay.example:587", "smtp://***:***@relay.example:587"),
            ("smtp://hunter2@relay.example:587", "smtp://***@relay.example:587"),
            ("postgres://hunter2@db.example/t", "postgres://***@db.example/t"),
            ("u:hunter2@relay.example", "***@relay.example"),
            ("smtp://u:1#hunter2@relay.example", "***@relay.example"),
            ("smtp://ann@acme.example:1/hunter2@relay.example", "***@relay.example"),
            ("sqlite://.tidings/tidings.db", "sqlite://.tidings/tidings.db"),
        ] {
            assert_eq!(SecretUrl::new(url).to_string(), shown);
            assert!(!format!("{:?}", SecretUrl::new(url)).contains("hunter2"));
        }
    }
}
