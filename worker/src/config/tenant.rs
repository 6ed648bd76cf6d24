//! What a tenant has otherwise than the rest: `[tenant.NAME]` over the digest types.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidings_model::settings::DigestSettings;
use toml::Spanned;

use super::{
    digest::{self, Words},
    file::nearest,
    problem::{Checks, Problem},
};

/// The digest types as they are written.
pub(super) type Types = BTreeMap<String, Spanned<digest::Written>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    zone: Option<Spanned<String>>,
    quiet: Option<Words>,
    #[serde(default)]
    digest: Types,
}

impl Written {
    /// The tenant's digest types, as far as they differ from everybody's.
    pub fn check(
        &self,
        tenant: &str,
        types: &Types,
        checks: &mut Checks<'_>,
    ) -> Option<BTreeMap<String, DigestSettings>> {
        let table = format!("tenant.{tenant}");
        // First, so that what is wrong is said by its own key.
        checks.value(&format!("{table}.zone"), self.zone.as_ref(), digest::zone);
        if let Some(quiet) = &self.quiet {
            digest::quiet(&format!("{table}.quiet"), quiet, checks);
        }
        for (name, written) in self.digest.iter().filter(|(name, _)| !types.contains_key(*name)) {
            unknown(&format!("{table}.digest.{name}"), name, written, types, checks);
        }
        let everywhere = digest::Written::everywhere(self.zone.clone(), self.quiet.clone());
        let differs = |name: &&String| self.zone.is_some() || self.quiet.is_some() || self.digest.contains_key(*name);
        let own = types.keys().filter(differs).filter_map(|name| {
            let own = self.digest.get(name).map(|written| written.as_ref().clone()).unwrap_or_default();
            let written = own.over(&everywhere.clone().over(types.get(name)?.as_ref()));
            Some((name, written))
        });
        let own = own.map(|(name, written)| {
            Some((name.clone(), written.check(&format!("{table}.digest.{name}"), name, checks)?))
        });
        own.collect::<Vec<_>>().into_iter().collect()
    }
}

/// A name that no digest type has is a slip: nobody else could have events of it.
fn unknown(table: &str, name: &str, written: &Spanned<digest::Written>, types: &Types, checks: &mut Checks<'_>) {
    let meant = nearest(name, types.keys().map(String::as_str));
    let meant = meant.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
    checks.complain(Problem {
        place: checks.place_of(written),
        key: table.to_owned(),
        value: String::new(),
        problem: format!("there is no [digest.{name}] to override{meant}"),
    });
}
