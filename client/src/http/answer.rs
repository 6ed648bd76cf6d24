//! The connection to the API, which stays open between requests and follows no redirects, and its responses.

use std::{
    io,
    time::{Duration, SystemTime},
};

use hyper::{
    Request, StatusCode,
    body::Bytes,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER},
};
use serde::Deserialize;
use tidings_model::{EventRepetition, foreign_text::cut_text, limits::InvalidField};
use tidings_net::{RequestSender, TlsConnector, http, read_body, send_request, system_roots, tls_connector};
use tokio::{net::TcpStream, time::timeout};

use crate::{BatchRejection, config::HttpGateway, lanes::EmitResult};

const SHOWN: usize = 300;

const OTHER_CONTENT: &str = "it is in no message. Send it under an id of its own";

const NOTHING: [&str; 2] = ["/problems/nothing-accepted", "/problems/unknown-digest"];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BatchResponse {
    Results(Vec<EmitResult>),
    /// Nothing was accepted, and a retry would fail, too.
    Refused(BatchRejection),
    /// May be accepted later. `asked` is the server's requested delay, if any.
    Later {
        asked: Option<Duration>,
        why: String,
    },
}

#[derive(Deserialize)]
struct AcceptedBody {
    results: Vec<ItemOutcome>,
}

#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum ItemOutcome {
    Accepted {
        #[serde(default)]
        warnings: Vec<InvalidField>,
    },
    Duplicate {
        #[serde(default)]
        result: Option<String>,
    },
    Refused(InvalidField),
}

/// A problem (RFC 9457) with an error per item.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BatchProblem {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    errors: Vec<ItemError>,
}

#[derive(Deserialize)]
struct ItemError {
    #[serde(default)]
    index: usize,
    #[serde(flatten)]
    why: InvalidField,
}

pub(super) fn interpret_response(
    GatewayResponse { status, retry_after: wait, body }: &GatewayResponse,
    items: usize,
    now: SystemTime,
) -> BatchResponse {
    let problem: BatchProblem = serde_json::from_slice(body).unwrap_or_default();
    let said = match problem.title.as_str() {
        "" => status.to_string(),
        title => format!("{status}: {}", cut_text(title, SHOWN)),
    };
    match *status {
        StatusCode::OK | StatusCode::ACCEPTED => match serde_json::from_slice(body) {
            Ok(AcceptedBody { results }) if results.len() == items => {
                BatchResponse::Results(results.into_iter().map(item_result).collect())
            }
            _ => BatchResponse::Refused(BatchRejection::Gateway(format!("{status} without the results of the items"))),
        },
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY if NOTHING.contains(&problem.kind.as_str()) => {
            BatchResponse::Results(rejected_items(problem.errors, items))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => BatchResponse::Refused(BatchRejection::Token(said)),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => retry_later(wait.as_deref(), said, now),
        status if status.is_server_error() => retry_later(wait.as_deref(), said, now),
        _ => BatchResponse::Refused(BatchRejection::Gateway(said)),
    }
}

fn retry_later(wait: Option<&str>, why: String, now: SystemTime) -> BatchResponse {
    BatchResponse::Later { asked: wait.and_then(|wait| retry_after(wait, now)), why }
}

fn item_result(outcome: ItemOutcome) -> EmitResult {
    match outcome {
        ItemOutcome::Accepted { warnings } => Ok(warnings),
        ItemOutcome::Duplicate { result } => {
            let other = result.filter(|result| result == EventRepetition::Refused.name());
            let warning = |result| InvalidField {
                field: "event_id".to_owned(),
                problem: format!("is {result}; {OTHER_CONTENT}"),
            };
            Ok(other.map(warning).into_iter().collect())
        }
        ItemOutcome::Refused(why) => Err(why.into()),
    }
}

/// For a batch without accepted items. The response lists only 100 of the errors.
fn rejected_items(errors: Vec<ItemError>, items: usize) -> Vec<EmitResult> {
    let unnamed =
        InvalidField { field: String::new(), problem: "refused, for a reason that the answer leaves out".to_owned() };
    let mut results = vec![Err(unnamed.into()); items];
    for ItemError { index, why } in errors {
        if let Some(result) = results.get_mut(index) {
            *result = Err(why.into());
        }
    }
    results
}

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// Otherwise a server's wrong clock could stop a client for hours.
const LONGEST_ASKED: Duration = Duration::from_mins(1);

/// Parses `Retry-After`: seconds or a date (RFC 9110, section 10.2.3).
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let asked = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(value.parse().ok()?)
    } else {
        httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(asked.min(LONGEST_ASKED))
}

