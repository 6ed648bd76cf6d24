//! The quoted reply is the evidence; `EnhancedStatus` is only a label. E.g. sendmail 8.17 labels every 550
//! from a server without ENHANCEDSTATUSCODES as 5.1.1, and Haraka 3.3.4 a host that was down as 5.1.2.

use super::report::{BounceKind, EnhancedStatus, ReportKind};
use crate::{EmailAddress, replies::names_unknown_mailbox};

/// Words before the code, e.g. the stage in chasquid 1.11: `DATA closing 554 5.7.1 ...`.
const STAGE_WORDS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QuotedReply {
    code: u16,
    /// Only if its class matches the code's first digit.
    status: Option<EnhancedStatus>,
}

impl QuotedReply {
    /// Finds e.g. `550 5.1.1 ...`, `550-5.1.1 ...`, `MAIL+RCPT 550 ...` and `... Remote host said: 550 ...`.
    fn find(diagnostic: &str) -> Option<Self> {
        let words = diagnostic.split(|c: char| c.is_whitespace() || c == '-').filter(|word| !word.is_empty());
        let words: Vec<_> = words.collect();
        words.iter().enumerate().find_map(|(at, word)| {
            let code = reply_code(word)?;
            let status = words.get(at + 1).and_then(|word| word.trim_start_matches('#').parse().ok());
            let status = status.filter(|EnhancedStatus(class, ..)| *class == code / 100);
            let is_introduced = at.checked_sub(1).is_some_and(|before| words[before].ends_with(':'));
            (at < STAGE_WORDS || is_introduced || status.is_some()).then_some(Self { code, status })
        })
    }
}

/// A final reply (RFC 5321 4.2.1) is 2yz, 4yz or 5yz, with a second digit up to 5.
fn reply_code(word: &str) -> Option<u16> {
    let is_code = matches!(word.as_bytes(), [b'2' | b'4' | b'5', b'0'..=b'5', b'0'..=b'9']);
    is_code.then(|| word.parse().ok()).flatten()
}

/// E.g. `(#5.1.1)` from qmail.
fn any_status(diagnostic: &str) -> Option<EnhancedStatus> {
    diagnostic.split(|c: char| c.is_whitespace() || "-()#".contains(c)).find_map(|word| word.parse().ok())
}

/// If label and quoted reply contradict each other, the reply wins.
#[must_use]
pub fn proven_status(label: Option<EnhancedStatus>, diagnostic: &str) -> Option<EnhancedStatus> {
    let Some(QuotedReply { code, status }) = QuotedReply::find(diagnostic) else {
        let is_exact = label.is_some_and(|EnhancedStatus(_, subject, detail)| (subject, detail) != (0, 0));
        return if is_exact { label } else { any_status(diagnostic).or(label) };
    };
    let fits = |label: &EnhancedStatus| {
        let missing_unproven = label.is_missing_address() && !names_unknown_mailbox(diagnostic);
        label.0 == code / 100 && !missing_unproven
    };
    status.or_else(|| label.filter(fits)).or(Some(EnhancedStatus(code / 100, 0, 0)))
}

impl EnhancedStatus {
    /// 5.1.1, 5.1.2, 5.1.3, 5.1.6 (RFC 3463) and 5.1.10 (RFC 7505): the address does not exist, or receives
    /// nothing.
    #[must_use]
    pub const fn is_missing_address(self) -> bool {
        matches!(self, Self(5, 1, 1 | 2 | 3 | 6 | 10))
    }
}

impl BounceKind {
    /// Corrects the provider: 5.7.x is about us, 5.3.4 about the message size, and 5.2.2 is a full mailbox.
    /// Without a quoted reply, 5.1.2 and 5.4.x may be an outage on the recipient's side.
    #[must_use]
    pub fn with_evidence(self, label: Option<EnhancedStatus>, diagnostic: &str) -> Self {
        let proven = proven_status(label, diagnostic);
        let reply = QuotedReply::find(diagnostic);
        let is_refuted = label.is_some_and(EnhancedStatus::is_missing_address)
            && !proven.is_some_and(EnhancedStatus::is_missing_address);
        match proven {
            Some(EnhancedStatus(_, 7, _) | EnhancedStatus(_, 3, 4)) => Self::Policy,
            _ if self != Self::Hard => self,
            Some(EnhancedStatus(_, 2, 2)) => Self::Soft,
            Some(EnhancedStatus(_, 1, 2) | EnhancedStatus(_, 4, _)) if reply.is_none() => Self::Soft,
            _ if is_refuted || reply.is_some_and(|reply| reply.code < 500) => Self::Soft,
            _ => self,
        }
    }
}

impl ReportKind {
    /// Downgrades a hard bounce for another address than ours, e.g. through groups or forwarding, because it
    /// does not prove ours is gone.
    #[must_use]
    pub fn for_recipient(self, failed: Option<&str>, envelope_to: &str) -> Self {
        match (self, failed) {
            (Self::Bounced(BounceKind::Hard), Some(failed)) if !is_same_address(failed, envelope_to) => {
                Self::Bounced(BounceKind::Soft)
            }
            _ => self,
        }
    }
}

