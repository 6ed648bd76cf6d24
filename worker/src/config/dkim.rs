//! Who signs the mail, as `[mail.dkim]` of `tidings.toml` and that of a stream say it.
//!
//! The key itself is read later, by whoever signs: other commands run where it is not.

use std::{
    fmt, fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tidings_mail::mailer::Dkim;
use tidings_model::settings::{DkimKey, Sender};
use toml::Spanned;

use super::{Problem, problem::Checks};

/// Where a signature is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The table without its last part.
    table: &'static str,
    /// Holds the key itself, over `key_file`.
    pub variable: &'static str,
    /// Whose address it signs for.
    from: &'static str,
}

pub(super) const MAIL: Place = Place { table: "mail", variable: "TIDINGS_DKIM_KEY", from: "mail.from" };
pub(super) const BULK: Place =
    Place { table: "stream.bulk", variable: "TIDINGS_BULK_DKIM_KEY", from: "stream.bulk.from" };
pub(super) const TRANSACTIONAL: Place = Place {
    table: "stream.transactional",
    variable: "TIDINGS_TRANSACTIONAL_DKIM_KEY",
    from: "stream.transactional.from",
};

impl Place {
    /// What `[mail.dkim]` says, for a stream.
    pub const fn taken_over(self) -> Self {
        Self { from: self.from, ..MAIL }
    }

    fn key(self, name: &str) -> String {
        format!("{}.dkim.{name}", self.table)
    }
}

/// Characters of a selector, of a domain, and of `{selector}._domainkey.{domain}` (RFC 1035 2.3.4).
const SELECTOR_CHARS: usize = 63;
const DOMAIN_CHARS: usize = NAME_CHARS - SELECTOR_CHARS - "._domainkey.".len();
const NAME_CHARS: usize = 253;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    selector: Spanned<String>,
    key_file: Option<Spanned<String>>,
    domain: Option<Spanned<String>>,
}

/// A signature that the mail is to carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// Names the key among those of the domain.
    pub selector: String,
    /// The domain that answers for the mail; it is the sender's, or above or below it.
    pub domain: String,
    key: Key,
    /// Where `key` is said: the line, and the table.
    line: String,
    place: Place,
}

#[derive(Clone, PartialEq, Eq)]
enum Key {
    File(PathBuf),
    Pem(String),
}

/// What is said of signing; `None` when nobody asked for it, or it was wrong.
pub(super) fn check(
    place: Place,
    written: Option<&Written>,
    sender: &Sender,
    checks: &mut Checks<'_>,
) -> Option<Signing> {
    let Place { table, variable, .. } = place;
    let pem = checks.variable(variable);
    let Some(written) = written else {
        if pem.is_some() {
            checks.complain(Problem {
                place: "environment".to_owned(),
                key: variable.to_owned(),
                value: String::new(),
                problem: format!("signs nothing without [{table}.dkim]; add it with selector = \"s1\""),
            });
        }
        return None;
    };
    let selector = checks.value(&place.key("selector"), Some(&written.selector), selector);
    let domain = signing_domain(place, written, sender, checks);
    let (key, line) = match (pem, &written.key_file) {
        (Some(pem), _) => (Key::Pem(pem), "environment".to_owned()),
        (None, Some(file)) => (Key::File(key_file(place, file, checks)?), checks.place_of(file)),
        (None, None) => {
            checks.complain(Problem {
                place: checks.place_of(&written.selector),
                key: place.key("key_file"),
                value: String::new(),
                problem: format!("is missing; name a file with a private key in PEM, or set {variable} to the PEM"),
            });
            return None;
        }
    };
    Some(Signing { selector: selector?, domain: domain?, key, line, place })
}

/// The name of the file. What holds the key itself, or takes in the lines that follow, is not shown.
fn key_file(place: Place, file: &Spanned<String>, checks: &mut Checks<'_>) -> Option<PathBuf> {
    let text = file.as_ref();
    if !(checks.goes_on(file) || text.contains('\n') || text.contains("-----BEGIN")) {
        return Some(text.into());
    }
    checks.complain(Problem {
        place: checks.place_of(file),
        key: place.key("key_file"),
        value: "***".to_owned(),
        problem: format!("is no name of a file; write one in one line, or set {} to the key itself", place.variable),
    });
    None
}

