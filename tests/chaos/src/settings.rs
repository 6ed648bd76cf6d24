//! The configuration of a run: digest types with all cadences, two bulk relays, and short retry delays.

use std::fmt::Write as _;

use rand::{RngExt, rngs::ChaCha8Rng};
use tidings_model::Key;

/// Tenants, each with its own users of the same names.
pub const TENANTS: [&str; 2] = ["acme", "globex"];
/// Categories of events. `share` has a delay of its own in one digest type.
pub const CATEGORIES: [&str; 3] = ["comment", "share", "alarm"];
/// The bulk stream's relays in order of preference, and the relay of single messages.
pub const RELAYS: [&str; 3] = ["first", "second", "single"];
/// Cadences that recipients choose. `hourly` outlasts the run and is flushed at its end.
pub const CHOICES: [&str; 4] = ["instant", "after 5s", "sliding 3s max 9s", "hourly"];

/// One of the files that an operator changes to and fro.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edition {
    /// A digest type and a relay have other names.
    pub renamed: bool,
    /// Two digest types have other cadences.
    pub slower: bool,
}

/// The digest type and the relay that are renamed, and their other names.
const RENAMED_TYPE: [&str; 2] = ["soon", "fresh"];
const RENAMED_RELAY: [&str; 2] = ["first", "main"];
/// Tables of digest types in a file that is slower.
const SLOWER: [(&str, &str); 2] = [("soon", "cadence = 'after 8s'"), ("sliding", "cadence = 'after 6s'")];

impl Edition {
    pub const ALL: [Self; 4] = [
        Self { renamed: false, slower: false },
        Self { renamed: true, slower: false },
        Self { renamed: false, slower: true },
        Self { renamed: true, slower: true },
    ];

    /// The name of the file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match (self.renamed, self.slower) {
            (false, false) => "tidings.toml",
            (true, false) => "renamed.toml",
            (false, true) => "slower.toml",
            (true, true) => "renamed-and-slower.toml",
        }
    }

    /// The name in this file of a thing with these two names, and the line about its other name.
    fn name(self, names: [&'static str; 2]) -> (&'static str, String) {
        let [today, before] = if self.renamed { [names[1], names[0]] } else { names };
        (today, format!("was = [\"{before}\"]\n"))
    }
}

/// The key with the other name of its digest type, if it has one.
pub(super) fn renamed(key: &Key) -> Option<Key> {
    let [name, other] = RENAMED_TYPE;
    (key.digest_type == name).then(|| Key { digest_type: other.to_owned(), ..key.clone() })
}

/// The names of the renamed digest type for the checker: `other=name`.
#[must_use]
pub fn renaming() -> String {
    let [name, other] = RENAMED_TYPE;
    format!("{other}={name}")
}

/// The file of the keys that sign links and return paths.
pub const KEYS: &str = "link_keys";

/// The secret of the relays' webhooks, made for chaos, and its variable.
pub const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";
pub const SECRET_VARIABLE: &str = "CHAOS_WEBHOOK";

/// The ports of the gateway's listeners.
#[derive(Clone, Copy)]
pub struct Ports {
    pub public: u16,
    pub api: u16,
}

/// Waits between attempts, after which a digest returns its events.
const RETRY_DELAYS: &[&str] = &["1s", "1s", "2s", "3s", "5s"];
/// Waits that outlast an upgrade. A run that opened a window for returned events would wait for the new build.
const LONG_RETRY_DELAYS: &[&str] = &["2s"; 300];

/// A digest type: its name, its percentage of the events, and its table.
const TYPES: [(&str, u32, &str); 11] = [
    ("instant", 4, "cadence = 'instant'"),
    ("soon", 22, "cadence = 'after 3s'"),
    ("delayed", 14, "cadence = 'after 25s'\ndelay.share = '4s'"),
    ("sliding", 14, "cadence = 'sliding 4s max 15s'"),
    ("full", 14, "cadence = 'after 20s'\nmax_events = 10"),
    ("first", 10, "cadence = 'after 15s'\nsend_first = '20s'"),
    ("throttled", 9, "cadence = 'after 2s'\nthrottle = '15s'\nkeep_open = '5s'"),
    ("skipping", 4, "cadence = 'after 2s'\nthrottle = '15s'\non_throttle = 'skip'"),
    ("minutely", 6, "cadence = 'cron * * * * *'\nspread = '5s'"),
    ("hourly", 2, "cadence = 'hourly'"),
    ("never", 1, "cadence = 'never'"),
];

/// Draws a digest type.
pub(super) fn digest_type(random: &mut ChaCha8Rng) -> &'static str {
    let mut left = random.random_range(0..TYPES.iter().map(|(_, share, _)| share).sum());
    for (name, share, _) in TYPES {
        if left < share {
            return name;
        }
        left -= share;
    }
    TYPES[0].0
}

/// `tidings.toml`, with this store, these relays and this gateway. Without a gateway, earlier builds can read it, and the waits between
/// the attempts of a digest are long. Without an edition, nothing has another name.
#[must_use]
pub fn toml(database_url: &str, relays: &[String], gateway: Option<Ports>, edition: Option<Edition>) -> String {
    // The name of a thing in this file, and the line about its other name.
    let named = |name: &'static str, names: [&'static str; 2]| match edition {
        Some(edition) if name == names[0] => edition.name(names),
        _ => (name, String::new()),
    };
    let [first, second, single] = RELAYS.map(|name| named(name, RENAMED_RELAY).0);
    let retry_delays = if gateway.is_some() { RETRY_DELAYS } else { LONG_RETRY_DELAYS };
    // Earlier builds know no time of a reply. A worker that dies past the dot delays its message for that long.
    let reply_timeout = if gateway.is_some() { "reply_timeout = \"10s\"\n" } else { "" };
    let [keys, return_path, webhook] = match gateway {
        Some(_) => [
            format!("link_keys_file = \"{KEYS}\"\n"),
            "return_path = \"bounce@tidings.example\"\n".to_owned(),
            format!("webhook_secret_env = \"{SECRET_VARIABLE}\"\n"),
        ],
        None => Default::default(),
    };
    let mut text = format!(
        "database_url = \"{database_url}\"\n{keys}\
         [mail]\nfrom = \"Tidings <digest@tidings.example>\"\n\
         [recipients]\ncap = \"40 in 1m\"\n\
         [stream.bulk]\nrelays = [\"{first}\", \"{second}\"]\nretry_delays = {retry_delays:?}\n{return_path}\
         [stream.transactional]\nrelays = [\"{single}\"]\nguarantee = \"at_most_once\"\n\
         retry_delays = [\"1s\", \"2s\", \"3s\"]\n{return_path}"
    );
    for (name, url) in RELAYS.into_iter().zip(relays) {
        let (name, was) = named(name, RENAMED_RELAY);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[relay.{name}]\nurl = \"{url}\"\n{was}{reply_timeout}{webhook}");
    }
    if let Some(Ports { public, api }) = gateway {
        let _ = writeln!(
            text,
            "[gateway]\npublic_url = \"http://localhost:{public}\"\nlisten = \"127.0.0.1:{public}\"\n\
             api_listen = \"127.0.0.1:{api}\""
        );
    }
    let slower = edition.is_some_and(|edition| edition.slower);
    for (name, _, table) in TYPES {
        let slow = SLOWER.into_iter().find(|(of, _)| slower && *of == name);
        let table = slow.map_or(table, |(_, table)| table);
        let (name, was) = named(name, RENAMED_TYPE);
        let _ = writeln!(text, "[digest.{name}]\ntemplate = \"activity\"\n{was}{table}");
    }
    text
}
