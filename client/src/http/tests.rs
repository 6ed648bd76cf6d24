//! Tests the client against a scripted socket.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tidings_model::api_token::ApiToken;
use tidings_proto::v1;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{BatchRejection, Client, Config};

/// The reaction to one request.
enum Act {
    Accept,
    /// Accepts all, then closes the connection without notice.
    AcceptAndClose,
    /// Status, further headers and body.
    Answer(&'static str, &'static str, Value),
    Close,
    /// Keeps the connection open without an answer.
    Silence,
}

/// The server's received requests, and its script.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Heads and bodies.
    requests: Mutex<Vec<(String, Value)>>,
    script: Mutex<VecDeque<Act>>,
}

impl Seen {
    fn bodies(&self) -> Vec<Value> {
        self.requests.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let mut line = String::new();
                if stream.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                let lower = line.to_ascii_lowercase();
                length = lower.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
                head += &line;
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            let body: Value = serde_json::from_slice(&body).unwrap();
            let items = ["events", "retracts"].map(|list| body[list].as_array().unwrap().len()).iter().sum();
            self.requests.lock().unwrap().push((head, body));
            let act = self.script.lock().unwrap().pop_front().unwrap_or(Act::Accept);
            let closes = matches!(act, Act::AcceptAndClose);
            let (status, headers, body) = match act {
                Act::Accept | Act::AcceptAndClose => ("202 Accepted", "", accepted(items)),
                Act::Answer(status, headers, body) => (status, headers, body),
                Act::Close => return Ok(()),
                Act::Silence => std::future::pending().await,
            };
            let body = body.to_string();
            let answer = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await?;
            if closes {
                return Ok(());
            }
        }
    }
}

fn accepted(items: usize) -> Value {
    json!({"results": vec![json!({"status": "accepted", "event_id": "e"}); items]})
}

async fn start(script: impl IntoIterator<Item = Act>, deadline: Duration) -> (Client, Arc<Seen>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api", listener.local_addr().unwrap());
    let seen = Arc::new(Seen { script: Mutex::new(script.into_iter().collect()), ..Seen::default() });
    let serving = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serving.connections.fetch_add(1, Ordering::Relaxed);
            let serving = Arc::clone(&serving);
            tokio::spawn(async move { serving.serve(stream).await });
        }
    });
    let token = ApiToken::generate().unwrap().reveal();
    let http = Some(HttpGateway::new(&url, &token).unwrap());
    let client = Client::connect(Config { http, deadline, ..Config::default() }).await.unwrap();
    (client, seen, token)
}

const MINUTE: Duration = Duration::from_mins(1);

fn event(id: usize) -> v1::Event {
    let text = json!({"tenant": "acme", "digest": "activity", "user": "ann \"the\" first}", "event_id": format!("e{id}"),
                      "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"});
    serde_json::from_value(text).unwrap()
}

#[tokio::test]
async fn events_that_wait_travel_together_with_key_and_token() {
    let (client, seen, token) = start([], MINUTE).await;
    let (first, taken_back, second) =
        tokio::join!(client.emit(event(1)), client.retract(by_id()), client.emit(event(2)));
    assert_eq!((first, taken_back, second), (Ok(()), Ok(()), Ok(())));
    let requests = seen.requests.lock().unwrap();
    let [(head, body)] = &requests[..] else { panic!("{requests:?}") };
    assert!(head.starts_with("POST /api/v1/events HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: Bearer {token}\r\n")), "{head}");
    let sent: Vec<v1::Event> = serde_json::from_value(body["events"].clone()).unwrap();
    assert_eq!(sent, [event(1), event(2)]);
    assert_eq!(serde_json::from_value::<Vec<v1::Retract>>(body["retracts"].clone()).unwrap(), [by_id()]);
}

fn by_id() -> v1::Retract {
    let v1::Event { tenant, digest, user, event_id, .. } = event(0);
    v1::Retract { tenant, digest, user, event_id, ..v1::Retract::default() }
}

