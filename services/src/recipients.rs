//! Validates people for the directory, and lists keys affected by a changed time zone.

use std::collections::BTreeSet;

use tidings_model::{
    EmailAddress, Key, PersonId, check_zone,
    foreign_text::clean_edges,
    limits::InvalidField,
    records::RecipientChange,
    settings::{FormerNames, Settings},
};

pub const COLUMNS: [&str; 6] = ["tenant", "user", "address", "name", "zone", "locale"];

#[derive(Debug, PartialEq, Eq)]
pub struct WrongValue {
    pub field: String,
    /// The value as written, or empty if irrelevant. Do not log this: it may be an address.
    pub written: String,
    pub problem: String,
}

impl From<InvalidField> for WrongValue {
    fn from(InvalidField { field, problem }: InvalidField) -> Self {
        Self { field, written: String::new(), problem }
    }
}

/// `value` returns a column's text, or `None` to keep the stored value. Ids are not trimmed, because they must
/// equal the ids in events; they must also form a valid key with each of the tenant's digest types. A former
/// tenant name becomes the current one.
///
/// # Errors
/// The first invalid field with its remedy.
pub fn validate_recipient(
    names: &FormerNames,
    digest_types: impl Fn(&str) -> BTreeSet<String>,
    value: impl Fn(&str) -> Option<String>,
) -> Result<RecipientChange, WrongValue> {
    let wrong =
        |field: &str, written: String, problem: String| WrongValue { field: field.to_owned(), written, problem };
    let id = |field: &str| value(field).unwrap_or_default();
    let PersonId { tenant, user } = PersonId::new(id("tenant"), id("user"))?;
    let tenant = names.tenant(&tenant).to_owned();
    for digest_type in digest_types(&tenant) {
        let too_long = format!("is too long for events of {digest_type:?}");
        Key::new(tenant.clone(), digest_type, user.clone())
            .map_err(|invalid| wrong("user", String::new(), format!("{too_long}: {invalid}; take a shorter id")))?;
    }
    let value = |field: &str| value(field).map(|text| clean_edges(&text).to_owned());
    let written = value("address").unwrap_or_default();
    if written.is_empty() {
        return Err(wrong("address", written, "is required".to_owned()));
    }
    let address = match written.parse::<EmailAddress>() {
        Ok(address) => address.as_written().to_owned(),
        Err(error) => return Err(wrong("address", written, error.to_string())),
    };
    let zone = match value("zone") {
        Some(written) if !written.is_empty() => {
            Some(check_zone(&written).map_err(|problem| wrong("zone", written, problem))?)
        }
        none => none,
    };
    let text = |field: &str| match value(field) {
        Some(written) if written.contains('\0') => Err(wrong(field, written, "has a NUL".to_owned())),
        text => Ok(text),
    };
    Ok(RecipientChange { tenant, user, address, name: text("name")?, zone, locale: text("locale")? })
}

/// Lists these people's keys, to signal a changed time zone. We avoid Temporal's visibility because it lags.
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
    fn a_row_with_a_former_name_of_the_tenant_is_about_todays() {
        let tenants = [("acme".to_owned(), "initech".to_owned())].into();
        let names = FormerNames { tenants, ..FormerNames::default() };
        for (written, stored) in [("acme", "initech"), ("initech", "initech"), ("zeta", "zeta")] {
            let value = |column: &str| match column {
                "tenant" => Some(written.to_owned()),
                "user" => Some("ann".to_owned()),
                "address" => Some("ann@example.net".to_owned()),
                _ => None,
            };
            let row = validate_recipient(&names, |_| BTreeSet::new(), value);
            assert_eq!(row.map(|row| row.tenant).as_deref(), Ok(stored));
        }
    }

    #[test]
    fn a_user_who_could_get_no_event_of_a_digest_type_is_refused() {
        let user = "u".repeat(230);
        let row = |types: &[&str]| {
            let types: BTreeSet<_> = types.iter().map(|&name| name.to_owned()).collect();
            let checked = validate_recipient(
                &FormerNames::default(),
                |_| types.clone(),
                |column| match column {
                    "tenant" => Some("acme".to_owned()),
                    "user" => Some(user.clone()),
                    "address" => Some("ann@example.net".to_owned()),
                    _ => None,
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
            let checked = validate_recipient(
                &FormerNames::default(),
                |_| BTreeSet::new(),
                |column| match column {
                    "tenant" | "user" => Some("acme".to_owned()),
                    "address" => Some("ann@example.net".to_owned()),
                    "zone" => Some(zone.to_owned()),
                    _ => None,
                },
            );
            checked.map(|row| row.zone.unwrap_or_default()).map_err(|wrong| wrong.problem)
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
