//! Secrets: URLs with masked passwords, files that nobody else should read, and link keys, which sign tokens
//! and come from the environment or from `link_keys_file`.
//!
//! The file is read immediately. If this fails, only commands that need the keys will stop.

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tidings_model::{
    foreign_text::decode_file,
    link_keys::{LinkKeys, VARIABLE, WrongKeys},
};
use toml::Spanned;
use url::Url;

use super::{checks::Checks, problem::ConfigProblem};

/// A checked URL. Printing it masks the passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    pub(crate) fn new(url: &str) -> Self {
        Self(url.to_owned())
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn sqlite_file(&self) -> Option<&Path> {
        let file = self.0.strip_prefix("sqlite:")?.trim_start_matches("//");
        Some(Path::new(file.split('?').next().unwrap_or_default()))
    }

    /// Warns about a database file that every user on this machine can read. Tidings creates it as private,
    /// but e.g. a restore may change this.
    #[must_use]
    pub(super) fn warning(&self) -> Option<ConfigProblem> {
        let file = self.sqlite_file().filter(|file| is_exposed(file))?;
        let problem = "can be read by every user of this machine; run chmod o-rwx on the file";
        Some(ConfigProblem::new("here", "database_url", problem).with_value(file.display().to_string()))
    }
}

/// Problem and remedy if a file [is exposed](is_exposed).
pub(super) const EXPOSED: &str =
    "can be read by every user of this machine; run chmod o-rwx on the file, or mount it with mode 0400";

pub(super) fn is_exposed(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
}

pub(crate) fn database_url(text: &str) -> Result<SecretUrl, String> {
    let right = "write \"sqlite://path/to/tidings.db\" or \"postgres://user:password@host/database\"";
    if has_several_hosts(text) {
        return Err("names several hosts, but Tidings connects to one host: name an endpoint that follows the primary, such as HAProxy, a \
                    virtual address, or your provider's endpoint"
            .to_owned());
    }
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
    match url.scheme() {
        "sqlite" if text.strip_prefix("sqlite://").is_some_and(|file| !file.is_empty()) => Ok(SecretUrl::new(text)),
        "postgres" | "postgresql" if url.path().len() > 1 => Ok(SecretUrl::new(text)),
        "sqlite" => Err(format!("names no file; {right}")),
        "postgres" | "postgresql" => Err(format!("names no database; {right}")),
        other => Err(format!("{other:?} is neither sqlite nor postgres; {right}")),
    }
}

/// Looks for a comma as libpq does, in the authority and in the parameters.
fn has_several_hosts(text: &str) -> bool {
    let rest = text.strip_prefix("postgres").and_then(|rest| rest.split_once("://"));
    let Some((_, rest)) = rest else { return false };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let query = rest.split_once('?').map_or("", |(_, query)| query).as_bytes();
    let in_query = |name: &str| ["host", "hostaddr", "port"].contains(&name);
    host.contains(',') || url::form_urlencoded::parse(query).any(|(name, value)| in_query(&name) && value.contains(','))
}

/// Masks every password, in credentials and parameters. Also masks the user name if it equals the password or
/// stands alone, because it may be a token.
pub(super) fn mask_passwords(text: &str) -> String {
    // With a second `@`, either may end the password.
    let credentials_seen = |url: &Url| match text.matches('@').count() {
        0 => true,
        1 => !url.username().is_empty() || url.password().is_some(),
        _ => false,
    };
    // Without an `@`, credentials can only be in the parameters. A database URL may have its host there, too.
    let is_understood = |url: &Url| (url.has_host() && credentials_seen(url)) || !text.contains('@');
    let parsed = Url::parse(text).ok().filter(is_understood);
    let Some(mut url) = parsed else {
        // We cannot parse this, so mask everything before the last `@`. It may hold a password.
        return text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, rest)| format!("***@{rest}"));
    };
    let secret = |name: &str| ["password", "sslpassword"].contains(&name);
    let in_query = url.query_pairs().any(|(name, _)| secret(&name));
    if url.username().is_empty() && url.password().is_none() && !in_query {
        return text.to_owned();
    }
    // Some providers use one token as both user name and password. A user name alone may be a misplaced
    // token.
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
        f.write_str(&mask_passwords(&self.0))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

