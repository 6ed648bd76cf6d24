//! Stores received emails as `.eml` files in a folder, with a bounded list in memory, and parses them for
//! display.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use mail_parser::{Addr, Header, Message, MessageParser, MessagePart, PartType};
use serde::Serialize;
use tokio::{fs, sync::watch};

const MAX_MAILS: usize = 1_000;

/// Milliseconds since 1970, made unique. Ids follow the order of arrival.
pub(super) type EmailId = u64;

pub(super) struct Mailbox {
    folder: PathBuf,
    last_id: AtomicU64,
    mails: watch::Sender<BTreeMap<EmailId, EmailSummary>>,
}

impl Mailbox {
    /// Opens the folder, or creates it.
    ///
    /// # Errors
    /// The folder or an email in it cannot be read.
    pub async fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder).await?;
        let mut mails = BTreeMap::new();
        let mut entries = fs::read_dir(folder).await?;
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".eml")).and_then(|stem| stem.parse().ok());
            if let Some(id) = id {
                mails.insert(id, EmailSummary::parse_email(id, &fs::read(entry.path()).await?));
            }
        }
        let last_id = AtomicU64::new(mails.last_key_value().map_or(0, |(&id, _)| id));
        Ok(Self { folder: folder.to_owned(), last_id, mails: watch::Sender::new(mails) })
    }

    /// Atomic: writes under another name first, then renames.
    ///
    /// # Errors
    /// The file cannot be written, or an old one cannot be removed.
    pub async fn store_email(&self, mail: &[u8]) -> io::Result<EmailId> {
        let id = self.next_id();
        let unfinished = self.folder.join(format!("{id}.part"));
        fs::write(&unfinished, mail).await?;
        fs::rename(&unfinished, self.path(id)).await?;
        let mut oldest = Vec::new();
        self.mails.send_modify(|mails| {
            mails.insert(id, EmailSummary::parse_email(id, mail));
            while mails.len() > MAX_MAILS {
                oldest.extend(mails.pop_first().map(|(id, _)| id));
            }
        });
        for id in oldest {
            fs::remove_file(self.path(id)).await?;
        }
        Ok(id)
    }

    /// Returns the raw email, or `None` if there is no such id.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn read_email(&self, id: EmailId) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(id)).await {
            Ok(mail) => Ok(Some(mail)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn list_emails(&self) -> Vec<EmailSummary> {
        self.mails.borrow().values().rev().cloned().collect()
    }

    pub fn arrivals(&self) -> watch::Receiver<BTreeMap<EmailId, EmailSummary>> {
        self.mails.subscribe()
    }

    fn path(&self, id: EmailId) -> PathBuf {
        self.folder.join(format!("{id}.eml"))
    }

    fn next_id(&self) -> EmailId {
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
        let next = |last: u64| now.max(last + 1);
        match self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last))) {
            Ok(last) | Err(last) => next(last),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct EmailSummary {
    pub id: EmailId,
    pub from: String,
    pub to: String,
    pub subject: String,
    pub size: usize,
    pub digest_id: Option<String>,
    pub events: Option<u64>,
}

impl EmailSummary {
    /// Parses leniently. If this is no email, the subject stays empty.
    pub fn parse_email(id: EmailId, mail: &[u8]) -> Self {
        let Some(message) = MessageParser::default().parse(mail) else {
            return Self { id, size: mail.len(), ..Self::default() };
        };
        let digest_id = message.header_raw("X-Tidings-Message").map(|value| value.trim().to_owned());
        let events = message.header_raw("X-Tidings-Events").and_then(|value| value.trim().parse().ok());
        Self {
            id,
            from: format_addresses(message.from()),
            to: format_addresses(message.to()),
            subject: message.subject().unwrap_or_default().to_owned(),
            size: mail.len(),
            digest_id,
            events,
        }
    }
}

/// A whole email without its HTML, which the page loads separately into a sandbox.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct EmailContent {
    /// Names and unfolded values, in their original order.
    pub headers: Vec<(String, String)>,
    pub text: Option<String>,
    pub has_html: bool,
    pub attachments: Vec<String>,
}

