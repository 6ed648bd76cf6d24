//! `tidings subscriptions`: services that receive webhook events.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;
use tidings_activities::subscriptions::{self, NoticeDelivery};
use tidings_model::{
    command::CommandContext,
    subscription::{
        COUNTED, DeadNotice, DeliveryResult, NoticeFact, ReplayScope, SubscriptionState, WebhookSubscription,
    },
    when,
};

use crate::{
    Config,
    args::OptionalReason,
    commands::page::print_list,
    config::ConfigError,
    error::UsageError,
    phrases::{format_count, local},
    storage,
};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum SubscriptionsCommand {
    /// List subscriptions with their waiting webhook events and dead letters
    #[command(after_help = "Example: tidings subscriptions list --json")]
    List {
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Send a signed request of the type `subscription.test` to a receiver, and show its response
    #[command(after_help = "Example: tidings subscriptions test crm\n\n\
        The secrets must be in the environment. The request is about no event, and is sent once.")]
    Test {
        /// The subscription: `name` of its table [[subscribe]]
        #[arg(value_name = "NAME")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List webhook events that were not delivered within 24 hours, latest first
    #[command(after_help = "Example: tidings subscriptions dead-letters crm\n\n\
        `tidings subscriptions replay crm --since 2d --dead-letters` redelivers them.")]
    DeadLetters {
        /// The subscription, even if no longer configured
        #[arg(value_name = "NAME")]
        name: String,
        /// Maximum number of webhook events
        #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Redeliver webhook events and dead letters; restarts a subscription whose receiver answered 410
    #[command(after_help = "Examples:\n  \
        tidings subscriptions replay crm --since 2h\n  \
        tidings subscriptions replay crm --since 2026-11-24T08:00:00Z --why 'lost its database'\n\n\
        A webhook event keeps its id, so a receiver can tell it from a new one. Webhook events are kept as long as events, 90 days unless\n\
        configured. A worker must be running.")]
    Replay {
        /// The subscription: `name` of its table [[subscribe]]
        #[arg(value_name = "NAME")]
        name: String,
        /// Webhook events recorded since: an RFC 3339 timestamp, or an age such as `2h`
        #[arg(long, value_name = "TIME", value_parser = when::parse_past)]
        since: Timestamp,
        /// Only dead letters
        #[arg(long)]
        dead_letters: bool,
        #[command(flatten)]
        reason: OptionalReason,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Returns `false` if the receiver rejected the test.
pub(crate) async fn run(command: SubscriptionsCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        SubscriptionsCommand::List { json } => list(config, json).await,
        SubscriptionsCommand::Test { name, json } => test(find_subscription(config, &name)?, config, json).await,
        SubscriptionsCommand::DeadLetters { name, limit, json } => {
            // It may no longer be configured.
            let name = find_subscription(config, &name).map_or(&*name, |found| &found.name);
            dead_letters(config, name, limit, json).await
        }
        SubscriptionsCommand::Replay { name, since, dead_letters, reason, json: as_json } => {
            let name = &find_subscription(config, &name)?.name;
            let CommandContext { by, why } = reason.into_order("tidings subscriptions replay")?;
            let order = CommandContext { by, why: format!("{name}: {why}") };
            let entry = order.audit_entry("subscription_replay", Timestamp::now());
            let store = storage::open(&config.database_url).await?;
            let which = if dead_letters { ReplayScope::DeadLetters } else { ReplayScope::All };
            let replayed = store.replay_notices(name, since, which, &entry).await?;
            let replayed =
                replayed.ok_or_else(|| UsageError(format!("no worker has started with subscription {name} yet")))?;
            if as_json {
                anstream::println!("{}", json!({ "replayed": replayed }));
            } else {
                anstream::println!("{} will be redelivered", format_count(replayed, "webhook event"));
            }
            Ok(true)
        }
    }
}

fn find_subscription<'a>(config: &'a Config, name: &str) -> Result<&'a WebhookSubscription, UsageError> {
    let names = || config.subscriptions.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = config.subscriptions.iter().find(|one| one.is_named(name));
    found
        .ok_or_else(|| UsageError(format!("there is no subscription {name:?} in tidings.toml; there are: {}", names())))
}

async fn list(config: &Config, as_json: bool) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let mut states = store.subscriptions(COUNTED).await?;
    let stored: BTreeSet<_> = states.iter().map(|state| state.name.clone()).collect();
    // No worker has started with these yet.
    let new = config.subscriptions.iter().filter(|one| !stored.contains(&one.name));
    states.extend(new.map(|one| SubscriptionState { name: one.name.clone(), ..SubscriptionState::default() }));
    print_list(&states, as_json, ("subscriptions", "NAME  ADDRESS: EVENTS WAITING, DEAD LETTERS"), |state| {
        let url = config.subscriptions.iter().find(|one| one.name == state.name).map(|one| one.url.url().as_str());
        if as_json {
            let mut line = json!(state);
            line["url"] = json!(url);
            return line.to_string();
        }
        in_words(state, url)
    });
    Ok(true)
}

fn in_words(state: &SubscriptionState, url: Option<&str>) -> String {
    let SubscriptionState { name, waiting, oldest_at, dead_letters, gone_at } = state;
    let oldest = oldest_at.map(|at| format!(", the oldest of {}", local(at))).unwrap_or_default();
    let gone = gone_at.map(|at| format!("; its receiver answered 410 at {}", local(at))).unwrap_or_default();
    let waiting = format_count(*waiting, "webhook event");
    let dead = format_count(*dead_letters, "dead letter");
    format!("{name}  {}: {waiting} waiting{oldest}, {dead}{gone}", url.unwrap_or("not in tidings.toml"))
}

async fn dead_letters(config: &Config, name: &str, limit: u32, as_json: bool) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let header = format!("{:<36}  TIME  TYPE  KEY  RESULT", "WEBHOOK EVENT");
    print_list(&store.dead_notices(name, limit).await?, as_json, ("dead letters", &header), |notice| {
        if as_json {
            return json!(notice).to_string();
        }
        let DeadNotice { id, r#type: what, occurred_at, result, tries, data, .. } = notice;
        let NoticeFact { tenant, digest_type, user, .. } = data;
        let (at, tried) = (local(*occurred_at), format_count((*tries).into(), "time"));
        format!("{id}  {at}  {what}  {tenant}/{digest_type}/{user}  tried {tried}, {result}")
    });
    Ok(true)
}

async fn test(subscription: &WebhookSubscription, config: &Config, as_json: bool) -> anyhow::Result<bool> {
    let mut problems = config.subscription_problems();
    problems.retain(|problem| problem.key == subscription.secret_env);
    if !problems.is_empty() {
        return Err(ConfigError::Wrong(problems).into());
    }
    let NoticeDelivery { result, why } = subscriptions::test(subscription, Timestamp::now()).await;
    let name = &subscription.name;
    if as_json {
        anstream::println!("{}", json!({ "subscription": name, "result": result, "why": why }));
    } else {
        anstream::println!("{name}: {result}, {why}");
    }
    Ok(result == DeliveryResult::Delivered)
}
