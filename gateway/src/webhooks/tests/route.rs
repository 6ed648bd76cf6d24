//! The route over real HTTP, with a real store: responses and stored rows.

use std::{net::SocketAddr, path::Path, sync::Arc};

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tidings_model::Provider;
use tidings_store::{SqliteStore, Store};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    sns::{Signer, TOPIC},
    *,
};
use crate::{
    AdmissionLimits,
    fetch::HttpFetcher,
    routes::{
        router,
        tests::{over, settings},
    },
    server,
    webhooks::{RelayWebhook, WebhookContext, ses::CertificateCache},
};

/// Made for these tests.
const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";
const MAILGUN: &str = "TEST_WEBHOOK_SIGNING_KEY";

fn hook(provider: Provider, secrets: &[&str]) -> RelayWebhook {
    let mut hook = RelayWebhook::new(provider);
    for secret in secrets {
        hook.add_secret(secret).unwrap();
    }
    hook
}

/// Serves the webhooks of four relays over a store.
async fn serve(store: Arc<dyn Store>, fetcher: HttpFetcher) -> SocketAddr {
    let hooks = [
        ("ses", hook(Provider::Ses, &[TOPIC])),
        ("mailgun", hook(Provider::Mailgun, &[MAILGUN])),
        ("postmark", hook(Provider::Postmark, &["tidings:0123456789abcdef"])),
        ("own", hook(Provider::Other, &[SECRET])),
    ];
    let state = over(store, settings());
    let webhooks = WebhookContext {
        state: state.clone(),
        hooks: hooks.map(|(name, hook)| (name.to_owned(), hook)).into(),
        certificates: CertificateCache::new(fetcher),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router(state, webhooks, AdmissionLimits::default());
    tokio::spawn(server::serve(listener, router, server::ConnectionLimits::default(), CancellationToken::new()));
    address
}

async fn store(folder: &Path) -> Arc<SqliteStore> {
    let sqlite = SqliteStore::connect(&format!("sqlite:{}", folder.join("t.db").display())).await.unwrap();
    sqlite.migrate().await.unwrap();
    Arc::new(sqlite)
}

async fn post(to: SocketAddr, relay: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "POST /webhooks/{relay} HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server may answer before it has read a body that is too long.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Without the `Date` header.
fn undated(answer: &str) -> String {
    answer.lines().filter(|line| !line.starts_with("date:")).collect()
}

/// Signs for the relay `own`.
fn signed(body: &str) -> [(&'static str, String); 3] {
    let now = Timestamp::now().as_second();
    let signature = SigningSecret::parse(SECRET).unwrap().sign("id", now, body.as_bytes());
    [("webhook-id", "id".to_owned()), ("webhook-timestamp", now.to_string()), ("webhook-signature", signature)]
}

async fn post_own(to: SocketAddr, body: &str) -> String {
    let headers = signed(body);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    post(to, "own", &headers, body.as_bytes()).await
}

async fn count(folder: &Path, sql: &'static str) -> i64 {
    let pool = sqlx::SqlitePool::connect(&format!("sqlite:{}", folder.join("t.db").display())).await.unwrap();
    let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&pool).await.unwrap();
    count
}

#[tokio::test]
async fn every_authentic_request_is_answered_with_200_and_an_empty_body() {
    let folder = tempfile::tempdir().unwrap();
    let to = serve(store(folder.path()).await, HttpFetcher::new()).await;
    let unknown = r#"{"kind":"opened","relay_id":"r","occurred_at":"2026-11-21T12:00:00Z"}"#;
    for body in [unknown, "[]", "", "no JSON", r#"{"kind":"eaten"}"#, "[7,7,8]"] {
        let answer = post_own(to, body).await;
        assert_eq!(status(&answer), 200, "{body}");
        assert!(answer.ends_with("\r\n\r\n") && answer.contains("content-length: 0"), "{answer}");
    }
    let letters = count(folder.path(), "SELECT COUNT(*) FROM webhook_dead_letters WHERE relay = 'own'").await;
    assert_eq!(letters, 5, "one for each different part");
    post_own(to, "no JSON").await;
    assert_eq!(count(folder.path(), "SELECT COUNT(*) FROM webhook_dead_letters").await, 5);
}

#[tokio::test]
async fn wrong_credentials_unknown_relays_and_foreign_secrets_get_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let to = serve(store(folder.path()).await, HttpFetcher::new()).await;
    let own = signed("[]");
    let own: Vec<_> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let basic = [("authorization", "Basic dGlkaW5nczowMTIzNDU2Nzg5YWJjZGVm")];
    assert_eq!(status(&post(to, "postmark", &basic, br#"{"RecordType":"Inbound"}"#).await), 200);
    let answers = [
        post(to, "own", &[], b"[]").await,
        post(to, "own", &own, b"[] ").await,
        post(to, "own", &basic, b"[]").await,
        post(to, "nobody", &own, b"[]").await,
        post(to, "postmark", &own, b"[]").await,
        post(to, "postmark", &[("authorization", "Basic dGlkaW5nczp4")], b"[]").await,
        post(to, "mailgun", &own, b"[]").await,
        post(to, "ses", &own, b"[]").await,
    ];
    assert_eq!(status(&answers[0]), 401);
    assert!(answers[0].contains("www-authenticate: Basic"), "{}", answers[0]);
    for answer in &answers {
        assert_eq!(undated(answer), undated(&answers[0]));
    }
    assert_eq!(count(folder.path(), "SELECT COUNT(*) FROM webhook_dead_letters").await, 0);
}

#[tokio::test]
async fn a_body_over_two_mebibytes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let to = serve(store(folder.path()).await, HttpFetcher::new()).await;
    let body = format!("[{}7]", " ".repeat(2 * 1024 * 1024 - 3));
    assert_eq!(status(&post_own(to, &body).await), 200, "{}", body.len());
    assert_eq!(status(&post_own(to, &format!("{body} ")).await), 413);
}

#[tokio::test]
async fn a_store_that_cannot_answer_is_503_and_the_request_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let empty = SqliteStore::connect(&format!("sqlite:{}", folder.path().join("t.db").display())).await.unwrap();
    let to = serve(Arc::new(empty), HttpFetcher::new()).await;
    let body = r#"{"kind":"opened","relay_id":"r","occurred_at":"2026-11-21T12:00:00Z"}"#;
    let answer = post_own(to, body).await;
    assert_eq!(status(&answer), 503);
    assert!(answer.contains("retry-after: "), "{answer}");
    store(folder.path()).await;
    assert_eq!(status(&post_own(to, body).await), 200);
}

#[tokio::test]
async fn a_token_of_mailgun_counts_for_one_body() {
    let folder = tempfile::tempdir().unwrap();
    let to = serve(store(folder.path()).await, HttpFetcher::new()).await;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, MAILGUN.as_bytes());
    let (now, token) = (Timestamp::now().as_second(), "0".repeat(50));
    let tag = ring::hmac::sign(&key, format!("{now}{token}").as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let body = |event: &str| {
        let signature = json!({"timestamp": now.to_string(), "token": token, "signature": signature});
        json!({"signature": signature, "event-data": {"event": event, "timestamp": now}}).to_string()
    };
    for (event, expected) in [("delivered", 200), ("complained", 401), ("delivered", 200)] {
        assert_eq!(status(&post(to, "mailgun", &[], body(event).as_bytes()).await), expected, "{event}");
    }
    assert_eq!(count(folder.path(), "SELECT COUNT(*) FROM webhook_tokens").await, 1);
}

/// A stand-in for SNS that records requests.
struct Sns {
    asked: Arc<Mutex<Vec<String>>>,
    fetcher: HttpFetcher,
}

impl Sns {
    /// Serves `certificate`; answers 500 to the first `failures` requests.
    async fn start(certificate: String, mut failures: usize) -> Self {
        let host = "sns.eu-west-1.amazonaws.com".to_owned();
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new([host]).unwrap().signed_by(&key, &authority).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![server.der().clone()], key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let fetcher = HttpFetcher::for_server(listener.local_addr().unwrap(), roots);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let asks = Arc::clone(&asked);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(tls.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap();
                asks.lock().await.push(request.split(' ').nth(1).unwrap().to_owned());
                let (status, body) = if failures > 0 { ("500 No", "") } else { ("200 OK", certificate.as_str()) };
                failures = failures.saturating_sub(1);
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                tls.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { asked, fetcher }
    }
}

fn envelope(signer: &Signer, of: Value) -> Vec<u8> {
    let mut of = of;
    of["Timestamp"] = Timestamp::now().to_string().into();
    signer.envelope(&of).to_string().into_bytes()
}

#[tokio::test]
async fn a_subscription_of_sns_is_confirmed_at_an_address_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    let sns = Sns::start(signer.certificate(), 0).await;
    let asked = Arc::clone(&sns.asked);
    let to = serve(store(folder.path()).await, sns.fetcher).await;
    let subscription = envelope(
        &signer,
        json!({"Type": "SubscriptionConfirmation", "Token": "t1", "SubscribeURL": "https://169.254.169.254/"}),
    );
    assert_eq!(status(&post(to, "ses", &[], &subscription).await), 200);
    let event =
        json!({"eventType": "Open", "open": {"timestamp": Timestamp::now().to_string()}, "mail": {"messageId": "m"}});
    for message in [event.to_string(), "Successfully validated SNS topic for Amazon SES event publishing.".to_owned()] {
        assert_eq!(status(&post(to, "ses", &[], &envelope(&signer, json!({"Message": message}))).await), 200);
    }
    let raw = [("x-amz-sns-rawdelivery", "true")];
    assert_eq!(status(&post(to, "ses", &raw, event.to_string().as_bytes()).await), 401);
    assert_eq!(
        status(&post(to, "ses", &[], &envelope(&signer, json!({"Type": "UnsubscribeConfirmation"}))).await),
        200
    );
    let certificate = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
    let confirmation =
        "/?Action=ConfirmSubscription&TopicArn=arn%3Aaws%3Asns%3Aeu-west-1%3A123456789012%3Atidings-events&Token=t1";
    assert_eq!(*asked.lock().await, [certificate, confirmation], "the certificate once, and nothing else");
}

#[tokio::test]
async fn a_certificate_that_cannot_be_fetched_is_503_and_never_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    let sns = Sns::start(signer.certificate(), 1).await;
    let asked = Arc::clone(&sns.asked);
    let to = serve(store(folder.path()).await, sns.fetcher).await;
    let body = envelope(&signer, json!({"Message": "{}"}));
    for _ in 0..2 {
        assert_eq!(status(&post(to, "ses", &[], &body).await), 503);
    }
    assert_eq!(asked.lock().await.len(), 1, "not again at once");
    let other = envelope(&signer, json!({"TopicArn": "arn:aws:sns:eu-west-1:999999999999:tidings-events"}));
    assert_eq!(status(&post(to, "ses", &[], &other).await), 401);
    let elsewhere = envelope(&signer, json!({"SigningCertURL": "https://evil.example/a.pem"}));
    assert_eq!(status(&post(to, "ses", &[], &elsewhere).await), 401);
    assert_eq!(asked.lock().await.len(), 1);
}
