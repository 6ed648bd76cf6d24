//! `tidings recipients import`: adds people from CSV.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{BuildHasher as _, RandomState},
    path::Path,
};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde_json::json;
use tidings_model::{Key, PersonId, records::RecipientChange, settings::FormerNames};
use tidings_operations::{at_rate, rows::InputRow};
use tidings_services::{
    choices,
    recipients::{self, COLUMNS, WrongValue, keys_of},
};
use tidings_store::Store;

use crate::{
    Config,
    error::UsageError,
    line_input::{self, LineRejection, LineReport},
    phrases::format_count,
    storage,
};

const BATCH: usize = 500;
const REQUIRED: [&str; 3] = ["tenant", "user", "address"];

/// Returns `false` if any line was rejected. Fails if recipients come from the team's own directory.
pub(super) async fn run(file: &Path, rate: u32, json: bool, config: &Config) -> anyhow::Result<bool> {
    if let Some(directory) = config.team_directory()? {
        return Err(UsageError(directory.refusal_text()).into());
    }
    let (bar, input) = line_input::open_input(file)?;
    let table = line_input::table(input, &COLUMNS, &REQUIRED)?;
    let settings = config.unchecked_settings();
    let store = storage::open(&config.database_url).await?;
    let mut report = LineReport::new(json, bar);
    let mut batch = Vec::with_capacity(BATCH);
    let (mut moved, mut listed) = (Vec::new(), ImportedPeople::default());
    for line in table {
        let line = line?.map_err(LineRejection::from);
        let person = line.as_ref().ok().and_then(|row| parse_person(&settings.names, row));
        match line.and_then(|row| parse_recipient(&settings.names, |tenant| settings.digest_types(tenant), &row)) {
            Ok(recipient) => {
                listed.add(&recipient.tenant, &recipient.user);
                batch.push(recipient);
            }
            Err(rejection) => {
                report.report_rejection(&rejection);
                // The file does have this person; their stored row does not change.
                if let Some(person) = person
                    && store.facts(&person.key("")).await?.recipient.is_some()
                {
                    listed.add(&person.tenant, &person.user);
                }
            }
        }
        if batch.len() == BATCH {
            moved.extend(store_batch(&*store, &mut batch, &mut report).await?);
        }
    }
    moved.extend(store_batch(&*store, &mut batch, &mut report).await?);
    let done = report.print_totals("recipients");
    listed.report_others(&*store, json).await?;
    signal_moved(&moved, rate, json, config).await?;
    Ok(done)
}

/// Holds only hashes of ids, because a file may have millions.
#[derive(Default)]
struct ImportedPeople {
    tenants: BTreeMap<String, HashSet<u64>>,
    hashes: RandomState,
}

impl ImportedPeople {
    fn add(&mut self, tenant: &str, user: &str) {
        let hash = self.hashes.hash_one(user);
        self.tenants.entry(tenant.to_owned()).or_default().insert(hash);
    }

    /// The import does not change people missing from the file, but they may have left.
    async fn report_others(&self, store: &dyn Store, as_json: bool) -> anyhow::Result<()> {
        for (tenant, users) in &self.tenants {
            let others = store.count_recipients(tenant).await?.saturating_sub(users.len() as u64);
            if others == 0 {
                continue;
            }
            if as_json {
                anstream::println!("{}", json!({ "tenant": tenant, "not_in_file": others }));
            } else {
                anstream::println!("not in the file, and unchanged: {} of {tenant}", HumanCount(others));
            }
        }
        Ok(())
    }
}

/// Returns the people with a changed time zone.
async fn store_batch(
    store: &dyn Store,
    batch: &mut Vec<RecipientChange>,
    report: &mut LineReport,
) -> anyhow::Result<Vec<PersonId>> {
    let changes = std::mem::take(batch);
    let moved = store.change_recipients(&changes, Timestamp::now()).await?;
    report.count_accepted(changes.len().try_into()?);
    Ok(moved)
}

