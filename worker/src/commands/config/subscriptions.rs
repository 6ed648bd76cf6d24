//! The services that get notices, as `tidings config check` shows them.

use serde::Serialize;
use tidings_model::subscription::{NoticeType, Subscription};

/// The keys of `[[subscribe]]`.
#[derive(Serialize)]
pub(super) struct SubscriptionView<'a> {
    name: &'a str,
    url: &'a str,
    events: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'a str>,
    secret_env: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    was: &'a [String],
}

impl<'a> SubscriptionView<'a> {
    pub fn new(subscription: &'a Subscription) -> Self {
        Self {
            name: &subscription.name,
            url: subscription.url.url().as_str(),
            events: subscription.events.iter().map(|event| NoticeType::name(*event)).collect(),
            tenant: subscription.tenant.as_deref(),
            r#type: subscription.digest_type.as_deref(),
            secret_env: &subscription.secret_env,
            was: &subscription.was,
        }
    }
}
