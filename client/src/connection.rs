//! The connection to Temporal of the worker, the gateway, the commands and producers.

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

use self::frontends::Frontends;

mod frontends;

const TEMPORAL_TLS: &str = "TEMPORAL_TLS";

/// The source of a connection's API key and certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The options have them.
    Fixed,
    /// `TEMPORAL_*` and `temporal.toml` have them, and the connection looks again every half a minute: files may change.
    Reread,
}

/// Loads address, namespace, TLS and API key from `TEMPORAL_*` and `temporal.toml`. Asks name servers where TLS is off and nothing
/// says that it should be.
///
/// # Errors
/// These make no sense, or calls would leave this machine in clear without the words for it (rule 53).
pub fn load(identity: String) -> Result<(ConnectionOptions, ClientOptions), String> {
    let (mut connection, client, tls) = read()?;
    if tls == Tls::Unsaid && !is_this_machine(connection.target.host_str().unwrap_or_default()) {
        return Err(in_clear(&connection.target));
    }
    // Requests are small: to compress them costs a digest more CPU than it saves.
    connection.grpc_compression = GrpcCompression::None;
    connection.identity = identity;
    // A variable made from a file has the line end of the file.
    connection.api_key = connection.api_key.map(|key| clean_edges(&key).to_owned());
    Ok((connection, client))
}

/// What `TEMPORAL_TLS` and `temporal.toml` say of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    On,
    /// In so many words.
    Off,
    Unsaid,
}

/// Reads the options, and connects to nothing.
pub(crate) fn read() -> Result<(ConnectionOptions, ClientOptions, Tls), String> {
    let profile = load_client_config_profile(LoadClientConfigProfileOptions::default(), None);
    options(profile.map_err(|error| unquoted(&error))?, &env::var(TEMPORAL_TLS).unwrap_or_default())
}

fn options(
    mut profile: ClientConfigProfile,
    temporal_tls: &str,
) -> Result<(ConnectionOptions, ClientOptions, Tls), String> {
    match temporal_tls.to_ascii_lowercase().as_str() {
        "" | "true" | "1" | "false" | "0" => {}
        // The word of other keys for it. The SDK turns TLS on for every word that it does not know.
        "none" => profile.tls.get_or_insert_default().disabled = Some(true),
        _ => return Err(format!("{TEMPORAL_TLS} is neither true nor false")),
    }
    let is_off = profile.tls.as_ref().is_some_and(|tls| tls.disabled == Some(true));
    let client = ClientOptions::new(profile.namespace.clone().unwrap_or_else(|| "default".to_owned())).build();
    let connection = ConnectionOptions::try_from(profile).map_err(|error| unquoted(&error))?;
    let tls = match connection.tls_options {
        Some(_) => Tls::On,
        None if is_off => Tls::Off,
        None => Tls::Unsaid,
    };
    Ok((connection, client, tls))
}

fn in_clear(target: &Url) -> String {
    format!(
        "{target} is not this machine, and everyone on the way could read and change what goes there in clear: set \
         {TEMPORAL_TLS}=true, or {TEMPORAL_TLS}=false if you accept that (in temporal.toml: [profile.default.tls] disabled = true)"
    )
}

