//! Fingerprints of tables in `tidings.toml`. Processes use them to compare their configuration (rule 59).
//!
//! They ignore comments, order, formatting and what may differ between hosts: listener addresses, paths
//! (templates, archive, secrets), variable names, the addresses of the database and the relays, and limits for
//! memory and connections. Link keys and DKIM keys have their own fingerprints.

use std::collections::BTreeMap;

use serde_json::Value;
use tidings_model::process::{digest_section, fingerprint};
use toml::Table;

const OF_HOST: [&str; 10] = [
    "body_mebibytes",
    "cached_workflows",
    "connections",
    "database_url",
    "per_connection",
    "smtp_url",
    "task_queue",
    "templates",
    "token_command",
    "trusted_proxies",
];
const OF_HOST_BY_END: [&str; 4] = ["_env", "_file", "listen", "tls"];

/// Fingerprints each table with a shared setting; each digest type counts as a table. Returns an empty map if
/// the text is not TOML.
pub(super) fn fingerprints(text: &str) -> BTreeMap<String, String> {
    let file: Table = toml::from_str(text).unwrap_or_default();
    let mut found = BTreeMap::new();
    for (name, value) in file {
        let value = serde_json::to_value(value).ok().filter(|_| !is_of_host("", &name));
        match value.and_then(|value| shared_part(&name, value)) {
            Some(Value::Object(types)) if name == "digest" => {
                found.extend(types.iter().map(|(name, table)| (digest_section(name), hash_value(table))));
            }
            Some(value) => drop(found.insert(name, hash_value(&value))),
            None => {}
        }
    }
    found
}

fn is_of_host(table: &str, key: &str) -> bool {
    OF_HOST.contains(&key) || OF_HOST_BY_END.iter().any(|end| key.ends_with(end)) || (table == "relay" && key == "url")
}

fn hash_value(value: &Value) -> String {
    fingerprint(value.to_string().as_bytes())
}

/// Removes everything that may differ between hosts. Returns `None` if nothing is left, but keeps an empty
/// table.
fn shared_part(table: &str, value: Value) -> Option<Value> {
    match value {
        Value::Object(values) if !values.is_empty() => {
            let kept = values.into_iter().filter(|(key, _)| !is_of_host(table, key));
            let kept: serde_json::Map<_, _> = kept
                .filter_map(|(key, value)| {
                    // The archive folder may differ, but not whether there is one: without it, the purge
                    // deletes for good.
                    let is_archive = table == "retention" && key == "archive";
                    let value = if is_archive { Value::Bool(true) } else { shared_part(table, value)? };
                    Some((key, value))
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(values) => Some(values.into_iter().filter_map(|value| shared_part(table, value)).collect()),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
task_queue = \"tidings\"
database_url = \"sqlite://a.db\"
smtp_url = \"smtp://u:secret@a\"
link_keys_file = \"/etc/a\"
[mail]
from = \"a@a.example\"
[mail.dkim]
selector = \"s1\"
key_file = \"/etc/b\"
[relay.ses]
url = \"smtp://u:secret@b\"
rate = \"10/s\"
connections = 5
per_connection = 50
[gateway]
listen = \"127.0.0.1:1\"
[digest.activity]
cadence = \"daily 08:00\"
[digest.news]
cadence = \"after 1s\"
[retention]
events = \"90d\"
archive = \"/srv/a\"
[[subscribe]]
name = \"crm\"
url = \"https://crm.example\"
secret_env = \"A\"
";

    #[test]
    fn hosts_may_differ_in_addresses_paths_and_order() {
        let names: Vec<_> = fingerprints(FILE).into_keys().collect();
        assert_eq!(names, ["digest.activity", "digest.news", "mail", "relay", "retention", "subscribe"]);
        for (here, there) in [
            ("sqlite://a.db", "postgres://b/c"),
            ("u:secret@a", "v:other@c"),
            ("u:secret@b", "v:other@c"),
            ("/etc/a", "/run/a"),
            ("/etc/b", "/run/b"),
            ("/srv/a", "/srv/b"),
            ("connections = 5", "connections = 9"),
            ("per_connection = 50\n", ""),
            ("127.0.0.1:1", "0.0.0.0:2"),
            ("secret_env = \"A\"", "secret_env = \"B\""),
            ("task_queue = \"tidings\"", "task_queue = \"mail\""),
            ("cadence = \"after 1s\"", "# soon\ncadence   = 'after 1s'"),
            ("name = \"crm\"\nurl = \"https://crm.example\"", "url = \"https://crm.example\"\nname = \"crm\""),
        ] {
            assert_eq!(fingerprints(&FILE.replace(here, there)), fingerprints(FILE), "{there}");
        }
    }

    #[test]
    fn each_shared_setting_changes_its_table_alone() {
        let before = fingerprints(FILE);
        for (here, there, name) in [
            ("s1", "s2", "mail"),
            ("10/s", "11/s", "relay"),
            ("after 1s", "after 3s", "digest.news"),
            ("90d", "3650d", "retention"),
            ("archive = \"/srv/a\"\n", "", "retention"),
            ("https://crm.example", "https://crm2.example", "subscribe"),
            ("[digest.news]\ncadence = \"after 1s\"\n", "", "digest.news"),
        ] {
            let after = fingerprints(&FILE.replace(here, there));
            let names: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
            let differ: Vec<_> = names.into_iter().filter(|name| before.get(*name) != after.get(*name)).collect();
            assert_eq!(differ, [name], "{there}");
        }
    }
}
