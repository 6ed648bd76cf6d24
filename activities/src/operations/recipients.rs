//! People who come into the directory: one check of their rows, and the keys that follow another zone.

use std::collections::BTreeSet;

use tidings_model::{
    EmailAddress, Key,
    foreign_text::clean_edges,
    limits::Invalid,
    records::{PersonId, Recipient},
    settings::Settings,
    zone,
};

/// The names of a row's values.
pub const COLUMNS: [&str; 6] = ["tenant", "user", "address", "name", "zone", "locale"];

/// A value of a row that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongValue {
    pub field: String,
    /// The value; empty if it does not matter. It may be an address: not for logs.
    pub written: String,
    /// The fault and the remedy, without the value.
    pub problem: String,
}

impl From<Invalid> for WrongValue {
    fn from(Invalid { field, problem }: Invalid) -> Self {
        Self { field, written: String::new(), problem }
    }
}

/// Checks a row. `value` has the text of a column, which is empty if the row has none. What is invisible at the edges of an address, a name, a
/// zone or a language goes. Ids are taken as they are: they must equal those of events, and make a key with each of the tenant's digest
/// types, or else the person could get no event of it.
///
/// # Errors
/// Names the first field that is wrong, and what would be right.
pub fn recipient(
    digest_types: impl Fn(&str) -> BTreeSet<String>,
    value: impl Fn(&str) -> String,
) -> Result<Recipient, WrongValue> {
    let wrong =
        |field: &str, written: String, problem: String| WrongValue { field: field.to_owned(), written, problem };
    let PersonId { tenant, user } = PersonId::new(value("tenant"), value("user"))?;
    for digest_type in digest_types(&tenant) {
        let too_long = format!("is too long for events of {digest_type:?}");
        Key::new(tenant.clone(), digest_type, user.clone())
            .map_err(|invalid| wrong("user", String::new(), format!("{too_long}: {invalid}; take a shorter id")))?;
    }
    let value = |field: &str| clean_edges(&value(field)).to_owned();
    let written = value("address");
    if written.is_empty() {
        return Err(wrong("address", written, "is required".to_owned()));
    }
    let address = match written.parse::<EmailAddress>() {
        Ok(address) => address.written().to_owned(),
        Err(error) => return Err(wrong("address", written, error.to_string())),
    };
    let zone = match value("zone") {
        none if none.is_empty() => none,
        written => zone(&written).map_err(|problem| wrong("zone", written, problem))?,
    };
    let text = |field: &str| match value(field) {
        written if written.contains('\0') => Err(wrong(field, written, "has a NUL".to_owned())),
        text => Ok(text),
    };
    Ok(Recipient { tenant, user, address, name: text("name")?, zone, locale: text("locale")? })
}

/// The keys of these people, for signals that another zone is in force. Temporal's visibility is a moment behind, so that it is not
/// asked.
#[must_use]
pub fn keys_of(people: &[PersonId], settings: &Settings) -> Vec<Key> {
    let keys = |person: &PersonId| {
        let person = person.clone();
        settings.digest_types(&person.tenant).into_iter().map(move |digest_type| person.key(&digest_type))
    };
    people.iter().flat_map(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_could_get_no_event_of_a_digest_type_is_refused() {
        let user = "u".repeat(230);
        let row = |types: &[&str]| {
            let types: BTreeSet<_> = types.iter().map(|&name| name.to_owned()).collect();
            let checked = recipient(
                |_| types.clone(),
                |column| match column {
                    "tenant" => "acme".to_owned(),
                    "user" => user.clone(),
                    "address" => "ann@example.net".to_owned(),
                    _ => String::new(),
                },
            );
            checked.map_err(|wrong| (wrong.field, wrong.problem))
        };
        assert!(row(&["activity"]).is_ok());
        let (field, problem) = row(&["activity", "weekly-summary"]).err().unwrap();
        assert_eq!(field, "user");
        assert!(problem.contains("\"weekly-summary\"") && problem.contains("the limit is 255"), "{problem}");
    }

    #[test]
    fn a_zone_is_stored_by_the_name_that_it_has_today() {
        let row = |zone: &str| {
            let checked = recipient(
                |_| BTreeSet::new(),
                |column| match column {
                    "tenant" | "user" => "acme".to_owned(),
                    "address" => "ann@example.net".to_owned(),
                    "zone" => zone.to_owned(),
                    _ => String::new(),
                },
            );
            checked.map(|recipient| recipient.zone).map_err(|wrong| wrong.problem)
        };
        for (written, stored) in [
            ("", ""),
            ("Europe/Berlin", "Europe/Berlin"),
            (" europe/berlin ", "Europe/Berlin"),
            ("Asia/Calcutta", "Asia/Kolkata"),
            ("US/Pacific", "America/Los_Angeles"),
        ] {
            assert_eq!(row(written).as_deref(), Ok(stored));
        }
        assert!(row("Europe/Kiew").is_err_and(|problem| problem.contains("did you mean \"Europe/Kyiv\"?")));
    }
}
