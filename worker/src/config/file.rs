//! `tidings.toml` as it is written: the keys that exist, and how they become settings.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tidings_model::{
    names,
    settings::{Cap, Settings},
    words,
};
use toml::Spanned;
use url::Url;

use super::{
    Config, SecretUrl, Temporal, digest, dkim, mail,
    problem::{Checks, Overridable, Problem, place_of},
    relay, retention, stream, tenant,
};

const DATABASE: Overridable =
    Overridable { key: "database_url", variable: "TIDINGS_DATABASE_URL", default: "sqlite://.tidings/tidings.db" };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    database_url: Option<Spanned<String>>,
    smtp_url: Option<Spanned<String>>,
    templates: Option<Spanned<String>>,
    task_queue: Option<Spanned<String>>,
    metrics_listen: Option<Spanned<String>>,
    #[serde(default)]
    mail: mail::Written,
    #[serde(default)]
    relay: BTreeMap<String, Spanned<relay::Written>>,
    #[serde(default)]
    stream: stream::Written,
    #[serde(default)]
    recipients: Recipients,
    #[serde(default)]
    retention: retention::Written,
    #[serde(default)]
    digest: tenant::Types,
    #[serde(default)]
    tenant: BTreeMap<String, tenant::Written>,
}

/// What holds for a recipient whatever the digest type.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipients {
    cap: Option<Spanned<String>>,
    soft_bounces: Option<Spanned<i64>>,
}

/// Reads the keys; unknown ones and wrong types are problems.
pub(super) fn parse(place: &Path, text: &str) -> Result<File, Problem> {
    toml::from_str(text).map_err(|error: toml::de::Error| Problem {
        place: place_of(place, text, error.span()),
        key: key_at(text, error.span()).to_owned(),
        value: String::new(),
        problem: with_suggestion(error.message()),
    })
}

/// The key, or the table's header, of the line that the range starts in; never a value.
fn key_at(text: &str, span: Option<Range<usize>>) -> &str {
    let Some((before, after)) = span.and_then(|span| text.split_at_checked(span.start)) else { return "" };
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = after.find('\n').map_or(text.len(), |end| before.len() + end);
    let line = &text[start..end];
    // A line of a list, or of a long text, may begin like a table or hold an `=`.
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let header = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')).filter(is_name);
    let key = line.split_once('=').map(|(key, _)| key.trim()).filter(is_name);
    header.map(|_| line.trim()).or(key).unwrap_or("")
}

/// serde's "unknown field `x`, expected one of `a`, `b`", with the nearest of them in front; and without the text that
/// it did not expect, which may be a password or a key in the wrong place.
fn with_suggestion(message: &str) -> String {
    if let Some((wrong, _)) = message.split_once(" string \"") {
        let expected = message.rsplit_once("\", expected ").map_or("", |(_, expected)| expected);
        return format!("{wrong} string, expected {expected}");
    }
    let mut names = message.split('`').skip(1).step_by(2);
    match names.next() {
        Some(unknown) if message.starts_with("unknown field") => {
            let known: Vec<_> = names.collect();
            let nearest = nearest(unknown, known.iter().copied());
            let meant = nearest.map(|name| format!("did you mean {name:?}? ")).unwrap_or_default();
            format!("no such key; {meant}There are: {}", known.join(", "))
        }
        _ => message.to_owned(),
    }
}

/// The name that was probably meant.
pub(super) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase());
    names
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

