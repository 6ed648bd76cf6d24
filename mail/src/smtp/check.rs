//! Is a relay there, and does it let us in? A connection of its own, without a message.

use super::{AttemptOutcome, Mailer, connect::open};

impl Mailer {
    /// Connects, makes it private, logs in, says NOOP and QUIT. `false`: with `tls=opportunistic`, and without TLS.
    ///
    /// # Errors
    /// How far it came, and why no further.
    pub async fn check(&self) -> Result<bool, AttemptOutcome> {
        let (relay, tls, timeouts) = self.transport_config();
        let mut connection = open(relay, tls, timeouts).await?;
        connection.noop(timeouts).await?;
        let is_private = connection.is_private();
        connection.quit().await;
        Ok(is_private)
    }
}
