//! The socket below lettre's connection, shared by two handles. lettre sends commands through one ([`ReplyLines`]). We
//! negotiate TLS, send the content and read the EHLO reply through the other.
//!
//! The sharing works around gaps of lettre 0.11.23. Its asynchronous connection can upgrade only its own socket, does not expose
//! the parameters of EHLO extensions such as SIZE, and cannot send the final dot apart from the content. The gaps are closed when
//! `AsyncSmtpConnection` offers these three.

use std::{
    fmt, io, mem,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// Most bytes of a reply that are kept, more than any EHLO reply has.
const HEARD_BYTES: usize = 8 * 1024;
/// Most bytes that a relay may send between two writes, more than any reply or certificate has. lettre 0.11.23 limits a line
/// only after its end, and a relay may never end its line. The limit can go when lettre refuses a long line before its end.
const ANSWER_BYTES: usize = 64 * 1024;

/// A handle to the socket. The socket closes with the last handle.
#[derive(Clone)]
pub(super) struct SharedStream(Arc<Mutex<State>>);

struct State {
    socket: Socket,
    /// Bytes that a reader receives before those of the socket.
    ahead: Vec<u8>,
    /// The first bytes since the last write.
    heard: Vec<u8>,
    /// The number of bytes since the last write.
    answer_bytes: usize,
    spoke: bool,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<SharedStream>>),
}

impl SharedStream {
    pub(super) fn plain(socket: TcpStream) -> Self {
        Self::new(Socket::Plain(socket), Vec::new())
    }

    /// A socket with TLS from the first byte. The relay still has to greet.
    pub(super) fn tls(socket: TlsStream<Self>) -> Self {
        Self::new(Socket::Tls(Box::new(socket)), Vec::new())
    }

    /// A socket with TLS after STARTTLS. The relay has greeted in plaintext and does not greet again, but a connection of lettre
    /// 0.11.23 always begins by reading a greeting. The reader therefore receives a made-up one. The need is gone when
    /// `AsyncSmtpConnection` can be made from a stream that has been greeted.
    pub(super) fn upgraded(socket: TlsStream<Self>) -> Self {
        Self::new(Socket::Tls(Box::new(socket)), b"220 TLS\r\n".to_vec())
    }

    fn new(socket: Socket, ahead: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { socket, ahead, heard: Vec::new(), answer_bytes: 0, spoke: false })))
    }

    /// The first bytes since the last write, as text.
    pub(super) fn heard(&self) -> String {
        String::from_utf8_lossy(&self.state().heard).into_owned()
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.state().socket, Socket::Tls(_))
    }

    /// Returns whether a byte was ever written.
    pub(super) fn spoke(&self) -> bool {
        self.state().spoke
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves bytes to a reader, as many as fit.
fn hand_over(bytes: &mut Vec<u8>, buf: &mut ReadBuf<'_>) {
    let count = buf.remaining().min(bytes.len());
    buf.put_slice(&bytes[..count]);
    bytes.drain(..count);
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut guard = self.state();
        let state = &mut *guard;
        if !state.ahead.is_empty() {
            hand_over(&mut state.ahead, buf);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = match &mut state.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Socket::Tls(socket) => Pin::new(socket).poll_read(cx, buf),
        };
        let room = HEARD_BYTES.saturating_sub(state.heard.len());
        let fresh = &buf.filled()[before..];
        state.heard.extend_from_slice(&fresh[..fresh.len().min(room)]);
        state.answer_bytes += fresh.len();
        if state.answer_bytes > ANSWER_BYTES {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the relay's answer has no end")));
        }
        polled
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        state.heard.clear();
        state.answer_bytes = 0;
        state.spoke = true;
        match &mut state.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Socket::Tls(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state().socket {
            Socket::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Socket::Tls(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state().socket {
            Socket::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::Tls(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

impl AsyncTokioStream for SharedStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.state().socket {
            Socket::Plain(socket) => socket.peer_addr(),
            Socket::Tls(socket) => socket.get_ref().0.peer_addr(),
        }
    }
}

impl fmt::Debug for SharedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStream")
    }
}

/// Bytes of one read from the socket, more than most replies have.
const CHUNK_BYTES: usize = 512;
/// Bytes of a line that are kept. RFC 5321 4.5.3.1.5 allows 512.
const LINE_BYTES: usize = 900;

/// Reads a relay's replies in a form that lettre parses: whole lines without trailing blanks. A line that is only a code gets the space
/// that precedes a text. A reply is its three digits and its enhanced code, at every stage. The words after them are in whatever encoding
/// the relay's language has, and say nothing that decides.
///
/// The stream works around four faults of lettre 0.11.23. Its reply parser rejects a line that is only a code (`250`), which RFC
/// 5321 4.2 allows. Its EHLO parser panics on a line that has only blanks after the code. A line that is not UTF-8 is a lost connection,
/// and so is one of more than 1,000 bytes. The faults are gone when `replies_of_bare_codes_are_accepted` and
/// `words_in_another_encoding_do_not_matter` in `tests/it/smtp/outcomes.rs` pass with `SharedStream` in place of `ReplyLines`.
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
                self.whole.append(&mut tidied(&mem::take(&mut self.begun)));
            }
        }
    }
}

/// Returns the line with its code, with its words as far as they are UTF-8, and without blanks at its end.
fn tidied(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let text = text[..text.floor_char_boundary(LINE_BYTES)].trim_end();
    let (code, words) = text.split_at_checked(3).unwrap_or((text, ""));
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    // After a fourth digit or a letter, the line is no reply.
    let is_apart = !words.starts_with(|c: char| c == '-' || c == ' ' || c.is_ascii_alphanumeric());
    let space = if is_code && is_apart { " " } else { "" };
    format!("{code}{space}{words}\r\n").into_bytes()
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
            ("2500 ok\r\n", "2500 ok\r\n"),
            ("250\tok\r\n", "250 \tok\r\n"),
        ] {
            assert_eq!(String::from_utf8(tidied(line.as_bytes())).unwrap(), read, "{line:?}");
        }
    }

    #[test]
    fn words_of_any_bytes_and_length_leave_the_code() {
        for (line, read) in [
            (&b"250 2.0.0 f\xfcr alle\r\n"[..], "250 2.0.0 f\u{fffd}r alle\r\n"),
            (b"550-\xb2\xbb\xb4\xe6\xd4\xda\r\n", "550-\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\r\n"),
            (b"220\xa0relay.test\r\n", "220 \u{fffd}relay.test\r\n"),
            (b"250 \xff \r\n", "250 \u{fffd}\r\n"),
            (b"250 a\0b\r\n", "250 a\0b\r\n"),
        ] {
            assert_eq!(String::from_utf8(tidied(line)).unwrap(), read, "{line:?}");
        }
        let long = tidied(&[&b"250-"[..], &[b' '; 2_000][..], b"\xfc\r\n"].concat());
        assert_eq!(long, b"250-\r\n");
        assert!(tidied(&[&b"250 "[..], &[0xfc; 2_000][..], b"\r\n"].concat()).len() <= LINE_BYTES + 2);
    }
}