/// Returns the error without quoting the configuration. A variable that is not UTF-8 may hold an API key, and so may the
/// line of the file that temporalio-client 1.1.1 shows below the first line of its error. Its errors can be shown as they are
/// when the test below passes with `error.to_string()`.
fn unquoted(error: &ConfigError) -> String {
    match error {
        ConfigError::LoadError(cause) if cause.is::<VarError>() => "a variable is not UTF-8".to_owned(),
        _ => error.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// Connects to one of the addresses of Temporal that answer, and moves to another one when it stops to answer. Tries for some seconds.
///
/// Options with an HTTP proxy or a service of their own are left to the SDK.
///
/// # Errors
/// No address answers, or what answers is not Temporal.
pub fn connect(options: ConnectionOptions, credentials: Credentials) -> Connecting {
    connect_among(options, credentials, None)
}

/// [`connect`] for those who know the addresses of the frontends from elsewhere than from the name in the options.
///
/// # Errors
/// As for [`connect`].
pub fn connect_among(
    mut options: ConnectionOptions,
    credentials: Credentials,
    addresses: Option<Vec<SocketAddr>>,
) -> Connecting {
    // The compiler generates the 216 calls of the SDK's services where its async function is awaited. The box keeps that here; each
    // crate that connects would repeat it.
    Box::pin(async move {
        if options.http_connect_proxy.is_some() || options.service_override.is_some() {
            return Connection::connect(options).await.map_err(|error| ConnectFailure::from(&error));
        }
        let frontends = Frontends::new(&options, credentials, addresses);
        // The SDK's own first call would hide the reason of a failure behind a status.
        frontends.first().await?;
        let service = Arc::clone(&frontends);
        options.service_override = Some(CallbackBasedGrpcService {
            callback: Arc::new(move |request| Box::pin(Arc::clone(&service).call(request))),
        });
        (options.dns_load_balancing, options.api_key) = (None, None);
        Connection::connect(options).await.map_err(|error| ConnectFailure::from(&error))
    })
}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Connection, ConnectFailure>> + Send>>;

/// The reason why there is no connection to Temporal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectFailure {
    /// No address answers.
    #[error("does not answer ({0})")]
    NoAnswer(String),
    /// The server, or a proxy, ends the connection without a word.
    #[error("closes the connection ({0})")]
    Closed(String),
    /// TLS could not be agreed on.
    #[error("has no TLS in common with this client ({0})")]
    Tls(String),
    /// Temporal, or a proxy before it, refuses the API key or the certificate.
    #[error("refuses the credentials ({0})")]
    Credentials(String),
    /// Something else answers.
    #[error("does not answer as Temporal does ({0})")]
    NotTemporal(String),
    /// The options contradict each other.
    #[error("cannot be connected to ({0})")]
    Options(String),
}

impl ConnectFailure {
    /// The advice for whoever operates this machine.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NoAnswer(_) => "check TEMPORAL_ADDRESS, and whether a frontend of Temporal runs there",
            Self::Closed(_) => {
                "it may be starting; else check the client's certificate, and whether the port of TEMPORAL_ADDRESS wants TEMPORAL_TLS=true"
            }
            Self::Tls(_) => {
                "check TEMPORAL_TLS, TEMPORAL_TLS_SERVER_CA_CERT_PATH, TEMPORAL_TLS_SERVER_NAME and the client's certificate"
            }
            Self::Credentials(_) => {
                "check that TEMPORAL_API_KEY or the client's certificate is this namespace's, and has not expired"
            }
            Self::NotTemporal(_) => {
                "check the port of TEMPORAL_ADDRESS, and whether it wants TEMPORAL_TLS=true or a client's certificate"
            }
            Self::Options(_) => "check the variables TEMPORAL_*",
        }
    }

    /// Trying again could help.
    pub(crate) const fn is_passing(&self) -> bool {
        matches!(self, Self::NoAnswer(_) | Self::Closed(_))
    }

    /// The same for a call.
    pub(crate) fn status(&self) -> Status {
        // All of these end without a change of the caller: a certificate or a key is renewed. So the caller should try again.
        Status::unavailable(format!("Temporal {self}"))
    }

    /// The meaning of an error of the transport.
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

    /// The meaning of a status that ends the attempt to connect.
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
            let error = unquoted(&ClientOptions::load_from_config(options).err().unwrap());
            assert!(error.contains(said) && !error.contains("hunter2"), "{text:?} says {error}");
        }
        let error = unquoted(&VarError::NotUnicode("hunter2".into()).into());
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
            ("", "", Tls::Unsaid),
            ("", "none", Tls::Off),
            ("tls = { disabled = true }", "", Tls::Off),
            ("tls = { disabled = true }", "None", Tls::Off),
            ("tls = { server_name = \"a.example\" }", "", Tls::On),
            ("tls = { server_name = \"a.example\" }", "none", Tls::Off),
            ("api_key = \"hunter2\"", "", Tls::On),
        ] {
            let (connection, _, tls) = options(profile(text), variable).unwrap();
            assert_eq!((tls, connection.tls_options.is_some()), (expected, expected == Tls::On), "{text} {variable}");
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
                "closes the connection",
                "TEMPORAL_TLS=true",
            ),
            (Box::new(refused()), "does not answer (connection refused)", "TEMPORAL_ADDRESS"),
            (Box::new(certificate()), "no TLS in common", "TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
            (Box::new(io::Error::new(io::ErrorKind::InvalidData, certificate())), "UnknownIssuer", "SERVER_NAME"),
            (io::Error::other("http2 error").into(), "as Temporal does", "TEMPORAL_TLS=true"),
        ];
        for (error, said, remedy) in transport {
            let failure = ConnectFailure::of_transport(&*error);
            assert!(failure.to_string().contains(said), "{failure}");
            assert!(failure.remedy().contains(remedy), "{failure}");
        }
        for (code, passing, said) in [
            (Code::Unauthenticated, false, "refuses the credentials (401 Unauthorized)"),
            (Code::PermissionDenied, false, "refuses the credentials (401 Unauthorized)"),
            (Code::Unavailable, true, "does not answer"),
            (Code::Unimplemented, false, "as Temporal does"),
        ] {
            let failure = ConnectFailure::of_status(&Status::new(code, "401 Unauthorized"));
            assert_eq!(failure.is_passing(), passing, "{failure}");
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }
}
