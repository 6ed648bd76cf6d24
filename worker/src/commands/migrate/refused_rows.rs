//! Rows of the database that the doors would refuse today. An older version or another program wrote them. Each stays as it is until a
//! person corrects it, because only its owner knows what it should be.

use std::{collections::BTreeMap, fmt};

use indicatif::{ProgressBar, ProgressStyle};
use tidings_model::{
    Key, PersonId,
    records::{Listed, Page, Recipient},
    settings::Settings,
    time_zone,
};
use tidings_store::Store;

/// Rows that are read together.
const ROWS: u32 = 10_000;
/// Rows of a fault that are named.
const NAMED: usize = 20;

/// Reads the directory and the chosen zones once, and prints a warning for each fault. No warning shows an address.
///
/// # Errors
/// The store does not answer.
pub(super) async fn report(store: &dyn Store, settings: &Settings) -> anyhow::Result<()> {
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {pos} rows, {elapsed}")?);
    let mut faults = Faults::default();
    let mut page = Page { limit: ROWS, after: None };
    loop {
        let Listed { rows, next } = store.directory_rows(&page).await?;
        bar.inc(rows.len().try_into()?);
        for row in &rows {
            faults.look_at(row, settings);
        }
        if next.is_none() {
            break;
        }
        page.after = next;
    }
    let mut page = Page { limit: ROWS, after: None };
    loop {
        let Listed { rows, next } = store.chosen_zones(&page).await?;
        bar.inc(rows.len().try_into()?);
        for (key, zone) in rows {
            faults.look_at_zone(&zone, Fault::ChosenZone, || key.to_string());
        }
        if next.is_none() {
            break;
        }
        page.after = next;
    }
    bar.finish_and_clear();
    for (fault, refused) in &faults.refused {
        anstream::eprintln!("warning: {}{}", fault.words(refused.count), refused);
    }
    Ok(())
}

/// A kind of row that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Address,
    Zone,
    LongId,
    ChosenZone,
}

impl Fault {
    fn words(self, count: u64) -> String {
        let people = "of the directory: correct them with `tidings recipients import`, PUT /v1/recipients/USER or in your own directory";
        match self {
            Self::Address => format!("{count} rows have an address that cannot be sent to, {people}"),
            Self::Zone => format!("{count} rows have no IANA time zone, so that the digest type's counts, {people}"),
            Self::LongId => {
                format!(
                    "{count} rows have ids that are too long for events of a digest type, {people}; a user needs a shorter id"
                )
            }
            Self::ChosenZone => format!(
                "{count} recipients chose what is no IANA time zone, so that the directory's counts: correct it with `tidings \
                 preferences set KEY --zone ZONE`"
            ),
        }
    }
}

/// The rows of a fault.
#[derive(Default)]
struct Refused {
    count: u64,
    /// The first of them: whose they are, and what is wrong.
    named: Vec<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.named {
            write!(f, "\n  {row}")?;
        }
        if self.count > NAMED as u64 { write!(f, "\n  and {} more", self.count - NAMED as u64) } else { Ok(()) }
    }
}

#[derive(Default)]
struct Faults {
    refused: BTreeMap<Fault, Refused>,
    /// What is wrong with a zone, if anything, for each that was seen.
    zones: BTreeMap<String, Option<String>>,
}

impl Faults {
    fn look_at(&mut self, recipient: &Recipient, settings: &Settings) {
        let whose = || PersonId { tenant: recipient.tenant.clone(), user: recipient.user.clone() }.to_string();
        if let Err(error) = recipient.email_address() {
            self.add(Fault::Address, &whose(), &error.0.to_string());
        }
        if !recipient.zone.is_empty() {
            self.look_at_zone(&recipient.zone, Fault::Zone, whose);
        }
        for digest_type in settings.digest_types(&recipient.tenant) {
            if let Err(invalid) = Key::new(recipient.tenant.clone(), digest_type, recipient.user.clone()) {
                self.add(Fault::LongId, &whose(), &invalid.to_string());
                break;
            }
        }
    }

    fn look_at_zone(&mut self, zone: &str, fault: Fault, whose: impl Fn() -> String) {
        let problem = self.zones.entry(zone.to_owned()).or_insert_with(|| time_zone(zone).err()).clone();
        if let Some(problem) = problem {
            self.add(fault, &whose(), &format!("{zone:?} {problem}"));
        }
    }

    fn add(&mut self, fault: Fault, whose: &str, problem: &str) {
        let refused = self.refused.entry(fault).or_default();
        refused.count += 1;
        if refused.named.len() < NAMED {
            refused.named.push(format!("{whose}: {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_model::settings::{DigestSettings, Sender, Stream, Streams};

    use super::*;

    fn settings() -> Settings {
        let address = "digest@acme.example".parse().unwrap();
        let sender = Sender { name: String::new(), address, reply_to: None, domain: "acme.example".into() };
        let stream = Stream::new(&["default"], sender);
        let weekly = DigestSettings::new("weekly", "daily 08:00".parse().unwrap());
        Settings {
            digests: [("weekly".to_owned(), weekly)].into(),
            ..Settings::new(Streams { bulk: stream.clone(), transactional: stream })
        }
    }

    #[test]
    fn a_refused_row_is_named_with_its_fault_and_without_its_address() {
        let mut faults = Faults::default();
        for (user, address, zone) in [
            ("ann", "ann@example.net", "Europe/Berlin"),
            ("bo", "bo@[127.0.0.1]", ""),
            ("cy", "cy@example.net", "localtime"),
            (&"d".repeat(240), "dan@example.net", ""),
        ] {
            let (tenant, user, address, zone) = ("acme".into(), user.into(), address.into(), zone.into());
            let row = Recipient { tenant, user, address, name: String::new(), zone, locale: String::new() };
            faults.look_at(&row, &settings());
        }
        let found: Vec<_> = faults.refused.iter().map(|(fault, refused)| (*fault, refused.count)).collect();
        assert_eq!(found, [(Fault::Address, 1), (Fault::Zone, 1), (Fault::LongId, 1)]);
        let said = |fault| faults.refused[&fault].to_string();
        assert!(said(Fault::Address).starts_with("\n  acme/bo: has an IP address"), "{}", said(Fault::Address));
        assert!(said(Fault::Zone).contains("acme/cy: \"localtime\" is not an IANA time zone"));
        assert!(!said(Fault::Address).contains("127"));
    }

    #[test]
    fn the_first_rows_of_a_fault_are_named_and_the_rest_is_counted() {
        let mut faults = Faults::default();
        for user in 0..NAMED + 3 {
            faults.add(Fault::Address, &format!("acme/{user}"), "is too long");
        }
        let said = faults.refused[&Fault::Address].to_string();
        assert!(said.ends_with("\n  and 3 more") && said.lines().count() == NAMED + 2, "{said}");
    }
}
