//! Former names (`was`) of digest types and tenants.
//!
//! A name is only a label: a former name's data and links count for the current one.

use std::{collections::BTreeMap, iter};

use crate::{Key, PersonId, pause::PauseScope};

/// No former name may also be a current one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormerNames {
    pub digests: BTreeMap<String, String>,
    pub tenants: BTreeMap<String, String>,
}

impl FormerNames {
    #[must_use]
    pub fn tenant<'a>(&'a self, name: &'a str) -> &'a str {
        self.tenants.get(name).map_or(name, String::as_str)
    }

    #[must_use]
    pub fn digest_type<'a>(&'a self, name: &'a str) -> &'a str {
        self.digests.get(name).map_or(name, String::as_str)
    }

    #[must_use]
    pub fn key_today(&self, key: &Key) -> Key {
        Key {
            tenant: self.tenant(&key.tenant).to_owned(),
            digest_type: self.digest_type(&key.digest_type).to_owned(),
            user: key.user.clone(),
        }
    }

    #[must_use]
    pub fn tenant_names(&self, name: &str) -> Vec<String> {
        names(&self.tenants, self.tenant(name))
    }

    #[must_use]
    pub fn digest_types(&self, name: &str) -> Vec<String> {
        names(&self.digests, self.digest_type(name))
    }

    /// All keys with data of this one, the current one first.
    #[must_use]
    pub fn all_keys(&self, key: &Key) -> Vec<Key> {
        let types = self.digest_types(&key.digest_type);
        let of_tenant = |tenant: String| {
            let key = move |digest_type: &String| Key {
                tenant: tenant.clone(),
                digest_type: digest_type.clone(),
                user: key.user.clone(),
            };
            types.iter().map(key).collect::<Vec<_>>()
        };
        self.tenant_names(&key.tenant).into_iter().flat_map(of_tenant).collect()
    }

    #[must_use]
    pub fn scope_today(&self, PauseScope { tenant, digest_type }: &PauseScope) -> PauseScope {
        PauseScope {
            tenant: tenant.as_deref().map(|name| self.tenant(name).to_owned()),
            digest_type: digest_type.as_deref().map(|name| self.digest_type(name).to_owned()),
        }
    }

    #[must_use]
    pub fn all_scopes(&self, PauseScope { tenant, digest_type }: &PauseScope) -> Vec<PauseScope> {
        let each = |names: Option<Vec<String>>| -> Vec<Option<String>> {
            names.map_or_else(|| vec![None], |names| names.into_iter().map(Some).collect())
        };
        let types = each(digest_type.as_deref().map(|name| self.digest_types(name)));
        let of_tenant = |tenant: Option<String>| {
            types.iter().map(move |digest_type| PauseScope { tenant: tenant.clone(), digest_type: digest_type.clone() })
        };
        each(tenant.as_deref().map(|name| self.tenant_names(name))).into_iter().flat_map(of_tenant).collect()
    }

    #[must_use]
    pub fn all_people(&self, person: &PersonId) -> Vec<PersonId> {
        let names = self.tenant_names(&person.tenant).into_iter();
        names.map(|tenant| PersonId { tenant, user: person.user.clone() }).collect()
    }
}

fn names(former: &BTreeMap<String, String>, today: &str) -> Vec<String> {
    let others = former.iter().filter(|(_, name)| *name == today).map(|(other, _)| other.clone());
    iter::once(today.to_owned()).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, digest_type: &str) -> Key {
        Key::new(tenant.into(), digest_type.into(), "ann".into()).unwrap()
    }

    #[test]
    fn a_former_name_is_todays_and_each_of_its_keys_is_known() {
        let was = |was: &[&str], today: &str| was.iter().map(|was| ((*was).to_owned(), today.to_owned())).collect();
        let names = FormerNames { digests: was(&["activity", "digest"], "news"), tenants: was(&["acme"], "initech") };
        assert_eq!(names.key_today(&key("acme", "digest")), key("initech", "news"));
        assert_eq!(names.key_today(&key("bolt", "alerts")), key("bolt", "alerts"));
        let all = [("initech", "news"), ("initech", "activity"), ("initech", "digest"), ("acme", "news")];
        let all = all.into_iter().chain([("acme", "activity"), ("acme", "digest")]);
        assert_eq!(
            names.all_keys(&key("acme", "news")),
            all.map(|(tenant, name)| key(tenant, name)).collect::<Vec<_>>()
        );
        assert_eq!(names.all_keys(&key("bolt", "alerts")), [key("bolt", "alerts")]);
        let scope = |tenant: Option<&str>, digest_type: Option<&str>| PauseScope {
            tenant: tenant.map(str::to_owned),
            digest_type: digest_type.map(str::to_owned),
        };
        assert_eq!(names.scope_today(&scope(None, Some("digest"))), scope(None, Some("news")));
        let scopes = [scope(Some("initech"), None), scope(Some("acme"), None)];
        assert_eq!(names.all_scopes(&scope(Some("acme"), None)), scopes);
        let people = names.all_people(&PersonId { tenant: "initech".into(), user: "ann".into() });
        assert_eq!(people.iter().map(|person| person.tenant.as_str()).collect::<Vec<_>>(), ["initech", "acme"]);
    }
}
