//! `tidings subscriptions`: services that receive our notices.

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
    config::ConfigError,
    error::UsageError,
    phrases::{format_count, local},
    storage,
};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum SubscriptionsCommand {
    /// Lists subscriptions with the notices that wait and the dead letters
    List {
        /// Answer in JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Sends a signed request of the type `subscription.test` to a receiver, and says what it answered
    #[command(after_help = "Example: tidings subscriptions test crm\n\n\
        The secrets must be in the environment. The request is about nothing, and is sent once.")]
    Test {
        /// The subscription: `name` of its table [[subscribe]]
        #[arg(value_name = "NAME")]
        name: String,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists the notices that were not delivered within 24 hours, the latest first
    #[command(after_help = "Example: tidings subscriptions dead-letters crm\n\n\
        `tidings subscriptions replay crm --since 2d --dead-letters` delivers them after all.")]
    DeadLetters {
        /// The subscription, which may be configured no more
        #[arg(value_name = "NAME")]
        name: String,
        /// The largest number of notices
        #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Answer in JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Delivers notices again, and those that are dead letters; starts a subscription again whose receiver answered 410
    #[command(after_help = "Examples:\n  \
        tidings subscriptions replay crm --since 2h\n  \
        tidings subscriptions replay crm --since 2026-11-24T08:00:00Z --why 'lost its database'\n\n\
        A notice keeps its id, so that a receiver can tell it from a new one. Notices are kept as long as events, 90 days unless\n\
        configured. A worker must run.")]
    Replay {
        /// The subscription: `name` of its table [[subscribe]]
        #[arg(value_name = "NAME")]
        name: String,
        /// Notices of facts that were recorded then or later: a time as in RFC 3339, or a span before now as in `2h`
        #[arg(long, value_name = "TIME", value_parser = when::parse_past)]
        since: Timestamp,
        /// Only dead letters
        #[arg(long)]
        dead_letters: bool,
        #[command(flatten)]
        reason: OptionalReason,
        /// Answer in JSON
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
                anstream::println!("{} will be delivered again", format_count(replayed, "notice"));
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
    for state in states {
        let url = config.subscriptions.iter().find(|one| one.name == state.name).map(|one| one.url.url().as_str());
        if as_json {
            let mut line = json!(state);
            line["url"] = json!(url);
            anstream::println!("{line}");
        } else {
            anstream::println!("{}", in_words(&state, url));
        }
    }
    Ok(true)
}

fn in_words(state: &SubscriptionState, url: Option<&str>) -> String {
    let SubscriptionState { name, waiting, oldest_at, dead_letters, gone_at } = state;
    let oldest = oldest_at.map(|at| format!(", the oldest of {}", local(at))).unwrap_or_default();
    let gone = gone_at.map(|at| format!("; its receiver answered 410 at {}", local(at))).unwrap_or_default();
    let waiting = format_count(*waiting, "notice");
    let dead = format_count(*dead_letters, "dead letter");
    format!("{name}  {}: {waiting} waiting{oldest}, {dead}{gone}", url.unwrap_or("not in tidings.toml"))
}

async fn dead_letters(config: &Config, name: &str, limit: u32, as_json: bool) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    for notice in store.dead_notices(name, limit).await? {
        if as_json {
            anstream::println!("{}", json!(notice));
        } else {
            let DeadNotice { id, r#type: what, occurred_at, result, tries, data, .. } = notice;
            let NoticeFact { tenant, digest_type, user, .. } = data;
            let tried = format_count(tries.into(), "time");
            let at = local(occurred_at);
            anstream::println!("{id}  {at}  {what}  {tenant}/{digest_type}/{user}  tried {tried}, {result}");
        }
    }
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
