//! Arguments shared by several commands.

use std::env;

use clap::Args;
use jiff::Timestamp;
use tidings_model::{command::CommandContext, limits, when};

use crate::error::UsageError;

/// The operator and the reason.
#[derive(Debug, Args)]
pub(crate) struct RequiredReason {
    /// The reason, for the audit trail and workflow history; no addresses
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Your login for the audit trail, not an address [default: USER or LOGNAME, else the user id, as in `uid-1000`]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
}

impl RequiredReason {
    pub(crate) fn into_order(self) -> Result<CommandContext, UsageError> {
        check_order(self.by, self.why)
    }
}

/// The operator and an optional reason.
#[derive(Debug, clap::Args)]
pub(crate) struct OptionalReason {
    /// Your login for the audit trail, not an address [default: USER or LOGNAME, else the user id, as in `uid-1000`]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
    /// The reason, for the audit trail [default: the command]
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl OptionalReason {
    pub(crate) fn into_order(self, command: &str) -> Result<CommandContext, UsageError> {
        check_order(self.by, self.why.unwrap_or_else(|| command.to_owned()))
    }
}

fn check_order(by: Option<String>, why: String) -> Result<CommandContext, UsageError> {
    let order = CommandContext { by: by.unwrap_or_else(default_login), why };
    order.check().map_err(|error| UsageError(format!("--{error}")))?;
    Ok(order)
}

/// Fallback for `--by`. A container often has only a user id, and no command should require `--by` there.
pub(crate) fn default_login() -> String {
    let of_the_machine = |name| env::var(name).ok().filter(|login: &String| !login.is_empty());
    ["USER", "LOGNAME"]
        .into_iter()
        .find_map(of_the_machine)
        .unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}

pub(crate) fn parse_tenant(text: &str) -> Result<String, String> {
    limits::check_id("tenant", text).map(|()| text.to_owned()).map_err(|invalid| invalid.problem)
}

/// Parses a timestamp or a span from now (a day has 24 hours), which must be in the future.
pub(crate) fn parse_future_time(text: &str) -> Result<Timestamp, String> {
    when::parse_later(text, Timestamp::now())
}
