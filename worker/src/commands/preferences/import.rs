//! `tidings preferences import`: the settings of many recipients, from a CSV file.

use std::path::Path;

use jiff::Timestamp;
use tidings_activities::{
    choices::{self, Chosen, Error},
    operations::rows::Row,
};
use tidings_model::{Key, command::Order, records::Preferences, when};

use super::changes::quiet;
use crate::{
    Config,
    line_input::{self, Rejection, Report},
    preference_store::PreferenceStore,
};

const COLUMNS: [&str; 9] = ["tenant", "digest", "user", "cadence", "zone", "at", "quiet", "off", "paused_until"];
const REQUIRED: [&str; 3] = ["tenant", "digest", "user"];

/// Imports all of the file that is right. `false`: something was not.
///
/// # Errors
/// The file cannot be read or lacks a column, or the store does not answer.
pub(super) async fn run(file: &Path, order: &Order, json: bool, config: &Config) -> anyhow::Result<bool> {
    let (bar, input) = line_input::open(file)?;
    let table = line_input::table(input, &COLUMNS, &REQUIRED)?;
    let mut people = PreferenceStore::open(config).await?;
    let mut report = Report::new(json, bar);
    for line in table {
        let put = match line? {
            Ok(row) => put(&mut people, &row, order).await?,
            Err(wrong) => Err(wrong.into()),
        };
        match put {
            Ok(()) => report.accepted(1),
            Err(rejection) => report.rejected(&rejection),
        }
    }
    Ok(report.end("preferences"))
}

/// Writes a line's choices, and tells the key's workflow where they are new.
async fn put(people: &mut PreferenceStore<'_>, row: &Row, order: &Order) -> anyhow::Result<Result<(), Rejection>> {
    let rejected = |(field, problem): (String, String)| Ok(Err(Rejection::new(row.line, &field, &problem)));
    let (key, chosen) = match read(|column| row.value(column)) {
        Ok(read) => read,
        Err(problem) => return rejected(problem),
    };
    let has = |column: &str| row.get(column).is_some();
    let change = |before| changed(before, chosen.clone(), has);
    match choices::change(&*people.store, &people.settings, &key, change, None, order, Timestamp::now()).await {
        Ok(Chosen { changed: true, .. }) => people.tell(&key).await,
        Ok(_) => {}
        Err(error @ (Error::Store(_) | Error::Conflict(_))) => return Err(error.into()),
        Err(Error::Invalid(invalid)) => return rejected((invalid.field, invalid.problem)),
        Err(error @ Error::UnknownType(_)) => return rejected(("digest".to_owned(), error.to_string())),
    }
    Ok(Ok(()))
}

/// The choices of a line. Those of a column that the file lacks stay: such a file would end pauses, and turn on what was turned off.
fn changed(before: Preferences, chosen: Preferences, has: impl Fn(&str) -> bool) -> Preferences {
    Preferences {
        cadence: if has("cadence") { chosen.cadence } else { before.cadence },
        zone: if has("zone") { chosen.zone } else { before.zone },
        at: if has("at") { chosen.at } else { before.at },
        quiet: if has("quiet") { chosen.quiet } else { before.quiet },
        off: if has("off") { chosen.off } else { before.off },
        paused_until: if has("paused_until") { chosen.paused_until } else { before.paused_until },
    }
}

/// Parses the key and the preferences, or returns the wrong field and the remedy.
fn read(value: impl Fn(&str) -> String) -> Result<(Key, Preferences), (String, String)> {
    let key = Key::new(value("tenant"), value("digest"), value("user"));
    let key = key.map_err(|invalid| (invalid.field, invalid.problem))?;
    let text = |column| Some(value(column)).filter(|text| !text.is_empty());
    let list =
        |column| value(column).split(';').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let paused_until = text("paused_until").map(|written| {
        when::time(&written).map_err(|problem| ("paused_until".to_owned(), format!("{written:?} {problem}")))
    });
    let preferences = Preferences {
        cadence: text("cadence"),
        zone: text("zone"),
        at: text("at"),
        quiet: quiet(list("quiet")),
        off: list("off").into_iter().collect(),
        paused_until: paused_until.transpose()?,
    };
    Ok((key, preferences))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_the_file_lacks_leaves_what_was_chosen() {
        let before = Preferences {
            cadence: Some("daily 08:00".into()),
            zone: Some("Asia/Tokyo".into()),
            off: ["comment".to_owned()].into(),
            paused_until: Some(Timestamp::UNIX_EPOCH),
            ..Preferences::default()
        };
        let weekly = Preferences { cadence: Some("weekly mon 09:00".into()), ..Preferences::default() };
        let after = changed(before.clone(), weekly.clone(), |column| ["cadence", "zone"].contains(&column));
        assert_eq!((after.cadence.as_deref(), after.zone.as_deref()), (Some("weekly mon 09:00"), None));
        assert_eq!((&after.off, after.paused_until), (&before.off, before.paused_until));
        assert_eq!(changed(before, weekly.clone(), |_| true), weekly);
    }
}
