//! Reports of what became of a message after the relay took it: delivered, bounced, complained of, opened.

use uuid::Uuid;

use crate::Key;

mod effects;
mod event;
mod report;

pub use effects::{Effects, Known, effects};
pub use event::{DeliveryEvent, Reported, Which};
pub use report::{Bounce, Kind, Report, ReportRecord, Status, enhanced};

/// Action in the audit trail: the recipient no longer wants a digest type.
pub const WITHDRAW: &str = "withdraw consent";

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What it is about.
    pub message: Uuid,
    /// It was known, and nothing changed.
    pub again: bool,
    /// Whose consent is withdrawn by it, now or when it came first: tell their
    /// workflow. Where that fails the open window follows when it is due.
    pub withdrawn: Option<Key>,
    /// The relay that took the message for an address that does not exist.
    pub bounced_by: Option<String>,
}
