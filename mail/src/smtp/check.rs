//! Checks a relay over a connection of its own, without sending a message.

use super::{
    connect::open,
    transmit::{AttemptOutcome, Mailer},
};

impl Mailer {
    /// Connects, negotiates TLS, authenticates, and sends NOOP and QUIT. Returns `false` if `tls=opportunistic` found no TLS.
    ///
    /// # Errors
    /// The phase in which the check ended, and the reason.
    pub async fn check(&self) -> Result<bool, AttemptOutcome> {
        let (relay, tls, timeouts) = self.transport_config();
        let mut connection = open(relay, tls, timeouts).await?;
        connection.noop(timeouts).await?;
        let is_private = connection.is_private();
        connection.quit().await;
        Ok(is_private)
    }
}
