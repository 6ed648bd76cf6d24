//! `tidings preferences import`: the settings of many recipients, from a CSV file.

use std::path::Path;

use jiff::Timestamp;
use tidings_activities::choices::{self, Chosen, Error};
use tidings_model::{Key, command::Order, records::Preferences, when};

use super::changes::quiet;
use crate::{
    Config,
    csv_table::{Row, Table},
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
    let mut table = Table::new(input, &COLUMNS, &REQUIRED)?;
    let mut people = PreferenceStore::open(config).await?;
    let mut report = Report::new(json, bar);
    while let Some(line) = table.next() {
        let put = match line? {
            Ok(row) => put(&mut people, &row, order).await?,
            Err(rejection) => Err(rejection),
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
    let (key, preferences) = match read(|column| row.value(column)) {
        Ok(read) => read,
        Err(problem) => return rejected(problem),
    };
    match choices::choose(&*people.store, &people.settings, &key, &preferences, order, Timestamp::now()).await {
        Ok(Chosen { changed: true, .. }) => people.tell(&key).await,
        Ok(_) => {}
        Err(error @ (Error::Store(_) | Error::Conflict(_))) => return Err(error.into()),
        Err(Error::Invalid(invalid)) => return rejected((invalid.field, invalid.problem)),
        Err(error @ Error::UnknownType(_)) => return rejected(("digest".to_owned(), error.to_string())),
    }
    Ok(Ok(()))
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
