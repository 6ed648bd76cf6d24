//! API tokens. A service sends one as `Authorization: Bearer`.
//!
//! A token is `tdg_ID_SECRET`. The last eight digits are a checksum, so secret scanners can recognize it. The
//! store keeps only a hash, which need not be a slow one because the secret is random.

use std::{fmt, str::FromStr};

use jiff::{Timestamp, civil::Date};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;

use crate::{hex, hex_sha256};

pub const PREFIX: &str = "tdg_";
const ID_BYTES: usize = 8;
/// 256 bits.
const SECRET_BYTES: usize = 32;
const ID_DIGITS: usize = ID_BYTES * 2;
const SECRET_DIGITS: usize = SECRET_BYTES * 2;
const CHECK_DIGITS: usize = 8;
pub const NOTE_BYTES: usize = 200;

closed_set! {
    pub enum TokenScope {
        EventsWrite = "events:write",
        MessagesWrite = "messages:write",
        MessagesRead = "messages:read",
        RecipientsWrite = "recipients:write",
        RecipientsRead = "recipients:read",
        PreferencesWrite = "preferences:write",
        PreferencesRead = "preferences:read",
        DigestsOperate = "digests:operate",
        DigestsRead = "digests:read",
        SuppressionsWrite = "suppressions:write",
        SuppressionsRead = "suppressions:read",
        StatsRead = "stats:read",
        AuditRead = "audit:read",
    }
}

/// A complete token. Its text is only shown when it is created.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiToken {
    id: String,
    secret: String,
}

/// Not a valid token. The error never shows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is malformed; `tidings tokens create` prints a valid one")]
pub struct WrongToken;

impl ApiToken {
    /// `None` without randomness from the system.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let (id, secret) = bytes.split_at(ID_BYTES);
        Some(Self { id: hex(id), secret: hex(secret) })
    }

    /// The public part, safe to log.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn hash(&self) -> String {
        hex_sha256(self.secret.as_bytes())
    }

    #[must_use]
    pub fn reveal(&self) -> String {
        let text = self.without_checksum();
        let check = checksum(&text);
        text + &check
    }

    fn without_checksum(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }
}

/// The first digits of the SHA-256 of everything before the checksum.
fn checksum(text: &str) -> String {
    hex_sha256(text.as_bytes())[..CHECK_DIGITS].to_owned()
}

impl FromStr for ApiToken {
    type Err = WrongToken;

    fn from_str(text: &str) -> Result<Self, WrongToken> {
        let (id, rest) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).ok_or(WrongToken)?;
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if id.len() != ID_DIGITS || rest.len() != SECRET_DIGITS + CHECK_DIGITS || !is_hex(id) || !is_hex(rest) {
            return Err(WrongToken);
        }
        let token = Self { id: id.to_owned(), secret: rest[..SECRET_DIGITS].to_owned() };
        // Constant time is not needed here: everyone who has a token can compute its checksum.
        if rest[SECRET_DIGITS..] == checksum(&token.without_checksum()) { Ok(token) } else { Err(WrongToken) }
    }
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiToken").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A token without its secret, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenRecord {
    pub id: String,
    /// `None` for every tenant.
    pub tenant: Option<String>,
    pub scopes: Vec<TokenScope>,
    /// Its purpose, in the operator's words; may be empty.
    pub note: String,
    pub created_at: Timestamp,
    pub created_by: String,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// In UTC.
    pub last_used_on: Option<Date>,
}

closed_set! {
    pub enum TokenState {
        Valid = "valid",
        Expired = "expired",
        Revoked = "revoked",
    }
}

impl TokenRecord {
    #[must_use]
    pub fn state(&self, now: Timestamp) -> TokenState {
        if self.revoked_at.is_some() {
            TokenState::Revoked
        } else if self.expires_at.is_some_and(|end| end <= now) {
            TokenState::Expired
        } else {
            TokenState::Valid
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn record() -> TokenRecord {
        TokenRecord {
            id: "00".repeat(8),
            tenant: Some("acme".into()),
            scopes: vec![TokenScope::EventsWrite],
            note: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
            created_by: "ann".into(),
            expires_at: None,
            revoked_at: None,
            last_used_on: None,
        }
    }

    #[test]
    fn a_token_reads_back_and_no_two_are_alike() {
        let token = ApiToken::generate().unwrap();
        let text = token.reveal();
        assert_eq!(text.len(), 93);
        assert_eq!(text.parse::<ApiToken>(), Ok(token.clone()));
        assert_ne!(ApiToken::generate().unwrap().reveal(), text);
        assert_eq!(token.hash().len(), 64);
        assert!(!format!("{token:?}").contains(&text[21..]));
    }

    #[test]
    fn the_form_and_the_checksum_of_a_token_never_change() {
        let token = ApiToken { id: "0123456789abcdef".into(), secret: "ab".repeat(32) };
        let text = "tdg_0123456789abcdef_abababababababababababababababababababababababababababababababab";
        assert_eq!(token.reveal(), format!("{text}{}", checksum(text)));
        assert_eq!(token.hash(), hex(&Sha256::digest("ab".repeat(32))));
    }

    #[test]
    fn a_text_with_one_wrong_digit_is_no_token() {
        let text = ApiToken::generate().unwrap().reveal();
        for at in 4..text.len() {
            let mut wrong = text.clone();
            let digit = if &text[at..=at] == "0" { "1" } else { "0" };
            wrong.replace_range(at..=at, digit);
            assert_eq!(wrong.parse::<ApiToken>(), Err(WrongToken), "{at}");
        }
        for wrong in ["", "tdg_", "tdg__", &text[1..], &text[..92], &format!("{text}0"), &text.to_uppercase()] {
            assert_eq!(wrong.parse::<ApiToken>(), Err(WrongToken), "{wrong}");
        }
        assert_eq!(format!("tdg_0123456789abcdef_{}", "ü".repeat(36)).parse::<ApiToken>(), Err(WrongToken));
    }

    #[test]
    fn a_token_ends_at_its_expiry_and_by_a_revocation() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let expiring = TokenRecord { expires_at: Some(at(60)), ..record() };
        assert_eq!(expiring.state(at(59)), TokenState::Valid);
        assert_eq!(expiring.state(at(60)), TokenState::Expired);
        let revoked = TokenRecord { revoked_at: Some(at(1)), ..expiring };
        assert_eq!(revoked.state(at(99)), TokenState::Revoked);
        assert_eq!(record().state(at(i64::from(u32::MAX))), TokenState::Valid);
    }
}
