//! The socket below lettre's connection, shared by two handles. lettre sends commands through one ([`super::reply_lines`]). We
//! negotiate TLS, send the content and read the EHLO reply through the other.
//!
//! The sharing works around gaps of lettre 0.11.23. Its asynchronous connection can upgrade only its own socket, does not expose
//! the parameters of EHLO extensions such as SIZE, and cannot send the final dot apart from the content. The gaps are closed when
//! `AsyncSmtpConnection` offers these three.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
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
pub(super) fn hand_over(bytes: &mut Vec<u8>, buf: &mut ReadBuf<'_>) {
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
