//! The connection to Temporal.

use std::pin::Pin;

use temporalio_client::{Connection, ConnectionOptions, errors::ClientConnectError};

/// Connects to Temporal. The compiler generates the 216 calls of the SDK's services where its async function is awaited. The box
/// keeps that here; each crate that connects would repeat it.
///
/// # Errors
/// The server does not answer, or is not Temporal.
pub fn connect(
    options: ConnectionOptions,
) -> Pin<Box<dyn Future<Output = Result<Connection, ClientConnectError>> + Send>> {
    Box::pin(Connection::connect(options))
}
