//! A relay's reply in a form for ledger and logs: no addresses, no control characters, limited length.

use std::fmt;

use tidings_model::{delivery_events::enhanced, presentable};

/// A relay's reply (RFC 5321 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The three digits.
    pub code: u16,
    /// The enhanced status code (RFC 3463) as (class, subject, detail), if its class is the code's first digit.
    pub enhanced: Option<(u16, u16, u16)>,
    /// The text after the codes, at most 300 characters. `<address>` replaces every address.
    pub text: String,
}

impl Reply {
    /// Parses a reply. `text` is everything after the code; lines may be joined by spaces.
    #[must_use]
    pub fn new(code: u16, text: &str) -> Self {
        let text = text.trim();
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match enhanced(first).filter(|(class, ..)| *class == code / 100) {
            Some(enhanced) => Self { code, enhanced: Some(enhanced), text: presentable(rest) },
            None => Self { code, enhanced: None, text: presentable(text) },
        }
    }

    /// Returns whether the command succeeded (2yz).
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.code / 100 == 2
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some((class, subject, detail)) = self.enhanced {
            write!(f, " {class}.{subject}.{detail}")?;
        }
        if self.text.is_empty() { Ok(()) } else { write!(f, " {}", self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_taken_apart() {
        let reply = Reply::new(550, "5.1.1 no such user");
        assert_eq!((reply.code, reply.enhanced, reply.text.as_str()), (550, Some((5, 1, 1)), "no such user"));
        assert_eq!(reply.to_string(), "550 5.1.1 no such user");
        assert_eq!(Reply::new(250, "").to_string(), "250");
    }

    #[test]
    fn an_enhanced_code_of_another_class_is_only_text() {
        assert_eq!(Reply::new(450, "5.1.1 odd").enhanced, None);
        assert_eq!(Reply::new(550, "127.0.0.1 is blocked").enhanced, None);
        assert_eq!(Reply::new(550, "5.+1.1 odd").enhanced, None);
    }

    #[test]
    fn no_address_survives_in_a_reply() {
        for text in [
            "5.1.1 <ann@example.com>: Recipient address rejected",
            "5.1.1 mailto:ann@example.com unknown",
            "'ann@example.com' (ann%40example.com), \"ann@example.com\";ann@example.com",
            "\u{1b}ann@example.com",
        ] {
            let shown = Reply::new(550, text).to_string();
            assert!(!shown.contains("ann") && !shown.contains("example.com"), "{shown}");
        }
        assert_eq!(Reply::new(550, "5.1.1 <a@b.c>: no").text, "<address>: no");
    }

    #[test]
    fn a_long_reply_is_cut() {
        assert_eq!(Reply::new(550, &"ü".repeat(9000)).text.chars().count(), 300);
    }
}
