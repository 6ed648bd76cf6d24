//! Operations that need both the store and Temporal. The command line and the gateway call them; workflows do not.
//!
//! Commands that need only Temporal are in `tidings_client::commands`.

pub mod at_rate;
pub mod dead_letters;
pub mod digest;
pub mod erase;
pub mod key_filter;
pub mod message;
pub mod move_person;
pub mod pauses;
pub mod person_keys;
pub mod preview;
pub mod recover;
pub mod reopen;
pub mod rows;
pub mod stats;
pub mod submit;
pub mod take_back;
pub mod tenant_end;
