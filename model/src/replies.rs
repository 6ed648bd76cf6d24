//! Classifies SMTP refusals by phase, code and text: is the recipient, the message or our account to blame?
//! Each row names its source.
//!
//! The first match wins, so specific rows come before general ones. Only covers 4yz and 5yz; for other
//! replies the phase decides.

use crate::attempt::{
    AttemptClass::{
        self, Configuration, Deferred, Failed, HardBounce, MailboxFull, Policy, RecipientPolicy, Refused, Throttled,
        TooLarge, UnknownMailbox,
    },
    AttemptPhase::{self, Auth, Connect, Data, Dot, Ehlo, Mail, Rcpt},
};

closed_set! {
    pub enum RefusalSubject {
        Recipient = "recipient",
        Message = "message",
        /// One SMTP session; another one may succeed.
        Session = "session",
        Connections = "connections",
        Rate = "rate",
        /// Us, or the relay as a whole: sender, host, credentials, settings.
        Us = "us",
    }
}

impl RefusalSubject {
    /// Returns `true` if a refusal about this uses up an attempt: only about the recipient or the message
    /// (rule 25).
    #[must_use]
    pub const fn costs_attempt(self) -> bool {
        matches!(self, Self::Recipient | Self::Message)
    }
}

impl RefusalSubject {
    #[must_use]
    pub const fn subject_phrase(self) -> &'static str {
        match self {
            Self::Recipient => "the recipient",
            Self::Message => "the message",
            Self::Session => "the session",
            Self::Connections => "our number of connections",
            Self::Rate => "our quota or rate",
            Self::Us => "us",
        }
    }
}

