//! How what goes to a PostgreSQL travels: with TLS, unless this machine or words say otherwise (rule 53).

use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tidings_model::host_name::is_this_machine;

/// How what goes to a PostgreSQL travels (rule 53).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresTransport {
    /// A socket of this machine, or a host whose addresses are all loopback.
    ThisMachine,
    /// With TLS, as `sslmode` says.
    Tls,
    /// With TLS, because nothing allows to go without. Any certificate will do.
    TlsByDefault,
    /// In clear: `sslmode=disable`.
    InClear,
}

impl PostgresTransport {
    /// The transport to the database of `postgres://...`, or `None` if that cannot be read. Asks name servers if no `sslmode` decides.
    #[must_use]
    pub fn of(url: &str) -> Option<Self> {
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

/// The options of the address. Beyond this machine, `prefer` and `allow` are `require`: an attacker could take TLS away from them.
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
            assert_eq!(PostgresTransport::of(url), Some(transport), "{url}");
            let mode = connect_options(url).unwrap().get_ssl_mode();
            assert_eq!(matches!(mode, PgSslMode::Require), is_required, "{url}");
        }
    }
}
