//! Pseudonyms for addresses, so a suppression still holds for an address we no longer store.
//!
//! A hash keyed with a random secret in the database, because a plain hash would let anybody confirm a
//! guessed address. Somebody with the whole database still can.

use ring::hmac::{HMAC_SHA256, Key, sign};
use tidings_model::hex;

/// Cannot clash with an address, because a pseudonym has no `@`.
pub const PREFIX: &str = "erased:";

#[derive(Clone)]
pub struct Pseudonyms(Key);

impl Pseudonyms {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(Key::new(HMAC_SHA256, secret))
    }

    /// The pseudonym of a tenant's address in suppression spelling. A pseudonym is returned unchanged.
    #[must_use]
    pub fn pseudonym_of(&self, tenant: &str, folded: &str) -> String {
        if folded.starts_with(PREFIX) {
            return folded.to_owned();
        }
        let tag = sign(&self.0, format!("{tenant}\0{folded}").as_bytes());
        format!("{PREFIX}{}", hex(tag.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_depends_on_secret_tenant_and_address() {
        let pseudonyms = Pseudonyms::new(b"secret");
        let ann = pseudonyms.pseudonym_of("acme", "ann@example.com");
        assert_eq!(ann, pseudonyms.pseudonym_of("acme", "ann@example.com"));
        assert_eq!(ann, pseudonyms.pseudonym_of("acme", &ann), "a pseudonym of a pseudonym");
        assert_eq!(ann.len(), PREFIX.len() + 64);
        let others = [
            pseudonyms.pseudonym_of("other", "ann@example.com"),
            pseudonyms.pseudonym_of("acme", "bo@example.com"),
            Pseudonyms::new(b"another").pseudonym_of("acme", "ann@example.com"),
        ];
        assert!(others.iter().all(|other| *other != ann));
    }
}
