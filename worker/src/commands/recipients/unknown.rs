//! The answer about a person of whom nothing is held.

use tidings_model::PersonId;

/// Says that there is nothing to show.
pub(super) fn unknown(person: &PersonId) -> bool {
    anstream::eprintln!("nothing is held about {person}; see tidings recipients list");
    false
}
