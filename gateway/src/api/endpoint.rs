//! Every route of the api.

use axum::http::Method;
use tidings_model::api_token::Scope;

/// A route. The router is made from [`Endpoint::ALL`], and the tests walk it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Accepts events and retracts.
    PostEvents,
    /// Says what is pending for a key.
    GetDigest,
}

/// The classes of routes. A token has a rate for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Events and messages that come in.
    Events,
    /// Questions.
    Reads,
    /// Commands of operators.
    Operate,
}

impl Endpoint {
    pub const ALL: [Self; 2] = [Self::PostEvents, Self::GetDigest];

    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::PostEvents => Method::POST,
            Self::GetDigest => Method::GET,
        }
    }

    /// The path, with its parameters in braces.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::PostEvents => "/v1/events",
            Self::GetDigest => "/v1/digests/{type}/{user}",
        }
    }

    /// The scope that a token must have.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::PostEvents => Scope::EventsWrite,
            Self::GetDigest => Scope::DigestsRead,
        }
    }

    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::PostEvents => Class::Events,
            Self::GetDigest => Class::Reads,
        }
    }

    /// The longest body, as it comes in.
    #[must_use]
    pub const fn body_bytes(self) -> usize {
        match self {
            Self::PostEvents => super::events::BODY_BYTES,
            Self::GetDigest => 1024,
        }
    }
}
