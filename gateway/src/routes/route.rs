//! Every route of the public listener.

/// A route. The router is made from [`Route::ALL`], and a test walks all of them with the credentials of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Reports of a relay.
    Webhook,
    /// One click unsubscribes.
    Unsubscribe,
    /// The page of a recipient's choices.
    Preferences,
    /// The page that pins a digest type's cadence.
    AsBefore,
    /// A message in the browser.
    View,
    /// The picture that counts openings.
    Open,
    /// A link that counts clicks.
    Click,
    /// The stylesheet of all pages.
    Style,
    /// What a problem means.
    Problem,
}

impl Route {
    pub const ALL: [Self; 9] = [
        Self::Webhook,
        Self::Unsubscribe,
        Self::Preferences,
        Self::AsBefore,
        Self::View,
        Self::Open,
        Self::Click,
        Self::Style,
        Self::Problem,
    ];

    /// The path, with its parameter in braces.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Webhook => "/webhooks/{relay}",
            Self::Unsubscribe => "/u/{token}",
            Self::Preferences => "/p/{token}",
            Self::AsBefore => "/b/{token}",
            Self::View => "/v/{token}",
            Self::Open => "/o/{token}",
            Self::Click => "/c/{token}",
            Self::Style => "/page.css",
            Self::Problem => "/problems/{name}",
        }
    }
}
