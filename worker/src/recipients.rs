//! `tidings recipients`: who gets mail, from a CSV file into the store.

use std::path::PathBuf;

use anyhow::Context as _;
use jiff::Timestamp;
use tidings_activities::store::{Recipient, Store};
use tidings_workflows::Key;

use crate::{
    Config, Storage,
    cli::Usage,
    config::{address, zone},
    intake::{self, Rejection, Report},
};

/// Recipients that go to the store together.
const BATCH: usize = 500;
const COLUMNS: [&str; 6] = ["tenant", "user", "address", "name", "zone", "locale"];
const REQUIRED: [&str; 3] = ["tenant", "user", "address"];

/// The commands about the directory.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Adds people, or replaces what is known of them; importing twice changes nothing
    #[command(after_help = "The first line names the columns: tenant,user,address are required, \
        name,zone,locale are not.\n\n  tenant,user,address,name,zone,locale\n  \
        acme,ann,ann@acme.example,Ann,Europe/Berlin,de")]
    Import {
        /// CSV file (RFC 4180, UTF-8), gzipped or not; `-` is standard input
        #[arg(value_name = "FILE.csv")]
        file: PathBuf,
        /// Print the rejected lines and the summary as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Imports all of the file that is right. `false`: something was not.
///
/// # Errors
/// The file cannot be read or lacks a column, or the store does not answer.
pub(crate) async fn run(Command::Import { file, json }: Command, config: &Config) -> anyhow::Result<bool> {
    let (bar, input) = intake::open(&file)?;
    let mut rows = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
    let columns = rows.headers().context("the first line cannot be read")?.clone();
    check_columns(&columns)?;
    let store = Storage::connect(&config.database_url).await?.ready().await?;
    let mut report = Report::new(json, bar);
    let mut batch = Vec::with_capacity(BATCH);
    for row in rows.records() {
        match recipient(&columns, row)? {
            Ok(recipient) => batch.push(recipient),
            Err(rejection) => report.rejected(&rejection),
        }
        if batch.len() == BATCH {
            put(&*store, &mut batch, &mut report).await?;
        }
    }
    put(&*store, &mut batch, &mut report).await?;
    Ok(report.end("recipients"))
}

async fn put(store: &dyn Store, batch: &mut Vec<Recipient>, report: &mut Report) -> anyhow::Result<()> {
    let recipients = std::mem::take(batch);
    store.put_recipients(&recipients, Timestamp::now()).await?;
    report.accepted(recipients.len().try_into()?);
    Ok(())
}

fn check_columns(columns: &csv::StringRecord) -> Result<(), Usage> {
    let right = format!("the first line names the columns {}", COLUMNS.join(","));
    if let Some(unknown) = columns.iter().find(|column| !COLUMNS.contains(column)) {
        return Err(Usage(format!("column {unknown:?} is unknown; {right}")));
    }
    match REQUIRED.iter().find(|required| columns.iter().all(|column| column != **required)) {
        Some(missing) => Err(Usage(format!("there is no column {missing:?}; {right}"))),
        None => Ok(()),
    }
}

/// The recipient of a row; an error when nothing more can be read.
fn recipient(
    columns: &csv::StringRecord,
    row: csv::Result<csv::StringRecord>,
) -> csv::Result<Result<Recipient, Rejection>> {
    match row {
        Ok(row) => {
            let line = row.position().map_or(0, csv::Position::line);
            let value = |column: &str| {
                let index = columns.iter().position(|name| name == column);
                index.and_then(|index| row.get(index)).unwrap_or_default().to_owned()
            };
            Ok(checked(value).map_err(|(field, problem)| Rejection { line, field, problem }))
        }
        Err(error) => match (error.position().map(csv::Position::line), error.kind()) {
            (Some(line), csv::ErrorKind::UnequalLengths { expected_len, len, .. }) => {
                let problem = format!("has {len} values, the first line has {expected_len} columns");
                Ok(Err(Rejection { line, field: String::new(), problem }))
            }
            (Some(line), csv::ErrorKind::Utf8 { .. }) => {
                Ok(Err(Rejection { line, field: String::new(), problem: "is not UTF-8".to_owned() }))
            }
            _ => Err(error),
        },
    }
}

/// The recipient, or the first field that is wrong and what would be right.
fn checked(value: impl Fn(&str) -> String) -> Result<Recipient, (String, String)> {
    let wrong = |field: &str, written: &str, problem: &str| (field.to_owned(), format!("{written:?} {problem}"));
    // The digest type stands for any: the ids must fit in a workflow id with it.
    let key = Key::new(value("tenant"), "digest".to_owned(), value("user"));
    let Key { tenant, user, .. } = key.map_err(|invalid| (invalid.field, invalid.problem))?;
    let written = value("address");
    let address = address(&written).map_err(|problem| wrong("address", &written, &problem))?;
    let zone = match value("zone") {
        none if none.is_empty() => none,
        written => zone(&written).map_err(|problem| wrong("zone", &written, &problem))?,
    };
    Ok(Recipient { tenant, user, address, name: value("name"), zone, locale: value("locale") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(csv: &str) -> Vec<Result<Recipient, Rejection>> {
        let mut rows = csv::Reader::from_reader(csv.as_bytes());
        let columns = rows.headers().unwrap().clone();
        check_columns(&columns).unwrap();
        rows.records().map(|row| recipient(&columns, row).unwrap()).collect()
    }

    #[test]
    fn columns_come_in_any_order_and_optional_ones_may_be_missing() {
        let people = read("address,user,tenant\nann@acme.example,ann,acme\n");
        let ann = people[0].as_ref().unwrap();
        assert_eq!([&ann.tenant, &ann.user, &ann.address, &ann.zone], ["acme", "ann", "ann@acme.example", ""]);
    }

    #[test]
    fn a_refusal_names_the_line_the_field_and_what_would_be_right() {
        for (row, field, says) in [
            (",ann,ann@acme.example,,,", "tenant", "is required"),
            ("acme,,ann@acme.example,,,", "user", "is required"),
            ("acme,ann,ann at acme,,,", "address", "\"ann at acme\" is no address; write for example"),
            ("acme,ann,ann@acme.example,Ann,Europe/Berln,", "zone", "did you mean \"Europe/Berlin\"?"),
            ("acme,ann,ann@acme.example", "", "has 3 values, the first line has 6 columns"),
        ] {
            let people = read(&format!("tenant,user,address,name,zone,locale\nacme,bob,bob@acme.example,,,\n{row}\n"));
            assert!(people[0].is_ok());
            let rejection = people[1].as_ref().err().unwrap();
            assert_eq!((rejection.line, rejection.field.as_str()), (3, field), "{}", rejection.problem);
            assert!(rejection.problem.contains(says), "{}", rejection.problem);
        }
    }

    #[test]
    fn the_first_line_must_name_known_columns() {
        for (header, says) in
            [("tenant,user", "no column \"address\""), ("tenant,user,address,tz", "\"tz\" is unknown")]
        {
            let error = check_columns(&csv::StringRecord::from(header.split(',').collect::<Vec<_>>())).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
