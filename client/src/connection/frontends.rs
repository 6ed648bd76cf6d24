//! Balances over Temporal's frontends: a connection uses one of its name's addresses for all calls.
//!
//! temporalio-client 1.1.1 also uses dead and frozen hosts, and takes 45 s to notice a frozen one. We use the
//! first address which responds. If it stops responding while another, or a new connection to it, does
//! respond, we move all calls there.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full};
use temporalio_client::{
    ConnectionOptions, TlsOptions, Url,
    callback_based::{GrpcRequest, GrpcSuccessResponse},
    tonic::{
        self, Code, Status, TimeoutExpired,
        body::Body,
        client::GrpcService as _,
        codegen::{
            Bytes,
            http::{HeaderMap, HeaderName, HeaderValue, Request, Uri},
        },
        transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
    },
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::connection::{self, ConnectFailure, CredentialSource, TlsSetting};

const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(250);
const STAGGER: Duration = Duration::from_millis(200);
const HANDSHAKE: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(2);
/// Without a response for this long, calls trigger a health check. With the check's timeout and Temporal's 10
/// s limit for a workflow task, this delays a digest by less than 15 s.
const SILENCE: Duration = Duration::from_millis(1_500);
const LOOK: Duration = Duration::from_millis(500);
const REREAD: Duration = Duration::from_secs(30);
/// How often to reconnect, so calls also reach hosts added later. Temporal uses the same limit.
const REPLACE: Duration = Duration::from_mins(5);
/// How often to send a read-only call if connections break.
const TRIES: u32 = 3;

const SYSTEM_INFO: (&str, &str) = ("temporal.api.workflowservice.v1.WorkflowService", "GetSystemInfo");

pub(crate) struct FrontendPool {
    settings: FrontendSettings,
    credentials: CredentialSource,
    secrets: Mutex<FrontendSecrets>,
    state: Mutex<FrontendState>,
    /// Shared with concurrent callers, as only one searches at a time.
    search: tokio::sync::Mutex<Option<(Instant, ConnectFailure)>>,
}

#[derive(Clone)]
struct FrontendSettings {
    target: Url,
    addresses: Option<Vec<SocketAddr>>,
    origin: Option<Uri>,
    keep_alive: Option<(Duration, Duration)>,
    connect_timeout: Duration,
    headers: HeaderMap,
}

#[derive(Clone)]
struct FrontendSecrets {
    api_key: Option<String>,
    tls: Option<TlsOptions>,
    read_at: Instant,
}

#[derive(Default)]
struct FrontendState {
    current: Option<Arc<Frontend>>,
    draining: Vec<Arc<Frontend>>,
    replaced_at: Option<Instant>,
}

struct Frontend {
    address: SocketAddr,
    channel: Channel,
    connected_at: Instant,
    calls: Mutex<CallsInFlight>,
    abandoned: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
struct CallsInFlight {
    waiting: usize,
    heard_at: Instant,
}

impl CallsInFlight {
    fn is_silent(&self, now: Instant) -> bool {
        self.waiting > 0 && now.saturating_duration_since(self.heard_at) >= SILENCE
    }
}

enum CallFailure {
    Refused(Status),
    Late(Status),
    Broken { failure: ConnectFailure, unsent: bool },
}

/// Read-only calls are safe to send twice.
fn only_reads(rpc: &str) -> bool {
    ["Get", "Describe", "List", "Count", "Query"].iter().any(|verb| rpc.starts_with(verb))
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics halfway through a change while holding one of these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrontendPool {
    pub fn new(
        options: &ConnectionOptions,
        credentials: CredentialSource,
        addresses: Option<Vec<SocketAddr>>,
    ) -> Arc<Self> {
        let headers =
            options.headers.iter().flatten().filter_map(|(name, value)| {
                Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
            });
        let this = Arc::new(Self {
            settings: FrontendSettings {
                target: options.target.clone(),
                addresses,
                origin: options.override_origin.clone(),
                keep_alive: options.keep_alive.as_ref().map(|of| (of.interval, of.timeout)),
                connect_timeout: options.connect_timeout.map_or(HANDSHAKE, |limit| limit.min(HANDSHAKE)),
                headers: headers.collect(),
            },
            credentials,
            secrets: Mutex::new(FrontendSecrets {
                api_key: options.api_key.clone(),
                tls: options.tls_options.clone(),
                read_at: Instant::now(),
            }),
            state: Mutex::default(),
            search: tokio::sync::Mutex::default(),
        });
        tokio::spawn(watch_health(Arc::downgrade(&this)));
        this
    }

    pub async fn wait_for_first(&self) -> Result<(), ConnectFailure> {
        self.current_frontend().await.map(drop)
    }

    pub async fn call(self: Arc<Self>, mut request: GrpcRequest) -> Result<GrpcSuccessResponse, Status> {
        self.authorize(&mut request.headers);
        let mut tries = 1;
        loop {
            let frontend = self.current_frontend().await.map_err(|failure| failure.status())?;
            match frontend.call(&request).await {
                Ok(response) => return Ok(response),
                Err(CallFailure::Refused(status) | CallFailure::Late(status)) => return Err(status),
                Err(CallFailure::Broken { failure, unsent }) => {
                    self.drain_frontend(&frontend);
                    if tries >= TRIES || !(unsent || only_reads(&request.rpc)) {
                        return Err(failure.status());
                    }
                }
            }
            tries += 1;
        }
    }

    fn authorize(&self, headers: &mut HeaderMap) {
        let key = lock_mutex(&self.secrets).api_key.clone();
        let value = key.and_then(|key| HeaderValue::try_from(format!("Bearer {key}")).ok());
        if let Some(mut value) = value.filter(|_| !headers.contains_key("authorization")) {
            value.set_sensitive(true);
            headers.insert("authorization", value);
        }
    }

    async fn current_frontend(&self) -> Result<Arc<Frontend>, ConnectFailure> {
        let in_use = || lock_mutex(&self.state).current.clone();
        if let Some(frontend) = in_use() {
            return Ok(frontend);
        }
        let asked_at = Instant::now();
        let mut search = self.search.lock().await;
        if let Some(frontend) = in_use() {
            return Ok(frontend);
        }
        if let Some((_, failure)) = search.as_ref().filter(|(failed_at, _)| *failed_at > asked_at) {
            return Err(failure.clone());
        }
        loop {
            match self.connect_any().await {
                Ok(frontend) => {
                    self.move_to(&frontend);
                    return Ok(frontend);
                }
                Err(failure) if failure.is_passing() && asked_at.elapsed() < PATIENCE => sleep(PAUSE).await,
                Err(failure) => {
                    *search = Some((Instant::now(), failure.clone()));
                    return Err(failure);
                }
            }
        }
    }

    async fn connect_any(&self) -> Result<Arc<Frontend>, ConnectFailure> {
        let addresses = self.resolve().await?;
        let secrets = lock_mutex(&self.secrets).clone();
        let mut headers = self.settings.headers.clone();
        self.authorize(&mut headers);
        let mut attempts = JoinSet::new();
        for (turn, address) in (0..).zip(addresses) {
            let (settings, secrets, headers) = (self.settings.clone(), secrets.clone(), headers.clone());
            attempts.spawn(async move {
                sleep(STAGGER * turn).await;
                let frontend = Frontend::connect(&settings, &secrets, address).await?;
                frontend.health_check(headers).await.map(|()| frontend)
            });
        }
        let mut first = None;
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok(frontend)) => return Ok(Arc::new(frontend)),
                Ok(Err(failure)) if first.as_ref().is_none_or(ConnectFailure::is_passing) => first = Some(failure),
                _ => {}
            }
        }
        Err(first.unwrap_or_else(|| ConnectFailure::NoAnswer("its name has no address".to_owned())))
    }

    /// In random order. Otherwise all clients would use the first host.
    async fn resolve(&self) -> Result<Vec<SocketAddr>, ConnectFailure> {
        let mut addresses = match &self.settings.addresses {
            Some(addresses) => addresses.clone(),
            None => look_up(&self.settings.target).await?,
        };
        addresses.dedup();
        if !addresses.is_empty() {
            let turn = RandomState::new().hash_one(Instant::now()) % addresses.len() as u64;
            addresses.rotate_left(usize::try_from(turn).unwrap_or_default());
        }
        Ok(addresses)
    }

    fn move_to(&self, frontend: &Arc<Frontend>) {
        let mut state = lock_mutex(&self.state);
        let before = state.current.replace(Arc::clone(frontend));
        state.draining.extend(before);
    }

    fn drain_frontend(&self, frontend: &Arc<Frontend>) {
        let mut state = lock_mutex(&self.state);
        if let Some(before) = state.current.take_if(|current| Arc::ptr_eq(current, frontend)) {
            state.draining.push(before);
        }
    }

    async fn check_health(&self) {
        let changed = self.reread_credentials();
        let (current, draining) = {
            let mut state = lock_mutex(&self.state);
            state.draining.retain(|frontend| lock_mutex(&frontend.calls).waiting > 0);
            (state.current.clone(), state.draining.clone())
        };
        let mut headers = self.settings.headers.clone();
        self.authorize(&mut headers);
        for frontend in draining {
            if frontend.is_dead(headers.clone()).await {
                frontend.abandoned.cancel();
            }
        }
        let Some(current) = current else { return };
        if current.is_dead(headers).await {
            if let Ok(other) = self.connect_any().await {
                let (from, to) = (current.address, other.address);
                tracing::warn!(%from, %to, "Temporal frontend stopped responding; moving its calls to another one");
                self.move_to(&other);
                current.abandoned.cancel();
            }
        } else if changed || self.is_replacement_due(&current) {
            match self.connect_any().await {
                Ok(other) => self.move_to(&other),
                Err(failure) if changed => {
                    tracing::warn!(%failure, "Temporal rejected the new credentials; keeping the old connection");
                }
                Err(_) => {}
            }
        }
    }

    fn is_replacement_due(&self, current: &Frontend) -> bool {
        let mut state = lock_mutex(&self.state);
        let last = state.replaced_at.map_or(current.connected_at, |at| at.max(current.connected_at));
        let due = last.elapsed() >= REPLACE;
        if due {
            state.replaced_at = Some(Instant::now());
        }
        due
    }

    fn reread_credentials(&self) -> bool {
        let due = self.credentials == CredentialSource::Reread && lock_mutex(&self.secrets).read_at.elapsed() >= REREAD;
        if !due {
            return false;
        }
        let loaded = connection::read().map(|(options, _, tls)| (options.api_key, options.tls_options, tls));
        lock_mutex(&self.secrets).renew(loaded)
    }
}

