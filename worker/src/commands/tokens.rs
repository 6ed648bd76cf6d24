//! `tidings tokens`: API tokens.

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::json;
use tidings_model::{
    api_token::{ApiToken, NOTE_BYTES, TokenRecord, TokenScope, TokenState},
    limits,
};
use tidings_store::StoredToken;

use crate::{
    Config,
    args::{OptionalReason, parse_future_time},
    commands::page::print_list,
    error::UsageError,
    phrases::local,
    storage,
};

const EXAMPLES: &str = "\
Examples:
  tidings tokens create --tenant acme --scope events:write --expires 90d --note 'the shop'
  tidings tokens create --tenant '*' --scope digests:read --scope stats:read
  tidings tokens list --tenant acme
  tidings tokens revoke 0123456789abcdef --why 'it was in a log'

The token is printed once, and the store has only a hash. Gateways reject a revoked token within 10 seconds.";

/// Stands for every tenant.
const EVERY: &str = "*";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum TokensCommand {
    /// Create a token and print it, once
    #[command(after_help = "Example: tidings tokens create --tenant acme --scope events:write --expires 90d")]
    Create(TokenCreateOptions),
    /// List tokens with their scopes, state and last use, latest first
    #[command(after_help = "Example: tidings tokens list --tenant acme --json")]
    List {
        /// Only tokens of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Print JSON, one token a line
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token for good
    #[command(after_help = "Example: tidings tokens revoke 0123456789abcdef --why 'it was in a log'")]
    Revoke {
        /// The id: the part between `tdg_` and the next `_`
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        reason: OptionalReason,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The permissions, the end and the use of the token.
#[derive(Debug, clap::Args)]
pub struct TokenCreateOptions {
    /// The tenant; `*` is every tenant, for operators
    #[arg(long, value_name = "TENANT|*")]
    tenant: String,
    /// A permission; may be repeated
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<TokenScope>,
    /// Expiry: an RFC 3339 timestamp, or a span from now such as `90d` [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse_future_time)]
    expires: Option<Timestamp>,
    /// What the token is for, as shown by `list`
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    reason: OptionalReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if there is no token to revoke.
pub(crate) async fn run(command: TokensCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        TokensCommand::Create(created) => create(config, created).await,
        TokensCommand::List { tenant, json } => list(config, tenant.as_deref(), json).await,
        TokensCommand::Revoke { id, reason, json } => revoke(config, &id, reason, json).await,
    }
}

async fn create(config: &Config, created: TokenCreateOptions) -> anyhow::Result<bool> {
    let TokenCreateOptions { tenant, mut scopes, expires, note, reason, json: as_json } = created;
    let order = reason.into_order("tidings tokens create")?;
    limits::check_id("--tenant", &tenant).map_err(|invalid| UsageError(invalid.to_string()))?;
    if note.len() > NOTE_BYTES || note.chars().any(char::is_control) {
        return Err(UsageError(format!("--note: write one line of at most {NOTE_BYTES} bytes")).into());
    }
    scopes.sort_unstable();
    scopes.dedup();
    let token = ApiToken::generate().context("cannot read random bytes from the system")?;
    let now = Timestamp::now();
    let record = TokenRecord {
        id: token.id().to_owned(),
        tenant: Some(tenant).filter(|tenant| tenant != EVERY),
        scopes,
        note,
        created_at: now,
        created_by: order.by.clone(),
        expires_at: expires,
        revoked_at: None,
        last_used_on: None,
    };
    let entry = order.audit_entry(&format!("token_create {}", record.id), now);
    let store = storage::open(&config.database_url).await?;
    store.put_token(&StoredToken { record: record.clone(), hash: token.hash() }, &entry).await?;
    if as_json {
        anstream::println!("{}", json!({"token": token.reveal(), "id": record.id, "expires_at": record.expires_at}));
    } else {
        anstream::println!("{}", token.reveal());
        anstream::eprintln!("store it now: it is not shown again; `tidings tokens revoke {}` revokes it", record.id);
    }
    Ok(true)
}

async fn list(config: &Config, tenant: Option<&str>, as_json: bool) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let now = Timestamp::now();
    let header = "ID  TENANT  SCOPES  CREATED, EXPIRY, LAST USE  NOTE";
    print_list(&store.tokens(tenant).await?, as_json, ("tokens", header), |token| {
        if as_json { json!(token).to_string() } else { in_words(token, now) }
    });
    Ok(true)
}

fn in_words(token: &TokenRecord, now: Timestamp) -> String {
    let TokenRecord { id, tenant, scopes, note, created_at, created_by, expires_at, revoked_at, last_used_on } = token;
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.name()).collect();
    let end = match (token.state(now), expires_at, revoked_at) {
        (TokenState::Revoked, _, Some(at)) => format!("revoked {}", local(*at)),
        (TokenState::Expired, Some(at), _) => format!("expired {}", local(*at)),
        (_, Some(at), _) => format!("expires {}", local(*at)),
        _ => "does not expire".to_owned(),
    };
    let used = last_used_on.map_or_else(|| "never used".to_owned(), |day| format!("last used {day}"));
    let tenant = tenant.as_deref().unwrap_or(EVERY);
    let note = if note.is_empty() { String::new() } else { format!("  {note}") };
    format!("{id}  {tenant}  {}  by {created_by} {}, {end}, {used}{note}", scopes.join(" "), local(*created_at))
}

async fn revoke(config: &Config, id: &str, reason: OptionalReason, as_json: bool) -> anyhow::Result<bool> {
    let order = reason.into_order("tidings tokens revoke")?;
    let entry = order.audit_entry(&format!("token_revoke {id}"), Timestamp::now());
    let store = storage::open(&config.database_url).await?;
    let before = store.revoke_token(id, &entry).await?;
    let said = match &before {
        _ if as_json => json!({"revoked": before.as_ref().is_some_and(|token| token.revoked_at.is_none())}).to_string(),
        None => format!("there is no token {id}; see tidings tokens list"),
        Some(TokenRecord { revoked_at: Some(at), .. }) => format!("already revoked at {}", local(*at)),
        Some(_) => "revoked; gateways reject it within 10 seconds".to_owned(),
    };
    anstream::println!("{said}");
    Ok(before.is_some())
}
