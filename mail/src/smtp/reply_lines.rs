//! The hand on the wire that is lettre's: it gets a relay's replies line by line, in a form that it takes.

use std::{
    io, mem,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared_stream::{Wire, hand_over};

/// Bytes of a read from the wire: more than most replies have.
const CHUNK_BYTES: usize = 512;

/// Reads whole lines, each without the blanks at its end, and a code that is all of its line (RFC 5321 4.2 allows it) with the
/// space that would be before a text. lettre 0.11.23 takes that for no reply, and panics where a line of an EHLO reply has
/// blanks and nothing else.
#[derive(Debug)]
pub(super) struct Lines {
    wire: Wire,
    /// The line that has no end yet. The wire bounds it.
    begun: Vec<u8>,
    /// Lines that are still to be read.
    whole: Vec<u8>,
}

impl Lines {
    pub(super) const fn new(wire: Wire) -> Self {
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

/// What is not UTF-8 stays as it is: lettre refuses it.
fn tidied(line: Vec<u8>) -> Vec<u8> {
    let Ok(text) = str::from_utf8(&line).map(str::trim_end) else { return line };
    let space = if text.len() == 3 { " " } else { "" };
    format!("{text}{space}\r\n").into_bytes()
}

impl AsyncRead for Lines {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.whole.is_empty() {
            let mut chunk = [0; CHUNK_BYTES];
            let mut fresh = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.wire).poll_read(cx, &mut fresh))?;
            if fresh.filled().is_empty() {
                // The relay hung up, perhaps amid a line.
                self.whole = mem::take(&mut self.begun);
                break;
            }
            self.take(fresh.filled());
        }
        hand_over(&mut self.whole, buf);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Lines {
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

impl AsyncTokioStream for Lines {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.wire.peer_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_blanks_at_their_ends_and_codes_have_a_space() {
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
