//! Former names, and names used in the database without a table in the file.

use std::collections::{BTreeMap, BTreeSet};

use tidings_model::{
    breaker,
    records::NameKind,
    settings::{DigestSettings, Settings},
};
use tidings_store::Store;

use crate::Config;

const MOST_TENANTS: usize = 20;
const IN_USE: &str = "something (see `tidings config check --database`)";

/// Stores the former names, so the database treats them as the same.
///
/// # Errors
/// The store does not respond.
pub(crate) async fn store_names(store: &dyn Store, config: &Config) -> anyhow::Result<()> {
    let tables = BTreeMap::from([
        (NameKind::Digest, config.digests.keys().cloned().collect::<BTreeSet<_>>()),
        (NameKind::Tenant, config.tenants.keys().cloned().collect()),
    ]);
    Ok(store.put_names(&config.names, &tables).await?)
}

/// Logs names used in the database but missing in the file. Only includes tenants if the file has any,
/// because most installations need none.
pub(crate) async fn log_unknown(store: &dyn Store, config: &Config) {
    match store.names_in_use().await {
        Ok(used) => {
            let file = ConfiguredNames::from_config(config);
            let is_unknown = |(kind, name): &(NameKind, String)| {
                file.lacks(*kind, name) && (*kind != NameKind::Tenant || !config.tenants.is_empty())
            };
            let unknown =
                used.into_iter().filter(is_unknown).map(|(kind, name)| (kind, unknown_warning(kind, &name, IN_USE)));
            for warning in limit_tenants(unknown) {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::warn!(%error, "cannot compare the names in the database with those in the file"),
    }
}

/// Returns the warnings for `tidings config check --database`.
///
/// # Errors
/// The store does not respond.
pub(crate) async fn warnings(store: &dyn Store, config: &Config) -> anyhow::Result<Vec<String>> {
    let (stored, file) = (store.stored_names().await?, ConfiguredNames::from_config(config));
    let unknown = stored.iter().filter(|stored| file.lacks(stored.kind, &stored.name));
    Ok(limit_tenants(
        unknown.map(|stored| (stored.kind, unknown_warning(stored.kind, &stored.name, &stored.to_string()))),
    ))
}

fn limit_tenants(warnings: impl Iterator<Item = (NameKind, String)>) -> Vec<String> {
    let (tenants, others): (Vec<_>, Vec<_>) = warnings.partition(|(kind, _)| *kind == NameKind::Tenant);
    let more = tenants.len().saturating_sub(MOST_TENANTS);
    let shown = others.into_iter().chain(tenants.into_iter().take(MOST_TENANTS));
    let more = (more > 0).then(|| format!("{more} more tenants have no table of their own"));
    shown.map(|(_, warning)| warning).chain(more).collect()
}

struct ConfiguredNames<'a> {
    config: &'a Config,
    settings: Settings,
}

impl<'a> ConfiguredNames<'a> {
    fn from_config(config: &'a Config) -> Self {
        Self { config, settings: config.unchecked_settings() }
    }

    /// Returns `true` if the file has neither a table with this name nor a `was`. Except for tenants and
    /// subscriptions, nothing is missing if the file has no such table at all.
    fn lacks(&self, kind: NameKind, name: &str) -> bool {
        let Config { digests, tenants, names, subscriptions, .. } = self.config;
        let relays = &self.settings.relays;
        match kind {
            NameKind::Digest => {
                let mut of_tenants = self.settings.tenants.values();
                !digests.is_empty()
                    && !digests.contains_key(name)
                    && !names.digests.contains_key(name)
                    && !of_tenants.any(|tenant| tenant.digests.contains_key(name))
            }
            NameKind::Tenant => !tenants.contains_key(name) && !names.tenants.contains_key(name),
            NameKind::Category => {
                let of_tenants = self.settings.tenants.values().flat_map(|tenant| tenant.digests.values());
                let mut digests = self.settings.digests.values().chain(of_tenants).peekable();
                let has = |digest: &DigestSettings| {
                    // Without `categories`, a page offers every category that was turned off.
                    digest.categories.is_empty()
                        || digest.categories.contains_key(name)
                        || digest.former_categories.contains_key(name)
                };
                digests.peek().is_some() && !digests.any(has)
            }
            NameKind::Relay => {
                // A breaker may be limited to one tenant, and its name then includes the tenant.
                let today = self.settings.relay_today(breaker::split_name(name).0);
                // If a relay has no address in this process, the settings only have its names.
                !relays.is_empty() && !relays.contains_key(today) && !self.settings.reports_for.contains_key(today)
            }
            NameKind::Subscription => {
                !subscriptions.iter().any(|known| known.name == name || known.was.iter().any(|was| was == name))
            }
        }
    }
}

fn unknown_warning(kind: NameKind, name: &str, what: &str) -> String {
    let name = if kind == NameKind::Relay { breaker::split_name(name).0 } else { name };
    let (noun, none, place, or_else) = match kind {
        NameKind::Digest => (
            "digest type",
            "no table has",
            "write {was} into its table",
            ", or else opt-outs under that name have no effect",
        ),
        NameKind::Tenant => ("tenant", "has no table", "add [tenant.NAME] with {was}", ""),
        NameKind::Category => (
            "category",
            "no digest type has",
            "write {was} into the table of that category",
            ", or else recipients who turned it off get its events again",
        ),
        NameKind::Relay => ("relay", "no table has", "write {was} into its table", ", or else its breaker is ignored"),
        NameKind::Subscription => {
            ("subscription", "no table has", "write {was} into its table", ", or else they become dead letters")
        }
    };
    let remedy = place.replace("{was}", &format!("`was = [{name:?}]`"));
    format!(
        "the database has {what} under the {noun} {name:?}, which {none}: if it has another name now, {remedy}{or_else}"
    )
}

#[cfg(test)]
mod tests {
    use tidings_model::records::{DependentKind, StoredName};

    use super::*;

    fn unknown_in(file: &str) -> Vec<String> {
        let config = Config::parse_text("tidings.toml".as_ref(), file, &|_| None).unwrap();
        let file = ConfiguredNames::from_config(&config);
        let stored = |kind, name: &str, has: &[(DependentKind, u64)]| StoredName {
            kind,
            name: name.into(),
            has: has.iter().copied().collect(),
        };
        let stored = [
            stored(NameKind::Digest, "activity", &[(DependentKind::Withdrawn, 2), (DependentKind::Chosen, 1)]),
            stored(NameKind::Tenant, "acme", &[(DependentKind::Undelivered, 1)]),
            stored(NameKind::Category, "like", &[(DependentKind::Off, 3)]),
            stored(NameKind::Relay, "old/acme", &[(DependentKind::Broken, 1)]),
            stored(NameKind::Subscription, "crm", &[(DependentKind::Waiting, 4)]),
        ];
        let unknown = stored.iter().filter(|stored| file.lacks(stored.kind, &stored.name));
        limit_tenants(
            unknown.map(|stored| (stored.kind, unknown_warning(stored.kind, &stored.name, &stored.to_string()))),
        )
    }

    const RELAY: &str = "[stream.bulk]\nrelays = [\"new\"]\n[stream.transactional]\nrelays = [\"new\"]\n\
                         [relay.new]\nurl = \"smtp://127.0.0.1:1025\"\n";

    #[test]
    fn a_name_that_the_file_lacks_is_named_with_what_hangs_on_it() {
        let digest = "[digest.news]\ncadence = \"hourly\"\n";
        let renamed = format!("{digest}[digest.news.categories]\nshare = \"Shares\"\n{RELAY}");
        let renamed = unknown_in(&renamed);
        let says = [
            "2 unsubscribed, 1 with choices under the digest type \"activity\"",
            "3 who turned it off under the category \"like\"",
            "1 open breaker under the relay \"old\"",
            "4 webhook events that wait under the subscription \"crm\"",
            "1 digests without an end under the tenant \"acme\"",
        ];
        assert_eq!(renamed.len(), says.len(), "{renamed:?}");
        for (warning, says) in renamed.iter().zip(says) {
            assert!(warning.contains(says) && warning.contains("`was = ["), "{warning}");
        }
        let told = format!(
            "{digest}was = [\"activity\"]\n{RELAY}was = [\"old\"]\n[tenant.initech]\nwas = [\"acme\"]\n\
             [[subscribe]]\nname = \"crm\"\nurl = \"https://crm.example/hook\"\nevents = [\"digest.sent\"]\nsecret_env = \"CRM\"\n"
        );
        assert_eq!(unknown_in(&told), [] as [String; 0]);
    }

    #[test]
    fn of_many_tenants_without_a_table_the_first_are_named_and_the_others_counted() {
        let warnings = (0..MOST_TENANTS + 5).map(|n| (NameKind::Tenant, format!("tenant {n}")));
        let shown = limit_tenants(warnings);
        assert_eq!(shown.len(), MOST_TENANTS + 1);
        assert!(shown[MOST_TENANTS].starts_with("5 more tenants"), "{shown:?}");
    }
}
