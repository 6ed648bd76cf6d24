//! Operations which need both the store and Temporal, for the command line and the gateway, not for workflows.
//!
//! Commands which need only Temporal are in `tidings_client::commands`.

use std::time::Duration;

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::{MissedTickBehavior, interval};

pub mod bounces;
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
pub mod rows;
pub mod stats;
pub mod submit;
pub mod subscriptions;
pub mod sweep;
pub mod tenant_end;

const IN_FLIGHT: usize = 32;

/// Calls `send` for each item, at most `rate` per second, and passes each result to `done`.
pub async fn at_rate<T, F: Future>(
    items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    rate: u32,
    send: impl Fn(T) -> F,
    mut done: impl FnMut(F::Output),
) {
    let mut items = items.into_iter();
    let mut turn = interval(Duration::from_secs(1) / rate);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sending = FuturesUnordered::new();
    while items.len() > 0 || !sending.is_empty() {
        tokio::select! {
            _ = turn.tick(), if items.len() > 0 && sending.len() < IN_FLIGHT => {
                sending.extend(items.next().map(&send));
            }
            Some(result) = sending.next() => done(result),
        }
    }
}
