//! The words of relays.

/// Reports if a refusal says in words that there is no such mailbox: Courier 1.0.16 `User <ann> unknown`, Postfix 3.7 `User unknown in
/// local recipient table`, Exim 4.96 `no such user`. A word about the sender, a client or a domain means something else.
#[must_use]
pub fn names_unknown_mailbox(text: &str) -> bool {
    const OTHERS: &[&str] = &["sender", "client", "domain", "relay", "helo", "host"];
    const MAILBOXES: &[&str] = &["user", "recipient", "mailbox", "account", "address"];
    const PHRASES: &[&str] = &["no such", "unknown", "not found", "does not exist", "doesn't exist", "no mailbox"];
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    !has(OTHERS) && has(MAILBOXES) && has(PHRASES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_unknown_mailbox_are_about_a_mailbox() {
        for (text, expected) in [
            ("User <ann> unknown", true),
            ("Recipient address rejected: User unknown in local recipient table", true),
            ("No such user here", true),
            ("The email account that you tried to reach does not exist.", true),
            ("sorry, no mailbox here by that name", true),
            ("relay not permitted", false),
            ("Invalid recipient: <address>", false),
            ("Unrouteable address", false),
            ("Sender address rejected: Domain not found", false),
            ("Domain of sender address does not exist", false),
            ("unknown client", false),
            ("Mailbox unavailable", false),
        ] {
            assert_eq!(names_unknown_mailbox(text), expected, "{text}");
        }
    }
}
