//! Tables of keys. Each key is declared once: type, field in the settings and display. Reading, merging,
//! showing and origins follow from this.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Serialize, Serializer};
use tidings_gateway::api::TokenType;
use tidings_model::{
    Cadence, EmailAddress, Provider, QuietHours, ZoneData,
    cadence::DayRange,
    offered_cadences::OfferedCadences,
    settings::{
        BrandColour, DeliveryGuarantee, DigestCap, MessageRate, PageUrl, ReturnPath, TrackedAction, TrackingSettings,
    },
    words,
};
use toml::Spanned;

use super::checks::{Checks, SpannedList};

pub(super) trait RawValue {
    fn over(self, base: &Self) -> Self;
    /// Returns each key with its place. An entry in a nested table is named e.g. `delay.CATEGORY`.
    fn places(&self, key: &str, checks: &Checks<'_>) -> Vec<(String, String)>;
}

/// An entry in a table with keys chosen by the team.
pub(super) trait TableEntry: Clone {
    fn over(self, _base: &Self) -> Self {
        self
    }
    fn place(&self, checks: &Checks<'_>) -> String;
}

impl<T: Clone> RawValue for Option<Spanned<T>> {
    fn over(self, base: &Self) -> Self {
        self.or_else(|| base.clone())
    }

    fn places(&self, key: &str, checks: &Checks<'_>) -> Vec<(String, String)> {
        self.iter().map(|raw| (key.to_owned(), checks.place_of(raw))).collect()
    }
}

impl<T: TableEntry> RawValue for BTreeMap<String, T> {
    fn over(self, base: &Self) -> Self {
        let mut merged = base.clone();
        for (name, entry) in self {
            let entry = match base.get(&name) {
                Some(below) => entry.over(below),
                None => entry,
            };
            merged.insert(name, entry);
        }
        merged
    }

