//! `tidings tenants`: ends a tenant.

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tidings_client::WorkflowCommands;
use tidings_model::PersonId;
use tidings_operations::{
    person_keys,
    tenant_end::{TenantEnd, TenantEndResult},
};

use crate::{
    Config,
    args::{RequiredReason, parse_tenant},
    confirm::confirm_command,
    storage,
};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum TenantsCommand {
    /// End a tenant: pause it, revoke its API tokens, and erase each of its people
    #[command(after_help = "Examples:\n  \
        tidings tenants end acme --why 'contract ended' --dry-run\n  \
        tidings tenants end acme --why 'contract ended'\n\n\
        Stop the producers first, and remove [tenant.acme] from tidings.toml afterwards. The pause stays: what still arrives \
        is not sent. Suppressions still apply. After a crash, run the command again.")]
    End(TenantEndOptions),
}

/// The tenant, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct TenantEndOptions {
    /// The tenant
    #[arg(value_name = "TENANT", value_parser = parse_tenant)]
    tenant: String,
    #[command(flatten)]
    reason: RequiredReason,
    /// Only count the people who would be erased
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if nothing was ended, or something is left. After an error, run it again to continue.
pub(crate) async fn run(TenantsCommand::End(options): TenantsCommand, config: &Config) -> anyhow::Result<bool> {
    let TenantEndOptions { tenant, reason, dry_run, yes, json: as_json } = options;
    let order = reason.into_order()?;
    let settings = config.unchecked_settings();
    let store = storage::open(&config.database_url).await?;
    let archive = config.retention.settings.archive.as_ref();
    let types = settings.digest_types(&tenant);
    let nobody = PersonId { tenant: tenant.clone(), user: String::new() };
    let tenants = person_keys::person_under_each_name(&*store, &settings, &nobody).await?;
    let tenants: Vec<_> = tenants.into_iter().map(|person| person.tenant).collect();
    let end = TenantEnd { store: &*store, archive, tenants: &tenants, types, task_queue: &config.task_queue };
    let temporal = crate::installation::connect(config).await?;
    if dry_run {
        let people = end.count(&temporal).await?;
        let text = format!("{tenant}: {people} people would be erased");
        anstream::println!("{}", if as_json { json!({ "people": people }).to_string() } else { text });
        return Ok(true);
    }
    let question = format!("End {tenant}, and erase each of its people?");
    if !yes && !confirm_command(&question, &tenant, "--dry-run shows how many people would be erased")? {
        anstream::eprintln!("nothing was ended");
        return Ok(false);
    }
    let commands = WorkflowCommands::new(temporal.clone(), &config.task_queue);
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    let progress = |ended: &TenantEndResult| {
        bar.set_message(format!("{} people", ended.people));
        bar.tick();
    };
    let ended = end.run(&temporal, &commands, &order, progress).await;
    bar.finish_and_clear();
    let ended = ended.map_err(|error| {
        anyhow::Error::from(error).context(format!("{tenant} has not ended; run the command again"))
    })?;
    anstream::println!("{}", if as_json { json!(ended).to_string() } else { in_words(&tenant, &ended) });
    for name in tenants.iter().filter(|name| settings.tenants.contains_key(*name)) {
        anstream::eprintln!("tidings.toml still has [tenant.{name}]: remove it, and restart workers and gateways");
    }
    if ended.left > 0 || ended.pending > 0 {
        anstream::eprintln!("new data arrived meanwhile: stop the producers of {tenant}, then run the command again");
    }
    for folder in &ended.unreachable_archives {
        anstream::eprintln!(
            "archive {folder} is not on this machine and may have lines about people of {tenant}: run the command where it is, \
             or forget the folder with tidings retention forget-archive if its files are gone"
        );
    }
    Ok(ended.is_complete())
}

fn in_words(tenant: &str, ended: &TenantEndResult) -> String {
    let TenantEndResult { people, tokens, erased, .. } = ended;
    let counts = erased.counts();
    let lines: String = counts.map(|(name, count)| format!("\n  {}: {count}", name.replace('_', " "))).collect();
    format!(
        "{tenant}: ended\n  people: {people}\n  API tokens: {tokens}{lines}\n\
         kept: the pause of the tenant, which `tidings resume --filter tenant={tenant}` ends; audit entries; ids, times and ends"
    )
}

#[cfg(test)]
mod tests {
    use tidings_model::records::ErasedRows;

    use super::*;

    #[test]
    fn an_end_says_what_was_erased_and_what_stays() {
        let erased = ErasedRows { delivery_events: 4, ..ErasedRows::default() };
        let ended = TenantEndResult { people: 2, tokens: 1, erased, ..TenantEndResult::default() };
        let text = in_words("acme", &ended);
        assert!(
            text.starts_with("acme: ended\n  people: 2\n  API tokens: 1\n  delivery events: 4\nkept: the pause"),
            "{text}"
        );
    }
}
