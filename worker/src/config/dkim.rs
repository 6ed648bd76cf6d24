//! DKIM signatures: `[mail.dkim]`, `[stream.NAME.dkim]` and the same tables for a tenant.
//!
//! The configuration only names the key file. Commands that send read it later, others run without it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tidings_mail::dkim::DkimSigner;
use tidings_model::{foreign_text::decode_file, settings::SenderIdentity};
use toml::Spanned;

use super::{
    checks::Checks,
    keys::{ConfigTable, ConfigValue, RawText, ToConfigValue as _},
    problem::ConfigProblem,
    secret::{EXPOSED, is_exposed},
};

/// A `dkim` table for one sender, which may come from another table, e.g. `[mail.dkim]` for `stream.bulk.from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DkimTable {
    pub parent: String,
    /// This environment variable may hold the key itself, and overrides `key_file`. `None` for a tenant.
    pub variable: Option<&'static str>,
    pub from: String,
}

impl DkimTable {
    fn key(&self, name: &str) -> String {
        format!("{}.dkim.{name}", self.parent)
    }

    fn second_table(&self) -> Self {
        Self { parent: self.parent.clone(), variable: None, from: self.from.clone() }
    }

    fn or_own(&self) -> String {
        let own = self.from.strip_suffix(".from").filter(|own| *own != self.parent);
        own.map(|own| format!(", or add [{own}.dkim]")).unwrap_or_default()
    }

