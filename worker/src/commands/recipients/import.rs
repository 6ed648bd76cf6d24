//! `tidings recipients import`: people from a CSV file into the directory.

use std::{collections::BTreeSet, path::Path};

use jiff::Timestamp;
use tidings_activities::operations::recipients::{self, COLUMNS, WrongValue};
use tidings_model::records::{PersonId, Recipient};
use tidings_store::Store;

use super::moved;
use crate::{
    Config,
    csv_table::{Row, Table},
    error::Usage,
    line_input::{self, Rejection, Report},
    storage,
};

/// Recipients that go to the store together.
const BATCH: usize = 500;
const REQUIRED: [&str; 3] = ["tenant", "user", "address"];

/// Imports all of the file that is right. `false`: something was not.
///
/// # Errors
/// The file cannot be read or lacks a column, the store does not answer, or recipients come from the team's own directory.
pub(super) async fn run(file: &Path, rate: u32, json: bool, config: &Config) -> anyhow::Result<bool> {
    if let Some(directory) = config.team_directory()? {
        return Err(Usage(directory.refusal()).into());
    }
    let (bar, input) = line_input::open(file)?;
    let mut table = Table::new(input, &COLUMNS, &REQUIRED)?;
    let settings = config.unsigned();
    let store = storage::open(&config.database_url).await?;
    let mut report = Report::new(json, bar);
    let mut batch = Vec::with_capacity(BATCH);
    let mut people = Vec::new();
    while let Some(line) = table.next() {
        match line?.and_then(|row| recipient(|tenant| settings.digest_types(tenant), &row)) {
            Ok(recipient) => batch.push(recipient),
            Err(rejection) => report.rejected(&rejection),
        }
        if batch.len() == BATCH {
            people.extend(put(&*store, &mut batch, &mut report).await?);
        }
    }
    people.extend(put(&*store, &mut batch, &mut report).await?);
    let done = report.end("recipients");
    moved::tell(&people, rate, json, config).await?;
    Ok(done)
}

/// Answers with the people whose zone changed.
async fn put(store: &dyn Store, batch: &mut Vec<Recipient>, report: &mut Report) -> anyhow::Result<Vec<PersonId>> {
    let recipients = std::mem::take(batch);
    let moved = store.put_recipients(&recipients, Timestamp::now()).await?;
    report.accepted(recipients.len().try_into()?);
    Ok(moved)
}

fn recipient(digest_types: impl Fn(&str) -> BTreeSet<String>, row: &Row) -> Result<Recipient, Rejection> {
    let checked = recipients::recipient(digest_types, |column| row.value(column));
    checked.map_err(|WrongValue { field, written, problem }| {
        let quoted = if written.is_empty() { problem } else { format!("{written:?} {problem}") };
        Rejection::new(row.line, &field, &quoted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(csv: &str) -> Vec<Result<Recipient, Rejection>> {
        let mut table = Table::new(csv.as_bytes(), &COLUMNS, &REQUIRED).unwrap();
        std::iter::from_fn(|| table.next())
            .map(|line| line.unwrap().and_then(|row| recipient(|_| BTreeSet::new(), &row)))
            .collect()
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
            ("acme,ann,v@[127.0.0.1],,,", "address", "\"v@[127.0.0.1]\" has an IP address after the @"),
            ("acme,ann,ann at acme,,,", "address", "\"ann at acme\" is not an address; write for example"),
            ("acme,ann,ann@acme.example,Ann,Europe/Berln,", "zone", "did you mean \"Europe/Berlin\"?"),
            ("acme,ann,ann@acme.example,Ann,localtime,", "zone", "\"localtime\" is not an IANA time zone"),
            ("acme,ann,ann@acme.example,A\0nn,,", "name", "\"A\\0nn\" has a NUL"),
            ("acme,ann,ann@acme.example", "", "has 3 values, the first line has 6 columns"),
        ] {
            let people = read(&format!("tenant,user,address,name,zone,locale\nacme,bob,bob@acme.example,,,\n{row}\n"));
            assert!(people[0].is_ok());
            let rejection = people[1].as_ref().err().unwrap();
            assert_eq!((rejection.line, rejection.field.as_str()), (3, field), "{}", rejection.problem);
            assert!(rejection.problem.contains(says), "{}", rejection.problem);
        }
    }
}