    fn places(&self, key: &str, checks: &Checks<'_>) -> Vec<(String, String)> {
        self.iter().map(|(name, entry)| (format!("{key}.{name}"), entry.place(checks))).collect()
    }
}

impl<T: Clone> TableEntry for Spanned<T> {
    fn place(&self, checks: &Checks<'_>) -> String {
        checks.place_of(self)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingOrigin {
    pub key: String,
    pub place: String,
}

/// Origins by key. A setting without an entry has its default.
pub type SettingOrigins = BTreeMap<String, SettingOrigin>;

pub(super) type RawText = Option<Spanned<String>>;
pub(super) type RawNumber = Option<Spanned<i64>>;
pub(super) type RawFlag = Option<Spanned<bool>>;
pub(super) type RawList = Option<SpannedList>;

pub(super) trait TableKeys {
    fn over(self, base: &Self) -> Self;
    fn origins(&self, table: &str, checks: &Checks<'_>) -> SettingOrigins;
}

pub(crate) trait ToTable {
    fn to_table(&self) -> ConfigTable;
}

/// Declares the keys for the settings type `$type`; expressions may use the settings under the given name.
/// Keys are read, and listed in problems, in the order written here. `KEY: KIND(...)` reads into the field
/// with the same name, or into the path after `in`. Without a value, the field keeps its default. `shown`
/// overrides how `config check` shows the key.
///
/// `text`, `number`, `secret`, `each` and `list` call the method with this name on [`Checks`] and take the
/// same arguments: a parser or a check. `listener` takes the key that accepts a missing TLS. `entries` takes
/// a parser for each entry, and a remedy for `*`. An `apart` key is read by hand. So is a `raw` key, which is
/// also neither merged nor shown.
///
/// With `read`, the table gets a method `read` with these extra parameters.
macro_rules! table {
    ($(#[$meta:meta])* $vis:vis struct $name:ident for $settings:ident: $type:ty $(, read($($param:ident: $given:ty),*))? {
        $($key:ident: $kind:ident($($arg:tt)*) $(in $($path:tt).+)? $(, shown $show:expr)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $vis struct $name {
            $(pub $key: $crate::config::keys::table!(@type $kind($($arg)*)),)+
        }

        impl $crate::config::keys::TableKeys for $name {
            fn over(self, base: &Self) -> Self {
                Self { $($key: $crate::config::keys::table!(@over self base $key $kind),)+ }
            }

            fn origins(&self, table: &str, checks: &$crate::config::checks::Checks<'_>) -> $crate::config::SettingOrigins {
                let places = [$($crate::config::keys::table!(@places self checks $key $kind)),+];
                let origin = |(name, place)| {
                    let key = format!("{table}.{name}");
                    (name, $crate::config::SettingOrigin { key, place })
                };
                places.into_iter().flatten().map(origin).collect()
            }
        }

        impl $crate::config::keys::ToTable for $type {
            fn to_table(&self) -> $crate::config::keys::ConfigTable {
                let $settings = self;
                $crate::config::keys::ConfigTable::of([$((
                    stringify!($key),
                    $crate::config::keys::table!(@show $settings $key $kind [$($($path).+)?] [$($show)?]),
                )),+])
            }
        }

        $crate::config::keys::table!(@reader [$(read $($param: $given),*)?] $name $settings: $type {
            $($key: $kind($($arg)*) [$($($path).+)?];)+
        });
    };
    (@reader [] $($rest:tt)*) => {};
    (@reader [read $($param:ident: $given:ty),*] $name:ident $settings:ident: $type:ty {
        $($key:ident: $kind:ident($($arg:tt)*) $path:tt;)+
    }) => {
        impl $name {
            /// Reads the keys of `table` that are not apart, also after a wrong one.
            fn read(
                &self,
                table: &str,
                $settings: &mut $type,
                checks: &mut $crate::config::checks::Checks<'_>,
                $($param: $given,)*
            ) {
                let (raw, name) = (self, |key: &str| format!("{table}.{key}"));
                $($crate::config::keys::table!(@read raw name $settings checks $key $path $kind($($arg)*));)+
            }
        }
    };
    (@type number($($arg:tt)*)) => { $crate::config::keys::RawNumber };
    (@type each($($arg:tt)*)) => { $crate::config::keys::RawList };
    (@type list($($arg:tt)*)) => { $crate::config::keys::RawList };
    (@type entries($($arg:tt)*)) => { std::collections::BTreeMap<String, toml::Spanned<String>> };
    (@type apart($type:ty)) => { $type };
    (@type raw($type:ty)) => { $type };
    (@type $kind:ident($($arg:tt)*)) => { $crate::config::keys::RawText };
    (@over $raw:ident $base:ident $key:ident raw) => { $raw.$key };
    (@over $raw:ident $base:ident $key:ident $kind:ident) => {
        $crate::config::keys::RawValue::over($raw.$key, &$base.$key)
    };
    (@places $raw:ident $checks:ident $key:ident raw) => { Vec::new() };
    (@places $raw:ident $checks:ident $key:ident $kind:ident) => {
        $crate::config::keys::RawValue::places(&$raw.$key, stringify!($key), $checks)
    };
    (@read $raw:ident $name:ident $settings:ident $checks:ident $key:ident $path:tt apart($type:ty)) => {};
    (@read $raw:ident $name:ident $settings:ident $checks:ident $key:ident $path:tt raw($type:ty)) => {};
    (@read $raw:ident $name:ident $settings:ident $checks:ident $key:ident $path:tt $kind:ident($($arg:tt)*)) => {
        let value = $crate::config::keys::table!(@value $raw $name $checks $key $kind($($arg)*));
        if let Some(value) = value {
            $crate::config::keys::table!(@field $settings $key $path) = value.into();
        }
    };
    (@value $raw:ident $name:ident $checks:ident $key:ident listener($tls:ident, has_proxy: $has_proxy:literal)) => {
        $checks.listener(
            (&$name(stringify!($key)), $raw.$key.as_ref()),
            (&$name(stringify!($tls)), $raw.$tls.as_ref()),
            $has_proxy,
        )
    };
    (@value $raw:ident $name:ident $checks:ident $key:ident entries($($arg:tt)*)) => {
        Some($checks.entries(&$name(stringify!($key)), &$raw.$key, $($arg)*))
    };
    (@value $raw:ident $name:ident $checks:ident $key:ident $kind:ident($($arg:tt)*)) => {
        $checks.$kind(&$name(stringify!($key)), $raw.$key.as_ref(), $($arg)*)
    };
    (@show $settings:ident $key:ident raw $path:tt []) => { None };
    (@show $settings:ident $key:ident $kind:ident $path:tt []) => {
        $crate::config::keys::ToConfigValue::show(&$crate::config::keys::table!(@field $settings $key $path))
    };
    (@show $settings:ident $key:ident $kind:ident $path:tt [$show:expr]) => { $show };
    (@field $settings:ident $key:ident []) => { $settings.$key };
    (@field $settings:ident $key:ident [$($path:tt).+]) => { $settings.$($path).+ };
}
pub(super) use table;

#[derive(PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ConfigValue {
    Text(String),
    Count(u64),
    Flag(bool),
    List(Vec<Self>),
    Table(ConfigTable),
    Zones(&'static ZoneData),
}

impl ConfigValue {
    fn is_table(&self) -> bool {
        match self {
            Self::Table(_) | Self::Zones(_) => true,
            Self::List(entries) => entries.first().is_some_and(Self::is_table),
            Self::Text(_) | Self::Count(_) | Self::Flag(_) => false,
        }
    }
}

/// Keys in display order: values first, then tables, as TOML requires.
#[derive(Default, PartialEq, Eq)]
pub struct ConfigTable(Vec<(String, ConfigValue)>);

impl ConfigTable {
    pub fn of<'a>(values: impl IntoIterator<Item = (&'a str, Option<ConfigValue>)>) -> Self {
        values.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    pub fn insert_first(&mut self, key: &str, value: Option<ConfigValue>) {
        self.0.splice(0..0, value.map(|value| (key.to_owned(), value)));
    }

    pub fn insert_value(&mut self, key: &str, value: Option<ConfigValue>) {
        let at = self.0.iter().position(|(_, value)| value.is_table()).unwrap_or(self.0.len());
        self.0.splice(at..at, value.map(|value| (key.to_owned(), value)));
    }

    pub fn insert_table(&mut self, key: &str, table: Option<Self>) {
        self.0.extend(table.map(|table| (key.to_owned(), ConfigValue::Table(table))));
    }

    pub fn unless_empty(self) -> Option<ConfigValue> {
        (!self.0.is_empty()).then_some(ConfigValue::Table(self))
    }

    pub fn without_defaults(self, usual: &Self) -> Self {
        Self(self.0.into_iter().filter(|one| !usual.0.contains(one)).collect())
    }
}

impl FromIterator<(String, ConfigValue)> for ConfigTable {
    fn from_iter<I: IntoIterator<Item = (String, ConfigValue)>>(values: I) -> Self {
        let (tables, values): (Vec<_>, Vec<_>) = values.into_iter().partition(|(_, value)| value.is_table());
        Self(values.into_iter().chain(tables).collect())
    }
}

impl Serialize for ConfigTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

pub trait ToConfigValue {
    fn show(&self) -> Option<ConfigValue>;
}

impl<T: ToConfigValue> ToConfigValue for Option<T> {
    fn show(&self) -> Option<ConfigValue> {
        self.as_ref().and_then(ToConfigValue::show)
    }
}

impl<T: ToConfigValue> ToConfigValue for Vec<T> {
    fn show(&self) -> Option<ConfigValue> {
        Some(ConfigValue::List(self.iter().filter_map(ToConfigValue::show).collect()))
    }
}

impl<T: ToConfigValue> ToConfigValue for BTreeMap<String, T> {
    fn show(&self) -> Option<ConfigValue> {
        let entries = self.iter().filter_map(|(name, value)| Some((name.clone(), value.show()?)));
        (!self.is_empty()).then(|| ConfigValue::Table(entries.collect()))
    }
}

impl ToConfigValue for bool {
    fn show(&self) -> Option<ConfigValue> {
        self.then_some(ConfigValue::Flag(true))
    }
}

macro_rules! shows {
    ($($($type:ty),+: $value:ident => $shown:expr;)+) => { $($(
        impl ToConfigValue for $type {
            fn show(&self) -> Option<ConfigValue> {
                let $value = self;
                Some($shown)
            }
        }
    )+)+ };
}

shows! {
    String: text => ConfigValue::Text(text.clone());
    &str, SocketAddr, EmailAddress, ReturnPath, PageUrl, BrandColour, MessageRate, DigestCap, Cadence, DayRange:
        text => ConfigValue::Text(text.to_string());
    DeliveryGuarantee, Provider, TokenType: named => ConfigValue::Text(named.name().to_owned());
    &Path, PathBuf: path => ConfigValue::Text(path.display().to_string());
    Duration: duration => ConfigValue::Text(words::format_duration(*duration));
    u32: count => ConfigValue::Count(u64::from(*count));
    u64: count => ConfigValue::Count(*count);
    usize: count => ConfigValue::Count(*count as u64);
    OfferedCadences: choices => ConfigValue::List(text_list(choices.entries()));
    TrackingSettings: track => ConfigValue::List(text_list(track.tracked_actions().map(TrackedAction::name)));
}

impl ToConfigValue for QuietHours {
    fn show(&self) -> Option<ConfigValue> {
        unless_empty(text_list(self.times()))
    }
}

pub(crate) fn unless_empty(entries: Vec<ConfigValue>) -> Option<ConfigValue> {
    (!entries.is_empty()).then_some(ConfigValue::List(entries))
}

pub(super) fn text_list<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<ConfigValue> {
    values.into_iter().map(|value| ConfigValue::Text(value.to_string())).collect()
}
