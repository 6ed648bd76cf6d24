//! Arguments shared by several commands.

use std::env;

use clap::Args;
use jiff::Timestamp;
use tidings_model::{command::Order, limits, when};

use crate::error::Usage;

/// The operator and the reason.
#[derive(Debug, Args)]
pub(crate) struct Reason {
    /// The reason, for the audit trail and workflow history; without addresses
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Your login for the audit trail, not an address [default: USER or LOGNAME, else `unknown`]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
}

impl Reason {
    pub(crate) fn order(self) -> Result<Order, Usage> {
        checked(self.by, self.why)
    }
}

/// The operator and an optional reason.
#[derive(Debug, clap::Args)]
pub(crate) struct OptionalReason {
    /// Your login for the audit trail, not an address [default: USER or LOGNAME, else `unknown`]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
    /// The reason, for the audit trail [default: the command]
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl OptionalReason {
    pub(crate) fn order(self, command: &str) -> Result<Order, Usage> {
        checked(self.by, self.why.unwrap_or_else(|| command.to_owned()))
    }
}

fn checked(by: Option<String>, why: String) -> Result<Order, Usage> {
    let order = Order { by: by.unwrap_or_else(login), why };
    order.check().map_err(|error| Usage(format!("--{error}")))?;
    Ok(order)
}

/// Fallback for `--by`. Containers have no login, so no command should require `--by`.
pub(crate) fn login() -> String {
    let of_the_machine = |name| env::var(name).ok().filter(|login: &String| !login.is_empty());
    ["USER", "LOGNAME"].into_iter().find_map(of_the_machine).unwrap_or_else(|| "unknown".to_owned())
}

pub(crate) fn tenant(text: &str) -> Result<String, String> {
    limits::id("tenant", text).map(|()| text.to_owned()).map_err(|invalid| invalid.problem)
}

/// Parses a timestamp or a span from now (a day has 24 hours), which must be in the future.
pub(crate) fn later(text: &str) -> Result<Timestamp, String> {
    when::later(text, Timestamp::now())
}