impl FrontendSecrets {
    /// Keeps the old options if the new ones are unreadable, or would turn off TLS without an explicit
    /// setting. Returns `true` if changed certificates need a new connection.
    fn renew(&mut self, loaded: Result<(Option<String>, Option<TlsOptions>, TlsSetting), String>) -> bool {
        self.read_at = Instant::now();
        let loaded = match loaded {
            Ok((_, _, TlsSetting::Unsaid)) if self.tls.is_some() => Err("the TLS settings are missing".to_owned()),
            loaded => loaded,
        };
        let (api_key, tls, _) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::warn!(error, "cannot reload Temporal's credentials; keeping the old ones");
                return false;
            }
        };
        self.api_key = api_key;
        let changed = files(self.tls.as_ref()) != files(tls.as_ref());
        self.tls = tls;
        changed
    }
}

async fn look_up(target: &Url) -> Result<Vec<SocketAddr>, ConnectFailure> {
    let port = target.port_or_known_default().unwrap_or(7233);
    let host = target.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match timeout(HANDSHAKE, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(error)) => Err(ConnectFailure::NoAnswer(format!("{host}: {error}"))),
        Err(_) => Err(ConnectFailure::NoAnswer(format!("the name {host} is not resolved in time"))),
    }
}

fn files(tls: Option<&TlsOptions>) -> Option<[Option<&[u8]>; 3]> {
    let tls = tls?;
    let client = tls.client_tls_options.as_ref();
    let (certificate, key) = client.map(|client| (&*client.client_cert, &*client.client_private_key)).unzip();
    Some([tls.server_root_ca_cert.as_deref(), certificate, key])
}

