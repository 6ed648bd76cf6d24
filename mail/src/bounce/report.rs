//! The content of a message that came back.

use jiff::Timestamp;
use tidings_model::{
    delivery_events::{Kind, Status},
    link_keys::Token,
};
use uuid::Uuid;

/// The content of a returned message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// The tokens in the address that it came to, and then those in the message that it returns. None is verified.
    pub tokens: Vec<Token>,
    /// `X-Tidings-Message` of the message that it returns.
    pub message: Option<Uuid>,
    /// `Message-ID` of the message that it returns, without angle brackets.
    pub message_id: Option<String>,
    pub content: Content,
}

/// The kind of a returned message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Reports about a message.
    Reports(Vec<ParsedReport>),
    /// A report without consequences: a virus, a message that is not spam, or one that another server took over.
    NoNews,
    /// An automatic reply (RFC 3834): out of the office, or a challenge.
    AutoReply,
    /// Anything else.
    #[default]
    Unrecognized,
}

/// One report. It may contain an address: not for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedReport {
    /// A bounce is hard only if the evidence says that the address does not exist.
    pub kind: Kind,
    /// What the quoted reply and the label prove together.
    pub status: Option<Status>,
    /// The reply of the recipient's server, in its own words.
    pub diagnostic: String,
    /// The address that the report is about, if it names one: that of a member where the message went to a group.
    pub recipient: Option<String>,
    /// The time of the report, if the message has one.
    pub occurred_at: Option<Timestamp>,
}