const LINK_KEYS_FILE: &str = "link_keys_file";

#[derive(Clone, Debug)]
pub struct LinkKeysConfig {
    keys: Result<Option<LinkKeys>, ConfigProblem>,
    file: Option<(PathBuf, String)>,
}

impl LinkKeysConfig {
    #[must_use]
    pub fn keys(&self) -> Option<&LinkKeys> {
        self.keys.as_ref().ok()?.as_ref()
    }

    pub fn set(&mut self, keys: LinkKeys) {
        *self = Self { keys: Ok(Some(keys)), file: None };
    }

    #[must_use]
    pub fn problem(&self) -> Option<ConfigProblem> {
        self.keys.as_ref().err().cloned()
    }

    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    #[must_use]
    pub fn warning(&self) -> Option<ConfigProblem> {
        let (path, place) = self.file.as_ref()?;
        is_exposed(path).then(|| keys_problem(place, path, EXPOSED.to_owned()))
    }
}

pub(super) fn link_keys(file: Option<&Spanned<String>>, checks: &mut Checks<'_>) -> Option<LinkKeysConfig> {
    if let Some(keys) = checks.variable(VARIABLE) {
        let keys = keys.parse().map_err(|wrong: WrongKeys| ConfigProblem::of_secret(VARIABLE, wrong.to_string()));
        let keys = checks.accept(keys);
        return Some(LinkKeysConfig { keys: Ok(Some(keys?)), file: None });
    }
    let Some(file) = file else { return Some(LinkKeysConfig { keys: Ok(None), file: None }) };
    if holds_keys(file.as_ref()) {
        let problem =
            format!("is a key and not the name of a file; write the key to a file, or set {VARIABLE} to the key");
        checks.report(ConfigProblem::new(checks.place_of(file), LINK_KEYS_FILE, problem).with_value("***"));
        return None;
    }
    let (path, place) = (PathBuf::from(file.as_ref()), checks.place_of(file));
    let keys = read_keys(&path).map_err(|fault| keys_problem(&place, &path, fault));
    Some(LinkKeysConfig { keys: keys.map(Some), file: Some((path, place)) })
}

fn read_keys(path: &Path) -> Result<LinkKeys, String> {
    let text = fs::read(path)
        .and_then(decode_file)
        .map_err(|error| format!("cannot be read ({error}); name a file with keys that `tidings keys new` printed"))?;
    text.parse().map_err(|wrong: WrongKeys| wrong.to_string())
}

fn holds_keys(text: &str) -> bool {
    text.parse::<LinkKeys>().is_ok()
}

fn keys_problem(place: &str, path: &Path, problem: String) -> ConfigProblem {
    ConfigProblem::new(place, LINK_KEYS_FILE, problem).with_value(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://u:hunter2@db.example/t", "postgres://u:***@db.example/t"),
            ("postgres://db.example/t?user=u&password=hunter2", "postgres://db.example/t?user=u&password=***"),
            (
                "postgres:///t?host=/run/pg&user=u&password=hunter2",
                "postgres:///t?host=%2Frun%2Fpg&user=u&password=***",
            ),
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

    #[test]
    fn a_list_of_hosts_is_refused_by_name() {
        for url in [
            "postgres://u:p@db1:5432,db2:5432/t",
            "postgresql://db1,db2/t",
            "postgres:///t?host=db1,db2&user=u",
            "postgres:///t?host=db1%2Cdb2",
            "postgres://db1/t?port=5432,5433",
        ] {
            assert!(database_url(url).unwrap_err().contains("several hosts"), "{url}");
        }
        for url in ["postgres://u:a,b@db1/t", "postgres://db1/t?options=-c%20search_path=a,b", "sqlite://a,b.db"] {
            assert!(database_url(url).is_ok(), "{url}");
        }
    }
}