fn is_same_address(one: &str, other: &str) -> bool {
    let folded = |address: &str| EmailAddress::normalize_address(address.trim().trim_matches(['<', '>']));
    folded(one) == folded(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quoted_reply_outweighs_the_label() {
        for (label, diagnostic, expected) in [
            // sendmail 8.17 in front of a server without ENHANCEDSTATUSCODES.
            ("5.1.1", "550 5.7.1 <ann@example.net>: rejected by policy", "5.7.1"),
            ("5.1.1", "550 5.2.1 account disabled", "5.2.1"),
            ("5.1.1", "550 5.4.1 Access denied", "5.4.1"),
            ("5.1.1", "550 Unrouteable address", "5.0.0"),
            ("5.1.1", "550 User <ann> unknown", "5.1.1"),
            ("4.3.1", "452 4.2.2 over quota", "4.2.2"),
            // Haraka 3.3.4 at the end of its retries.
            ("5.2.2", "452 4.2.2 over quota", "4.2.2"),
            ("5.1.1", "450 try later", "4.0.0"),
            // Exim 4.96, Courier 1.0.16 and chasquid 1.11.
            ("5.0.0", "550 5.1.1 <ann@example.net>: unknown", "5.1.1"),
            ("5.0.0", "550-5.1.1 The email account does not exist.", "5.1.1"),
            ("5.0.0", "DATA closing 554 5.7.1 no", "5.7.1"),
            ("5.0.0", "MAIL+RCPT 550 5.1.1 no", "5.1.1"),
            ("5.0.0", "550 no such user", "5.0.0"),
            // qmail.
            ("", "Sorry, no mailbox here by that name. (#5.1.1)", "5.1.1"),
            ("", "Connected to 192.0.2.1 but sender was rejected. Remote host said: 550 5.7.1 no", "5.7.1"),
            // Not a reply: the label is all there is.
            ("5.1.1", "", "5.1.1"),
            ("5.1.1", "unknown user: \"ann\"", "5.1.1"),
            ("4.4.1", "connect to mx.example.net[192.0.2.1]:587: Connection refused", "4.4.1"),
            ("4.4.7", "retry timeout exceeded after 432000 s", "4.4.7"),
            ("5.2.2", "552 mailbox full", "5.2.2"),
        ] {
            let proven = proven_status(label.parse().ok(), diagnostic);
            assert_eq!(proven.map(|status| status.to_string()).unwrap_or_default(), expected, "{label} {diagnostic}");
            assert_eq!(proven_status(proven, diagnostic), proven, "{label} {diagnostic}");
        }
    }

    #[test]
    fn a_bounce_is_as_hard_as_its_evidence() {
        use BounceKind::{Hard, Policy, Soft};
        for (said, status, diagnostic, meant) in [
            (Hard, "", "", Hard),
            (Hard, "5.1.1", "", Hard),
            (Hard, "5.1.1", "550 5.1.1 no such user", Hard),
            (Hard, "5.7.1", "", Policy),
            (Soft, "4.7.26", "", Policy),
            (Hard, "5.2.2", "", Soft),
            (Soft, "4.2.2", "", Soft),
            (Hard, "5.3.4", "", Policy),
            (Hard, "5.3.0", "", Hard),
            (Soft, "5.1.1", "", Soft),
            (Policy, "5.2.2", "", Policy),
            (Hard, "5.1.1", "550 5.7.1 rejected by policy", Policy),
            (Hard, "5.1.1", "550 5.2.1 account disabled", Soft),
            (Hard, "5.1.1", "550 Unrouteable address", Soft),
            (Hard, "", "550 Unrouteable address", Hard),
            (Hard, "", "452 4.2.1 later", Soft),
            (Hard, "5.1.2", "", Soft),
            (Hard, "5.1.2", "Tried all MXs", Soft),
            (Hard, "5.1.2", "550 5.1.2 no such domain", Hard),
            (Hard, "5.4.4", "", Soft),
        ] {
            assert_eq!(said.with_evidence(status.parse().ok(), diagnostic), meant, "{said:?} {status} {diagnostic}");
        }
    }

    #[test]
    fn a_bounce_of_another_address_is_soft() {
        let hard = ReportKind::Bounced(BounceKind::Hard);
        for (failed, is_ours) in [
            (None, true),
            (Some("ann@example.net"), true),
            (Some("<Ann@EXAMPLE.net>"), true),
            (Some("ann@xn--exmple-cua.net"), false),
            (Some("bo@example.net"), false),
            (Some("ann@mail.example.net"), false),
            (Some("ann"), false),
        ] {
            assert_eq!(hard.for_recipient(failed, "ann@example.net") == hard, is_ours, "{failed:?}");
        }
        assert_eq!(hard.for_recipient(Some("ann@xn--exmple-cua.net"), "ann@exämple.net"), hard);
        assert_eq!(
            ReportKind::Delivered.for_recipient(Some("bo@example.net"), "ann@example.net"),
            ReportKind::Delivered
        );
        let policy = ReportKind::Bounced(BounceKind::Policy);
        assert_eq!(policy.for_recipient(Some("bo@example.net"), "ann@example.net"), policy);
    }
}
