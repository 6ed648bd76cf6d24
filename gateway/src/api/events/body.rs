//! The body of a request: its type, and its bytes after decompression.

use std::{
    borrow::Cow,
    io::{self, Read as _},
};

use axum::http::HeaderMap;
use flate2::bufread::GzDecoder;

use super::zstd;
use crate::{
    api::{
        body::{self, JSON},
        refusal::Refusal,
    },
    problem::Problem,
    request_body::encoding,
};

const NDJSON: &str = "application/x-ndjson";

/// The longest body, before and after decompression.
pub(crate) const BODY_BYTES: usize = 1 << 20;
/// Members of gzip or frames of zstd in a body, each of which costs memory and time however short it is. Encoders make one, and those
/// with several threads one for each 128 KiB.
pub(super) const PARTS: usize = 100;

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

/// Why a body cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undecodable {
    /// It is not of its encoding, or breaks off.
    Malformed,
    /// It is longer than a body may be.
    TooLong,
    /// It has more parts or blocks than such a body needs.
    TooManyParts,
}

impl From<io::Error> for Undecodable {
    fn from(_: io::Error) -> Self {
        Self::Malformed
    }
}

impl From<Undecodable> for Refusal {
    fn from(why: Undecodable) -> Self {
        match why {
            Undecodable::Malformed => Self::unreadable("is not what Content-Encoding says, or is cut off"),
            Undecodable::TooLong => Problem::TooLarge.into(),
            Undecodable::TooManyParts => Self::of(
                Problem::Unreadable,
                "",
                format!("has more than {PARTS} members or frames, or thousands of blocks; compress the body as one"),
            ),
        }
    }
}

/// The length that a body has at most after decompression.
pub(crate) fn longest(headers: &HeaderMap, bytes: &[u8]) -> usize {
    if encoding(headers).is_some() { BODY_BYTES } else { bytes.len() }
}

/// Returns the bytes after decompression.
pub(crate) fn decoded<'a>(headers: &HeaderMap, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Refusal> {
    match encoding(headers).as_deref() {
        None => Ok(Cow::Borrowed(bytes)),
        Some(b"gzip") => Ok(Cow::Owned(gunzipped(bytes)?)),
        Some(b"zstd") => Ok(Cow::Owned(zstd::decoded(bytes)?)),
        Some(_) => Err(Refusal::encoding()),
    }
}

/// Returns the content of all members.
fn gunzipped(mut bytes: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let mut plain = Vec::new();
    for _ in 0..PARTS {
        let room = (BODY_BYTES + 1 - plain.len()) as u64;
        let mut member = GzDecoder::new(&mut bytes).take(room);
        member.read_to_end(&mut plain)?;
        if plain.len() > BODY_BYTES {
            return Err(Undecodable::TooLong);
        }
        drop(member);
        if bytes.is_empty() {
            return Ok(plain);
        }
    }
    Err(Undecodable::TooManyParts)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use axum::http::{
        HeaderValue,
        header::{CONTENT_ENCODING, CONTENT_TYPE},
    };
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
        for malformed in [b"[]".to_vec(), zipped(b"[1, 2]")[..20].to_vec(), [zipped(b"[]"), b"[]".to_vec()].concat()] {
            assert_eq!(refused(&gzip, &malformed), Problem::Unreadable, "{malformed:?}");
        }
        assert_eq!(refused(&header(CONTENT_ENCODING, "br"), b"[]"), Problem::UnsupportedMedia);
        assert_eq!(decoded(&HeaderMap::new(), b"[]").unwrap().as_ref(), b"[]");
    }

    #[test]
    fn members_of_gzip_are_one_body_and_more_than_a_hundred_are_refused_by_name() {
        let gzip = header(CONTENT_ENCODING, "gzip");
        let members = [zipped(b"[1,"), zipped(b""), zipped(b"2]")].concat();
        assert_eq!(decoded(&gzip, &members).unwrap().as_ref(), b"[1,2]");
        assert_eq!(decoded(&gzip, &zipped(b" ").repeat(PARTS)).unwrap().len(), PARTS);
        for many in [PARTS + 1, 50_000] {
            let refused = decoded(&gzip, &zipped(b"").repeat(many)).unwrap_err();
            assert_eq!(refused, Undecodable::TooManyParts.into());
        }
        let long = zipped(&vec![b' '; BODY_BYTES / 2 + 1]).repeat(2);
        assert_eq!(decoded(&gzip, &long), Err(Problem::TooLarge.into()), "all members count");
    }
}