impl File {
    /// The settings that it stands for; `None` where something is missing because it was wrong.
    pub fn check(self, checks: &mut Checks<'_>, temporal: Result<Temporal, Problem>) -> Option<Config> {
        let database_url = checks.secret_url(DATABASE, self.database_url.as_ref(), database_url);
        let relays = self.relays(checks);
        let templates = checks.value("templates", self.templates.as_ref(), folder);
        let task_queue = checks.value("task_queue", self.task_queue.as_ref(), task_queue);
        let metrics_listen = checks.value("metrics_listen", self.metrics_listen.as_ref(), listen);
        let sender = self.mail.check(checks);
        let dkim = sender.as_ref().map(|sender| dkim::check(dkim::MAIL, self.mail.dkim.as_ref(), sender, checks));
        let streams = sender.as_ref().and_then(|sender| {
            let dkim = dkim.as_ref().and_then(Option::as_ref);
            let everybodys = stream::Everybodys {
                mail: &self.mail,
                sender,
                dkim,
                relays: &self.relay,
                smtp_url: self.smtp_url.as_ref(),
            };
            self.stream.check(&everybodys, checks)
        });
        // Every type is checked, also after one that is wrong.
        let digests: Vec<_> = self
            .digest
            .iter()
            .map(|(name, written)| Some((name.clone(), digest::check(name, written, checks)?)))
            .collect();
        let tenants =
            self.tenant.iter().map(|(name, written)| Some((name.clone(), written.check(name, &self.digest, checks)?)));
        let tenants: Vec<_> = tenants.collect();
        let cap = checks.value("recipients.cap", self.recipients.cap.as_ref(), cap);
        let soft_bounces = checks.count("recipients.soft_bounces", self.recipients.soft_bounces.as_ref());
        let retention = self.retention.check(checks);
        let temporal = checks.keep(temporal);
        Some(Config {
            database_url: database_url?,
            relays: relays?,
            streams: streams?,
            templates,
            task_queue: task_queue.unwrap_or_else(|| names::TASK_QUEUE.to_owned()),
            metrics_listen,
            sender: sender?,
            dkim: dkim?,
            digests: digests.into_iter().collect::<Option<_>>()?,
            tenants: tenants.into_iter().collect::<Option<_>>()?,
            cap,
            soft_bounces: soft_bounces.unwrap_or(Settings::SOFT_BOUNCES),
            retention,
            temporal: temporal?,
        })
    }

    /// The relays of the tables, and the one of `smtp_url`.
    fn relays(&self, checks: &mut Checks<'_>) -> Option<BTreeMap<String, relay::Relay>> {
        let simple = self.smtp_url.as_ref();
        let named = self.relay.iter().map(|(name, written)| {
            let relay = relay::check(name, written, simple, checks);
            Some((name.clone(), relay?))
        });
        let mut named: Vec<_> = named.collect();
        if !self.relay.contains_key(relay::DEFAULT) {
            named.push(relay::simple(simple, checks).map(|relay| (relay::DEFAULT.to_owned(), relay)));
        }
        named.into_iter().collect()
    }
}

fn database_url(text: &str) -> Result<SecretUrl, String> {
    let right = "write \"sqlite://path/to/tidings.db\" or \"postgres://user:password@host/database\"";
    let url = Url::parse(text).map_err(|error| format!("is no URL ({error}); {right}"))?;
    match url.scheme() {
        "sqlite" if text.strip_prefix("sqlite://").is_some_and(|file| !file.is_empty()) => Ok(SecretUrl::new(text)),
        "postgres" | "postgresql" if url.path().len() > 1 => Ok(SecretUrl::new(text)),
        "sqlite" => Err(format!("names no file; {right}")),
        "postgres" | "postgresql" => Err(format!("names no database; {right}")),
        other => Err(format!("{other:?} is neither sqlite nor postgres; {right}")),
    }
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        Ok(path)
    } else {
        Err("there is no such folder; leave the key out for the embedded templates".into())
    }
}

/// `5 in 1d`.
fn cap(text: &str) -> Result<Cap, String> {
    let wrong = || "is no cap; write for example \"5 in 1d\"".to_owned();
    let [most, "in", within] = text.split_ascii_whitespace().collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let most = most.parse().ok().filter(|most| *most > 0).ok_or_else(wrong)?;
    Ok(Cap { most, within: words::duration(within)? })
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "is no IP address with a port; write for example \"127.0.0.1:9464\"".to_owned())
}

fn task_queue(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err(format!("is empty; write for example {:?}", names::TASK_QUEUE))
    } else {
        Ok(text.to_owned())
    }
}