#[tokio::test]
async fn a_refused_event_is_invalid_and_spoils_no_other() {
    let results = json!({"results": [{"status": "refused", "event_id": "e1", "field": "tenant", "problem": "is wrong"},
                                     {"status": "duplicate", "event_id": "e2"}]});
    let (client, ..) = start([Act::Answer("200 OK", "", results)], MINUTE).await;
    let (first, second) = tokio::join!(client.emit(event(1)), client.emit(event(2)));
    assert_eq!(first.unwrap_err().to_string(), "invalid: tenant: is wrong");
    assert_eq!(second, Ok(()));
}

#[tokio::test]
async fn a_request_comes_again_after_the_wait_that_is_asked_for() {
    let busy = Act::Answer("503 Service Unavailable", "Retry-After: 1\r\n", json!({}));
    let (client, seen, _) = start([busy], MINUTE).await;
    let begun = Instant::now();
    client.emit(event(1)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let bodies = seen.bodies();
    assert!(bodies.len() == 2 && bodies[0] == bodies[1], "{bodies:?}");
    assert_eq!(seen.connections.load(Ordering::Relaxed), 1, "the connection stays open");
}

#[tokio::test]
async fn a_connection_that_closes_loses_no_event() {
    let (client, seen, _) = start([Act::AcceptAndClose, Act::Close, Act::Close], MINUTE).await;
    for id in 0..3 {
        client.emit(event(id)).await.unwrap();
    }
    let ids: Vec<_> = seen.bodies().iter().map(|body| body["events"][0]["event_id"].clone()).collect();
    assert_eq!(ids.first().unwrap(), "e0");
    assert_eq!(ids.last().unwrap(), "e2");
    assert!(ids.len() >= 5 && ids.iter().filter(|id| *id == "e1").count() >= 2, "{ids:?}");
}

#[tokio::test]
async fn a_wait_past_the_deadline_is_reported_at_once() {
    let title = json!({"title": "The inbox is full"});
    let full = Act::Answer("503 Service Unavailable", "Retry-After: 30\r\n", title);
    let (client, ..) = start([full], Duration::from_secs(10)).await;
    let begun = Instant::now();
    let error = client.emit(event(1)).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(error.is_retryable());
    let why = "503 Service Unavailable: The inbox is full";
    assert_eq!(error.to_string(), format!("no acknowledgement in time ({why}); send again"));
    client.flush().await;
}

#[tokio::test]
async fn silence_ends_with_the_deadline_of_the_event() {
    let (client, ..) = start([Act::Silence], Duration::from_secs(1)).await;
    let error = client.emit(event(1)).await.unwrap_err();
    assert!(matches!(error, EmitError::Unavailable(_)), "{error}");
    // The connection of the silent request is not used again.
    client.emit(event(2)).await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_refused_names_the_remedy() {
    let title = json!({"title": "Missing scope"});
    let (client, ..) = start([Act::Answer("403 Forbidden", "", title)], MINUTE).await;
    let error = client.emit(event(1)).await.unwrap_err();
    assert!(matches!(error, EmitError::Rejected(BatchRejection::Token(_))) && !error.is_retryable(), "{error}");
    assert!(error.to_string().contains("`tidings tokens create --scope events:write`"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_listen_is_an_error_at_once() {
    let url = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let http = Some(HttpGateway::new(&url, &ApiToken::generate().unwrap().reveal()).unwrap());
    let error = Client::connect(Config { http, ..Config::default() }).await.err().unwrap().to_string();
    assert!(error.starts_with(&format!("cannot connect to the gateway at {url}: ")), "{error}");
}

#[test]
fn a_request_has_at_most_10_000_items_and_a_mebibyte() {
    assert_eq!(batch_len(vec![10; 20_000]), ITEMS);
    let empty = request_body(&[]).len();
    assert_eq!(batch_len([BYTES - empty - 2, 1]), 1);
    assert_eq!(batch_len([BYTES - empty - 3, 1]), 2);
}
