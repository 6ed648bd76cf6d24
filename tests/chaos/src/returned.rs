//! Emails that a mail server takes and returns later, as its pipe hands them to `tidings bounces read`.

use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tidings_harness::relay::Mail;
use tokio::{io::AsyncWriteExt as _, time::sleep};

use super::{
    files::Files,
    interventions::{AGAIN, Desk},
};

/// The exit code by which a mail server keeps a message and tries again.
const TRY_LATER: i32 = 75;
/// Statuses of the returned emails: the address does not exist, or the delivery took too long.
const STATUSES: [&str; 2] = ["5.1.1", "4.4.7"];

impl Desk {
    /// Returns an email to the sender of its envelope, repeatedly until the report is read, and notes the report for the checker.
    ///
    /// # Errors
    /// When the command ends with an undocumented exit code, or does not believe the report.
    pub(super) async fn hand_back(&self, mail: &Mail, number: u32, files: &Files) -> Result<bool> {
        let message = mail.header("X-Tidings-Message")?;
        let [to] = &mail.to[..] else { bail!("message {message} has {} recipients", mail.to.len()) };
        let status = STATUSES[number as usize % STATUSES.len()];
        let report = report(to, &message, status);
        let words = ["bounces", "read", "--json", "--recipient", &mail.from].map(str::to_owned);
        let output = loop {
            let output = self.pipe(&words, &report).await?;
            self.tidings.note(&words, &output)?;
            match output.status.code() {
                Some(0) => break output,
                Some(TRY_LATER) => sleep(AGAIN).await,
                _ => bail!("tidings bounces read: {output:?}"),
            }
        };
        let counts: Value = serde_json::from_slice(&output.stdout)?;
        let read = ["recorded", "known"].map(|name| counts[name].as_u64().unwrap_or(0));
        ensure!(read.iter().sum::<u64>() == 1, "the report about {message} is not believed: {counts}");
        files.append("returned.ndjson", &json!({"id": message, "status": status}))?;
        Ok(read[0] == 1)
    }

    async fn pipe(&self, words: &[String], input: &str) -> Result<Output> {
        let mut command = self.tidings.command(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("no input")?;
        // A command that ended early does not read everything, and its exit code says why.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        Ok(child.wait_with_output().await?)
    }
}

/// A report of a mail server (RFC 3464).
fn report(to: &str, message: &str, status: &str) -> String {
    format!(
        "From: MAILER-DAEMON@mx.example.net\nMIME-Version: 1.0\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\
         Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.net\n\n\
         Final-Recipient: rfc822; {to}\nAction: failed\nStatus: {status}\n\n--b\n\
         Content-Type: text/rfc822-headers\n\nX-Tidings-Message: {message}\n\n--b--\n"
    )
}
