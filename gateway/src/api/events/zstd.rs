//! The content coding `zstd` (RFC 8878), with limits on memory and on the size of the result.

use std::io::Read as _;

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::body::{BODY_BYTES, PARTS, Undecodable};

/// The largest window of a frame: RFC 9659 lets no sender of HTTP use a larger one. A frame takes as much memory.
const WINDOW_BYTES: u64 = 8 << 20;
/// Blocks of a body, each of which costs time however short it is. An encoder that flushes after each event makes one for each.
const BLOCKS: usize = 20_000;

/// Returns the content of all frames. A checksum that a frame has must be right.
pub(super) fn decoded(mut bytes: &[u8]) -> Result<Vec<u8>, Undecodable> {
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
                bytes = skipped.and_then(|skipped| bytes.get(skipped..)).ok_or(Undecodable::Malformed)?;
            }
            Err(FrameDecoderError::WindowSizeTooBig { .. }) => return Err(Undecodable::TooLong),
            Err(_) => return Err(Undecodable::Malformed),
        }
    }
    Err(Undecodable::TooManyParts)
}

/// Adds the content of a frame, block by block: a block has at most 128 KiB. `blocks` is how many more the body may have.
fn frame(
    decoder: &mut FrameDecoder,
    bytes: &mut &[u8],
    plain: &mut Vec<u8>,
    blocks: &mut usize,
) -> Result<(), Undecodable> {
    if decoder.content_size() > BODY_BYTES as u64 {
        return Err(Undecodable::TooLong);
    }
    while !decoder.is_finished() {
        *blocks = blocks.checked_sub(1).ok_or(Undecodable::TooManyParts)?;
        let block = decoder.decode_blocks(&mut *bytes, BlockDecodingStrategy::UptoBlocks(1));
        block.map_err(|_| Undecodable::Malformed)?;
        let room = (BODY_BYTES + 1 - plain.len()) as u64;
        decoder.by_ref().take(room).read_to_end(plain).map_err(|_| Undecodable::Malformed)?;
        if plain.len() > BODY_BYTES {
            return Err(Undecodable::TooLong);
        }
    }
    let named = decoder.get_checksum_from_data();
    if named.is_some() && named != decoder.get_calculated_checksum() {
        return Err(Undecodable::Malformed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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

    /// A frame that a reader leaves out.
    fn skippable(content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&0x184d_2a50_u32.to_le_bytes(), &length, content].concat()
    }

    #[test]
    fn the_output_of_the_reference_encoder_is_read() {
        let plain = decoded(REFERENCE).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_slice(&plain).unwrap();
        let ids: Vec<_> = events.iter().filter_map(|event| event["event_id"].as_str()).collect();
        assert_eq!((ids, plain.len()), (vec!["e1", "e2"], 219));
        let mut changed = REFERENCE.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(decoded(&changed), Err(Undecodable::Malformed), "the checksum is wrong");
    }

    #[test]
    fn several_frames_are_one_body() {
        let frames = [zipped(b"[1,"), skippable(b"comment"), zipped(b"2]")].concat();
        assert_eq!(decoded(&frames).unwrap(), b"[1,2]");
        assert_eq!(decoded(&skippable(b"").repeat(PARTS)).unwrap(), b"");
        assert_eq!(decoded(&skippable(b"").repeat(PARTS + 1)), Err(Undecodable::TooManyParts));
        assert_eq!(decoded(&[zipped(b"[]"), b"[]".to_vec()].concat()), Err(Undecodable::Malformed));
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit_of_a_body() {
        assert_eq!(decoded(&bomb(MIB_1, 8)).unwrap().len(), BODY_BYTES);
        assert_eq!(decoded(&bomb(MIB_8, 8)).unwrap().len(), BODY_BYTES);
        assert_eq!(decoded(&bomb(MIB_1, 9)), Err(Undecodable::TooLong));
        assert_eq!(decoded(&bomb(MIB_8, 200_000)), Err(Undecodable::TooLong));
        assert_eq!(decoded(&bomb(MIB_1, 1).repeat(9)), Err(Undecodable::TooLong), "all frames count");
        assert_eq!(decoded(&bomb(MIB_9, 1)), Err(Undecodable::TooLong), "the window is too large");
        assert_eq!(decoded(&zipped(&vec![b' '; BODY_BYTES + 1])), Err(Undecodable::TooLong));
    }

    #[test]
    fn empty_blocks_are_refused_after_thousands_of_them() {
        let empty = |is_last: u8| [is_last, 0, 0];
        let frame = |blocks: usize| {
            let blocks = (0..blocks).flat_map(|n| empty(u8::from(n + 1 == blocks)));
            MAGIC.into_iter().chain([0, MIB_1]).chain(blocks).collect::<Vec<u8>>()
        };
        assert_eq!(decoded(&frame(BLOCKS)).unwrap(), b"");
        assert_eq!(decoded(&frame(BLOCKS + 1)), Err(Undecodable::TooManyParts));
        assert_eq!(decoded(&frame(BLOCKS / 2 + 1).repeat(2)), Err(Undecodable::TooManyParts), "all frames count");
    }

    #[test]
    fn a_body_that_breaks_off_is_unreadable_at_each_byte() {
        for end in 1..REFERENCE.len() {
            assert_eq!(decoded(&REFERENCE[..end]), Err(Undecodable::Malformed), "{end}");
        }
        assert_eq!(decoded(b"[]"), Err(Undecodable::Malformed));
        let cut = skippable(b"comment");
        assert_eq!(decoded(&cut[..cut.len() - 1]), Err(Undecodable::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut bytes = [zipped(&REFERENCE.repeat(20)), REFERENCE.to_vec()].concat();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = decoded(&bytes);
        }
    }
}
