//! The body of a request: its type, and its bytes after decompression.

use std::{borrow::Cow, io::Read as _};

use axum::http::{HeaderMap, header::CONTENT_ENCODING};
use flate2::read::MultiGzDecoder;

use super::zstd;
use crate::{
    api::{
        body::{self, JSON},
        refusal::Refusal,
    },
    problem::Problem,
};

const NDJSON: &str = "application/x-ndjson";

/// The longest body, before and after decompression.
pub(crate) const BODY_BYTES: usize = 1 << 20;

/// The type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One event, a list, or an object with lists.
    Json,
    /// One event a line.
    Lines,
}

impl Kind {
    /// The type that the headers name. Without one, the body is JSON.
    pub fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        match body::media_type(headers).as_str() {
            JSON => Ok(Self::Json),
            NDJSON => Ok(Self::Lines),
            _ => Err(Refusal::media_type(headers, &[JSON, NDJSON])),
        }
    }
}

/// Returns the bytes after decompression.
pub(crate) fn decoded<'a>(headers: &HeaderMap, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Refusal> {
    let broken = |problem| match problem {
        Problem::Unreadable => Refusal::unreadable("is not what Content-Encoding says, or is cut off"),
        problem => problem.into(),
    };
    match headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes().to_ascii_lowercase()).as_deref() {
        None | Some(b"identity") => Ok(Cow::Borrowed(bytes)),
        Some(b"gzip") => {
            let mut plain = Vec::new();
            let mut decoder = MultiGzDecoder::new(bytes).take(BODY_BYTES as u64 + 1);
            decoder.read_to_end(&mut plain).map_err(|_| broken(Problem::Unreadable))?;
            if plain.len() > BODY_BYTES { Err(Problem::TooLarge.into()) } else { Ok(Cow::Owned(plain)) }
        }
        Some(b"zstd") => zstd::decoded(bytes).map(Cow::Owned).map_err(broken),
        Some(_) => Err(Refusal::encoding()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use axum::http::{HeaderValue, header::CONTENT_TYPE};
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn header(name: axum::http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_is_json_or_lines_and_nothing_else() {
        for (named, kind) in [
            ("application/json", Ok(Kind::Json)),
            ("Application/JSON; charset=utf-8", Ok(Kind::Json)),
            ("application/x-ndjson", Ok(Kind::Lines)),
            ("text/plain", Err(Problem::UnsupportedMedia)),
        ] {
            let of = Kind::of(&header(CONTENT_TYPE, named)).map_err(|refusal| refusal.problem());
            assert_eq!(of, kind, "{named}");
        }
        assert_eq!(Kind::of(&HeaderMap::new()), Ok(Kind::Json));
    }

    #[test]
    fn a_body_is_bounded_after_decompression_too() {
        let gzip = header(CONTENT_ENCODING, "gzip");
        assert_eq!(decoded(&gzip, &zipped(b"[]")).unwrap().as_ref(), b"[]");
        assert_eq!(decoded(&gzip, &zipped(&vec![b' '; BODY_BYTES])).unwrap().len(), BODY_BYTES);
        let refused = |headers: &HeaderMap, bytes: &[u8]| decoded(headers, bytes).unwrap_err().problem();
        assert_eq!(refused(&gzip, &zipped(&vec![b' '; BODY_BYTES + 1])), Problem::TooLarge);
        assert_eq!(refused(&gzip, b"[]"), Problem::Unreadable);
        assert_eq!(refused(&gzip, &zipped(b"[1, 2]")[..20]), Problem::Unreadable);
        assert_eq!(refused(&header(CONTENT_ENCODING, "br"), b"[]"), Problem::UnsupportedMedia);
        assert_eq!(decoded(&HeaderMap::new(), b"[]").unwrap().as_ref(), b"[]");
    }
}