fn signing_domain(place: Place, written: &Written, sender: &Sender, checks: &mut Checks<'_>) -> Option<String> {
    let key = place.key("domain");
    let from = sender.address.rsplit_once('@').map_or("", |(_, domain)| domain);
    let from = url::Host::parse(from).map_or_else(|_| from.to_owned(), |host| host.to_string());
    if written.domain.is_some() {
        return checks.value(&key, written.domain.as_ref(), |text| domain(text, &from, place.from));
    }
    let problem = |_| Problem {
        place: checks.place_of(&written.selector),
        key,
        value: from.clone(),
        problem: format!("is {0}'s domain, but none in DNS; set {0} to an address of yours", place.from),
    };
    let result = domain(&from, &from, place.from).map_err(problem);
    checks.keep(result)
}

fn selector(text: &str) -> Result<String, String> {
    if text.len() <= SELECTOR_CHARS && is_dns_name(text) {
        return Ok(text.to_owned());
    }
    Err("is no DNS name of up to 63 characters; write for example \"s1\"".to_owned())
}

fn domain(text: &str, from: &str, whose: &str) -> Result<String, String> {
    if !(text.contains('.') && text.len() <= DOMAIN_CHARS && is_dns_name(text)) {
        return Err("is no domain in ASCII; write for example \"acme.example\"".to_owned());
    }
    let below = |name: &str, top: &str| name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
    let (name, from) = (text.to_ascii_lowercase(), from.to_ascii_lowercase());
    if name == from || below(&name, &from) || below(&from, &name) {
        return Ok(name);
    }
    Err(format!("is not aligned with {whose}, so that DMARC would not count the signature; write \"{from}\""))
}

/// Labels of letters, digits and inner hyphens (RFC 6376 3.1, RFC 1035 2.3.4).
fn is_dns_name(name: &str) -> bool {
    name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

impl Signing {
    /// Reads the key.
    ///
    /// # Errors
    /// It cannot be read, or is none that signs. Never shows it.
    pub fn signer(&self) -> Result<Dkim, Problem> {
        self.read().map(|(_, signer)| signer)
    }

    /// The key as data, once it is known to sign.
    ///
    /// # Errors
    /// As for [`Signing::signer`].
    pub fn key(&self) -> Result<DkimKey, Problem> {
        self.read().map(|(key, _)| key)
    }

    fn read(&self) -> Result<(DkimKey, Dkim), Problem> {
        let pem = match &self.key {
            Key::File(path) => fs::read(path).map_err(|error| self.problem(unreadable(&error)))?,
            Key::Pem(pem) => pem.clone().into_bytes(),
        };
        let key = DkimKey { selector: self.selector.clone(), domain: self.domain.clone(), pem };
        let signer = Dkim::read(&key).map_err(|error| self.problem(error.to_string()))?;
        Ok((key, signer))
    }

    /// The file with the key, unless the environment holds it.
    #[must_use]
    pub fn key_file(&self) -> Option<&Path> {
        match &self.key {
            Key::File(path) => Some(path),
            Key::Pem(_) => None,
        }
    }

    /// What works, but is not safe: everybody on the machine may read the key. No error, because Docker and Kubernetes
    /// mount secrets like that unless told otherwise.
    #[must_use]
    pub fn warning(&self) -> Option<Problem> {
        let mode = fs::metadata(self.key_file()?).ok()?.permissions().mode();
        let said = "may be read by every user of this machine; run chmod o-rwx on it, or mount it with mode 0400";
        (mode & 0o007 != 0).then(|| self.problem(said.to_owned()))
    }

    fn problem(&self, problem: String) -> Problem {
        let (key, value) = match &self.key {
            Key::File(path) => (self.place.key("key_file"), path.display().to_string()),
            Key::Pem(_) => (self.place.variable.to_owned(), "***".to_owned()),
        };
        Problem { place: self.line.clone(), key, value, problem }
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("cannot be read ({error}); name a file that the worker may read, with a private key in PEM")
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Pem(_) => f.write_str("Pem(***)"),
        }
    }
}
