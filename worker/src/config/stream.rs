//! Streams and their senders: `[stream.bulk]`, `[stream.transactional]` and `[mail]`, in general and for a
//! tenant. By default a stream uses `smtp_url`, and a sender that is only good for trying Tidings.

use std::collections::BTreeMap;

use lettre::message::Mailbox;
use serde::Deserialize;
use tidings_model::{
    AddressError, EmailAddress,
    link_keys::{LinkKeys, VARIABLE},
    settings::{self, DeliveryGuarantee, RelaySettings, ReturnPath, SenderIdentity, StreamSettings as Settings},
    words,
};
use toml::Spanned;

use super::{
    checks::{Checks, SpannedList},
    dkim::{self, DkimConfig, DkimTable, RawDkim},
    keys::{RawList, RawText, SettingOrigin, SettingOrigins, TableKeys as _, ToConfigValue as _, table},
    problem::{ConfigProblem, did_you_mean},
    relay,
};

const MAIL_KEY: &str = "TIDINGS_DKIM_KEY";
const BULK_KEY: &str = "TIDINGS_BULK_DKIM_KEY";
const TRANSACTIONAL_KEY: &str = "TIDINGS_TRANSACTIONAL_DKIM_KEY";

const NAME: &str = "Tidings";
const ADDRESS: &str = "digest@localhost";

table! {
    /// The keys of `[stream.NAME]`.
    pub(super) struct RawStream for stream: StreamConfig {
        relays: apart(RawList) in settings.relays;
        retry_delays: apart(RawList) in settings.retry_delays;
        guarantee: apart(RawText) in settings.guarantee;
        from: apart(RawText), shown show_from(&stream.settings.sender).show();
        reply_to: apart(RawText) in settings.sender.reply_to;
        domain: apart(RawText) in settings.sender.domain;
        dkim: raw(Option<RawDkim>);
        return_path: apart(RawText) in settings.return_path;
    }
}

