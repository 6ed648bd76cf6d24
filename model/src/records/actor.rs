//! Actors of the audit trail.

use std::fmt;

use serde::{Serialize, Serializer};

/// The actor of a change: in SQL, JSON and on the command line one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Tidings itself.
    Tidings,
    /// The recipient, by a preference page or a provider's link.
    Recipient,
    /// An operator, by login.
    Operator(String),
}

impl Actor {
    /// The word in the audit trail.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tidings => "tidings",
            Self::Recipient => "recipient",
            Self::Operator(login) => login,
        }
    }

    /// The operator with this login. Without a login Tidings acts by itself, for example after a cancel.
    #[must_use]
    pub fn of_login(login: &str) -> Self {
        if login.is_empty() { Self::Tidings } else { Self::from(login.to_owned()) }
    }
}

/// Reads the word in the audit trail.
impl From<String> for Actor {
    fn from(word: String) -> Self {
        [Self::Tidings, Self::Recipient]
            .into_iter()
            .find(|actor| actor.as_str() == word)
            .unwrap_or(Self::Operator(word))
    }
}

impl From<&str> for Actor {
    fn from(word: &str) -> Self {
        Self::from(word.to_owned())
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_reads_back_from_its_word() {
        for actor in [Actor::Tidings, Actor::Recipient, Actor::Operator("ann".to_owned())] {
            assert_eq!(Actor::from(actor.to_string()), actor);
        }
        assert_eq!(Actor::of_login(""), Actor::Tidings);
        assert_eq!(Actor::of_login("ann"), Actor::Operator("ann".to_owned()));
    }
}