closed_set! {
    pub enum QuotaPeriod {
        Hour = "hour",
        Day = "day",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeMatch {
    Any,
    /// 4yz.
    Transient,
    /// 5yz.
    Permanent,
    Of(&'static [u16]),
}

/// Enhanced status codes (RFC 3463) without the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusMatch {
    Any,
    /// No enhanced code, or the meaningless x.0.0.
    Bare,
    /// Neither about an address (x.1.y) nor a mailbox (x.2.y).
    NotAddress,
    Subject(u16),
    Of(&'static [(u16, u16)]),
    Between(u16, (u16, u16)),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextMatch {
    Any,
    Of(&'static [&'static str]),
    Both(&'static [&'static str], &'static [&'static str]),
    /// See [`names_unknown_mailbox`].
    UnknownMailbox,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyRow {
    phases: (AttemptPhase, AttemptPhase),
    codes: CodeMatch,
    statuses: StatusMatch,
    words: TextMatch,
    pub about: RefusalSubject,
    pub class: AttemptClass,
    /// Set if a quota is exhausted.
    pub quota: Option<QuotaPeriod>,
    pub meaning: &'static str,
    pub source: &'static str,
}

#[must_use]
pub fn classify_refusal(
    phase: AttemptPhase,
    code: u16,
    enhanced: Option<(u16, u16, u16)>,
    text: &str,
) -> &'static ReplyRow {
    let text = text.to_ascii_lowercase();
    ROWS.iter().find(|row| row.matches_reply(phase, code, enhanced, &text)).unwrap_or(&ANY)
}

impl ReplyRow {
    fn matches_reply(&self, phase: AttemptPhase, code: u16, enhanced: Option<(u16, u16, u16)>, text: &str) -> bool {
        let (subject, detail) = enhanced.map_or((0, 0), |(_, subject, detail)| (subject, detail));
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let (from, to) = self.phases;
        (from..=to).contains(&phase)
            && match self.codes {
                CodeMatch::Any => true,
                CodeMatch::Transient => code / 100 == 4,
                CodeMatch::Permanent => code / 100 == 5,
                CodeMatch::Of(codes) => codes.contains(&code),
            }
            && match self.statuses {
                StatusMatch::Any => true,
                StatusMatch::Bare => (subject, detail) == (0, 0),
                StatusMatch::NotAddress => !matches!(subject, 1 | 2),
                StatusMatch::Subject(own) => subject == own,
                StatusMatch::Of(statuses) => statuses.contains(&(subject, detail)),
                StatusMatch::Between(own, (first, last)) => subject == own && (first..=last).contains(&detail),
            }
            && match self.words {
                TextMatch::Any => true,
                TextMatch::Of(words) => has(words),
                TextMatch::Both(words, others) => has(words) && has(others),
                TextMatch::UnknownMailbox => names_unknown_mailbox(text),
            }
    }

    const fn new(
        phases: (AttemptPhase, AttemptPhase),
        codes: CodeMatch,
        about: RefusalSubject,
        class: AttemptClass,
    ) -> Self {
        let (statuses, words) = (StatusMatch::Any, TextMatch::Any);
        Self { phases, codes, statuses, words, about, class, quota: None, meaning: "", source: "" }
    }

    const fn status(self, statuses: StatusMatch) -> Self {
        Self { statuses, ..self }
    }

    const fn words(self, words: TextMatch) -> Self {
        Self { words, ..self }
    }

    const fn quota(self, quota: QuotaPeriod) -> Self {
        Self { quota: Some(quota), ..self }
    }

    const fn meaning(self, meaning: &'static str, source: &'static str) -> Self {
        Self { meaning, source, ..self }
    }
}

const LIMIT: &[&str] = &["exceed", "limit", "quota", "maximum", "reached", "too many"];
const DAY: &[&str] = &["daily", "per day", "24-hour", "24 hour", "24h", "/day"];
const HOUR: &[&str] = &["hourly", "per hour", "this hour", "hour limit", "an hour", "/hour", "1 hour", "last hour"];
const EXCHANGE: &str = "Microsoft, \"Email non-delivery reports and SMTP errors in Exchange Online\"";
const EXCHANGE_BLOCKS: &str =
    "Microsoft, \"Fix NDR error codes 550 5.7.703, 550 5.7.705, 550 5.7.708, and 550 5.7.750\"";
const EXCHANGE_SUBMISSION: &str =
    "Microsoft, \"Message storage and concurrent connection throttling for SMTP Authenticated Submission\"";
const GMAIL: &str = "Google, \"Gmail SMTP errors and codes\" (support.google.com/a/answer/3726730)";
const YAHOO: &str = "Yahoo, \"SMTP Error Codes\" (senders.yahooinc.com/smtp-error-codes)";
const RELAY_DENIED: &str = "the relay does not relay for this host: allow it there, or log in";
const DAILY: &str = "the sender's quota of a day is used up; messages wait until the relay takes them again";
const SLOWER: &str = "the relay wants fewer messages: set `rate`, or ask for more";
const BUSY_MAILBOX: &str = "this mailbox gets too much mail at the moment";
const SENDER_DOMAIN: &str = "the relay does not take the sender's address: its domain must exist in DNS";

static ANY: ReplyRow = ReplyRow::new((Connect, Dot), CodeMatch::Any, RefusalSubject::Us, Deferred)
    .meaning("the relay refuses", "RFC 5321");

pub static ROWS: &[ReplyRow] = &[
    // One mailbox is busy. Gmail also uses 550 for this.
    ReplyRow::new((Rcpt, Dot), CodeMatch::Any, RefusalSubject::Recipient, Deferred)
        .words(TextMatch::Of(&[
            "recipient thread limit",
            "receiving mail too quickly",
            "receiving email too quickly",
            "receiving mail at a rate",
            "receiving email at a rate",
        ]))
        .meaning(BUSY_MAILBOX, "Exchange Online (432 4.3.2), Gmail (450 4.2.1, 550 5.2.1): their pages; Yahoo (450), public reports"),
    ReplyRow::new((Rcpt, Dot), CodeMatch::Any, RefusalSubject::Recipient, Deferred)
        .status(StatusMatch::Of(&[(2, 121), (2, 122)]))
        .meaning(BUSY_MAILBOX, EXCHANGE),
    // Connections: our other sessions still work.
    ReplyRow::new((Connect, Ehlo), CodeMatch::Transient, RefusalSubject::Connections, Throttled)
        .words(TextMatch::Of(CONNECTIONS))
        .meaning("too many connections at a time", "Exim 4.96 (20 in all), smtp-server 3.21.6 (`maxClients`), Postfix 3.7 (`smtpd_client_connection_count_limit`), sendmail 8.17 (`FEATURE(conncontrol)`: 421 4.3.2 Too many open connections); Amazon SES, \"SMTP response codes\""),
    ReplyRow::new((Auth, Dot), CodeMatch::Transient, RefusalSubject::Connections, Deferred)
        .status(StatusMatch::NotAddress)
        .words(TextMatch::Of(CONNECTIONS))
        .meaning("too many connections at a time", EXCHANGE_SUBMISSION),
    // These come before any message, so the refusal is about us.
    ReplyRow::new((Connect, Ehlo), CodeMatch::Permanent, RefusalSubject::Us, Deferred)
        .meaning("the relay serves nobody, or not this host", "RFC 5321 3.1 (554 instead of a greeting)"),
    // Credentials.
    ReplyRow::new((Auth, Auth), CodeMatch::Of(&[454]), RefusalSubject::Us, Throttled)
        .meaning("the relay cannot check credentials now", "RFC 4954 6"),
    ReplyRow::new((Auth, Auth), CodeMatch::Permanent, RefusalSubject::Us, Configuration)
        .meaning("the relay does not take our credentials: correct user and password of its address", "RFC 4954 6; chasquid 1.11, Mailpit, smtp-server 3.21.6"),
    ReplyRow::new((Mail, Dot), CodeMatch::Of(&[530, 534, 535]), RefusalSubject::Us, Configuration)
        .meaning("the relay wants TLS or a login first: correct its address", "RFC 4954 6, RFC 3207 4; Postfix 3.7, Mailpit, smtp-server 3.21.6, Exchange (5.7.57)"),
    // Envelope sender.
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .status(StatusMatch::Of(&[(1, 8)]))
        .words(TextMatch::Of(&["bad outbound sender"]))
        .meaning("Exchange Online has blocked our account for spam: its administrator must release it", EXCHANGE),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .status(StatusMatch::Of(&[(1, 7), (1, 8)]))
        .meaning(SENDER_DOMAIN, "RFC 3463 3.2; Postfix 3.7 (450 4.1.8 Sender address rejected: Domain not found)"),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .words(TextMatch::Of(&["unresolvable rfc.5321", "unresolvable rfc.5322"]))
        .meaning(SENDER_DOMAIN, YAHOO),
    ReplyRow::new((Mail, Dot), CodeMatch::Permanent, RefusalSubject::Us, Configuration)
        .words(TextMatch::Of(&["storedrv.submission.exception:quotaexceeded"]))
        .meaning("the mailbox from which we send is full: empty its Sent Items", EXCHANGE_SUBMISSION),
    // Quotas and rates.
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::Of(&[(1, 90), (7, 232), (7, 233)]))
        .quota(QuotaPeriod::Day)
        .meaning(DAILY, EXCHANGE),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::Of(&[(7, 236)]))
        .quota(QuotaPeriod::Day)
        .meaning("a sender at onmicrosoft.com may mail 100 recipients a day: send from a domain of your own", "Microsoft, Exchange Team Blog, \"Limiting Onmicrosoft Domain Usage for Sending Emails\""),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .words(TextMatch::Of(&["submission quota exceeded", "submission quota was exceeded", "submissionquotaexceeded"]))
        .quota(QuotaPeriod::Day)
        .meaning(DAILY, EXCHANGE_SUBMISSION),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::Of(&[(7, 508)]))
        .meaning(SLOWER, EXCHANGE),
    ReplyRow::new((Connect, Dot), CodeMatch::Transient, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::Between(7, (500, 699)))
        .meaning("Exchange Online slows our IP address down, because it sends more than before", "Microsoft, \"Fix email delivery issues for error code 451 4.7.500-699 (ASxxx) in Exchange Online\""),
    ReplyRow::new((Connect, Dot), CodeMatch::Transient, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::Between(7, (850, 899)))
        .meaning("Exchange Online slows our IP address down while it looks at its mail", EXCHANGE),
    ReplyRow::new((Connect, Dot), CodeMatch::Transient, RefusalSubject::Us, Throttled)
        .status(StatusMatch::Between(7, (20, 40)))
        .words(TextMatch::Of(&["rate limited because", "record of the sending domain", "have a ptr record"]))
        .meaning("SPF, DKIM, DMARC, TLS or reverse DNS of our domain or server do not fit; until they do, the relay takes little", GMAIL),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .words(TextMatch::Both(&["smtp relay limit"], DAY))
        .quota(QuotaPeriod::Day)
        .meaning(DAILY, GMAIL),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .words(TextMatch::Of(&["smtp relay limit"]))
        .meaning(SLOWER, GMAIL),
    ReplyRow::new((Connect, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::NotAddress)
        .words(TextMatch::Both(DAY, LIMIT))
        .quota(QuotaPeriod::Day)
        .meaning(DAILY, "Gmail (550 5.4.5), Amazon SES (454 Throttling failure: Daily message quota exceeded), Outlook (550 ... 24-hour sending limit)"),
    ReplyRow::new((Connect, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::NotAddress)
        .words(TextMatch::Both(HOUR, LIMIT))
        .quota(QuotaPeriod::Hour)
        .meaning("the sender's quota of an hour is used up; messages wait until the relay takes them again", "cPanel (550 Domain ... has exceeded the max emails per hour), GoDaddy (550 This IP has sent too many messages this hour), public reports; Twilio SendGrid, \"SMTP Errors and Troubleshooting\" (452 Too many recipients received this hour)"),
    ReplyRow::new((Connect, Dot), CodeMatch::Transient, RefusalSubject::Rate, Throttled)
        .words(TextMatch::Of(&["maximum credits exceeded"]))
        .quota(QuotaPeriod::Day)
        .meaning("the account has used up its credits: buy more, or wait", "Twilio SendGrid, \"SMTP Errors and Troubleshooting\" (451 at AUTH)"),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .words(TextMatch::Both(&["is not allowed to send:"], LIMIT))
        .meaning(SLOWER, "Mailgun (Domain ... is not allowed to send: recipient limit (26) exceeded, try again after ...), public reports"),
    // Sessions.
    ReplyRow::new((Auth, Dot), CodeMatch::Any, RefusalSubject::Session, Deferred)
        .status(StatusMatch::NotAddress)
        .words(TextMatch::Of(&["too many messages sent", "per session", "this session", "per connection", "this connection", "too many errors"]))
        .meaning("this session has had enough messages: set `per_connection`", "OpenSMTPD 6.8.0p2 (452 4.5.3 Too many recipients: Too many messages sent, after 100), chasquid 1.11 (421 4.5.0 Too many errors), Exim 4.99 (421 too many messages in this connection), Postfix 3.7 (421 4.7.0 Error: too many errors); Yahoo (421 Max message per connection reached), public reports"),
    ReplyRow::new((Connect, Dot), CodeMatch::Any, RefusalSubject::Rate, Throttled)
        .status(StatusMatch::NotAddress)
        .words(TextMatch::Of(&[
            "throttl",
            "rate limit",
            "ratelimit",
            "rate exceeded",
            "unusual rate",
            "unusual amount",
            "unexpected volume",
            "excessive volume",
            "deferred due to user complaints",
            "submission rate",
            "messages per second",
            "messages per minute",
            "sending rate",
            "sending limit",
            "sending quota",
            "message quota",
            "relay quota",
            "too many messages",
            "too much mail",
            "too many recipients from",
            "too many recipients for this sender",
            "too many auth commands",
            "too many new tls sessions",
            "allowed outgoing messages",
        ]))
        .meaning(SLOWER, "Amazon SES, \"SMTP response codes\"; Gmail (421 4.7.28, 550 5.5.3): its page; Postfix 3.7 (450 4.7.1 Error: too much mail from ..., too many AUTH commands from ...), sendmail 8.17 (`FEATURE(ratecontrol)`: 421 4.3.2 Connection rate limit exceeded); Emailit, \"SMTP troubleshooting\" (452 4.4.5); Yahoo (421 4.7.0 [TSS04]), Plesk (554 5.7.0), Exchange (421 4.4.2 Message submission rate for this client has exceeded the configured limit), Apple (421 4.7.1 ... deferred due to excessive volume), public reports"),
    // Senders we may not use, whatever the code.
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .words(TextMatch::Of(&["message rejected: email address is not verified", "not authorized to perform"]))
        .meaning("Amazon SES does not know this sender, or in its sandbox this recipient: verify the domain, leave the sandbox, allow ses:SendRawEmail", "Amazon SES, \"SMTP response codes\" (554 Message rejected: Email address is not verified, 554 Access denied)"),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .words(TextMatch::Of(&["verified sender identity", "not authorized to send from that email address"]))
        .meaning("the relay does not know the sender: verify its domain or address there", "Twilio SendGrid, \"SMTP Errors and Troubleshooting\" (403); 550 The from address does not match a verified Sender Identity, public reports"),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .words(TextMatch::Of(&["permissions to send as this sender", "sendasdenied"]))
        .meaning("our account may not send as this sender: let it (Send As), or use its own address", "Exchange (550 5.7.60 SMTP; Client does not have permissions to send as this sender, 554 5.2.0 ... SendAsDenied), public reports"),
    ReplyRow::new((Mail, Dot), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .words(TextMatch::Of(&["is not allowed to send:", "mail sending denied"]))
        .meaning("the relay does not let this account or domain send: see its console", "Gmail (550 5.7.0 Email sending denied): its page; Mailgun (421 Domain ... is not allowed to send: Free accounts are for test purposes only), public reports"),
    // Relaying, whatever the code.
    ReplyRow::new((Mail, Data), CodeMatch::Any, RefusalSubject::Us, Configuration)
        .words(TextMatch::Of(&[
            "relay access denied",
            "relay denied",
            "relaying denied",
            "relay not permitted",
            "relaying not permitted",
            "relay not allowed",
            "relaying not allowed",
            "relaying prohibited",
            "unable to relay",
            "do not relay",
            "invalid credentials for relay",
            "client was not authenticated",
        ]))
        .meaning(RELAY_DENIED, "Exim 4.96 (550 relay not permitted), Postfix 3.7 (454 4.7.1 Relay access denied), Courier 1.0.16 (513 Relaying denied), chasquid 1.11 (503 5.7.1 Relay not allowed), Exchange (550 5.7.54 Unable to relay, 5.7.1 Client was not authenticated), Gmail (550 5.7.1 Invalid credentials for relay): their pages"),
    // Sizes and policies. These rows must precede the general MAIL rows below.
    ReplyRow::new((Rcpt, Dot), CodeMatch::Permanent, RefusalSubject::Recipient, MailboxFull)
        .status(StatusMatch::Of(&[(2, 2)]))
        .meaning("the mailbox is full", "RFC 3463 3.3"),
    ReplyRow::new((Mail, Mail), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Subject(7))
        .meaning("the relay rejects our server or sender", "RFC 3463 3.8; Exchange Online (5.7.515 at MAIL); Yahoo (553 5.7.1 [BL21], 553 5.7.2 [TSS09]), public reports"),
    ReplyRow::new((Rcpt, Dot), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Between(7, (20, 40)))
        .meaning("SPF, DKIM, DMARC, TLS or reverse DNS of our domain or server do not fit", "RFC 7372 3; Gmail (5.7.24 to 5.7.30, 5.7.40): its page"),
    ReplyRow::new((Rcpt, Dot), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Of(&[(7, 57), (7, 64), (7, 501), (7, 502), (7, 503), (7, 506), (7, 509), (7, 511), (7, 512), (7, 800)]))
        .meaning("Exchange Online rejects our server, our domain or our account", EXCHANGE),
    ReplyRow::new((Rcpt, Dot), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Of(&[(7, 515)]))
        .meaning("SPF, DKIM and DMARC of our domain do not all fit", "Microsoft, \"Strengthening Email Ecosystem: Outlook's New Requirements for High-Volume Senders\""),
    ReplyRow::new((Rcpt, Dot), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Of(&[(7, 705), (7, 708), (7, 750)]))
        .meaning("Exchange Online has blocked our account or domain: mend the cause, then ask its support", EXCHANGE_BLOCKS),
    ReplyRow::new((Rcpt, Dot), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Of(&[(7, 711)]))
        .meaning("Exchange Online has blocked our connector: an administrator must release it", "Microsoft, \"Remove blocked connectors from the Restricted entities page\""),
    ReplyRow::new((Rcpt, Dot), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Between(7, (606, 649)))
        .meaning("Exchange Online has blocked our IP address: ask for removal at sender.office.com", EXCHANGE),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Permanent, RefusalSubject::Recipient, RecipientPolicy)
        .status(StatusMatch::Of(&[(7, 12), (7, 13), (7, 124), (7, 129), (7, 133), (7, 134), (7, 135), (7, 136), (7, 193)]))
        .meaning("this mailbox takes mail only from certain senders", "Microsoft, \"Email non-delivery reports and SMTP errors in Exchange Online\", \"NDR 550 5.7.193 when external users send email to a Microsoft 365 group\"; 5.7.129: public reports"),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Permanent, RefusalSubject::Recipient, RecipientPolicy)
        .status(StatusMatch::Of(&[(7, 507), (7, 510), (7, 513)]))
        .meaning("the recipient's organization does not take mail from our server", EXCHANGE),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Permanent, RefusalSubject::Recipient, Refused)
        .status(StatusMatch::Of(&[(7, 504), (7, 505)]))
        .meaning("there is no such address, or no mail may go to it", EXCHANGE),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Permanent, RefusalSubject::Recipient, RecipientPolicy)
        .status(StatusMatch::Of(&[(7, 703)]))
        .meaning(BLOCKED_RECIPIENT, EXCHANGE_BLOCKS),
    ReplyRow::new((Data, Dot), CodeMatch::Permanent, RefusalSubject::Recipient, Failed)
        .status(StatusMatch::Of(&[(7, 703)]))
        .meaning(BLOCKED_RECIPIENT, EXCHANGE_BLOCKS),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Subject(7))
        .words(TextMatch::Of(&["client host", "blocked using", "must be authenticated", "sender is unauthenticated", "helo command rejected", "sender address rejected"]))
        .meaning("the relay rejects our server or sender", "Postfix 3.7 (`reject_rbl_client`, `check_client_access`), chasquid 1.11 (550 5.7.9 Mail to submission port must be authenticated); Yahoo (550 5.7.9 ... the sender is unauthenticated), public reports"),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Permanent, RefusalSubject::Recipient, RecipientPolicy)
        .status(StatusMatch::Subject(7))
        .meaning("the recipient's server does not take this message for this recipient", "RFC 3463 3.8"),
    ReplyRow::new((Data, Dot), CodeMatch::Permanent, RefusalSubject::Us, Policy)
        .status(StatusMatch::Subject(7))
        .meaning("the relay rejects our server, our sender or this message", "RFC 3463 3.8"),
    ReplyRow::new((Data, Dot), CodeMatch::Of(&[552, 554]), RefusalSubject::Recipient, Failed)
        .words(TextMatch::Of(&["mailbox not found", "user doesn't have a"]))
        .meaning("there is no such address, by the relay's words", "Yahoo, \"SMTP Error Codes\" (554 delivery error: dd This user doesn't have a yahoo.com account); 552 ... mailbox not found, public reports"),
    ReplyRow::new((Mail, Dot), CodeMatch::Of(&[552]), RefusalSubject::Message, TooLarge).meaning(TOO_LARGE, "RFC 1870 6.1; Exim 4.96, MailDev 3.0.0"),
    ReplyRow::new((Mail, Dot), CodeMatch::Permanent, RefusalSubject::Message, TooLarge)
        .status(StatusMatch::Of(&[(3, 4)]))
        .meaning(TOO_LARGE, "RFC 3463 3.4; Postfix 3.7, Mailpit, OpenSMTPD 6.8.0p2"),
    ReplyRow::new((Mail, Dot), CodeMatch::Permanent, RefusalSubject::Message, TooLarge)
        .status(StatusMatch::Bare)
        .words(TextMatch::Of(&["message too big", "message too large", "message size exceeds"]))
        .meaning(TOO_LARGE, "Haraka 3.3.4 (550 Message too big!)"),
    // MAIL is about us.
    ReplyRow::new((Mail, Rcpt), CodeMatch::Permanent, RefusalSubject::Recipient, Failed)
        .status(StatusMatch::Of(&[(6, 7)]))
        .meaning("the relay cannot carry this address (SMTPUTF8)", "RFC 6531 3.7.4.2"),
    ReplyRow::new((Mail, Mail), CodeMatch::Permanent, RefusalSubject::Us, Configuration)
        .meaning("the relay does not take our sender: its domain must exist in DNS and be allowed there", "Courier 1.0.16 (517 Domain does not exist)"),
    ReplyRow::new((Auth, Mail), CodeMatch::Transient, RefusalSubject::Us, Deferred)
        .meaning("the relay takes no message from us now", "RFC 5321 4.2.5; Exim 4.96, Postfix 3.7 (452 4.3.1 Insufficient system storage)"),
    ReplyRow::new((Connect, Ehlo), CodeMatch::Transient, RefusalSubject::Us, Deferred)
        .meaning("the relay serves nobody now", "RFC 5321 3.1 (421)"),
    // RCPT is about the recipient.
    ReplyRow::new((Rcpt, Dot), CodeMatch::Of(&[550]), RefusalSubject::Recipient, HardBounce)
        .status(StatusMatch::Of(&[(1, 1), (1, 2), (1, 3), (1, 6), (1, 10)]))
        .meaning("there is no such address", "RFC 3463 3.2, RFC 7505 (5.1.10); Postfix 3.7, sendmail 8.17, chasquid 1.11"),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Of(&[550, 551, 553, 554]), RefusalSubject::Recipient, UnknownMailbox)
        .status(StatusMatch::Bare)
        .words(TextMatch::UnknownMailbox)
        .meaning("there is no such address, by the relay's words", "Courier 1.0.16 (550 User <x> unknown), Exim 4.96"),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Permanent, RefusalSubject::Recipient, Refused)
        .meaning("the relay refuses this recipient, and does not say why", "OpenSMTPD 6.8.0p2 (550 Invalid recipient, for an unknown user and for relaying), Exim 4.96 (550 Unrouteable address)"),
    ReplyRow::new((Rcpt, Rcpt), CodeMatch::Transient, RefusalSubject::Recipient, Deferred)
        .meaning("the relay asks to try this recipient later", "RFC 5321 4.2.5; greylisting (RFC 6647)"),
    // DATA and the content are about the message.
    ReplyRow::new((Data, Dot), CodeMatch::Transient, RefusalSubject::Message, Deferred)
        .meaning("the relay asks to try this message later", "RFC 5321 4.2.5"),
    ReplyRow::new((Data, Dot), CodeMatch::Permanent, RefusalSubject::Message, Failed)
        .meaning("the relay refuses this message", "RFC 5321 4.2.5"),
];

