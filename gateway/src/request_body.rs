//! The body of a request, read whole before a handler runs: with limits of bytes, of time, and of memory for all bodies together;
//! and work whose time grows with its length.

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
    concurrency::{BODY_COST, BodyShare},
    problem::Problem,
    quota::Portion,
};

/// The rest of a refused body is thrown away for this long and up to this length before the answer: a client that still sends, and
/// finds its connection closed, sees no answer.
const DISCARD_TIME: Duration = Duration::from_secs(1);
const DISCARD_BYTES: usize = 16 << 20;

/// The limits of a route.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit {
    pub bytes: usize,
    pub time: Duration,
    /// A compressed body is taken, and counts as long as it may become.
    pub decodes: bool,
}

impl BodyLimit {
    /// Takes at most this many bytes, within ten seconds.
    #[must_use]
    pub const fn of(bytes: usize) -> Self {
        Self { bytes, time: Duration::from_secs(10), decodes: false }
    }
}

/// The middleware. A handler behind it gets a body that is in memory, or never runs.
pub async fn read(State(limit): State<BodyLimit>, request: Request, next: Next) -> Response {
    let (mut parts, mut body) = request.into_parts();
    let share = parts.extensions.remove::<BodyShare>();
    let collecting = async {
        let mut buffer = Buffer::new(limit, &parts.headers, share.as_ref())?;
        buffer.fill(&mut body).await?;
        Ok::<_, Problem>(buffer)
    };
    match timeout(limit.time, collecting).await.unwrap_or(Err(Problem::TooSlow)) {
        Ok(Buffer { bytes, portion: _taken, .. }) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(problem) => {
            if problem != Problem::TooSlow {
                let _ = timeout(DISCARD_TIME, discard(body)).await;
            }
            refused(problem)
        }
    }
}

/// The name of a body's encoding in lower case; `None`: the body is plain.
pub(crate) fn encoding(headers: &HeaderMap) -> Option<Vec<u8>> {
    let named = headers.get(CONTENT_ENCODING)?.as_bytes().to_ascii_lowercase();
    Some(named).filter(|named| named != b"identity")
}

/// The answer about a body that cannot be had.
fn refused(problem: Problem) -> Response {
    match problem {
        // Chunks that are none. The same request would fail again.
        Problem::Unreadable => {
            let why = "is not in the chunks that Transfer-Encoding announces";
            problem.with_errors(&[json!({"field": "", "problem": why})])
        }
        problem => problem.into_response(),
    }
}

/// A body as far as it has come.
struct Buffer {
    bytes: Vec<u8>,
    limit: usize,
    /// The length that is paid for.
    paid: usize,
    /// Kept until the request is answered. `None`: nothing bounds the bodies together.
    portion: Option<Portion>,
}

impl Buffer {
    /// Takes memory for the length that the headers name, or for that which a compressed body may have.
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
                self.add(&data)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, data: &Bytes) -> Result<(), Problem> {
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

async fn discard(mut body: Body) {
    let mut left = DISCARD_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
        left = rest;
    }
}

/// Reports if the connection ended within the body.
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

/// The longest body whose work takes less time than the way to another thread and back.
const SHORT: usize = 16 * 1024;
/// Bodies that are worked on at a time, however many cores there are.
const MOST: usize = 8;

/// Values of a JSON text that is read into a tree. Each costs hundreds of bytes at worst, though it may have two in the text.
pub(crate) const VALUES: usize = 100_000;

static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(cores.min(MOST)))
});

/// Runs the work on a body of this length. Long work is done a few at a time, on threads that serve nobody, and waits for a place.
pub(crate) async fn parse<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    if length <= SHORT {
        return Ok(work());
    }
    // The semaphore is never closed. The place belongs to the thread: a request that ends earlier cannot stop the work.
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

/// Refuses a JSON text, or lines of JSON, with more values than these, because each needs memory of its own.
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
        assert_eq!(parse(SHORT, || thread::current().id()).await, Ok(here));
        assert_ne!(parse(SHORT + 1, || thread::current().id()).await, Ok(here));
    }

    #[tokio::test]
    async fn a_panic_ends_the_request_and_frees_its_place() {
        for _ in 0..=MOST {
            let request = tokio::spawn(parse(SHORT + 1, || panic!("a fault")));
            let result: Result<Result<(), Problem>, _> = request.await;
            assert!(result.unwrap_err().is_panic());
        }
        assert_eq!(parse(SHORT + 1, || 7).await, Ok(7));
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