table! {
    /// The keys of `[mail]` and `[tenant.NAME.mail]`: those of a stream that both streams may share.
    pub(super) struct RawMail for sender: SenderIdentity {
        from: apart(RawText), shown show_from(sender).show();
        reply_to: apart(RawText);
        domain: apart(RawText);
        dkim: raw(Option<RawDkim>);
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawStreams {
    bulk: RawStream,
    transactional: RawStream,
}

#[derive(Clone, Debug)]
pub struct StreamsConfig {
    pub bulk: StreamConfig,
    pub transactional: StreamConfig,
}

/// A stream. Its DKIM key has not been read yet.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    pub settings: Settings,
    /// `None` if the relay signs.
    pub dkim: Option<DkimConfig>,
    pub(super) unsigned_return_path: Option<ConfigProblem>,
    pub origins: SettingOrigins,
}

impl StreamConfig {
    pub(super) fn return_path_problem(&self, keys: Option<&LinkKeys>) -> Option<ConfigProblem> {
        self.unsigned_return_path.clone().filter(|_| keys.is_none())
    }
}

pub(super) type KnownRelays = BTreeMap<String, Spanned<relay::RawRelay>>;

#[derive(Clone)]
pub(super) struct StreamTable {
    table: String,
    variable: Option<&'static str>,
    raw: RawStream,
}

impl StreamTable {
    /// Only `[mail]` without a prefix has a variable for its DKIM key, a tenant's table has none.
    pub fn for_mail(prefix: &str, raw: &RawMail) -> Self {
        let RawMail { from, reply_to, domain, dkim } = raw.clone();
        Self {
            table: format!("{prefix}mail"),
            variable: prefix.is_empty().then_some(MAIL_KEY),
            raw: RawStream { from, reply_to, domain, dkim, ..RawStream::default() },
        }
    }
}

impl RawStreams {
    pub fn stream_tables(&self, prefix: &str) -> [StreamTable; 2] {
        [("bulk", &self.bulk, BULK_KEY), ("transactional", &self.transactional, TRANSACTIONAL_KEY)].map(
            |(name, raw, variable)| StreamTable {
                table: format!("{prefix}stream.{name}"),
                variable: prefix.is_empty().then_some(variable),
                raw: raw.clone(),
            },
        )
    }
}

/// The merged tables of one stream. For a tenant: its stream, its `[mail]`, the general stream and the general
/// `[mail]`. The first table with a key wins.
pub(super) struct MergedStream {
    tables: Vec<StreamTable>,
    raw: RawStream,
    origins: SettingOrigins,
}

impl MergedStream {
    /// `tables` should start with the one that overrides all others.
    pub fn new(tables: impl IntoIterator<Item = StreamTable>, checks: &Checks<'_>) -> Self {
        let tables: Vec<_> = tables.into_iter().collect();
        let (mut raw, mut origins) = (RawStream::default(), SettingOrigins::new());
        for layer in tables.iter().rev() {
            let own = layer.raw.origins(&layer.table, checks);
            // A `from` overrides an inherited `domain`, because the address has its own.
            if let Some(from) = own.get("from") {
                raw.domain = None;
                origins.insert("domain".to_owned(), from.clone());
            }
            raw = layer.raw.clone().over(&raw);
            origins.extend(own);
        }
        Self { tables, raw, origins }
    }

    pub fn stream(mut self, known: &KnownRelays, checks: &mut Checks<'_>) -> Option<StreamConfig> {
        let raw = self.raw.clone();
        let named = raw.relays.map(|raw| relay_names(&self.key("relays"), &raw, known, checks));
        let delays =
            raw.retry_delays.map(|raw| checks.each(&self.key("retry_delays"), Some(&raw), words::parse_duration));
        let guarantee = checks.text(&self.key("guarantee"), raw.guarantee.as_ref(), parse_guarantee);
        let (sender, dkim) = self.sender(checks)?;
        let returns = raw.return_path.as_ref();
        let unsigned_return_path = returns.map(|raw| {
            let problem =
                format!("needs a key that signs its tokens; set {VARIABLE} to what `tidings keys new` prints");
            ConfigProblem::new(checks.place_of(raw), self.key("return_path"), problem).with_value(raw.as_ref())
        });
        let return_path = checks.text(&self.key("return_path"), returns, return_path);
        let usual = Settings::new(&[relay::DEFAULT], sender);
        let settings = Settings {
            relays: named.unwrap_or(Some(usual.relays))?,
            retry_delays: delays.unwrap_or(Some(usual.retry_delays))?,
            guarantee: guarantee.unwrap_or(usual.guarantee),
            return_path,
            ..Settings::new(&[], usual.sender)
        };
        Some(StreamConfig { settings, dkim, unsigned_return_path, origins: self.origins })
    }

    pub fn sender(&mut self, checks: &mut Checks<'_>) -> Option<(SenderIdentity, Option<DkimConfig>)> {
        let (name, address) = match &self.raw.from {
            Some(raw) => checks.text(&self.key("from"), Some(raw), from)?,
            None => (NAME.to_owned(), ADDRESS.parse().ok()?),
        };
        let reply_to = checks.text(&self.key("reply_to"), self.raw.reply_to.as_ref(), self::parse_address);
        let domain = match &self.raw.domain {
            Some(raw) => checks.text(&self.key("domain"), Some(raw), parse_host)?,
            None => address.domain().to_owned(),
        };
        let sender = SenderIdentity { name, address, reply_to, domain };
        let dkim = self.check_signature(&sender, checks);
        Some((sender, dkim))
    }

    /// A table's key may sign for an address from another table, under the domain of this address.
    fn check_signature(&mut self, sender: &SenderIdentity, checks: &mut Checks<'_>) -> Option<DkimConfig> {
        let from = self.origins.get("from").map_or_else(|| "mail.from".to_owned(), |from| from.key.clone());
        let has_key = |layer: &&StreamTable| layer.variable.is_some_and(|variable| checks.variable(variable).is_some());
        let signs = self.tables.iter().find(|layer| layer.raw.dkim.is_some() || has_key(layer))?;
        let raw = signs.raw.dkim.as_ref();
        if let Some(raw) = raw {
            let (key, place) = (format!("{}.dkim", signs.table), checks.place_of(&raw.selector));
            self.origins.insert("dkim".to_owned(), SettingOrigin { key, place });
        }
        let table = DkimTable { parent: signs.table.clone(), variable: signs.variable, from };
        dkim::check_dkim(table, raw, sender, checks)
    }

    fn key(&self, name: &str) -> String {
        self.origins.get(name).map(|origin| origin.key.clone()).unwrap_or_default()
    }
}

impl StreamsConfig {
    pub(super) fn check(
        [bulk, transactional]: [MergedStream; 2],
        known: &KnownRelays,
        checks: &mut Checks<'_>,
    ) -> Option<Self> {
        let (bulk, transactional) = (bulk.stream(known, checks), transactional.stream(known, checks));
        Some(Self { bulk: bulk?, transactional: transactional? })
    }

    #[must_use]
    pub fn both(&self) -> [&StreamConfig; 2] {
        [&self.bulk, &self.transactional]
    }

    #[must_use]
    pub fn settings(&self) -> settings::DeliveryStreams {
        settings::DeliveryStreams {
            bulk: self.bulk.settings.clone(),
            transactional: self.transactional.settings.clone(),
        }
    }

    /// Warns if both streams share a relay and a sender domain (rule 29), except with the default sender.
    pub(super) fn warning(&self) -> Option<ConfigProblem> {
        let [bulk, transactional] = [&self.bulk.settings, &self.transactional.settings];
        let relay = bulk.relays.iter().find(|name| transactional.relays.contains(name))?;
        let domain = |stream: &Settings| stream.sender.address.domain().to_ascii_lowercase();
        let shared = domain(bulk);
        if shared != domain(transactional) || bulk.sender.address.as_str() == ADDRESS {
            return None;
        }
        let problem = format!(
            "digests and single messages share the relay {relay:?} and the sender domain {shared}, so complaints about \
             digests harm single messages; add [relay.NAME] with a url, and [stream.transactional] with relays = [\"NAME\"] \
             and from = \"Acme <hello@mail.{shared}>\""
        );
        Some(ConfigProblem::new("streams", "", problem))
    }
}

fn show_from(SenderIdentity { name, address, .. }: &SenderIdentity) -> String {
    if name.is_empty() { address.to_string() } else { format!("{name} <{address}>") }
}

/// Reports relays without a stream, and a rate used by both streams (rule 29). `all` should include tenants.
pub(super) fn check_relays(
    all: &[&StreamsConfig],
    known: &KnownRelays,
    smtp_url: Option<&Spanned<String>>,
    checks: &mut Checks<'_>,
) {
    let by = |stream: &StreamConfig, name: &str| stream.settings.relays.iter().any(|relay| relay == name);
    let any = |name: &str, of: fn(&StreamsConfig) -> &StreamConfig| all.iter().any(|streams| by(of(streams), name));
    let users = |name: &str| (any(name, |streams| &streams.bulk), any(name, |streams| &streams.transactional));
    let unused =
        |name: &str| format!("no stream uses this relay; add {name:?} to stream.bulk.relays, or remove the relay");
    for (name, raw) in known {
        let header = Spanned::new(raw.span(), String::new());
        match (users(name), &raw.as_ref().rate) {
            ((false, false), _) => {
                checks.text(&format!("relay.{name}"), Some(&header), |_| Err::<(), _>(unused(name)));
            }
            ((true, true), Some(rate)) => {
                let fault = "limits one stream, but both streams use this relay; write two relays, each with its share";
                checks.text(&format!("relay.{name}.rate"), Some(rate), |_| Err::<(), _>(fault.to_owned()));
            }
            _ => {}
        }
    }
    if let (Some(url), (false, false)) = (smtp_url, users(relay::DEFAULT)) {
        checks.secret("smtp_url", Some(url), |_| Err::<(), _>(unused(relay::DEFAULT)));
    }
}

fn relay_names(key: &str, raw: &SpannedList, known: &KnownRelays, checks: &mut Checks<'_>) -> Option<Vec<String>> {
    let named = checks.each(key, Some(raw), |name| {
        if name == relay::DEFAULT || known.contains_key(name) {
            return Ok(name.to_owned());
        }
        let meant = did_you_mean(name, known.keys().map(String::as_str));
        Err(format!("there is no [relay.{name}]{meant}"))
    })?;
    let all = Spanned::new(raw.span(), named.join(", "));
    checks.text(key, Some(&all), |text| match text {
        "" => Err(format!("names no relay; leave the key out for {:?}, the relay of smtp_url", relay::DEFAULT)),
        _ => Ok(named),
    })
}

fn parse_guarantee(text: &str) -> Result<DeliveryGuarantee, String> {
    let right = "write \"at_least_once\" to send again after an unknown outcome, or \"at_most_once\"";
    DeliveryGuarantee::named(text).ok_or_else(|| format!("is not a guarantee; {right}"))
}

/// Parses an address for bounces. The local part must leave room for the token.
fn return_path(text: &str) -> Result<ReturnPath, String> {
    let address: EmailAddress = parse_address(text)?;
    let wrong = || {
        let most = ReturnPath::LOCAL_BYTES;
        format!(
            "needs 1 to {most} lower-case letters, digits, '.', '_' or '-' before the @, and a host name in ASCII; write for \
             example \"bounce@mail.acme.example\""
        )
    };
    let local = address.local_part();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    if local.len() > ReturnPath::LOCAL_BYTES || !local.chars().all(fits) {
        return Err(wrong());
    }
    let domain = parse_host(address.domain()).map_err(|_| wrong())?;
    Ok(ReturnPath { local: local.to_owned(), domain })
}

/// Rejects the default sender for a relay on another machine. Replies would go nowhere, and relays reject
/// such email or treat it as spam.
pub(super) fn default_sender_problem(
    sender: &SenderIdentity,
    RelaySettings { relay, .. }: &RelaySettings,
) -> Option<ConfigProblem> {
    let unusable = sender.address.as_str() == ADDRESS && !relay.is_loopback();
    unusable.then(|| {
        let problem = format!(
            "is not a real address, and messages go to {relay}; set it, for example to \"Acme <digest@acme.example>\""
        );
        ConfigProblem::new("default", "mail.from", problem).with_value(format!("{NAME} <{ADDRESS}>"))
    })
}

fn from(text: &str) -> Result<(String, EmailAddress), String> {
    let wrong = "is not a sender; write for example \"Acme <digest@acme.example>\"";
    let (name, address) = match text.trim().strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some(parts) => parts,
        None => ("", text.trim()),
    };
    let address = address.trim().parse::<EmailAddress>().map_err(|error| match error {
        AddressError::NotAddress => wrong.to_owned(),
        error => format!("is not a sender: its address {error}"),
    })?;
    // lettre parses the name, which may be quoted, but rejects some valid addresses.
    let Mailbox { name, .. } = format!("{name}<{ADDRESS}>").parse().map_err(|_| wrong.to_owned())?;
    Ok((name.unwrap_or_default(), address))
}

fn parse_address(text: &str) -> Result<EmailAddress, String> {
    text.parse().map_err(|error: AddressError| error.to_string())
}

fn parse_host(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(url::Host::Domain(host)) if host == text => Ok(host),
        _ => Err("is not a host name; write for example \"mail.acme.example\"".to_owned()),
    }
}