const TOO_LARGE: &str = "the message is larger than the relay takes";
const BLOCKED_RECIPIENT: &str = "our own organization's Tenant Allow/Block List has this recipient";
const CONNECTIONS: &[&str] = &[
    "too many connections",
    "too many concurrent",
    "too many connected",
    "too many open connections",
    "too many sessions",
    "concurrent connections",
    "concurrent server connections",
    "sender thread limit",
    "connection limit",
    "connection count",
];

/// Returns `true` if the text means an unknown mailbox: Courier 1.0.16 `User <ann> unknown`, Postfix 3.7
/// `User unknown in local recipient table`, Exim 4.96 `no such user`. Texts about a sender, client or domain
/// do not count.
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

    /// Phase, reply, subject, class, quota.
    const REPLIES: &[(AttemptPhase, &str, RefusalSubject, AttemptClass, Option<QuotaPeriod>)] = &[
        (
            Rcpt,
            "432 4.3.2 STOREDRV.Deliver; recipient thread limit exceeded",
            RefusalSubject::Recipient,
            Deferred,
            None,
        ),
        (
            Rcpt,
            "450 4.2.1 The user you are trying to contact is receiving mail too quickly",
            RefusalSubject::Recipient,
            Deferred,
            None,
        ),
        (
            Rcpt,
            "550 5.2.1 The user you are trying to contact is receiving email at a rate that prevents additional messages",
            RefusalSubject::Recipient,
            Deferred,
            None,
        ),
        (
            Rcpt,
            "550 5.2.121 Recipient's per hour message receive limit from specific sender exceeded",
            RefusalSubject::Recipient,
            Deferred,
            None,
        ),
        (
            Dot,
            "550 5.2.122 Recipient's per hour message receive limit exceeded",
            RefusalSubject::Recipient,
            Deferred,
            None,
        ),
        (
            AttemptPhase::Greeting,
            "421 4.7.0 Too many concurrent SMTP connections",
            RefusalSubject::Connections,
            Throttled,
            None,
        ),
        (AttemptPhase::Greeting, "421 4.3.2 Too many open connections.", RefusalSubject::Connections, Throttled, None),
        (
            AttemptPhase::Greeting,
            "421 4.3.2 The maximum number of concurrent server connections has exceeded a limit",
            RefusalSubject::Connections,
            Throttled,
            None,
        ),
        (
            AttemptPhase::Greeting,
            "421 mail.example.com Too many connected clients, try again in a moment",
            RefusalSubject::Connections,
            Throttled,
            None,
        ),
        (Mail, "432 4.3.2 Concurrent connections limit exceeded", RefusalSubject::Connections, Deferred, None),
        (
            Mail,
            "432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded",
            RefusalSubject::Connections,
            Deferred,
            None,
        ),
        (AttemptPhase::Greeting, "554 5.3.2 no service", RefusalSubject::Us, Deferred, None),
        (AttemptPhase::Greeting, "421 4.3.2 Service busy, try again later", RefusalSubject::Us, Deferred, None),
        (AttemptPhase::Tls, "454 4.7.0 TLS not available", RefusalSubject::Us, Deferred, None),
        (Ehlo, "550 5.7.1 go away", RefusalSubject::Us, Deferred, None),
        (Auth, "454 4.7.0 Temporary authentication failure", RefusalSubject::Us, Throttled, None),
        (Auth, "535 5.7.8 Incorrect user or password", RefusalSubject::Us, Configuration, None),
        (Auth, "421 4.3.0 later", RefusalSubject::Us, Deferred, None),
        (Mail, "530 5.7.0 Must issue a STARTTLS command first", RefusalSubject::Us, Configuration, None),
        (
            Mail,
            "530 5.7.57 SMTP; Client was not authenticated to send anonymous mail during MAIL FROM",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Mail,
            "450 4.1.8 <address>: Sender address rejected: Domain not found",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Rcpt,
            "450 4.1.8 <address>: Sender address rejected: Domain not found",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (Rcpt, "550 5.1.8 bad sender", RefusalSubject::Us, Configuration, None),
        (Dot, "550 5.1.8 Access denied, bad outbound sender", RefusalSubject::Us, Configuration, None),
        (
            Dot,
            "451 Message temporarily deferred due to unresolvable RFC.5321 from domain.",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Dot,
            "554 5.2.2 mailbox full; STOREDRV.Submission.Exception:QuotaExceededException.MapiExceptionQuotaExceeded",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (Dot, "550 5.1.7 bad sender", RefusalSubject::Us, Configuration, None),
        (
            Dot,
            "550 5.1.90 Your message can't be sent because you've reached your daily limit",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (
            Rcpt,
            "550 5.7.232 Your message can't be sent because your trial tenant has exceeded its limit",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (
            Rcpt,
            "550 5.7.236 Your message can't be sent because your tenant exceeded its daily limit",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (Dot, "554 5.2.2 Submission quota exceeded", RefusalSubject::Rate, Throttled, Some(QuotaPeriod::Day)),
        (
            Dot,
            "554 5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (Rcpt, "450 4.2.1 Peak SMTP relay limit exceeded for customer", RefusalSubject::Rate, Throttled, None),
        (
            Dot,
            "550 5.7.1 Daily SMTP relay limit exceeded for customer",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (
            Dot,
            "550 5.7.508 Access denied, 192.0.2.1 has exceeded permitted limits",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (
            Rcpt,
            "451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (S77)",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (Mail, "451 4.7.650 The mail server [192.0.2.1] is limited for now", RefusalSubject::Rate, Throttled, None),
        (Mail, "451 4.7.860 Access denied, please try again later", RefusalSubject::Rate, Throttled, None),
        (
            Dot,
            "421 4.7.26 This email has been rate limited because it is unauthenticated.",
            RefusalSubject::Us,
            Throttled,
            None,
        ),
        (
            Dot,
            "451 4.7.23 The sending IP address for this message doesn't have a PTR record",
            RefusalSubject::Us,
            Throttled,
            None,
        ),
        (Rcpt, "451 4.7.24 Message rejected due to: SPF temporary error", RefusalSubject::Recipient, Deferred, None),
        (Dot, "550 5.4.5 Daily user sending quota exceeded", RefusalSubject::Rate, Throttled, Some(QuotaPeriod::Day)),
        (Mail, "452 4.5.3 Daily message limit exceeded", RefusalSubject::Rate, Throttled, Some(QuotaPeriod::Day)),
        (
            Auth,
            "451 Authentication failed: Maximum credits exceeded",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (
            Rcpt,
            "421 Domain acme.example is not allowed to send: recipient limit (26) exceeded, try again later",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (
            Dot,
            "550 User has exceeded its 24-hour sending limit",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (
            Mail,
            "454 Throttling failure: Daily message quota exceeded.",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Day),
        ),
        (
            Dot,
            "554 5.7.0 The limit on the number of allowed outgoing messages was exceeded",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (
            Rcpt,
            "550 Domain acme.example has exceeded the max emails per hour (150/150)",
            RefusalSubject::Rate,
            Throttled,
            Some(QuotaPeriod::Hour),
        ),
        (Dot, "550 mail rejected: exceeded hour limit", RefusalSubject::Rate, Throttled, Some(QuotaPeriod::Hour)),
        (Rcpt, "452 Too many recipients received this hour", RefusalSubject::Rate, Throttled, Some(QuotaPeriod::Hour)),
        (Mail, "454 Throttling failure: Maximum sending rate exceeded.", RefusalSubject::Rate, Throttled, None),
        (Mail, "450 4.7.1 Error: too much mail from 192.0.2.1", RefusalSubject::Rate, Throttled, None),
        (Auth, "450 4.7.1 Error: too many AUTH commands from 192.0.2.1", RefusalSubject::Rate, Throttled, None),
        (AttemptPhase::Greeting, "421 4.7.28 unusual rate of unsolicited mail", RefusalSubject::Rate, Throttled, None),
        (
            Dot,
            "421 4.7.28 Gmail has detected an unusual rate of email. Email has been temporarily rate limited.",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (AttemptPhase::Greeting, "421 4.3.2 Connection rate limit exceeded.", RefusalSubject::Rate, Throttled, None),
        (Rcpt, "550 5.5.3 Too many recipients for this sender.", RefusalSubject::Rate, Throttled, None),
        (
            Mail,
            "421 4.4.2 Message submission rate for this client has exceeded the configured limit",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (
            Mail,
            "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (
            Mail,
            "421 4.7.0 [TSS05] Messages from 192.0.2.1 temporarily deferred due to user complaints",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (
            Rcpt,
            "421 4.7.1 Messages to <address> deferred due to excessive volume.",
            RefusalSubject::Rate,
            Throttled,
            None,
        ),
        (Mail, "452 4.4.5 Messages per second limit exceeded", RefusalSubject::Rate, Throttled, None),
        (Mail, "451 4.3.2 Mails per session limit", RefusalSubject::Session, Deferred, None),
        (Rcpt, "452 4.5.3 Too many recipients: Too many messages sent", RefusalSubject::Session, Deferred, None),
        (Mail, "421 too many messages in this connection", RefusalSubject::Session, Deferred, None),
        (
            Mail,
            "421 Max message per connection reached, closing transmission channel",
            RefusalSubject::Session,
            Deferred,
            None,
        ),
        (
            Dot,
            "554 Message rejected: Email address is not verified. The following identities failed the check",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Dot,
            "554 Access denied: User `arn:aws:iam::123456789012:user/mail' is not authorized to perform `ses:SendRawEmail'",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Dot,
            "550 The from address does not match a verified Sender Identity. Mail cannot be sent until this is resolved",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Dot,
            "550 5.7.60 SMTP; Client does not have permissions to send as this sender",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Dot,
            "554 5.2.0 STOREDRV.Submission.Exception:SendAsDeniedException.MapiExceptionSendAsDenied",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (
            Rcpt,
            "421 Domain acme.example is not allowed to send: Free accounts are for test purposes only.",
            RefusalSubject::Us,
            Configuration,
            None,
        ),
        (Mail, "550 5.7.0 Email sending denied.", RefusalSubject::Us, Configuration, None),
        (Rcpt, "550 relay not permitted", RefusalSubject::Us, Configuration, None),
        (Rcpt, "454 4.7.1 Relay access denied", RefusalSubject::Us, Configuration, None),
        (Rcpt, "513 Relaying denied.", RefusalSubject::Us, Configuration, None),
        (Rcpt, "503 5.7.1 Relay not allowed", RefusalSubject::Us, Configuration, None),
        (Rcpt, "550 5.7.1 Client was not authenticated", RefusalSubject::Us, Configuration, None),
        (Rcpt, "550 5.7.1 Invalid credentials for relay", RefusalSubject::Us, Configuration, None),
        (Mail, "517 Domain does not exist: bounce.acme.example.", RefusalSubject::Us, Configuration, None),
        (Mail, "452 4.3.1 Insufficient system storage", RefusalSubject::Us, Deferred, None),
        (Mail, "554 5.2.2 over quota", RefusalSubject::Us, Configuration, None),
        (Mail, "550 5.7.515 access denied", RefusalSubject::Us, Policy, None),
        (Dot, "552 1 Requested mail action aborted, mailbox not found", RefusalSubject::Recipient, Failed, None),
        (
            Dot,
            "554 delivery error: dd This user doesn't have a yahoo.com account",
            RefusalSubject::Recipient,
            Failed,
            None,
        ),
        (Mail, "552 message too big", RefusalSubject::Message, TooLarge, None),
        (Mail, "550 Message too big!", RefusalSubject::Message, TooLarge, None),
        (Dot, "554 5.3.4 Message too big for system", RefusalSubject::Message, TooLarge, None),
        (Rcpt, "553 5.6.7 SMTPUTF8 required", RefusalSubject::Recipient, Failed, None),
        (Rcpt, "552 5.2.2 mailbox full", RefusalSubject::Recipient, MailboxFull, None),
        (Rcpt, "550 5.1.1 no such user", RefusalSubject::Recipient, HardBounce, None),
        (Rcpt, "550 User <address> unknown", RefusalSubject::Recipient, UnknownMailbox, None),
        (Rcpt, "550 Invalid recipient: <address>", RefusalSubject::Recipient, Refused, None),
        (Rcpt, "550 5.4.1 Recipient address rejected: Access denied.", RefusalSubject::Recipient, Refused, None),
        (
            Rcpt,
            "550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required",
            RefusalSubject::Recipient,
            RecipientPolicy,
            None,
        ),
        (Rcpt, "550 5.7.1 rejected by policy", RefusalSubject::Recipient, RecipientPolicy, None),
        (Rcpt, "550 5.7.507 Access denied, rejected by recipient", RefusalSubject::Recipient, RecipientPolicy, None),
        (
            Rcpt,
            "550 5.7.513 Service unavailable, Client host [192.0.2.1] blocked by acme.example using Customer Block list",
            RefusalSubject::Recipient,
            RecipientPolicy,
            None,
        ),
        (
            Rcpt,
            "550 5.7.504 <address>: Recipient address rejected: Access denied",
            RefusalSubject::Recipient,
            Refused,
            None,
        ),
        (
            Rcpt,
            "550 5.7.703 Your message can't be delivered because messages to <address> are blocked",
            RefusalSubject::Recipient,
            RecipientPolicy,
            None,
        ),
        (
            Dot,
            "550 5.7.703 Your message can't be delivered because messages to <address> are blocked",
            RefusalSubject::Recipient,
            Failed,
            None,
        ),
        (
            Rcpt,
            "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using bl.example",
            RefusalSubject::Us,
            Policy,
            None,
        ),
        (Rcpt, "550 5.7.9 Mail to submission port must be authenticated", RefusalSubject::Us, Policy, None),
        (
            Rcpt,
            "550 5.7.9 This mail has been blocked because the sender is unauthenticated.",
            RefusalSubject::Us,
            Policy,
            None,
        ),
        (Rcpt, "550 5.7.506 Access Denied, Bad HELO", RefusalSubject::Us, Policy, None),
        (Rcpt, "550 5.7.515 Access denied", RefusalSubject::Us, Policy, None),
        (Dot, "550 5.7.705 Access denied, tenant has exceeded threshold", RefusalSubject::Us, Policy, None),
        (Rcpt, "550 5.7.711 Access denied, bad inbound connector. AS(2204)", RefusalSubject::Us, Policy, None),
        (Rcpt, "550 5.7.606 Access denied, banned sending IP [192.0.2.1]", RefusalSubject::Us, Policy, None),
        (
            Rcpt,
            "550 5.7.708 Service unavailable. Access denied, traffic not accepted from this IP.",
            RefusalSubject::Us,
            Policy,
            None,
        ),
        (Dot, "550 5.7.26 unauthenticated", RefusalSubject::Us, Policy, None),
        (Dot, "550 5.7.40 the sending domain doesn't have a DMARC record", RefusalSubject::Us, Policy, None),
        (Dot, "550 5.7.1 spam", RefusalSubject::Us, Policy, None),
        (Rcpt, "450 4.7.1 greylisted", RefusalSubject::Recipient, Deferred, None),
        (Dot, "451 4.7.1 greylisted", RefusalSubject::Message, Deferred, None),
        (Data, "554 no valid recipients", RefusalSubject::Message, Failed, None),
        (Dot, "554 5.6.0 no", RefusalSubject::Message, Failed, None),
    ];

    fn row(phase: AttemptPhase, line: &str) -> &'static ReplyRow {
        let (code, text) = line.split_at(3);
        let text = text.trim_start();
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        match crate::delivery_events::parse_enhanced_status(first) {
            Some(enhanced) => classify_refusal(phase, code.parse().unwrap(), Some(enhanced), rest),
            None => classify_refusal(phase, code.parse().unwrap(), None, text),
        }
    }

    #[test]
    fn each_reply_is_about_what_its_server_means() {
        for (phase, line, about, class, quota) in REPLIES {
            let row = row(*phase, line);
            assert_eq!((row.about, row.class, row.quota), (*about, *class, *quota), "{phase} {line}: {row:?}");
        }
    }

    #[test]
    fn each_row_has_a_reply_a_meaning_and_a_source() {
        for (n, own) in ROWS.iter().enumerate() {
            let is_used = REPLIES.iter().any(|(phase, line, ..)| std::ptr::eq(row(*phase, line), own));
            assert!(is_used && !own.meaning.is_empty() && !own.source.is_empty(), "row {n}: {own:?}");
        }
    }

    #[test]
    fn each_refusal_of_each_phase_has_a_row() {
        let phases =
            AttemptPhase::ALL.into_iter().filter(|phase| !matches!(phase, AttemptPhase::Body | AttemptPhase::Done));
        for phase in phases {
            for code in 400..600 {
                for enhanced in [None, Some((code / 100, 1, 1)), Some((code / 100, 7, 1)), Some((code / 100, 3, 0))] {
                    let row = classify_refusal(phase, code, enhanced, "");
                    assert!(*row != ANY, "{phase} {code} {enhanced:?}");
                    let is_named = phase > Mail;
                    assert!(is_named || row.about != RefusalSubject::Recipient, "{phase} {code} {enhanced:?}: {row:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_about_recipient_or_message_costs_no_attempt() {
        let free = RefusalSubject::ALL.into_iter().filter(|about| !about.costs_attempt());
        assert_eq!(
            free.collect::<Vec<_>>(),
            [RefusalSubject::Session, RefusalSubject::Connections, RefusalSubject::Rate, RefusalSubject::Us]
        );
    }

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
