//! Body of an events request: media type and decompression.

use std::{
    borrow::Cow,
    io::{self, Read as _},
};

use axum::http::HeaderMap;
use flate2::bufread::GzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use crate::{
    api::{
        body::{self, JSON},
        refusal::ApiRefusal,
    },
    problem::Problem,
    request_body::encoding,
};

const NDJSON: &str = "application/x-ndjson";

/// Body limit in bytes, before and after decompression.
pub(crate) const BODY_BYTES: usize = 1 << 20;
/// Most gzip members or zstd frames in a body, because each costs memory and time. Encoders usually write
/// one, or one per 128 KiB if multi-threaded.
pub(super) const PARTS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// One event, a list, or an object with lists.
    Json,
    /// One event per line.
    Lines,
}

impl BodyFormat {
    /// JSON if there is no `Content-Type`.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, ApiRefusal> {
        match body::media_type(headers).as_str() {
            JSON => Ok(Self::Json),
            NDJSON => Ok(Self::Lines),
            _ => Err(ApiRefusal::media_type(headers, &[JSON, NDJSON])),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    Malformed,
    TooLong,
    TooManyParts,
}

impl From<io::Error> for DecodeError {
    fn from(_: io::Error) -> Self {
        Self::Malformed
    }
}

impl From<DecodeError> for ApiRefusal {
    fn from(why: DecodeError) -> Self {
        match why {
            DecodeError::Malformed => Self::unreadable("is not what Content-Encoding says, or is cut off"),
            DecodeError::TooLong => Problem::TooLarge.into(),
            DecodeError::TooManyParts => Self::with_fault(
                Problem::Unreadable,
                "",
                format!("has more than {PARTS} members or frames, or thousands of blocks; compress the body as one"),
            ),
        }
    }
}

/// Returns an upper bound, in bytes.
pub(crate) fn max_length(headers: &HeaderMap, bytes: &[u8]) -> usize {
    if encoding(headers).is_some() { BODY_BYTES } else { bytes.len() }
}

pub(crate) fn decode_body<'a>(headers: &HeaderMap, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, ApiRefusal> {
    match encoding(headers).as_deref() {
        None => Ok(Cow::Borrowed(bytes)),
        Some(b"gzip") => Ok(Cow::Owned(decompress_gzip(bytes)?)),
        Some(b"zstd") => Ok(Cow::Owned(decompress_zstd(bytes)?)),
        Some(_) => Err(ApiRefusal::encoding()),
    }
}

fn decompress_gzip(mut bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut plain = Vec::new();
    for _ in 0..PARTS {
        let room = (BODY_BYTES + 1 - plain.len()) as u64;
        let mut member = GzDecoder::new(&mut bytes).take(room);
        member.read_to_end(&mut plain)?;
        if plain.len() > BODY_BYTES {
            return Err(DecodeError::TooLong);
        }
        drop(member);
        if bytes.is_empty() {
            return Ok(plain);
        }
    }
    Err(DecodeError::TooManyParts)
}

/// Maximum zstd window, which is also the memory a frame needs. RFC 9659 forbids larger windows in HTTP.
const WINDOW_BYTES: u64 = 8 << 20;
/// Most zstd blocks in a body, because each costs time. An encoder may write one per event.
const BLOCKS: usize = 20_000;

/// Decompresses `zstd` frames (RFC 8878) with limits on memory and output. Verifies checksums.
pub(super) fn decompress_zstd(mut bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (mut plain, mut blocks) = (Vec::new(), BLOCKS);
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(WINDOW_BYTES);
    for _ in 0..=PARTS {
        if bytes.is_empty() {
            return Ok(plain);
        }
        match decoder.reset(&mut bytes) {
            Ok(()) => frame(&mut decoder, &mut bytes, &mut plain, &mut blocks)?,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let skipped = usize::try_from(length).ok();
                bytes = skipped.and_then(|skipped| bytes.get(skipped..)).ok_or(DecodeError::Malformed)?;
            }
            Err(FrameDecoderError::WindowSizeTooBig { .. }) => return Err(DecodeError::TooLong),
            Err(_) => return Err(DecodeError::Malformed),
        }
    }
    Err(DecodeError::TooManyParts)
}

