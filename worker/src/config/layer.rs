//! The tables that name the keys of a stream, one over the other: those of a tenant's stream, of a tenant, of the stream and of
//! all mail. Each key has the value of the first table that names it.

use tidings_model::{
    link_keys::VARIABLE,
    settings::{Sender, Stream as Settings},
    words,
};
use toml::Spanned;

use super::{
    dkim::{self, DkimConfig, DkimTable, RawDkim},
    list::{SpannedList, parse_each},
    mail::{self, RawMail},
    origin::{Origin, Origins},
    problem::{Checks, Problem},
    relay,
    stream::{KnownRelays, RawStream, Stream, guarantee, relays, return_path},
};

/// A table that names keys of a stream.
#[derive(Clone, Default)]
pub(super) struct Layer<'a> {
    table: String,
    /// The environment variable with the table's DKIM key.
    variable: Option<&'static str>,
    relays: Option<&'a SpannedList>,
    retry_delays: Option<&'a SpannedList>,
    guarantee: Option<&'a Spanned<String>>,
    from: Option<&'a Spanned<String>>,
    reply_to: Option<&'a Spanned<String>>,
    domain: Option<&'a Spanned<String>>,
    dkim: Option<&'a RawDkim>,
    return_path: Option<&'a Spanned<String>>,
}

impl<'a> Layer<'a> {
    /// The table `table`, like `[mail]`.
    pub fn mail(table: &str, raw: &'a RawMail, variable: Option<&'static str>) -> Self {
        Self {
            table: table.to_owned(),
            variable,
            from: raw.from.as_ref(),
            reply_to: raw.reply_to.as_ref(),
            domain: raw.domain.as_ref(),
            dkim: raw.dkim.as_ref(),
            ..Self::default()
        }
    }

    /// The table `table`, like `[stream.bulk]`.
    pub fn stream(table: &str, raw: &'a RawStream, variable: Option<&'static str>) -> Self {
        Self {
            table: table.to_owned(),
            variable,
            relays: raw.relays.as_ref(),
            retry_delays: raw.retry_delays.as_ref(),
            guarantee: raw.guarantee.as_ref(),
            from: raw.from.as_ref(),
            reply_to: raw.reply_to.as_ref(),
            domain: raw.domain.as_ref(),
            dkim: raw.dkim.as_ref(),
            return_path: raw.return_path.as_ref(),
        }
    }
}

/// Tables, the one that overrides all others first.
pub(super) struct Layers<'a> {
    layers: Vec<Layer<'a>>,
    origins: Origins,
}

/// A value of the file with its key.
type Named<'a, T> = (String, &'a Spanned<T>);

impl<'a> Layers<'a> {
    pub fn new(layers: impl IntoIterator<Item = Layer<'a>>) -> Self {
        Self { layers: layers.into_iter().collect(), origins: Origins::new() }
    }

    /// Checks the stream that the tables describe together.
    pub fn stream(mut self, known: &KnownRelays, checks: &mut Checks<'_>) -> Option<Stream> {
        let named = self.named("relays", |layer| layer.relays, checks);
        let named = named.map(|(key, raw)| relays(&key, raw, known, checks));
        let delays = self.named("retry_delays", |layer| layer.retry_delays, checks);
        let delays = delays.map(|(key, raw)| parse_each(&key, raw, checks, words::duration));
        let promise = self.named("guarantee", |layer| layer.guarantee, checks);
        let promise = promise.and_then(|(key, raw)| checks.value(&key, Some(raw), guarantee));
        let (sender, dkim) = self.sender(checks)?;
        let returns = self.named("return_path", |layer| layer.return_path, checks);
        let unsigned_return_path = returns.as_ref().map(|(key, raw)| Problem {
            place: checks.place_of(raw),
            key: key.clone(),
            value: raw.as_ref().clone(),
            problem: format!("needs a key that signs its tokens; set {VARIABLE} to what `tidings keys new` prints"),
        });
        let return_path = returns.and_then(|(key, raw)| checks.value(&key, Some(raw), return_path));
        let usual = Settings::new(&[relay::DEFAULT], sender);
        let settings = Settings {
            relays: named.unwrap_or(Some(usual.relays))?,
            retry_delays: delays.unwrap_or(Some(usual.retry_delays))?,
            guarantee: promise.unwrap_or(usual.guarantee),
            return_path,
            ..Settings::new(&[], usual.sender)
        };
        Some(Stream { settings, dkim, unsigned_return_path, origins: self.origins })
    }

    /// Checks the sender and its signature. The address of a table brings a domain of its own.
    pub fn sender(&mut self, checks: &mut Checks<'_>) -> Option<(Sender, Option<DkimConfig>)> {
        let (name, address) = match self.named("from", |layer| layer.from, checks) {
            Some((key, raw)) => checks.value(&key, Some(raw), mail::from)?,
            None => (mail::NAME.to_owned(), mail::ADDRESS.parse().ok()?),
        };
        let reply_to = self.named("reply_to", |layer| layer.reply_to, checks);
        let reply_to = reply_to.and_then(|(key, raw)| checks.value(&key, Some(raw), mail::address));
        let domain = match self.domain(checks) {
            Some((key, raw)) => checks.value(&key, Some(raw), mail::host)?,
            None => address.domain().to_owned(),
        };
        let sender = Sender { name, address, reply_to, domain };
        let dkim = self.dkim(&sender, checks);
        Some((sender, dkim))
    }

    /// Returns the domain that a table names, unless a table above it, or the same one without a domain, names an address.
    fn domain(&mut self, checks: &Checks<'_>) -> Option<Named<'a, String>> {
        let layer = self.layers.iter().find(|layer| layer.domain.is_some() || layer.from.is_some())?;
        let (name, raw) = layer.domain.map(|raw| ("domain", raw)).or_else(|| Some(("from", layer.from?)))?;
        let key = format!("{}.{name}", layer.table);
        self.origins.insert("domain".to_owned(), Origin::new(&key, raw, checks));
        (name == "domain").then_some((key, raw))
    }

    /// Checks the signature. The key of a table also signs for the address of a table above it, in the name of that domain.
    fn dkim(&mut self, sender: &Sender, checks: &mut Checks<'_>) -> Option<DkimConfig> {
        let from = self.layers.iter().find(|layer| layer.from.is_some()).map_or("mail", |layer| layer.table.as_str());
        let from = format!("{from}.from");
        let has_key = |layer: &&Layer<'_>| layer.variable.is_some_and(|variable| checks.variable(variable).is_some());
        let signs = self.layers.iter().find(|layer| layer.dkim.is_some() || has_key(layer))?;
        if let Some(raw) = signs.dkim {
            let key = format!("{}.dkim", signs.table);
            self.origins.insert("dkim".to_owned(), Origin::new(&key, &raw.selector, checks));
        }
        let table = DkimTable { parent: signs.table.clone(), variable: signs.variable, from };
        dkim::check(table, signs.dkim, sender, checks)
    }

    /// Returns the value of the first table that names the key.
    fn named<T>(
        &mut self,
        name: &str,
        value: impl Fn(&Layer<'a>) -> Option<&'a Spanned<T>>,
        checks: &Checks<'_>,
    ) -> Option<Named<'a, T>> {
        let (table, raw) = self.layers.iter().find_map(|layer| Some((&layer.table, value(layer)?)))?;
        let key = format!("{table}.{name}");
        self.origins.insert(name.to_owned(), Origin::new(&key, raw, checks));
        Some((key, raw))
    }
}
