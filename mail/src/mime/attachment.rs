//! Files that come with a message.

use lettre::message::{
    SinglePart,
    header::{ContentDisposition, ContentTransferEncoding, ContentType},
};

use crate::{Error, bidi};

/// Limits of a name and of a media type, in bytes.
const NAME_BYTES: usize = 150;
const TYPE_BYTES: usize = 100;

/// A file that comes with a message.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The name of the file, without a folder.
    pub name: String,
    /// The media type (RFC 2046), for example `application/pdf`.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl Attachment {
    /// Encodes the file in base64, which no relay changes. Its name loses what reorders text: with U+202E, `gnp.exe` ends in `exe.png`.
    ///
    /// # Errors
    /// Says what is wrong with the name or the media type.
    pub(super) fn part(&self) -> Result<SinglePart, Error> {
        let wrong = |problem: &str| Error::Message { part: "attachment", problem: problem.to_owned() };
        let unfit = |c: char| c.is_control() || matches!(c, '/' | '\\' | '"' | '\u{2028}' | '\u{2029}');
        let name = self.name.replace(bidi::reorders, "");
        if name.trim().is_empty() || name.len() > NAME_BYTES || name.contains(unfit) {
            return Err(wrong(
                "has a name that is empty, is over 150 bytes, or has a slash, a quote or a control character",
            ));
        }
        // RFC 2046 5.1 and 5.2: both must not be in base64.
        let composite = ["multipart/", "message/"].iter().any(|kind| starts_with(&self.media_type, kind));
        let plain = self.media_type.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if composite || !plain || self.media_type.len() > TYPE_BYTES {
            return Err(wrong("has a media type that cannot be attached; write for example application/pdf"));
        }
        let kind = ContentType::parse(&self.media_type);
        let kind = kind.map_err(|_| wrong("has no media type like application/pdf"))?;
        let part = SinglePart::builder().header(kind).header(ContentDisposition::attachment(&name));
        Ok(part.header(ContentTransferEncoding::Base64).body(self.bytes.clone()))
    }
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}
