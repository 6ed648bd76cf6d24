//! How connections to PostgreSQL are secured: with TLS, unless the server is on this machine or the URL
//! disables it (rule 53).

use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tidings_model::host_name::is_this_machine;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresTransport {
    /// A local socket, or a host with only loopback addresses.
    ThisMachine,
    Tls,
    /// TLS, because the URL does not disable it. Any certificate is accepted.
    TlsByDefault,
    /// Plain text: `sslmode=disable`.
    InClear,
}

impl PostgresTransport {
    /// The transport for `postgres://...`, or `None` for an invalid URL. Uses DNS if no `sslmode` decides.
    #[must_use]
    pub fn from_url(url: &str) -> Option<Self> {
        Some(Self::of_options(&PgConnectOptions::from_str(url).ok()?))
    }

    fn of_options(options: &PgConnectOptions) -> Self {
        let host = options.get_host();
        let is_here = || options.get_socket().is_some() || host.starts_with('/') || is_this_machine(host);
        match options.get_ssl_mode() {
            PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull => Self::Tls,
            _ if is_here() => Self::ThisMachine,
            PgSslMode::Disable => Self::InClear,
            PgSslMode::Allow | PgSslMode::Prefer => Self::TlsByDefault,
        }
    }
}

/// Beyond this machine, `prefer` and `allow` become `require`, because an attacker could otherwise strip TLS.
pub(crate) fn connect_options(url: &str) -> sqlx::Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)?;
    Ok(match PostgresTransport::of_options(&options) {
        PostgresTransport::TlsByDefault => options.ssl_mode(PgSslMode::Require),
        _ => options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_this_machine_only_words_allow_to_go_without_tls() {
        use PostgresTransport::{InClear, ThisMachine, Tls, TlsByDefault};
        for (url, transport, is_required) in [
            ("postgres://u@127.0.0.1/t", ThisMachine, false),
            ("postgres:///t?host=/run/postgresql", ThisMachine, false),
            ("postgres://u@192.0.2.7/t", TlsByDefault, true),
            ("postgres://u@192.0.2.7/t?sslmode=allow", TlsByDefault, true),
            ("postgres://u@192.0.2.7/t?sslmode=require", Tls, true),
            ("postgres://u@192.0.2.7/t?sslmode=verify-full", Tls, false),
            ("postgres://u@192.0.2.7/t?sslmode=disable", InClear, false),
        ] {
            assert_eq!(PostgresTransport::from_url(url), Some(transport), "{url}");
            let mode = connect_options(url).unwrap().get_ssl_mode();
            assert_eq!(matches!(mode, PgSslMode::Require), is_required, "{url}");
        }
    }
}
