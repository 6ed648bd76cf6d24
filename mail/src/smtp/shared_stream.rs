//! The socket below lettre's connection, in two hands: lettre speaks commands through one ([`super::reply_lines`]), we upgrade to
//! TLS, send the content and overhear the EHLO reply through the other.

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

/// Bytes that are overheard: more than any EHLO reply.
const HEARD_BYTES: usize = 8 * 1024;
/// Bytes between two writes: more than any reply, and than any certificates. lettre looks at a line's length only when it
/// has all of it, and a relay need not end its line.
const ANSWER_BYTES: usize = 64 * 1024;

/// A handle to the socket. The socket closes with the last handle.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<State>>);

struct State {
    socket: Socket,
    /// What a reader gets before what the socket has.
    ahead: Vec<u8>,
    /// What was read since the last write.
    heard: Vec<u8>,
    /// All that was read since the last write.
    answer_bytes: usize,
    spoke: bool,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<Wire>>),
}

impl Wire {
    pub(super) fn plain(socket: TcpStream) -> Self {
        Self::new(Socket::Plain(socket), Vec::new())
    }

    /// TLS from the first byte: the relay will greet.
    pub(super) fn tls(socket: TlsStream<Self>) -> Self {
        Self::new(Socket::Tls(Box::new(socket)), Vec::new())
    }

    /// TLS after STARTTLS: the relay greeted in the clear and will not do so again, but lettre waits for it.
    pub(super) fn upgraded(socket: TlsStream<Self>) -> Self {
        Self::new(Socket::Tls(Box::new(socket)), b"220 TLS\r\n".to_vec())
    }

    fn new(socket: Socket, ahead: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { socket, ahead, heard: Vec::new(), answer_bytes: 0, spoke: false })))
    }

    /// What was read since the last write, as text.
    pub(super) fn heard(&self) -> String {
        String::from_utf8_lossy(&self.state().heard).into_owned()
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.state().socket, Socket::Tls(_))
    }

    /// Something was written.
    pub(super) fn spoke(&self) -> bool {
        self.state().spoke
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves as much of `bytes` to a reader as it has room for.
pub(super) fn hand_over(bytes: &mut Vec<u8>, buf: &mut ReadBuf<'_>) {
    let count = buf.remaining().min(bytes.len());
    buf.put_slice(&bytes[..count]);
    bytes.drain(..count);
}

impl AsyncRead for Wire {
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

impl AsyncWrite for Wire {
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

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.state().socket {
            Socket::Plain(socket) => socket.peer_addr(),
            Socket::Tls(socket) => socket.get_ref().0.peer_addr(),
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}
