//! A load generator: requests over keep-alive connections of HTTP/1.1, bounded in number and time.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header::{HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use crate::figure::{Figure, Target, count, percentile};

/// Time limit of a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests of one run: their times stay in memory.
const MOST: usize = 2_000_000;
/// Bytes of an answer.
const ANSWER: usize = 4 << 20;
/// Bytes of a wrong answer that the error shows.
const SHOWN: usize = 300;

/// A request of the load.
pub type Made = Request<Full<Bytes>>;
type Sender = SendRequest<Full<Bytes>>;

/// The end of a run.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// No request begins after this time.
    After(Duration),
    /// This number of requests is answered.
    Requests(usize),
}

/// Requests to one port of this machine. Their numbers go on from run to run.
pub struct Load {
    port: u16,
    connections: usize,
    /// The status of a right answer.
    expected: StatusCode,
    next: AtomicUsize,
}

/// The answers of one run, all of them right.
pub struct Answers {
    /// Milliseconds from each request to the last byte of its answer.
    pub took: Vec<f64>,
    /// From the first request to the last answer.
    pub seconds: f64,
}

impl Load {
    pub const fn new(port: u16, connections: usize, expected: StatusCode) -> Self {
        Self { port, connections, expected, next: AtomicUsize::new(0) }
    }

    /// Sends requests until the end. `make` has the number of the request.
    ///
    /// # Errors
    /// When an answer is wrong or missing. The error has its beginning.
    pub async fn run(&self, end: End, make: impl Fn(usize) -> Result<Made>) -> Result<Answers> {
        let (begun, first) = (Instant::now(), self.next.load(Ordering::Relaxed));
        let (until, most) = match end {
            End::After(time) => (Some(begun + time), MOST),
            End::Requests(count) => (None, count.min(MOST)),
        };
        let take = || {
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            let below = |next: usize| (!is_over && next < first + most).then_some(next + 1);
            self.next.try_update(Ordering::Relaxed, Ordering::Relaxed, below).ok()
        };
        let took = try_join_all((0..self.connections).map(|_| self.connection(&take, &make))).await?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(took.iter().any(|took| !took.is_empty()), "nothing was sent");
        Ok(Answers { took: took.concat(), seconds })
    }

    /// Sends requests for this time, after a fifth of it to warm up. The answers are those after the warm-up.
    ///
    /// # Errors
    /// As for [`Load::run`].
    pub async fn measure(&self, time: Duration, make: impl Fn(usize) -> Result<Made>) -> Result<Answers> {
        self.run(End::After(time / 5), &make).await?;
        self.run(End::After(time), &make).await
    }

    /// The number of answers of all runs so far.
    pub fn answered(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// Sends one request after the other.
    async fn connection(
        &self,
        take: &impl Fn() -> Option<usize>,
        make: &impl Fn(usize) -> Result<Made>,
    ) -> Result<Vec<f64>> {
        let (mut took, mut open) = (Vec::new(), None);
        while let Some(n) = take() {
            let mut sender = self.ready(open.take()).await?;
            let mut request = make(n)?;
            request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
            let begun = Instant::now();
            let answer = timeout(PATIENCE, self.answer(&mut sender, request));
            answer.await.with_context(|| format!("request {n}: no answer within {PATIENCE:?}"))??;
            took.push(begun.elapsed().as_secs_f64() * 1_000.0);
            open = Some(sender);
        }
        Ok(took)
    }

    /// The connection, or a new one if the server has closed it: it ends each after five minutes.
    async fn ready(&self, open: Option<Sender>) -> Result<Sender> {
        if let Some(mut sender) = open
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // An error is the request's, too.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn answer(&self, sender: &mut Sender, request: Made) -> Result<()> {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER).collect().await.map_err(anyhow::Error::from_boxed)?;
        let body = body.to_bytes();
        let said = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
        ensure!(status == self.expected, "an answer is {status} and not {}: {said}", self.expected);
        Ok(())
    }
}

/// The figures of one kind of request: a rate, and the median and the 99th percentile of the times.
pub struct Timed {
    rate: Figure,
    middle: Figure,
    slow: Figure,
    /// Units of the rate in one request.
    each: usize,
}

impl Timed {
    /// `least` is the budget of the rate, in `unit`. A request has `each` of them.
    pub fn new(what: &str, unit: &str, each: usize, least: f64) -> Self {
        Self {
            rate: Figure::new(what, unit).target(Target::AtLeast(least)),
            middle: Figure::new(format!("{what}, p50"), "ms"),
            slow: Figure::new(format!("{what}, p99"), "ms"),
            each,
        }
    }

    /// Adds a budget of milliseconds for the 99th percentile.
    pub fn within(self, milliseconds: f64) -> Self {
        Self { slow: self.slow.target(Target::AtMost(milliseconds)), ..self }
    }

    pub fn what(&self) -> &str {
        &self.rate.what
    }

    pub fn push(&mut self, Answers { took, seconds }: &Answers) {
        self.rate.push(count(took.len() * self.each) / seconds);
        self.middle.push(percentile(took, 50));
        self.slow.push(percentile(took, 99));
    }

    pub fn all(self) -> [Figure; 3] {
        [self.rate, self.middle, self.slow]
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Answers each request with this status, and closes a connection after `most` of them.
    async fn server(status: &'static str, most: usize) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    for _ in 0..most {
                        let mut request = Vec::new();
                        while !request.ends_with(b"\r\n\r\n") {
                            request.push(stream.read_u8().await?);
                        }
                        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nsaid");
                        stream.write_all(answer.as_bytes()).await?;
                    }
                    std::io::Result::Ok(())
                });
            }
        });
        port
    }

    fn get(_: usize) -> Result<Made> {
        Ok(Request::get("/").body(Full::default())?)
    }

    #[tokio::test]
    async fn a_run_ends_with_its_number_of_answers() {
        let load = Load::new(server("200 OK", 1_000).await, 3, StatusCode::OK);
        assert_eq!(load.run(End::Requests(50), get).await.unwrap().took.len(), 50);
        let timed = load.run(End::After(Duration::from_millis(50)), get).await.unwrap();
        assert!(timed.seconds >= 0.05 && timed.took.iter().all(|took| *took > 0.0));
        assert_eq!(load.answered(), 50 + timed.took.len());
    }

    #[tokio::test]
    async fn a_wrong_answer_ends_the_run_with_what_it_says() {
        let load = Load::new(server("503 Service Unavailable", 1_000).await, 3, StatusCode::OK);
        let error = load.run(End::Requests(50), get).await.err().unwrap().to_string();
        assert_eq!(error, "an answer is 503 Service Unavailable and not 200 OK: said");
    }
}
