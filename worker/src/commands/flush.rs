//! `tidings flush`: short for `tidings digest flush`.

use tidings_client::commands::Deed;
use tidings_model::{Key, command::Order};

use crate::{Config, args::login, commands::digest::one};

/// Flushes the key, without a reason for the audit trail.
///
/// # Errors
/// Temporal does not answer, or no worker does.
pub(crate) async fn run(config: &Config, key: &Key, as_json: bool) -> anyhow::Result<bool> {
    let order = Order { by: login(), why: "tidings flush".to_owned() };
    one(config, key, &Deed::Flush(order), as_json).await
}