/// Works even if the rest is invalid.
fn parse_person(names: &FormerNames, row: &InputRow) -> Option<PersonId> {
    let person = PersonId::new(row.get("tenant")?, row.get("user")?).ok()?;
    Some(PersonId { tenant: names.tenant(&person.tenant).to_owned(), ..person })
}

fn parse_recipient(
    names: &FormerNames,
    digest_types: impl Fn(&str) -> BTreeSet<String>,
    row: &InputRow,
) -> Result<RecipientChange, LineRejection> {
    let checked = recipients::validate_recipient(names, digest_types, |column| row.get(column));
    checked.map_err(|WrongValue { field, written, problem }| {
        let quoted = if written.is_empty() { problem } else { format!("{written:?} {problem}") };
        LineRejection::new(row.line, &field, &quoted)
    })
}

/// Signals the keys of people with a new time zone, at `rate` per second, so open windows follow right away
/// (rule 15). A failure is harmless: admission will find the changed revision when the window is due.
///
/// Built from the configured digest types, because visibility lags. A signal never starts a workflow.
pub(super) async fn signal_moved(people: &[PersonId], rate: u32, as_json: bool, config: &Config) -> anyhow::Result<()> {
    let keys = keys_of(people, &config.unchecked_settings());
    if keys.is_empty() {
        return Ok(());
    }
    let untold = signal(&keys, rate, config).await?;
    let told = keys.len().saturating_sub(untold) as u64;
    if as_json {
        anstream::println!("{}", json!({ "moved": people.len(), "signalled": told, "not_signalled": untold }));
    } else {
        let people = format_count(people.len() as u64, "person");
        anstream::println!("zone changed: {people}, {} signalled", format_count(told, "key"));
    }
    Ok(())
}

/// Returns how many keys could not be signalled.
async fn signal(keys: &[Key], rate: u32, config: &Config) -> anyhow::Result<usize> {
    let temporal = match crate::installation::connect(config).await {
        Ok(temporal) => temporal,
        Err(error) => {
            warn(&error.to_string());
            return Ok(keys.len());
        }
    };
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} keys signalled, {eta} left")?;
    let bar = ProgressBar::new(keys.len() as u64).with_style(style);
    let (mut untold, mut first) = (0, None);
    at_rate(
        keys,
        rate,
        |key| choices::signal_key(&temporal, key),
        |answer| {
            bar.inc(1);
            if let Err(error) = answer {
                untold += 1;
                first.get_or_insert(error.to_string());
            }
        },
    )
    .await;
    bar.finish_and_clear();
    if let Some(error) = first {
        warn(&format!("{} keys could not be signalled ({error})", HumanCount(untold as u64)));
    }
    Ok(untold)
}

fn warn(problem: &str) {
    anstream::eprintln!("warning: {problem}; the zones are stored, and open windows follow them when they are due");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(csv: &str) -> Vec<Result<RecipientChange, LineRejection>> {
        let lines = line_input::table(csv.as_bytes(), &COLUMNS, &REQUIRED).unwrap();
        let lines = lines.map(|line| line.unwrap().map_err(LineRejection::from));
        lines.map(|line| parse_recipient(&FormerNames::default(), |_| BTreeSet::new(), &line?)).collect()
    }

    #[test]
    fn columns_come_in_any_order_and_optional_ones_may_be_missing() {
        let people = read("address,user,tenant\nann@acme.example,ann,acme\n");
        let ann = people[0].as_ref().unwrap();
        assert_eq!([&ann.tenant, &ann.user, &ann.address], ["acme", "ann", "ann@acme.example"]);
        assert_eq!((&ann.name, &ann.zone, &ann.locale), (&None, &None, &None), "they stay as they are");
        let people = read("address,user,tenant,zone\nann@acme.example,ann,acme,\n");
        assert_eq!(people[0].as_ref().map(|ann| ann.zone.as_deref()).ok(), Some(Some("")), "an empty value clears it");
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
