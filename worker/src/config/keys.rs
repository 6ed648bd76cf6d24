//! Tables of keys. A key stands once, with its values, its place in the settings and its words. How tables are read, merged and shown, and
//! where a setting comes from, follows.

use std::{collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer};
use tidings_model::{
    Cadence, Quiet,
    cadence::DayRange,
    offered_cadences::Choices,
    settings::{Counted, Track},
    words,
};
use toml::Spanned;

use super::problem::Checks;

/// What the file says for a key.
pub(super) trait Raw {
    /// This value, or that of the table below.
    fn over(self, base: &Self) -> Self;
    /// The names of the values with their places. An entry of a table has the name `delay.CATEGORY`.
    fn places(&self, key: &str, checks: &Checks<'_>) -> Vec<(String, String)>;
}

/// An entry of a table whose names the team chooses.
pub(super) trait Entry: Clone {
    /// This entry over that of the same name.
    fn over(self, _base: &Self) -> Self {
        self
    }
    fn place(&self, checks: &Checks<'_>) -> String;
}

impl<T: Clone> Raw for Option<Spanned<T>> {
    fn over(self, base: &Self) -> Self {
        self.or_else(|| base.clone())
    }

    fn places(&self, key: &str, checks: &Checks<'_>) -> Vec<(String, String)> {
        self.iter().map(|raw| (key.to_owned(), checks.place_of(raw))).collect()
    }
}

impl<T: Entry> Raw for BTreeMap<String, T> {
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

impl Entry for Spanned<String> {
    fn place(&self, checks: &Checks<'_>) -> String {
        checks.place_of(self)
    }
}

/// Declares the keys of a table, in the order in which a problem lists them. `KEY: KIND(...)` is read into the field of the settings with
/// the key's name, or that after `in`, and keeps the default without a value: `text` by its parser, `count` with the most that it may be,
/// `list` by its check, and `entries` by the parser of each with what to write in the place of `*`. A key that is `apart` is checked by
/// hand. `shown` says what `config check` shows, where it is not the field.
macro_rules! table {
    ($(#[$meta:meta])* $vis:vis struct $name:ident for $settings:ident {
        $($key:ident: $kind:ident($($arg:tt)*) $(in $($path:ident).+)? $(, shown $show:expr)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $vis struct $name {
            $($key: $crate::config::keys::table!(@raw $kind($($arg)*)),)+
        }

        impl $name {
            /// Merges two tables. These keys override those of `base`.
            pub fn over(self, base: &Self) -> Self {
                Self { $($key: $crate::config::keys::Raw::over(self.$key, &base.$key),)+ }
            }

            /// The origins of the settings that `table` names.
            pub fn origins(&self, table: &str, checks: &$crate::config::problem::Checks<'_>) -> $crate::config::Origins {
                let places = [$($crate::config::keys::Raw::places(&self.$key, stringify!($key), checks)),+];
                let origin = |(name, place)| {
                    let key = format!("{table}.{name}");
                    (name, $crate::config::Origin { key, place })
                };
                places.into_iter().flatten().map(origin).collect()
            }

            /// Reads the keys of `table` that are not apart, also after a wrong one.
            fn read(
                &self,
                table: &str,
                settings: &mut $settings,
                checks: &mut $crate::config::problem::Checks<'_>,
            ) {
                let (raw, key) = (self, |key: &str| format!("{table}.{key}"));
                $($crate::config::keys::table!(@read raw key settings checks $key [$($($path).+)?] $kind($($arg)*));)+
            }

            /// The settings as the file would say them.
            pub fn show(settings: &$settings) -> $crate::config::keys::Table {
                let shown = [$((
                    stringify!($key),
                    $crate::config::keys::table!(@show settings $key [$($($path).+)?] [$($show)?]),
                )),+];
                shown.into_iter().filter_map(|(key, shown)| Some((key.to_owned(), shown?))).collect()
            }
        }
    };
    (@raw text($($arg:tt)*)) => { Option<toml::Spanned<String>> };
    (@raw count($($arg:tt)*)) => { Option<toml::Spanned<i64>> };
    (@raw list($($arg:tt)*)) => { Option<$crate::config::list::SpannedList> };
    (@raw entries($($arg:tt)*)) => { std::collections::BTreeMap<String, toml::Spanned<String>> };
    (@raw apart($type:ty)) => { $type };
    (@read $raw:ident $name:ident $settings:ident $checks:ident $key:ident $path:tt apart($type:ty)) => {};
    (@read $raw:ident $name:ident $settings:ident $checks:ident $key:ident $path:tt $kind:ident($($arg:tt)*)) => {
        let value = $crate::config::keys::table!(@value $raw $name $checks $key $kind($($arg)*));
        if let Some(value) = value {
            $crate::config::keys::table!(@field $settings $key $path) = value.into();
        }
    };
    (@value $raw:ident $name:ident $checks:ident $key:ident text($parse:expr)) => {
        $checks.value(&$name(stringify!($key)), $raw.$key.as_ref(), $parse)
    };
    (@value $raw:ident $name:ident $checks:ident $key:ident count($most:expr)) => {
        $checks.count_to($most, &$name(stringify!($key)), $raw.$key.as_ref())
    };
    (@value $raw:ident $name:ident $checks:ident $key:ident list($check:expr)) => {
        $raw.$key.as_ref().and_then(|raw| $check(&$name(stringify!($key)), raw, $checks))
    };
    (@value $raw:ident $name:ident $checks:ident $key:ident entries($parse:expr, $instead:literal)) => {
        Some($checks.entries(&$name(stringify!($key)), &$raw.$key, $parse, $instead))
    };
    (@show $settings:ident $key:ident $path:tt []) => {
        $crate::config::keys::Show::show(&$crate::config::keys::table!(@field $settings $key $path))
    };
    (@show $settings:ident $key:ident $path:tt [$show:expr]) => { $crate::config::keys::by($settings, $show) };
    (@field $settings:ident $key:ident []) => { $settings.$key };
    (@field $settings:ident $key:ident [$($path:ident).+]) => { $settings.$($path).+ };
}
pub(super) use table;

/// A value as the file would say it.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Shown {
    Text(String),
    Count(u32),
    Flag(bool),
    List(Vec<Self>),
    Table(Table),
}

/// Keys in the order in which they are shown: values first, then tables.
pub struct Table(Vec<(String, Shown)>);

impl Table {
    /// Puts a value before all others.
    pub fn insert_first(&mut self, key: &str, value: Option<Shown>) {
        self.0.splice(0..0, value.map(|value| (key.to_owned(), value)));
    }

    /// Puts a value behind all others, and before the tables.
    pub fn insert_value(&mut self, key: &str, value: Option<Shown>) {
        let tables = self.0.iter().filter(|(_, value)| matches!(value, Shown::Table(_))).count();
        let at = self.0.len() - tables;
        self.0.splice(at..at, value.map(|value| (key.to_owned(), value)));
    }
}

impl FromIterator<(String, Shown)> for Table {
    fn from_iter<I: IntoIterator<Item = (String, Shown)>>(values: I) -> Self {
        let (tables, values): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|(_, value)| matches!(value, Shown::Table(_)));
        Self(values.into_iter().chain(tables).collect())
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A setting that the file can say.
pub trait Show {
    /// `None` leaves the key out.
    fn show(&self) -> Option<Shown>;
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> Option<Shown> {
        self.as_ref().and_then(Show::show)
    }
}

impl<T: Show> Show for BTreeMap<String, T> {
    fn show(&self) -> Option<Shown> {
        let entries = self.iter().filter_map(|(name, value)| Some((name.clone(), value.show()?)));
        (!self.is_empty()).then(|| Shown::Table(entries.collect()))
    }
}

impl Show for bool {
    fn show(&self) -> Option<Shown> {
        self.then_some(Shown::Flag(true))
    }
}

impl Show for u32 {
    fn show(&self) -> Option<Shown> {
        Some(Shown::Count(*self))
    }
}

/// Shows types by their texts.
macro_rules! texts {
    ($($type:ty),+) => { $(
        impl Show for $type {
            fn show(&self) -> Option<Shown> {
                Some(Shown::Text(self.to_string()))
            }
        }
    )+ };
}

texts!(String, Cadence, DayRange);

impl Show for Duration {
    fn show(&self) -> Option<Shown> {
        Some(Shown::Text(words::written(*self)))
    }
}

impl Show for Choices {
    fn show(&self) -> Option<Shown> {
        Some(Shown::List(texts(self.entries())))
    }
}

impl Show for Track {
    fn show(&self) -> Option<Shown> {
        Some(Shown::List(texts(self.counted().map(Counted::name))))
    }
}

impl Show for Quiet {
    fn show(&self) -> Option<Shown> {
        (!self.times().is_empty()).then(|| Shown::List(texts(self.times())))
    }
}

/// Shows what the settings say together.
pub(super) fn by<S>(settings: &S, show: impl FnOnce(&S) -> Option<Shown>) -> Option<Shown> {
    show(settings)
}

fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<Shown> {
    values.into_iter().map(|value| Shown::Text(value.to_string())).collect()
}