    fn or_set(&self, to: &str) -> String {
        self.variable.map(|variable| format!(", or set {variable} to {to}")).unwrap_or_default()
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDkim {
    pub selector: Spanned<String>,
    key_file: RawText,
    domain: RawText,
    second_selector: RawText,
    second_key_file: RawText,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DkimConfig {
    /// Names the key in DNS: `{selector}._domainkey.{domain}`.
    pub selector: String,
    /// Equal to the sender's domain, or above or below it.
    pub domain: String,
    key: PrivateKey,
    line: String,
    key_name: &'static str,
    table: DkimTable,
    second: Option<Box<DkimConfig>>,
}

const KEY_FILE: &str = "key_file";
const SECOND_KEY_FILE: &str = "second_key_file";

#[derive(Clone, PartialEq, Eq)]
enum PrivateKey {
    File(PathBuf),
    Pem(String),
}

pub(super) fn check_dkim(
    table: DkimTable,
    raw: Option<&RawDkim>,
    sender: &SenderIdentity,
    checks: &mut Checks<'_>,
) -> Option<DkimConfig> {
    let pem = table.variable.and_then(|variable| Some((variable, checks.variable(variable)?)));
    let Some(raw) = raw else {
        if let Some((variable, _)) = pem {
            let parent = &table.parent;
            let problem = format!("signs nothing without [{parent}.dkim]; add the table with selector = \"s1\"");
            checks.report(ConfigProblem::new("environment", variable, problem));
        }
        return None;
    };
    let selector = checks.text(&table.key("selector"), Some(&raw.selector), selector_name);
    let domain = signing_domain(&table, raw, sender, checks);
    let (key, line) = match (pem, &raw.key_file) {
        (Some((_, pem)), _) => (PrivateKey::Pem(pem), "environment".to_owned()),
        (None, Some(file)) => (PrivateKey::File(key_file(&table, KEY_FILE, file, checks)?), checks.place_of(file)),
        (None, None) => {
            let problem = format!("is missing; name a file with a private key in PEM{}", table.or_set("the PEM"));
            checks.report_at(&raw.selector, table.key(KEY_FILE), problem);
            return None;
        }
    };
    let second = check_second(&table, raw, domain.as_deref(), checks);
    Some(DkimConfig { selector: selector?, domain: domain?, key, line, key_name: KEY_FILE, table, second })
}

fn check_second(
    table: &DkimTable,
    raw: &RawDkim,
    domain: Option<&str>,
    checks: &mut Checks<'_>,
) -> Option<Box<DkimConfig>> {
    let (selector, file) = match (&raw.second_selector, &raw.second_key_file) {
        (None, None) => return None,
        (Some(selector), Some(file)) => (selector, file),
        (Some(one), None) | (None, Some(one)) => {
            let missing = if raw.second_selector.is_some() { SECOND_KEY_FILE } else { "second_selector" };
            let problem = "is missing; a second key has both second_selector and second_key_file";
            checks.report_at(one, table.key(missing), problem);
            return None;
        }
    };
    let is_other = |text: &str| {
        let name = selector_name(text)?;
        if name == *raw.selector.as_ref() {
            Err("is the selector of the first key; name another".to_owned())
        } else {
            Ok(name)
        }
    };
    let name = checks.text(&table.key("second_selector"), Some(selector), is_other);
    let path = key_file(table, SECOND_KEY_FILE, file, checks)?;
    let line = checks.place_of(file);
    Some(Box::new(DkimConfig {
        selector: name?,
        domain: domain?.to_owned(),
        key: PrivateKey::File(path),
        line,
        key_name: SECOND_KEY_FILE,
        table: table.second_table(),
        second: None,
    }))
}

fn key_file(table: &DkimTable, name: &str, file: &Spanned<String>, checks: &mut Checks<'_>) -> Option<PathBuf> {
    let text = file.as_ref();
    if !(checks.spans_lines(file) || text.contains('\n') || text.contains("-----") || is_base64(text)) {
        return Some(text.into());
    }
    let problem = format!("is not the name of a file; write the name on one line{}", table.or_set("the key itself"));
    checks.report(ConfigProblem::new(checks.place_of(file), table.key(name), problem).with_value("***"));
    None
}

/// Returns `true` if this looks like one line of a PEM key: it has at least 40 characters. File names should
/// be shorter, begin with a slash or contain another character.
fn is_base64(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    text.len() >= 40 && !text.starts_with('/') && text.bytes().all(fits)
}

fn signing_domain(
    table: &DkimTable,
    raw: &RawDkim,
    sender: &SenderIdentity,
    checks: &mut Checks<'_>,
) -> Option<String> {
    let key = table.key("domain");
    let from = sender.address.domain().to_ascii_lowercase();
    if raw.domain.is_some() {
        return checks.text(&key, raw.domain.as_ref(), |text| {
            domain_name(text, &from, &table.from).map_err(|fault| fault + &table.or_own())
        });
    }
    let own = domain_name(&from, &from, &table.from).map_err(|_| {
        let problem =
            format!("is the domain of {0}, but not a domain in DNS; set {0} to an address of yours", table.from);
        ConfigProblem::new(checks.place_of(&raw.selector), key, problem).with_value(from)
    });
    checks.accept(own)
}

impl DkimConfig {
    /// # Errors
    /// The key cannot be read, or cannot sign. The error never shows the key.
    pub fn signer(&self) -> Result<DkimSigner, ConfigProblem> {
        let pem = match &self.key {
            PrivateKey::File(path) => {
                fs::read(path).and_then(decode_file).map_err(|error| self.key_problem(unreadable_key(&error)))?
            }
            PrivateKey::Pem(pem) => pem.clone(),
        };
        let dkim = DkimSigner::new(&self.selector, &self.domain, pem.as_bytes())
            .map_err(|error| self.key_problem(error.to_string()))?;
        Ok(dkim.with_second(self.second_signature().map(Self::signer).transpose()?))
    }

    /// Adds the DNS record that receivers need for verification.
    pub(crate) fn show(&self, dkim: &DkimSigner) -> ConfigTable {
        let dns = [("name", dkim.record_name().show()), ("type", "TXT".show()), ("value", dkim.dns_record().show())];
        let second = self
            .second_signature()
            .zip(dkim.second_signer())
            .map(|(second, dkim)| ConfigValue::Table(second.show(dkim)));
        ConfigTable::of([
            ("selector", self.selector.show()),
            ("domain", self.domain.show()),
            ("key_file", self.key_file().show()),
            ("algorithm", dkim.algorithm().show()),
            ("dns", Some(ConfigValue::Table(ConfigTable::of(dns)))),
            ("second", second),
        ])
    }

    #[must_use]
    pub fn second_signature(&self) -> Option<&Self> {
        self.second.as_deref()
    }

    #[must_use]
    pub fn key_file(&self) -> Option<&Path> {
        match &self.key {
            PrivateKey::File(path) => Some(path),
            PrivateKey::Pem(_) => None,
        }
    }

    #[must_use]
    pub fn has_keys_of(&self, other: &Self) -> bool {
        let second = |dkim: &Self| dkim.second_signature().map(|second| (second.key.clone(), second.line.clone()));
        let place = |dkim: &Self| (dkim.table.parent.clone(), dkim.line.clone());
        self.key == other.key && place(self) == place(other) && second(self) == second(other)
    }

    /// Warns about key files that every user on this machine can read. Docker and Kubernetes mount secrets
    /// like this by default, so this is no error. Also warns about Ed25519 without RSA.
    pub fn warnings(&self) -> impl Iterator<Item = ConfigProblem> {
        let keys = [Some(self), self.second_signature()].into_iter().flatten();
        let exposed = |dkim: &Self| is_exposed(dkim.key_file()?).then(|| dkim.key_problem(EXPOSED.to_owned()));
        let alone =
            self.signer().is_ok_and(|dkim| dkim.is_ed25519_alone()).then(|| self.key_problem(ED25519_ALONE.to_owned()));
        keys.filter_map(exposed).chain(alone)
    }

    fn key_problem(&self, problem: String) -> ConfigProblem {
        match &self.key {
            PrivateKey::File(path) => ConfigProblem::new(self.line.as_str(), self.table.key(self.key_name), problem)
                .with_value(path.display().to_string()),
            PrivateKey::Pem(_) => ConfigProblem::of_secret(self.table.variable.unwrap_or_default(), problem),
        }
    }
}

/// Seen with `Mail::DKIM` 1.20230212 and jdkim 0.5.
const ED25519_ALONE: &str = "is an Ed25519 key, which many receivers do not support, so they find no signature; sign with an RSA key, and \
                             name this one with second_selector and second_key_file";

fn unreadable_key(error: &io::Error) -> String {
    format!("cannot be read ({error}); name a file with a private key in PEM that the worker may read")
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Pem(_) => f.write_str("Pem(***)"),
        }
    }
}

/// Limits for a selector, a domain and `{selector}._domainkey.{domain}` (RFC 1035 2.3.4).
const SELECTOR_CHARS: usize = 63;
const DOMAIN_CHARS: usize = NAME_CHARS - SELECTOR_CHARS - "._domainkey.".len();
const NAME_CHARS: usize = 253;

fn selector_name(text: &str) -> Result<String, String> {
    if text.len() <= SELECTOR_CHARS && is_dns_name(text) {
        return Ok(text.to_owned());
    }
    Err("is not a DNS name of up to 63 characters; write for example \"s1\"".to_owned())
}

/// Parses a signing domain. It must be equal to the sender's domain `from`, or above or below it. `from_key`
/// is for the error.
fn domain_name(text: &str, from: &str, from_key: &str) -> Result<String, String> {
    if !(text.contains('.') && text.len() <= DOMAIN_CHARS && is_dns_name(text)) {
        return Err("is not a domain in ASCII; write for example \"acme.example\"".to_owned());
    }
    let below = |name: &str, top: &str| name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
    let (name, from) = (text.to_ascii_lowercase(), from.to_ascii_lowercase());
    if name == from || below(&name, &from) || below(&from, &name) {
        return Ok(name);
    }
    Err(format!("is not aligned with {from_key}, so DMARC would not count the signature; write \"{from}\""))
}

/// Labels may have letters, digits and inner hyphens (RFC 6376 3.1, RFC 1035 2.3.4).
fn is_dns_name(name: &str) -> bool {
    name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}
