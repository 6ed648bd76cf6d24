//! Connections through real sockets: hostile ones are bounded, and unusual ones are answered.

use axum::{
    middleware::from_fn_with_state,
    routing::{get, post},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Notify,
    task::JoinHandle,
    time::Instant,
};

use super::*;
use crate::request_body::{self, BodyLimit};

/// Longer than any limit of these tests, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        connections: 100,
        headers: Duration::from_millis(200),
        header_bytes: 8192,
        ..ConnectionLimits::default()
    }
}

struct Served {
    address: SocketAddr,
    shutdown: CancellationToken,
    ended: JoinHandle<()>,
    /// Ends a request of `/slow`.
    finish: Arc<Notify>,
    /// A request of `/slow` has begun.
    begun: Arc<Notify>,
}

async fn serve_with(limits: ConnectionLimits) -> Served {
    let (finish, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (finish, begun) = (finish.clone(), begun.clone());
        async move || {
            begun.notify_one();
            finish.notified().await;
            "slow"
        }
    };
    let router = Router::new()
        .route("/fast", get(async || "fast"))
        .route("/echo", post(async |body: String| body))
        .route(
            "/whole",
            post(async |body: String| body)
                .layer(from_fn_with_state(BodyLimit::with_bytes(100), request_body::buffer_body)),
        )
        .route("/slow", get(slow));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
    let ended = tokio::spawn(serve(listener, router, limits, shutdown.clone()));
    Served { address, shutdown, ended, finish, begun }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Reads until the server closes the connection.
    async fn answer(&self, text: &str) -> String {
        rest(self.send(text).await).await
    }
}

