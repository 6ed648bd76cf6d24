//! The body of a request, read whole before a handler runs: with limits of bytes, of time, and of memory for all bodies together.

use std::{error::Error as StdError, io, time::Duration};

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
use tokio::time::timeout;

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
