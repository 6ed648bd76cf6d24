//! The stream that lettre reads: a relay's replies line by line, in a form that lettre parses.
//!
//! The stream works around two faults of lettre 0.11.23. Its reply parser rejects a line that is only a code (`250`), which RFC
//! 5321 4.2 allows. Its EHLO parser panics on a line that has only blanks after the code. The faults are gone when
//! `replies_of_bare_codes_are_accepted` in `tests/it/smtp/outcomes.rs` passes with `SharedStream` in place of `ReplyLines`.

use std::{
    io, mem,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared_stream::{SharedStream, hand_over};

/// Bytes of one read from the socket, more than most replies have.
const CHUNK_BYTES: usize = 512;

/// Reads whole lines without trailing blanks. A line that is only a code gets the space that precedes a text.
#[derive(Debug)]
pub(super) struct ReplyLines {
    wire: SharedStream,
    /// The incomplete line. [`SharedStream`] bounds its length.
    begun: Vec<u8>,
    /// Complete lines that lettre has not read yet.
    whole: Vec<u8>,
}

impl ReplyLines {
    pub(super) const fn new(wire: SharedStream) -> Self {
        Self { wire, begun: Vec::new(), whole: Vec::new() }
    }

    fn take(&mut self, fresh: &[u8]) {
        for part in fresh.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.whole.append(&mut tidied(mem::take(&mut self.begun)));
            }
        }
    }
}

/// Cleans the end of a line. A line that is not UTF-8 stays unchanged, and lettre refuses it.
fn tidied(line: Vec<u8>) -> Vec<u8> {
    let Ok(text) = str::from_utf8(&line).map(str::trim_end) else { return line };
    let space = if text.len() == 3 { " " } else { "" };
    format!("{text}{space}\r\n").into_bytes()
}

impl AsyncRead for ReplyLines {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.whole.is_empty() {
            let mut chunk = [0; CHUNK_BYTES];
            let mut fresh = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.wire).poll_read(cx, &mut fresh))?;
            if fresh.filled().is_empty() {
                // The relay may close within a line.
                self.whole = mem::take(&mut self.begun);
                break;
            }
            self.take(fresh.filled());
        }
        hand_over(&mut self.whole, buf);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReplyLines {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for ReplyLines {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.wire.peer_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_trailing_blanks_and_a_bare_code_gains_a_space() {
        for (line, read) in [
            ("250-relay.test\r\n", "250-relay.test\r\n"),
            ("250-  \t\r\n", "250-\r\n"),
            ("250-\r\r\n", "250-\r\n"),
            ("250-\u{2003}\r\n", "250-\r\n"),
            ("250 \r\n", "250 \r\n"),
            ("250   \r\n", "250 \r\n"),
            ("250\r\n", "250 \r\n"),
            ("250 ok\n", "250 ok\r\n"),
            ("\r\n", "\r\n"),
        ] {
            assert_eq!(String::from_utf8(tidied(line.into())).unwrap(), read, "{line:?}");
        }
        assert_eq!(tidied(b"250 \xff \r\n".into()), b"250 \xff \r\n");
    }
}
