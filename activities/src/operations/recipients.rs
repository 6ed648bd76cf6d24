//! People who come into the directory: one check of their rows, and the keys that follow another zone.

use tidings_mail::address;
use tidings_model::{
    Key,
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
/// zone or a language goes. Ids are taken as they are: they must equal those of events.
///
/// # Errors
/// Names the first field that is wrong, and what would be right.
pub fn recipient(value: impl Fn(&str) -> String) -> Result<Recipient, WrongValue> {
    let wrong =
        |field: &str, written: String, problem: String| WrongValue { field: field.to_owned(), written, problem };
    // The digest type stands for any: the ids must fit in a workflow id with it.
    let Key { tenant, user, .. } = Key::new(value("tenant"), "digest".to_owned(), value("user"))?;
    let value = |field: &str| clean_edges(&value(field)).to_owned();
    let written = value("address");
    if written.is_empty() {
        return Err(wrong("address", written, "is required".to_owned()));
    }
    let address = address(&written).map_err(|problem| wrong("address", written, problem))?;
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