pub(super) fn wait(asked: Option<Duration>, failures: u32) -> Duration {
    asked.unwrap_or_else(|| (FIRST * (1 << failures.min(10))).min(LONGEST)).max(FIRST)
}

const CONNECT: Duration = Duration::from_secs(10);
/// In bytes: results for 10,000 items with at most 1 MiB of ids.
const ANSWER: usize = 8 << 20;

pub(super) struct GatewayConnection {
    http: HttpGateway,
    tls: Option<TlsConnector>,
    open: Option<RequestSender>,
}

pub(super) struct GatewayResponse {
    pub status: StatusCode,
    pub retry_after: Option<String>,
    pub body: Bytes,
}

impl GatewayConnection {
    pub async fn open(http: HttpGateway) -> io::Result<Self> {
        let roots = http.is_tls.then(system_roots);
        if roots.as_ref().is_some_and(|roots| roots.is_empty()) {
            return Err(io::Error::other("the system has no CA certificates; install them"));
        }
        let tls = roots.map(tls_connector);
        let mut connection = Self { http, tls, open: None };
        connection.open = Some(connection.connect().await?);
        Ok(connection)
    }

    /// Posts events, again over a new connection if this was closed since the last request; events are
    /// deduplicated.
    pub async fn post(&mut self, body: Bytes) -> io::Result<GatewayResponse> {
        if let Some(mut sender) = self.open.take()
            && let Ok(response) = self.exchange(&mut sender, body.clone()).await
        {
            self.open = Some(sender);
            return Ok(response);
        }
        let mut sender = self.connect().await?;
        let response = self.exchange(&mut sender, body).await?;
        self.open = Some(sender);
        Ok(response)
    }