async fn watch_health(frontends: Weak<FrontendPool>) {
    loop {
        sleep(LOOK).await;
        let Some(frontends) = frontends.upgrade() else { return };
        frontends.check_health().await;
    }
}

impl Frontend {
    async fn connect(
        settings: &FrontendSettings,
        secrets: &FrontendSecrets,
        address: SocketAddr,
    ) -> Result<Self, ConnectFailure> {
        let of = |error: tonic::transport::Error| ConnectFailure::of_transport(&error);
        let endpoint = endpoint(settings, secrets.tls.as_ref(), address)?;
        let channel = match timeout(settings.connect_timeout, endpoint.connect()).await {
            Ok(connected) => connected.map_err(of)?,
            Err(_) => return Err(ConnectFailure::NoAnswer(format!("{address} takes no connection"))),
        };
        let now = Instant::now();
        Ok(Self {
            address,
            channel,
            connected_at: now,
            calls: Mutex::new(CallsInFlight { waiting: 0, heard_at: now }),
            abandoned: CancellationToken::new(),
        })
    }

    fn is_silent(&self) -> bool {
        lock_mutex(&self.calls).is_silent(Instant::now())
    }

    async fn is_dead(&self, headers: HeaderMap) -> bool {
        self.is_silent() && self.health_check(headers).await.is_err() && self.is_silent()
    }