async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends the answer, too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection is closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn slow_headers_and_idle_connections_are_closed() {
    let served = serve_with(limits()).await;
    assert_eq!(served.answer("").await, "");
    assert_eq!(served.answer("GET /fast HTTP/1.1\r\nHost: a").await, "");
    let kept_alive = served.answer("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(kept_alive.starts_with("HTTP/1.1 200 OK") && kept_alive.ends_with("fast"), "{kept_alive}");
}

#[tokio::test]
async fn a_client_that_sends_a_byte_at_a_time_is_closed() {
    let served = serve_with(limits()).await;
    let (mut reader, mut writer) = served.connect().await.into_split();
    let dripping = tokio::spawn(async move {
        for byte in b"GET /fast HTTP/1.1\r\nHost: ".iter().chain(std::iter::repeat(&b'a')) {
            if writer.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    let mut said = Vec::new();
    let _ = timeout(PATIENCE, reader.read_to_end(&mut said)).await.expect("the connection is closed");
    assert!(!String::from_utf8_lossy(&said).contains("200"));
    dripping.abort();
}

#[tokio::test]
async fn huge_headers_are_refused() {
    let served = serve_with(limits()).await;
    let long = format!("GET /fast HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET /fast HTTP/1.1\r\nHost: a\r\n{}\r\n", "X-Many: x\r\n".repeat(200));
    for request in [long, many] {
        let answer = served.answer(&request).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test]
async fn garbage_is_refused() {
    let served = serve_with(limits()).await;
    for request in ["\u{16}\u{3}\u{1}\u{2}hello\r\n\r\n", "GET /fast\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let answer = served.answer(request).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{request:?}: {answer}");
    }
}

#[tokio::test]
async fn two_lengths_of_one_body_are_refused() {
    let served = serve_with(limits()).await;
    let smuggled = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde";
    let answer = served.answer(smuggled).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn a_request_without_one_host_is_refused() {
    let served = serve_with(limits()).await;
    for hosts in ["", "Host: a\r\nHost: a\r\n"] {
        let answer = served.answer(&format!("GET /fast HTTP/1.1\r\n{hosts}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"field\":\"Host\""), "{hosts:?}: {answer}");
    }
}

#[tokio::test]
async fn malformed_chunks_are_refused_for_good_and_a_cut_off_body_is_asked_for_again() {
    let served = serve_with(limits()).await;
    let chunked = "POST /whole HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in ["x\r\n", "2\r\nabcd\r\n", "-1\r\n\r\n", "2;\nab\r\n0\r\n\r\n"] {
        let answer = served.answer(&format!("{chunked}{chunks}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("/problems/unreadable"), "{chunks:?}: {answer}");
    }
    let mut cut = served.send(&format!("{chunked}5\r\nab")).await;
    cut.shutdown().await.unwrap();
    let answer = rest(cut).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(served.answer(&format!("{chunked}2\r\nab\r\n0\r\n\r\n")).await.ends_with("ab"));
}

#[tokio::test]
async fn a_half_closed_connection_is_answered() {
    let served = serve_with(limits()).await;
    let mut stream = served.send("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n").await;
    stream.shutdown().await.unwrap();
    let answer = rest(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("fast"), "{answer}");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let served = serve_with(limits()).await;
    let echo = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst";
    let answer = served.answer(&format!("{echo}GET /fast HTTP/1.1\r\nHost: a\r\n\r\n{echo}")).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    let (first, fast) = (answer.find("first").unwrap(), answer.find("fast").unwrap());
    assert!(first < fast && fast < answer.rfind("first").unwrap(), "{answer}");
}

#[tokio::test]
async fn http_1_0_is_answered_and_its_connection_closed() {
    let served = serve_with(ConnectionLimits { headers: PATIENCE * 2, ..limits() }).await;
    let answer = served.answer("GET /fast HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK") && answer.ends_with("fast"), "{answer}");
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_place() {
    let served = serve_with(ConnectionLimits { connections: 1, headers: PATIENCE * 2, ..limits() }).await;
    let slow = served.send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    served.begun.notified().await;
    let waiting = served.send("GET /fast HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    served.finish.notify_one();
    assert!(rest(slow).await.ends_with("slow"));
    assert!(rest(waiting).await.ends_with("fast"));
}

#[tokio::test]
async fn connections_over_the_limit_of_a_client_are_refused_and_those_of_a_proxy_are_not() {
    let few = ConnectionLimits { of_client: 1, headers: PATIENCE * 2, ..limits() };
    let served = serve_with(few.clone()).await;
    let slow = served.send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    served.begun.notified().await;
    // The answer comes first: what a client has sent by then may cost it the answer.
    let refused = rest(served.connect().await).await;
    assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\n"), "{refused}");
    served.finish.notify_one();
    assert!(rest(slow).await.ends_with("slow"));

    let served =
        serve_with(ConnectionLimits { trusted: TrustedProxies(vec!["127.0.0.0/8".parse().unwrap()]), ..few }).await;
    let _idle = served.connect().await;
    assert!(served.answer("GET /fast HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.ends_with("fast"));
}

#[tokio::test]
async fn an_old_connection_takes_no_more_requests() {
    let limits = ConnectionLimits { age: Duration::from_millis(200), headers: PATIENCE * 2, ..limits() };
    let served = serve_with(limits.clone()).await;
    let slow = served.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
    served.begun.notified().await;
    sleep(limits.age).await;
    served.finish.notify_one();
    assert!(rest(slow).await.ends_with("slow"), "what was accepted is answered");
    assert!(served.answer("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n").await.ends_with("fast"));
}

#[tokio::test]
async fn a_request_in_progress_is_answered_after_the_signal_to_end() {
    let served = serve_with(ConnectionLimits { headers: PATIENCE * 2, ..limits() }).await;
    let idle = served.send("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let slow = served.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
    served.begun.notified().await;
    served.shutdown.cancel();
    assert!(rest(idle).await.ends_with("fast"), "an idle connection is closed");
    let refused = async {
        while TcpStream::connect(served.address).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, refused).await.expect("no connection is accepted");
    assert!(!served.ended.is_finished());
    served.finish.notify_one();
    assert!(rest(slow).await.ends_with("slow"));
    timeout(PATIENCE, served.ended).await.expect("the server ends").unwrap();
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut_off() {
    let served = serve_with(ConnectionLimits { ending: Duration::from_millis(200), ..limits() }).await;
    let slow = served.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
    served.begun.notified().await;
    let begun = Instant::now();
    served.shutdown.cancel();
    timeout(PATIENCE, served.ended).await.expect("the server ends").unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(rest(slow).await, "");
}
