//! Checks a relay over a connection of its own, without sending a message.

use super::transmit::{AttemptOutcome, Mailer};

impl Mailer {
    /// Connects, negotiates TLS, authenticates, and sends NOOP and QUIT. Returns `false` if `tls=opportunistic` found no TLS.
    ///
    /// # Errors
    /// The phase in which the check ended, and the reason.
    pub async fn check(&self) -> Result<bool, AttemptOutcome> {
        let (mut connection, timeouts) = self.open().await?;
        connection.noop(timeouts).await?;
        let is_private = connection.is_private();
        connection.quit().await;
        Ok(is_private)
    }
}