    async fn health_check(&self, headers: HeaderMap) -> Result<(), ConnectFailure> {
        let (service, rpc) = (SYSTEM_INFO.0.to_owned(), SYSTEM_INFO.1.to_owned());
        let request = GrpcRequest { service, rpc, headers, proto: Bytes::new() };
        let failure = match timeout(ANSWER, self.send(&request)).await {
            Err(_) => ConnectFailure::NoAnswer(format!("{} takes a connection and answers no call", self.address)),
            Ok(Err(CallFailure::Broken { failure, .. })) => failure,
            // A frontend which is starting or stopping reports this, but does not serve calls.
            Ok(Err(CallFailure::Refused(status))) if status.code() == Code::Unavailable => {
                ConnectFailure::NoAnswer(status.message().to_owned())
            }
            Ok(_) => {
                lock_mutex(&self.calls).heard_at = Instant::now();
                return Ok(());
            }
        };
        Err(failure)
    }

    async fn call(&self, request: &GrpcRequest) -> Result<GrpcSuccessResponse, CallFailure> {
        let _waiting = CallGuard::new(self);
        tokio::select! {
            answer = self.send(request) => {
                if !matches!(answer, Err(CallFailure::Late(_))) {
                    lock_mutex(&self.calls).heard_at = Instant::now();
                }
                answer
            }
            () = self.abandoned.cancelled() => {
                let failure = ConnectFailure::NoAnswer(format!("{} stopped to answer", self.address));
                Err(CallFailure::Broken { failure, unsent: false })
            }
        }
    }

    async fn send(&self, request: &GrpcRequest) -> Result<GrpcSuccessResponse, CallFailure> {
        let mut channel = self.channel.clone();
        let ready = std::future::poll_fn(|context| channel.poll_ready(context)).await;
        ready.map_err(|error| broken_call(&error))?;
        let response = channel.call(grpc_request(request)?).await.map_err(|error| broken_call(&error))?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(CallFailure::Refused(Status::new(
                grpc_code(head.status.as_u16()),
                format!("HTTP {}", head.status),
            )));
        }
        let refused = |headers: &HeaderMap| Status::from_header_map(headers).filter(|status| status.code() != Code::Ok);
        if let Some(status) = refused(&head.headers) {
            return Err(CallFailure::Refused(status));
        }
        let body = body.collect().await.map_err(|status| broken_call(&status))?;
        if let Some(status) = body.trailers().and_then(refused) {
            return Err(CallFailure::Refused(status));
        }
        match body.to_bytes().split_first_chunk::<5>() {
            Some((&[0, ..], proto)) => Ok(GrpcSuccessResponse { headers: head.headers, proto: proto.to_vec() }),
            _ => Err(CallFailure::Refused(Status::internal("the answer is not of gRPC"))),
        }
    }
}

struct CallGuard<'a>(&'a Frontend);

impl<'a> CallGuard<'a> {
    fn new(frontend: &'a Frontend) -> Self {
        let mut calls = lock_mutex(&frontend.calls);
        if calls.waiting == 0 {
            calls.heard_at = Instant::now();
        }
        calls.waiting += 1;
        Self(frontend)
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        lock_mutex(&self.0.calls).waiting -= 1;
    }
}

fn grpc_request(request: &GrpcRequest) -> Result<Request<Body>, CallFailure> {
    let mut message = Vec::with_capacity(5 + request.proto.len());
    message.push(0);
    message.extend_from_slice(&u32::try_from(request.proto.len()).unwrap_or(u32::MAX).to_be_bytes());
    message.extend_from_slice(&request.proto);
    let mut framed = Request::post(format!("/{}/{}", request.service, request.rpc))
        .body(Body::new(Full::new(Bytes::from(message))))
        .map_err(|error| CallFailure::Refused(Status::internal(error.to_string())))?;
    *framed.headers_mut() = request.headers.clone();
    framed.headers_mut().insert("te", HeaderValue::from_static("trailers"));
    framed.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(framed)
}

