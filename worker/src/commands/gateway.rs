//! `tidings gateway`: serves recipients, and services over the API.

use tidings_gateway::api::openapi;
use tidings_model::settings::UnknownRecipients;

use crate::{
    Config, config,
    gateway::{self, GatewayListeners},
    signals::until_signalled,
};

pub(crate) const EXAMPLES: &str = "\
Example: TIDINGS_LINK_KEYS=$(cat /etc/tidings/link-keys) tidings gateway

Put a proxy with TLS in front, and set gateway.public_url in tidings.toml to its address:
  [gateway]
  public_url = \"https://mail.acme.example\"
  listen = \"127.0.0.1:8080\"
  trusted_proxies = [\"127.0.0.1\"]
  api_listen = \"127.0.0.1:8081\"   # the API for services; off without this line

GET /livez checks the process, GET /readyz also checks the database and reports the state of Temporal.
SIGTERM stops the gateway; it completes requests in progress within 20 seconds.";

/// The commands besides serving.
#[derive(Debug, clap::Subcommand)]
pub enum GatewayCommand {
    /// Print the `OpenAPI` document of the API; needs no configuration
    #[command(
        after_help = "Example: tidings gateway openapi > openapi.json\n\nA running gateway serves it as GET /openapi.json."
    )]
    Openapi,
}

/// Fails if the public address or keys are missing, the listen address is in use, or the database is
/// unreachable.
pub(crate) async fn run(
    command: Option<GatewayCommand>,
    load: impl FnOnce() -> Result<Config, config::ConfigError>,
) -> anyhow::Result<()> {
    if let Some(GatewayCommand::Openapi) = command {
        anstream::print!("{}", openapi::text());
        return Ok(());
    }
    let config = load()?;
    config.check_gateway()?;
    config.log_warnings();
    let shutdown = until_signalled("requests")?;
    let listeners = GatewayListeners::bind(&config).await?;
    gateway::run(config, UnknownRecipients::Wait, listeners, shutdown).await
}