    async fn connect(&self) -> io::Result<RequestSender> {
        let connecting = async {
            let tcp = TcpStream::connect((self.http.host.as_str(), self.http.port)).await?;
            http(tcp, self.tls.as_ref().map(|tls| (tls, self.http.host.as_str()))).await
        };
        timeout(CONNECT, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn exchange(&self, sender: &mut RequestSender, body: Bytes) -> io::Result<GatewayResponse> {
        let request = Request::post(self.http.path.as_str())
            .header(HOST, self.http.authority())
            .header(AUTHORIZATION, self.http.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body.into())
            .map_err(io::Error::other)?;
        sender.ready().await.map_err(io::Error::other)?;
        let response = send_request(sender, request).await.map_err(io::Error::other)?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = read_body(response.into_body(), ANSWER).await.map_err(io::Error::other)?;
        Ok(GatewayResponse { status, retry_after, body })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(status: u16, retry_after: Option<&str>, body: &Value) -> BatchResponse {
        let (status, retry_after) = (StatusCode::from_u16(status).unwrap(), retry_after.map(str::to_owned));
        interpret_response(
            &GatewayResponse { status, retry_after, body: body.to_string().into() },
            2,
            SystemTime::UNIX_EPOCH,
        )
    }

    fn problem(kind: &str) -> Value {
        json!({"type": format!("/problems/{kind}"), "title": "It is so", "status": 0, "detail": "Do this."})
    }

    fn invalid(field: &str, problem: &str) -> EmitResult {
        Err(InvalidField { field: field.into(), problem: problem.into() }.into())
    }

    #[test]
    fn each_item_has_its_own_result() {
        let accepted = json!({"status": "accepted", "event_id": "e1"});
        let doubted =
            json!({"status": "accepted", "event_id": "e1", "warnings": [{"field": "user", "problem": "is new"}]});
        let duplicate = json!({"status": "duplicate", "event_id": "e1"});
        let refused = json!({"status": "refused", "event_id": "e2", "field": "tenant", "problem": "is wrong"});
        let answer = |results: Value| json!({"accepted": 0, "duplicates": 0, "refused": 0, "results": results});
        assert_eq!(
            read(202, None, &answer(json!([accepted, duplicate]))),
            BatchResponse::Results(vec![Ok(vec![]), Ok(vec![])])
        );
        let repeated = |result: &str| json!({"status": "duplicate", "event_id": "e1", "result": result});
        let is_other = InvalidField {
            field: "event_id".into(),
            problem: "is known, other content; it is in no message. Send it under an id of its own".into(),
        };
        assert_eq!(
            read(202, None, &answer(json!([repeated("known, same content"), repeated("known, other content")]))),
            BatchResponse::Results(vec![Ok(vec![]), Ok(vec![is_other])])
        );
        let warning = InvalidField { field: "user".into(), problem: "is new".into() };
        let some = BatchResponse::Results(vec![Ok(vec![warning]), invalid("tenant", "is wrong")]);
        assert_eq!(read(200, None, &answer(json!([doubted, refused]))), some);
        for other in [answer(json!([accepted])), json!({}), json!("ok"), answer(json!([accepted, {"status": "kept"}]))]
        {
            let meaning = read(200, None, &other);
            assert!(matches!(meaning, BatchResponse::Refused(BatchRejection::Gateway(_))), "{other}: {meaning:?}");
        }
    }

    #[test]
    fn a_batch_without_an_accepted_item_names_the_reasons_it_knows() {
        let mut nothing = problem("nothing-accepted");
        nothing["errors"] =
            json!([{"index": 1, "field": "tenant", "problem": "is wrong"}, {"index": 7, "field": "", "problem": ""}]);
        let unnamed = invalid("", "refused, for a reason that the answer leaves out");
        assert_eq!(read(400, None, &nothing), BatchResponse::Results(vec![unnamed, invalid("tenant", "is wrong")]));
        let mut unknown = problem("unknown-digest");
        let error =
            |index| json!({"index": index, "type": "/problems/unknown-digest", "field": "digest", "problem": "is x"});
        unknown["errors"] = json!([error(0), error(1)]);
        let each = invalid("digest", "is x");
        assert_eq!(read(422, None, &unknown), BatchResponse::Results(vec![each.clone(), each]));
    }

    #[test]
    fn a_status_says_if_the_batch_comes_again() {
        let later = |status, asked: Option<u64>, why: &str| {
            let meaning = read(status, asked.map(|seconds| seconds.to_string()).as_deref(), &problem("x"));
            let asked = asked.map(Duration::from_secs);
            assert_eq!(meaning, BatchResponse::Later { asked, why: why.into() });
        };
        later(408, None, "408 Request Timeout: It is so");
        later(429, Some(1), "429 Too Many Requests: It is so");
        later(500, None, "500 Internal Server Error: It is so");
        later(502, None, "502 Bad Gateway: It is so");
        later(503, Some(5), "503 Service Unavailable: It is so");
        for (status, kind, rejection) in [
            (401, "wrong-token", BatchRejection::Token("401 Unauthorized: It is so".into())),
            (403, "missing-scope", BatchRejection::Token("403 Forbidden: It is so".into())),
            (400, "unreadable", BatchRejection::Gateway("400 Bad Request: It is so".into())),
            (404, "not-found", BatchRejection::Gateway("404 Not Found: It is so".into())),
            (405, "wrong-method", BatchRejection::Gateway("405 Method Not Allowed: It is so".into())),
            (413, "too-large", BatchRejection::Gateway("413 Payload Too Large: It is so".into())),
        ] {
            assert_eq!(read(status, None, &problem(kind)), BatchResponse::Refused(rejection), "{status}");
        }
        let moved = read(302, None, &json!("<html>"));
        assert_eq!(moved, BatchResponse::Refused(BatchRejection::Gateway("302 Found".into())));
    }

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = SystemTime::UNIX_EPOCH + SECONDS(784_111_777);
        for (value, wait) in [
            ("5", Some(SECONDS(5))),
            (" 0 ", Some(SECONDS(0))),
            ("3600", Some(SECONDS(60))),
            ("Sun, 06 Nov 1994 08:49:44 GMT", Some(SECONDS(7))),
            ("Sunday, 06-Nov-94 08:49:44 GMT", Some(SECONDS(7))),
            ("Sun Nov  6 08:49:44 1994", Some(SECONDS(7))),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(SECONDS(0))),
            ("Mon, 06 Nov 2034 08:49:37 GMT", Some(SECONDS(60))),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(retry_after(value, now), wait, "{value:?}");
        }
    }

    #[test]
    fn a_wait_doubles_unless_the_answer_asks_for_one() {
        let waits = [0, 1, 2, 5, 6, 1_000].map(|failures| wait(None, failures).as_millis());
        assert_eq!(waits, [100, 200, 400, 3_200, 5_000, 5_000]);
        assert_eq!(wait(Some(SECONDS(30)), 0), SECONDS(30));
        assert_eq!(wait(Some(SECONDS(0)), 9), FIRST);
    }
}