/// Decompresses one frame block by block; a block has at most 128 KiB. `blocks` is the number still allowed
/// for this body.
fn frame(
    decoder: &mut FrameDecoder,
    bytes: &mut &[u8],
    plain: &mut Vec<u8>,
    blocks: &mut usize,
) -> Result<(), DecodeError> {
    if decoder.content_size() > BODY_BYTES as u64 {
        return Err(DecodeError::TooLong);
    }
    while !decoder.is_finished() {
        *blocks = blocks.checked_sub(1).ok_or(DecodeError::TooManyParts)?;
        let block = decoder.decode_blocks(&mut *bytes, BlockDecodingStrategy::UptoBlocks(1));
        block.map_err(|_| DecodeError::Malformed)?;
        let room = (BODY_BYTES + 1 - plain.len()) as u64;
        decoder.by_ref().take(room).read_to_end(plain).map_err(|_| DecodeError::Malformed)?;
        if plain.len() > BODY_BYTES {
            return Err(DecodeError::TooLong);
        }
    }
    let named = decoder.get_checksum_from_data();
    if named.is_some() && named != decoder.get_calculated_checksum() {
        return Err(DecodeError::Malformed);
    }
    Ok(())
}

#[cfg(test)]
mod zstd_tests {
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// The output of `zstd -3`, version 1.5.4, for a list of two events. It ends with a checksum.
    const REFERENCE: &[u8] = b"\
        \x28\xb5\x2f\xfd\x24\xdb\x35\x03\x00\x82\x86\x15\x19\x80\xb7\x6d\xa8\xeb\x6d\xaf\x13\x25\x5e\x77\xb7\x0d\x88\x99\
        \x48\x37\xd6\x30\xe2\x42\xcc\xc1\x8c\x8e\x05\x74\x87\x0f\x10\x13\x31\x03\x28\x38\x84\x39\x68\x00\x08\x51\x2a\xd4\
        \xb6\x96\xa8\xb2\xdf\x7b\xed\x71\x30\x7d\x7e\x69\xcc\xd8\x4e\xfa\xfb\x5a\x6d\x91\xe4\xf7\xa5\x59\xe1\xd6\xf4\x7c\
        \x23\x6b\xb0\xfa\xfd\xec\xf3\x8a\x8b\x5e\xab\xec\x0d\x84\x04\x00\x0a\x93\x08\x07\x69\xf4\x8a\xdf\x6a\x9d\x65\x5a\
        \xf3\x64\x0a";
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    /// Window descriptors (RFC 8878, section 3.1.1.1.2).
    const MIB_1: u8 = 10 << 3;
    const MIB_8: u8 = 13 << 3;
    const MIB_9: u8 = (13 << 3) + 1;

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    /// A frame with blocks of one byte that repeats 128 KiB.
    fn bomb(window: u8, blocks: u32) -> Vec<u8> {
        let block = |n| {
            let [a, b, c, _] = (u32::from(n + 1 == blocks) | 1 << 1 | (128 << 10) << 3).to_le_bytes();
            [a, b, c, b' ']
        };
        MAGIC.into_iter().chain([0, window]).chain((0..blocks).flat_map(block)).collect()
    }