fn broken_call(error: &(dyn std::error::Error + 'static)) -> CallFailure {
    let mut cause = Some(error);
    let mut unsent = false;
    while let Some(inner) = cause {
        if inner.is::<TimeoutExpired>() {
            return CallFailure::Late(Status::cancelled(inner.to_string()));
        }
        unsent |= inner.is::<tonic::ConnectError>();
        cause = inner.source();
    }
    CallFailure::Broken { failure: ConnectFailure::of_transport(error), unsent }
}

/// Maps a proxy's HTTP status to a gRPC code, following
/// <https://grpc.github.io/grpc/core/md_doc_http-grpc-status-mapping.html>.
const fn grpc_code(http: u16) -> Code {
    match http {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

fn endpoint(
    settings: &FrontendSettings,
    tls: Option<&TlsOptions>,
    address: SocketAddr,
) -> Result<Endpoint, ConnectFailure> {
    let wrong = |error: tonic::transport::Error| ConnectFailure::of_transport(&error);
    let target = &settings.target;
    let mut endpoint = Endpoint::from_shared(format!("{}://{address}", target.scheme())).map_err(wrong)?;
    // A proxy may route by name.
    let mut origin: Option<Uri> = target.as_str().parse().ok();
    if let Some(tls) = tls {
        let host = target.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let mut config = ClientTlsConfig::new().domain_name(tls.domain.as_deref().unwrap_or(host));
        if let Some(client) = &tls.client_tls_options {
            config = config.identity(Identity::from_pem(&client.client_cert, &client.client_private_key));
        }
        endpoint = match (&tls.server_cert_verifier, &tls.server_root_ca_cert) {
            (Some(verifier), _) => endpoint.tls_config_with_verifier(config, Arc::clone(verifier)),
            (None, Some(root)) => endpoint.tls_config(config.ca_certificate(Certificate::from_pem(root))),
            (None, None) => endpoint.tls_config(config.with_native_roots()),
        }
        .map_err(|error| ConnectFailure::Tls(ConnectFailure::of_transport(&error).to_string()))?;
        if let Some(domain) = &tls.domain {
            origin = format!("https://{domain}").parse().ok();
        }
    }
    if let Some(origin) = settings.origin.clone().or(origin) {
        endpoint = endpoint.origin(origin);
    }
    if let Some((interval, timeout)) = settings.keep_alive {
        endpoint = endpoint.keep_alive_while_idle(true).http2_keep_alive_interval(interval).keep_alive_timeout(timeout);
    }
    Ok(endpoint.connect_timeout(settings.connect_timeout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frontend_with_calls_that_says_nothing_is_silent() {
        let heard_at = Instant::now();
        for (waiting, after, silent) in [
            (0, Duration::from_mins(5), false),
            (1, SILENCE / 2, false),
            (1, SILENCE, true),
            (40, Duration::from_mins(1), true),
        ] {
            assert_eq!(CallsInFlight { waiting, heard_at }.is_silent(heard_at + after), silent, "{waiting} {after:?}");
        }
    }

    #[test]
    fn renewed_credentials_count_and_never_turn_tls_off_without_a_word() {
        let tls = |root: &str| Some(TlsOptions::builder().server_root_ca_cert(root.as_bytes().to_vec()).build());
        let key = |key: &str| Some(key.to_owned());
        let before = FrontendSecrets { api_key: key("old"), tls: tls("old"), read_at: Instant::now() };
        for (case, loaded, reconnects, api_key) in [
            // It goes into the header of each call.
            ("another key", Ok((key("new"), tls("old"), TlsSetting::On)), false, "new"),
            ("another authority", Ok((key("new"), tls("new"), TlsSetting::On)), true, "new"),
            ("TLS is off", Ok((key("new"), None, TlsSetting::Off)), true, "new"),
            ("no word of TLS", Ok((key("new"), None, TlsSetting::Unsaid)), false, "old"),
            ("half a file", Err("unreadable".to_owned()), false, "old"),
        ] {
            let mut secrets = before.clone();
            assert_eq!(secrets.renew(loaded), reconnects, "{case}");
            assert_eq!(secrets.api_key.as_deref(), Some(api_key), "{case}");
        }
    }

    #[test]
    fn only_calls_that_change_nothing_are_sent_twice() {
        for (rpc, twice) in [
            ("GetSystemInfo", true),
            ("DescribeTaskQueue", true),
            ("ListSearchAttributes", true),
            ("CountWorkflowExecutions", true),
            ("QueryWorkflow", true),
            ("StartWorkflowExecution", false),
            ("SignalWithStartWorkflowExecution", false),
            ("PollWorkflowTaskQueue", false),
            ("AddSearchAttributes", false),
        ] {
            assert_eq!(only_reads(rpc), twice, "{rpc}");
        }
    }

    #[test]
    fn an_answer_of_a_proxy_has_a_code() {
        for (http, expected) in [
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (503, Code::Unavailable),
            (418, Code::Unknown),
        ] {
            assert_eq!(grpc_code(http), expected, "{http}");
        }
    }
}
