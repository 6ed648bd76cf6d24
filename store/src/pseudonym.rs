//! Pseudonyms of addresses: a keyed hash, so that a suppression holds for an address that the store no longer has.
//!
//! Addresses can be guessed, and a plain hash would confirm each guess to everybody who has it. The key is a random secret of the
//! database. Whoever has the whole database can still test a guess.

use ring::hmac::{HMAC_SHA256, Key, sign};
use tidings_model::hex;

/// The beginning of a pseudonym. No address begins like that, because a pseudonym has no `@`.
pub const PREFIX: &str = "erased:";

/// Makes pseudonyms with the secret of a database.
#[derive(Clone)]
pub struct Pseudonyms(Key);

impl Pseudonyms {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(Key::new(HMAC_SHA256, secret))
    }

    /// The pseudonym of an address of a tenant, in the spelling of suppressions. A pseudonym is its own.
    #[must_use]
    pub fn of(&self, tenant: &str, folded: &str) -> String {
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
        let ann = pseudonyms.of("acme", "ann@example.com");
        assert_eq!(ann, pseudonyms.of("acme", "ann@example.com"));
        assert_eq!(ann, pseudonyms.of("acme", &ann), "a pseudonym of a pseudonym");
        assert_eq!(ann.len(), PREFIX.len() + 64);
        let others = [
            pseudonyms.of("other", "ann@example.com"),
            pseudonyms.of("acme", "bo@example.com"),
            Pseudonyms::new(b"another").of("acme", "ann@example.com"),
        ];
        assert!(others.iter().all(|other| *other != ann));
    }
}
