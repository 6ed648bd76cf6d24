//! The address of a listener.

use std::net::SocketAddr;

pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "is not an IP address with a port; write for example \"127.0.0.1:9464\"".to_owned())
}
