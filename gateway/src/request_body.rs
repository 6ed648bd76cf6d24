//! Buffers request bodies with limits on length, time and total memory. Expensive parsing runs on other
//! threads.

use std::{
    error::Error as StdError,
    io,
    panic::resume_unwind,
    sync::{Arc, LazyLock},
    thread::available_parallelism,
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_LENGTH},
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::{
    client_quota::QuotaPortion,
    concurrency::{BODY_COST, BodyShare},
    problem::Problem,
};

/// We drain a rejected body for this long and up to this length. Otherwise a client still sending would see a
/// closed connection instead of the response.
const DISCARD_TIME: Duration = Duration::from_secs(1);
const DISCARD_BYTES: usize = 16 << 20;

#[derive(Clone, Copy, Debug)]
pub struct BodyLimit {
    pub bytes: usize,
    pub time: Duration,
    /// Accepts compressed bodies, and reserves memory for their maximum size.
    pub decodes: bool,
}

impl BodyLimit {
    /// Allows this many bytes within ten seconds.
    #[must_use]
    pub const fn with_bytes(bytes: usize) -> Self {
        Self { bytes, time: Duration::from_secs(10), decodes: false }
    }
}

/// Middleware: the handler runs only once the whole body is in memory.
pub async fn buffer_body(State(limit): State<BodyLimit>, request: Request, next: Next) -> Response {
    let (mut parts, mut body) = request.into_parts();
    let share = parts.extensions.remove::<BodyShare>();
    let collecting = async {
        let mut buffer = BodyBuffer::new(limit, &parts.headers, share.as_ref())?;
        buffer.fill(&mut body).await?;
        Ok::<_, Problem>(buffer)
    };
    match timeout(limit.time, collecting).await.unwrap_or(Err(Problem::TooSlow)) {
        Ok(BodyBuffer { bytes, portion: _taken, .. }) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(problem) => {
            if problem != Problem::TooSlow {
                let _ = timeout(DISCARD_TIME, drain_body(body)).await;
            }
            refusal_response(problem)
        }
    }
}

/// In lower case. `None` if the body is not compressed.
pub(crate) fn encoding(headers: &HeaderMap) -> Option<Vec<u8>> {
    let named = headers.get(CONTENT_ENCODING)?.as_bytes().to_ascii_lowercase();
    Some(named).filter(|named| named != b"identity")
}

fn refusal_response(problem: Problem) -> Response {
    match problem {
        // Invalid chunked encoding. Retrying would fail again.
        Problem::Unreadable => {
            let why = "is not in the chunks that Transfer-Encoding announces";
            problem.with_errors(&[json!({"field": "", "problem": why})])
        }
        problem => problem.into_response(),
    }
}

struct BodyBuffer {
    bytes: Vec<u8>,
    limit: usize,
    /// Length for which memory is reserved.
    paid: usize,
    /// Held until the response is sent. `None` if total memory is not limited.
    portion: Option<QuotaPortion>,
}

impl BodyBuffer {
    /// Reserves memory for `Content-Length`, or for the maximum size of a compressed body.
    fn new(
        BodyLimit { bytes: limit, decodes, .. }: BodyLimit,
        headers: &HeaderMap,
        share: Option<&BodyShare>,
    ) -> Result<Self, Problem> {
        let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let declared = usize::try_from(declared.unwrap_or(0)).unwrap_or(usize::MAX);
        if declared > limit {
            return Err(Problem::TooLarge);
        }
        let paid = if decodes && encoding(headers).is_some() { limit } else { declared };
        let portion = share.map(|share| share.take(paid)).transpose()?;
        Ok(Self { bytes: Vec::with_capacity(declared), limit, paid, portion })
    }

    async fn fill(&mut self, body: &mut Body) -> Result<(), Problem> {
        while let Some(frame) = body.frame().await {
            let broken = |error| if is_cut_off(&error) { Problem::TooSlow } else { Problem::Unreadable };
            if let Ok(data) = frame.map_err(broken)?.into_data() {
                self.add_chunk(&data)?;
            }
        }
        Ok(())
    }

    fn add_chunk(&mut self, data: &Bytes) -> Result<(), Problem> {
        let length = self.bytes.len() + data.len();
        if length > self.limit {
            return Err(Problem::TooLarge);
        }
        if length > self.paid {
            if let Some(portion) = &mut self.portion {
                portion.grow((length - self.paid) * BODY_COST).map_err(|_| Problem::Busy)?;
            }
            self.paid = length;
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

async fn drain_body(mut body: Body) {
    let mut left = DISCARD_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
        left = rest;
    }
}

/// Returns `true` if the connection closed before the body ended.
fn is_cut_off(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
        }
        cause = error.source();
    }
    true
}

/// Up to this length, parsing is cheaper than switching threads.
const SHORT: usize = 16 * 1024;
/// Most bodies parsed concurrently, on any number of cores.
const MOST: usize = 8;

/// Most values in a JSON text. Each may need hundreds of bytes of memory, but as few as two in the text.
pub(crate) const VALUES: usize = 100_000;

static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(cores.min(MOST)))
});

/// Short work runs inline. Long work runs on blocking threads, a few at a time.
pub(crate) async fn run_bounded<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    if length <= SHORT {
        return Ok(work());
    }
    // The semaphore is never closed. The thread owns this permit, because it continues even if the request
    // ends.
    let place = PLACES.clone().acquire_owned().await.map_err(|_| Problem::Failed)?;
    let done = spawn_blocking(move || {
        let _place = place;
        work()
    });
    done.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Problem::Failed,
    })
}

/// Each value needs memory, so this bounds them before parsing. Also accepts lines of JSON.
pub(crate) fn bound_values(json: &[u8], most: usize) -> Result<(), String> {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    if values <= most { Ok(()) } else { Err(format!("has {values} values, the limit is {most}")) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_long_body_is_worked_on_by_another_thread() {
        let here = thread::current().id();
        assert_eq!(run_bounded(SHORT, || thread::current().id()).await, Ok(here));
        assert_ne!(run_bounded(SHORT + 1, || thread::current().id()).await, Ok(here));
    }

    #[tokio::test]
    async fn a_panic_ends_the_request_and_frees_its_place() {
        for _ in 0..=MOST {
            let request = tokio::spawn(run_bounded(SHORT + 1, || panic!("a fault")));
            let result: Result<Result<(), Problem>, _> = request.await;
            assert!(result.unwrap_err().is_panic());
        }
        assert_eq!(run_bounded(SHORT + 1, || 7).await, Ok(7));
    }

    #[test]
    fn a_tree_of_too_many_values_is_refused_and_text_is_not() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert_eq!(bound_values(list(VALUES).as_bytes(), VALUES), Ok(()));
        let refused = bound_values(list(VALUES + 1).as_bytes(), VALUES).unwrap_err();
        assert_eq!(refused, "has 100001 values, the limit is 100000");
        let text = format!("{{\"html\": \"\\\"{}\"}}", ",[{".repeat(VALUES));
        assert_eq!(bound_values(text.as_bytes(), VALUES), Ok(()));
    }
}
