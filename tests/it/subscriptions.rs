//! Webhooks out: webhook events reach a real receiver, signed, in order, at least once, through failures, crashes and days of silence.

mod crashes;
mod delivery;
mod outages;
mod page;
mod watch;
