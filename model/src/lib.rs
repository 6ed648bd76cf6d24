//! The domain of Tidings without I/O: events, keys, windows and messages, the steps of a digest, and the
//! rules for when we send it.

#[macro_use]
mod closed_set;

mod alert;
pub mod api_token;
pub mod attempt;
pub mod breaker;
pub mod cadence;
pub mod changed_names;
pub mod command;
pub mod decode;
pub mod delivery_events;
mod email_address;
mod event;
pub mod foreign_text;
pub mod host_name;
pub mod inbox;
pub mod installation;
pub mod job;
mod key;
pub mod limits;
mod link;
pub mod link_keys;
pub mod message;
pub mod names;
pub mod offered_cadences;
mod page_link;
pub mod pause;
pub mod process;
mod provider;
mod quiet;
pub mod records;
pub mod relay_url;
mod relays_today;
pub mod replies;
pub mod report;
pub mod retention;
mod retract;
pub mod rules;
pub mod settings;
pub mod statistics;
pub mod step;
pub mod stored_wait;
pub mod subscription;
mod text;
pub mod troubled_run;
pub mod webhook_secret;
pub mod when;
pub mod window;
pub mod wire;
mod zone;

pub use alert::AlertName;
pub use cadence::{Cadence, CadenceField, CadenceKind, ParseError, SlidingDeadline, words};
pub use email_address::{AddressError, EmailAddress, UnsendableAddress};
pub use event::{Event, EventContent, EventFate, EventPayload, EventRepetition, RecordedContent};
pub use host_name::is_host_name;
pub use key::{Key, MessageKey, PersonId};
pub use link::UnsubscribeLink;
pub use page_link::{AsBeforeLink, ClickLink, OpenLink, PreferencesLink, ViewLink};
pub use provider::Provider;
pub use quiet::{QuietHours, QuietTime, WholeWeek};
pub use relay_url::RelayUrl;
pub use relays_today::RelaysToday;
pub use retract::Retract;
pub use stored_wait::StoredWait;
pub use text::{header_fault, hex, hex_sha256, nearest_name, presentable, without_addresses};
pub use zone::{
    ZoneData, ZoneSource, canonical_zone, check_zone, is_place, known_zone, time_zone, zone_aliases, zone_data,
    zone_names, zone_rules,
};