    fn skippable(content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&0x184d_2a50_u32.to_le_bytes(), &length, content].concat()
    }

    #[test]
    fn the_output_of_the_reference_encoder_is_read() {
        let plain = decompress_zstd(REFERENCE).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_slice(&plain).unwrap();
        let ids: Vec<_> = events.iter().filter_map(|event| event["event_id"].as_str()).collect();
        assert_eq!((ids, plain.len()), (vec!["e1", "e2"], 219));
        let mut changed = REFERENCE.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(decompress_zstd(&changed), Err(DecodeError::Malformed), "the checksum is wrong");
    }

    #[test]
    fn several_frames_are_one_body() {
        let frames = [zipped(b"[1,"), skippable(b"comment"), zipped(b"2]")].concat();
        assert_eq!(decompress_zstd(&frames).unwrap(), b"[1,2]");
        assert_eq!(decompress_zstd(&skippable(b"").repeat(PARTS)).unwrap(), b"");
        assert_eq!(decompress_zstd(&skippable(b"").repeat(PARTS + 1)), Err(DecodeError::TooManyParts));
        assert_eq!(decompress_zstd(&[zipped(b"[]"), b"[]".to_vec()].concat()), Err(DecodeError::Malformed));
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit_of_a_body() {
        assert_eq!(decompress_zstd(&bomb(MIB_1, 8)).unwrap().len(), BODY_BYTES);
        assert_eq!(decompress_zstd(&bomb(MIB_8, 8)).unwrap().len(), BODY_BYTES);
        assert_eq!(decompress_zstd(&bomb(MIB_1, 9)), Err(DecodeError::TooLong));
        assert_eq!(decompress_zstd(&bomb(MIB_8, 200_000)), Err(DecodeError::TooLong));
        assert_eq!(decompress_zstd(&bomb(MIB_1, 1).repeat(9)), Err(DecodeError::TooLong), "all frames count");
        assert_eq!(decompress_zstd(&bomb(MIB_9, 1)), Err(DecodeError::TooLong), "the window is too large");
        assert_eq!(decompress_zstd(&zipped(&vec![b' '; BODY_BYTES + 1])), Err(DecodeError::TooLong));
    }

    #[test]
    fn empty_blocks_are_refused_after_thousands_of_them() {
        let empty = |is_last: u8| [is_last, 0, 0];
        let frame = |blocks: usize| {
            let blocks = (0..blocks).flat_map(|n| empty(u8::from(n + 1 == blocks)));
            MAGIC.into_iter().chain([0, MIB_1]).chain(blocks).collect::<Vec<u8>>()
        };
        assert_eq!(decompress_zstd(&frame(BLOCKS)).unwrap(), b"");
        assert_eq!(decompress_zstd(&frame(BLOCKS + 1)), Err(DecodeError::TooManyParts));
        assert_eq!(
            decompress_zstd(&frame(BLOCKS / 2 + 1).repeat(2)),
            Err(DecodeError::TooManyParts),
            "all frames count"
        );
    }

    #[test]
    fn a_body_that_breaks_off_is_unreadable_at_each_byte() {
        for end in 1..REFERENCE.len() {
            assert_eq!(decompress_zstd(&REFERENCE[..end]), Err(DecodeError::Malformed), "{end}");
        }
        assert_eq!(decompress_zstd(b"[]"), Err(DecodeError::Malformed));
        let cut = skippable(b"comment");
        assert_eq!(decompress_zstd(&cut[..cut.len() - 1]), Err(DecodeError::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut bytes = [zipped(&REFERENCE.repeat(20)), REFERENCE.to_vec()].concat();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = decompress_zstd(&bytes);
        }
    }
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
            ("application/json", Ok(BodyFormat::Json)),
            ("Application/JSON; charset=utf-8", Ok(BodyFormat::Json)),
            ("application/x-ndjson", Ok(BodyFormat::Lines)),
            ("text/plain", Err(Problem::UnsupportedMedia)),
        ] {
            let of = BodyFormat::from_headers(&header(CONTENT_TYPE, named)).map_err(|refusal| refusal.problem());
            assert_eq!(of, kind, "{named}");
        }
        assert_eq!(BodyFormat::from_headers(&HeaderMap::new()), Ok(BodyFormat::Json));
    }

    #[test]
    fn a_body_is_bounded_after_decompression_too() {
        let gzip = header(CONTENT_ENCODING, "gzip");
        assert_eq!(decode_body(&gzip, &zipped(b"[]")).unwrap().as_ref(), b"[]");
        assert_eq!(decode_body(&gzip, &zipped(&vec![b' '; BODY_BYTES])).unwrap().len(), BODY_BYTES);
        let refused = |headers: &HeaderMap, bytes: &[u8]| decode_body(headers, bytes).unwrap_err().problem();
        assert_eq!(refused(&gzip, &zipped(&vec![b' '; BODY_BYTES + 1])), Problem::TooLarge);
        for malformed in [b"[]".to_vec(), zipped(b"[1, 2]")[..20].to_vec(), [zipped(b"[]"), b"[]".to_vec()].concat()] {
            assert_eq!(refused(&gzip, &malformed), Problem::Unreadable, "{malformed:?}");
        }
        assert_eq!(refused(&header(CONTENT_ENCODING, "br"), b"[]"), Problem::UnsupportedMedia);
        assert_eq!(decode_body(&HeaderMap::new(), b"[]").unwrap().as_ref(), b"[]");
    }

    #[test]
    fn members_of_gzip_are_one_body_and_more_than_a_hundred_are_refused_by_name() {
        let gzip = header(CONTENT_ENCODING, "gzip");
        let members = [zipped(b"[1,"), zipped(b""), zipped(b"2]")].concat();
        assert_eq!(decode_body(&gzip, &members).unwrap().as_ref(), b"[1,2]");
        assert_eq!(decode_body(&gzip, &zipped(b" ").repeat(PARTS)).unwrap().len(), PARTS);
        for many in [PARTS + 1, 50_000] {
            let refused = decode_body(&gzip, &zipped(b"").repeat(many)).unwrap_err();
            assert_eq!(refused, DecodeError::TooManyParts.into());
        }
        let long = zipped(&vec![b' '; BODY_BYTES / 2 + 1]).repeat(2);
        assert_eq!(decode_body(&gzip, &long), Err(Problem::TooLarge.into()), "all members count");
    }
}