impl EmailContent {
    pub fn parse_email(mail: &[u8]) -> Self {
        let Some(message) = MessageParser::default().parse(mail) else { return Self::default() };
        let line = |header: &Header<'_>| {
            let name =
                text_between(mail, header.offset_field, header.offset_start).trim_end_matches([':', ' ']).to_owned();
            (name, unfold(&text_between(mail, header.offset_start, header.offset_end)))
        };
        let attachment = |part: &MessagePart<'_>| {
            use mail_parser::MimeHeaders as _;
            part.attachment_name().unwrap_or("unnamed").to_owned()
        };
        Self {
            headers: message.headers().iter().map(line).collect(),
            text: text(&message),
            has_html: html(mail).is_some(),
            attachments: message.attachments().map(attachment).collect(),
        }
    }
}

/// Returns the HTML part, if there is one. Never show this outside a sandbox.
pub(super) fn html(mail: &[u8]) -> Option<String> {
    let message = MessageParser::default().parse(mail)?;
    message.html_bodies().find_map(|part| match &part.body {
        PartType::Html(html) => Some(html.clone().into_owned()),
        _ => None,
    })
}

fn text(message: &Message<'_>) -> Option<String> {
    message.text_bodies().find_map(|part| match &part.body {
        PartType::Text(text) => Some(text.clone().into_owned()),
        _ => None,
    })
}

fn format_addresses(addresses: Option<&mail_parser::Address<'_>>) -> String {
    let person = |addr: &Addr<'_>| match (addr.name(), addr.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_owned(),
    };
    addresses.map(|all| all.iter().map(person).collect::<Vec<_>>().join(", ")).unwrap_or_default()
}

fn text_between(mail: &[u8], start: u32, end: u32) -> Cow<'_, str> {
    String::from_utf8_lossy(mail.get(start as usize..end as usize).unwrap_or_default())
}

/// Joins a header folded over several lines (RFC 5322 2.2.3).
fn unfold(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn mails_survive_a_restart_and_the_oldest_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::open(folder.path()).await.unwrap();
        let first = mailbox.store_email(b"Subject: 0\r\n\r\n").await.unwrap();
        for n in 1..=MAX_MAILS {
            mailbox.store_email(format!("Subject: {n}\r\n\r\n").as_bytes()).await.unwrap();
        }
        assert!(mailbox.read_email(first).await.unwrap().is_none());

        let reopened = Mailbox::open(folder.path()).await.unwrap().list_emails();
        assert_eq!(reopened.len(), MAX_MAILS);
        assert_eq!(reopened.first().unwrap().subject, MAX_MAILS.to_string());
        assert_eq!(reopened, mailbox.list_emails());
    }

    const MAIL: &[u8] = b"From: Tidings <digest@tidings.invalid>\r\nTo: Ann <ann@dev.invalid>\r\n\
        Subject: =?utf-8?q?3_new_=C3=A9vents?=\r\nX-Tidings-Message: 7f1c\r\nX-Tidings-Events: 3\r\n\
        List-Id: one\r\n\ttwo\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/alternative; boundary=b\r\n\r\n\
        --b\r\nContent-Type: text/plain\r\n\r\nThree events.\r\n\
        --b\r\nContent-Type: text/html\r\n\r\n<p>Three events.</p>\r\n--b--\r\n";

    #[test]
    fn the_list_shows_decoded_names_and_the_digest() {
        let summary = EmailSummary::parse_email(7, MAIL);
        assert_eq!(summary.from, "Tidings <digest@tidings.invalid>");
        assert_eq!(summary.to, "Ann <ann@dev.invalid>");
        assert_eq!(summary.subject, "3 new évents");
        assert_eq!(summary.digest_id.as_deref(), Some("7f1c"));
        assert_eq!(summary.events, Some(3));
    }

    #[test]
    fn text_and_html_are_the_mails_own_parts() {
        let content = EmailContent::parse_email(MAIL);
        assert_eq!(content.text.as_deref().map(str::trim), Some("Three events."));
        assert_eq!(html(MAIL).as_deref().map(str::trim), Some("<p>Three events.</p>"));
        assert!(content.headers.contains(&("List-Id".to_owned(), "one two".to_owned())));
    }

    #[test]
    fn a_file_that_is_not_an_email_is_shown_as_empty() {
        for nothing in [&b""[..], b"\r\n", b"no header at all"] {
            assert_eq!(EmailSummary::parse_email(7, nothing).subject, "");
            assert!(!EmailContent::parse_email(nothing).has_html);
        }
    }

    #[test]
    fn a_mail_of_html_alone_has_no_text() {
        let content = EmailContent::parse_email(b"Content-Type: text/html\r\n\r\n<p>x</p>");
        assert_eq!((content.text, content.has_html), (None, true));
    }
}
