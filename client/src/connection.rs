//! Connects to Temporal, for worker, gateway, commands and producers.

use std::{
    env::{self, VarError},
    error::Error,
    io, iter,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
};

use temporalio_client::{
    ClientOptions, Connection, ConnectionOptions, GrpcCompression, Url,
    callback_based::CallbackBasedGrpcService,
    envconfig::{ClientConfigProfile, ConfigError, LoadClientConfigProfileOptions},
    errors::ClientConnectError,
    tonic::{Code, Status},
};
use temporalio_common::envconfig::load_client_config_profile;
use tidings_model::{foreign_text::clean_edges, host_name::is_this_machine};

use self::frontends::FrontendPool;

mod frontends;

const TEMPORAL_TLS: &str = "TEMPORAL_TLS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    Fixed,
    /// From `TEMPORAL_*` and `temporal.toml`, again every half a minute, because files may change.
    Reread,
}

/// Loads the options from `TEMPORAL_*` and `temporal.toml`. Queries DNS if TLS is off without an explicit
/// setting.
///
/// # Errors
/// If these are invalid, or calls would leave this machine in cleartext without an explicit setting (rule
/// 53).
pub fn load(identity: String) -> Result<(ConnectionOptions, ClientOptions), String> {
    let (mut connection, client, tls) = read()?;
    if tls == TlsSetting::Unsaid && !is_this_machine(connection.target.host_str().unwrap_or_default()) {
        return Err(in_clear(&connection.target));
    }
    // Requests are small, so compression would cost more CPU than it saves.
    connection.grpc_compression = GrpcCompression::None;
    connection.identity = identity;
    // A variable set from a file may end with a newline.
    connection.api_key = connection.api_key.map(|key| clean_edges(&key).to_owned());
    Ok((connection, client))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsSetting {
    On,
    Off,
    Unsaid,
}

pub(crate) fn read() -> Result<(ConnectionOptions, ClientOptions, TlsSetting), String> {
    let profile = load_client_config_profile(LoadClientConfigProfileOptions::default(), None);
    options(profile.map_err(|error| redact_error(&error))?, &env::var(TEMPORAL_TLS).unwrap_or_default())
}

fn options(
    mut profile: ClientConfigProfile,
    temporal_tls: &str,
) -> Result<(ConnectionOptions, ClientOptions, TlsSetting), String> {
    match temporal_tls.to_ascii_lowercase().as_str() {
        "" | "true" | "1" | "false" | "0" => {}
        // Other settings use this word, too. The SDK would turn on TLS for any unknown word.
        "none" => profile.tls.get_or_insert_default().disabled = Some(true),
        _ => return Err(format!("{TEMPORAL_TLS} is neither true nor false")),
    }
    let is_off = profile.tls.as_ref().is_some_and(|tls| tls.disabled == Some(true));
    let client = ClientOptions::new(profile.namespace.clone().unwrap_or_else(|| "default".to_owned())).build();
    let connection = ConnectionOptions::try_from(profile).map_err(|error| redact_error(&error))?;
    let tls = match connection.tls_options {
        Some(_) => TlsSetting::On,
        None if is_off => TlsSetting::Off,
        None => TlsSetting::Unsaid,
    };
    Ok((connection, client, tls))
}

fn in_clear(target: &Url) -> String {
    format!(
        "{target} is not this machine, and everyone on the way could read and change what goes there in clear: set \
         {TEMPORAL_TLS}=true, or {TEMPORAL_TLS}=false if you accept that (in temporal.toml: [profile.default.tls] disabled = true)"
    )
}

/// A variable with invalid UTF-8 may contain an API key, and so may the line of the file which
/// temporalio-client 1.1.1 appends to its error. We can show its errors unchanged once the test below passes
/// with `error.to_string()`.
fn redact_error(error: &ConfigError) -> String {
    match error {
        ConfigError::LoadError(cause) if cause.is::<VarError>() => "a variable is not UTF-8".to_owned(),
        _ => error.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// Connects to one of Temporal's addresses and switches to another if it stops responding. Retries for some
/// seconds.
///
/// Options with an HTTP proxy or their own service are left to the SDK.
///
/// # Errors
/// If no address responds, or the server is not Temporal.
pub fn connect(options: ConnectionOptions, credentials: CredentialSource) -> ConnectFuture {
    connect_among(options, credentials, None)
}

/// Like [`connect`], with the frontends' addresses from the caller.
///
/// # Errors
/// As for [`connect`].
pub fn connect_among(
    mut options: ConnectionOptions,
    credentials: CredentialSource,
    addresses: Option<Vec<SocketAddr>>,
) -> ConnectFuture {
    // Boxing keeps the code for the SDK's 216 service calls in this crate. Otherwise each crate which
    // connects would compile it again.
    Box::pin(async move {
        if options.http_connect_proxy.is_some() || options.service_override.is_some() {
            return Connection::connect(options).await.map_err(|error| ConnectFailure::from(&error));
        }
        let frontends = FrontendPool::new(&options, credentials, addresses);
        // Connect here first, because the SDK's own first call would hide why it failed.
        frontends.wait_for_first().await?;
        let service = Arc::clone(&frontends);
        options.service_override = Some(CallbackBasedGrpcService {
            callback: Arc::new(move |request| Box::pin(Arc::clone(&service).call(request))),
        });
        (options.dns_load_balancing, options.api_key) = (None, None);
        Connection::connect(options).await.map_err(|error| ConnectFailure::from(&error))
    })
}

pub type ConnectFuture = Pin<Box<dyn Future<Output = Result<Connection, ConnectFailure>> + Send>>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectFailure {
    #[error("does not answer ({0})")]
    NoAnswer(String),
    #[error("closed the connection ({0})")]
    Closed(String),
    #[error("failed the TLS handshake ({0})")]
    Tls(String),
    #[error("rejected the credentials ({0})")]
    Credentials(String),
    #[error("does not answer like Temporal ({0})")]
    NotTemporal(String),
    #[error("cannot be reached with these options ({0})")]
    Options(String),
}

impl ConnectFailure {
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NoAnswer(_) => "check TEMPORAL_ADDRESS, and that a Temporal frontend runs there",
            Self::Closed(_) => {
                "it may be starting; otherwise check the client's certificate, and if the port in TEMPORAL_ADDRESS \
                 needs TEMPORAL_TLS=true"
            }
            Self::Tls(_) => {
                "check TEMPORAL_TLS, TEMPORAL_TLS_SERVER_CA_CERT_PATH, TEMPORAL_TLS_SERVER_NAME and the client's certificate"
            }
            Self::Credentials(_) => {
                "check that TEMPORAL_API_KEY or the client certificate is valid for this namespace and has not expired"
            }
            Self::NotTemporal(_) => {
                "check the port in TEMPORAL_ADDRESS, and if it needs TEMPORAL_TLS=true or a client certificate"
            }
            Self::Options(_) => "check the variables TEMPORAL_*",
        }
    }

    pub(crate) const fn is_passing(&self) -> bool {
        matches!(self, Self::NoAnswer(_) | Self::Closed(_))
    }

    pub(crate) fn status(&self) -> Status {
        // Each of these may end without a change by the caller, e.g. when a certificate is renewed, so the
        // caller should retry.
        Status::unavailable(format!("Temporal {self}"))
    }

    pub(crate) fn of_transport(error: &(dyn Error + 'static)) -> Self {
        let causes: Vec<_> = iter::successors(Some(error), |&cause| cause.source()).collect();
        let reason = causes.last().map(ToString::to_string).unwrap_or_default();
        let tls = |cause: &&(dyn Error + 'static)| {
            let inside = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            cause.is::<rustls::Error>() || inside.is_some_and(|inside| inside.is::<rustls::Error>())
        };
        if causes.iter().any(tls) || reason.contains("without TLS enabled") {
            Self::Tls(reason)
        } else if reason.contains("http2 error") || reason.contains("frame with invalid size") {
            Self::NotTemporal(reason)
        } else if ["connection closed", "broken pipe", "reset by peer"].iter().any(|words| reason.contains(words)) {
            Self::Closed(reason)
        } else {
            Self::NoAnswer(reason)
        }
    }

    fn of_status(status: &Status) -> Self {
        let said = status.message().to_owned();
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => Self::Credentials(said),
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::ResourceExhausted => {
                Self::NoAnswer(said)
            }
            _ => Self::NotTemporal(said),
        }
    }
}

impl From<&ClientConnectError> for ConnectFailure {
    fn from(error: &ClientConnectError) -> Self {
        match error {
            ClientConnectError::SystemInfoCallError(status) => Self::of_status(status),
            ClientConnectError::TonicTransportError(error) => Self::of_transport(error),
            ClientConnectError::DnsResolutionError { .. } => Self::NoAnswer(error.to_string()),
            error => Self::Options(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use temporalio_client::envconfig::DataSource;

    use super::*;

    #[test]
    fn an_error_in_temporal_toml_names_the_place_and_hides_the_line() {
        for (text, said) in [
            ("[profile.default]\napi_key = \"hunter2", "line 2, column 19"),
            ("[profile.default]\napi_key = hunter2", "line 2, column 11"),
            ("[profile.default]\napi_key = [\"hunter2\"]", "line 2, column 11"),
            ("profile.default = \"hunter2\"", "line 1, column 19"),
        ] {
            let data = DataSource::Data(text.into());
            let options = LoadClientConfigProfileOptions::builder().config_source(data).build();
            let error = redact_error(&ClientOptions::load_from_config(options).err().unwrap());
            assert!(error.contains(said) && !error.contains("hunter2"), "{text:?} says {error}");
        }
        let error = redact_error(&VarError::NotUnicode("hunter2".into()).into());
        assert_eq!(error, "a variable is not UTF-8");
    }

    #[test]
    fn only_words_for_it_turn_tls_off() {
        let profile = |text: &str| {
            let data =
                DataSource::Data(format!("[profile.default]\naddress = \"temporal.example:7233\"\n{text}").into());
            let loading = LoadClientConfigProfileOptions::builder().config_source(data).disable_env(true).build();
            load_client_config_profile(loading, None).unwrap()
        };
        for (text, variable, expected) in [
            ("", "", TlsSetting::Unsaid),
            ("", "none", TlsSetting::Off),
            ("tls = { disabled = true }", "", TlsSetting::Off),
            ("tls = { disabled = true }", "None", TlsSetting::Off),
            ("tls = { server_name = \"a.example\" }", "", TlsSetting::On),
            ("tls = { server_name = \"a.example\" }", "none", TlsSetting::Off),
            ("api_key = \"hunter2\"", "", TlsSetting::On),
        ] {
            let (connection, _, tls) = options(profile(text), variable).unwrap();
            assert_eq!(
                (tls, connection.tls_options.is_some()),
                (expected, expected == TlsSetting::On),
                "{text} {variable}"
            );
        }
        assert!(options(profile(""), "off").unwrap_err().contains("neither true nor false"));
    }

    #[test]
    fn a_failure_says_what_is_wrong_and_what_to_check() {
        let certificate = || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let transport: [(Box<dyn Error>, &str, &str); 5] = [
            (
                io::Error::other("stream closed because of a broken pipe").into(),
                "closed the connection",
                "TEMPORAL_TLS=true",
            ),
            (Box::new(refused()), "does not answer (connection refused)", "TEMPORAL_ADDRESS"),
            (Box::new(certificate()), "failed the TLS handshake", "TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
            (Box::new(io::Error::new(io::ErrorKind::InvalidData, certificate())), "UnknownIssuer", "SERVER_NAME"),
            (io::Error::other("http2 error").into(), "like Temporal", "TEMPORAL_TLS=true"),
        ];
        for (error, said, remedy) in transport {
            let failure = ConnectFailure::of_transport(&*error);
            assert!(failure.to_string().contains(said), "{failure}");
            assert!(failure.remedy().contains(remedy), "{failure}");
        }
        for (code, passing, said) in [
            (Code::Unauthenticated, false, "rejected the credentials (401 Unauthorized)"),
            (Code::PermissionDenied, false, "rejected the credentials (401 Unauthorized)"),
            (Code::Unavailable, true, "does not answer"),
            (Code::Unimplemented, false, "like Temporal"),
        ] {
            let failure = ConnectFailure::of_status(&Status::new(code, "401 Unauthorized"));
            assert_eq!(failure.is_passing(), passing, "{failure}");
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }
}
