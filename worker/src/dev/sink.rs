//! A small SMTP server for the laptop. It accepts every email and stores it in the [`Mailbox`], but never
//! forwards one.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use super::mailbox::Mailbox;

mod session;

use session::{SinkAction, SinkEnvelope, SinkSession};

const MAX_MAIL_BYTES: usize = 25 * 1024 * 1024;
/// RFC 5321 requires 512, extensions need more.
const MAX_COMMAND_BYTES: u64 = 4096;
/// Idle timeout (RFC 5321 4.5.3.2.7).
const SILENCE: Duration = Duration::from_mins(5);
const MAX_SESSIONS: usize = 256;

pub(super) async fn serve(listener: TcpListener, mailbox: Arc<Mailbox>) {
    let mut sessions = JoinSet::new();
    loop {
        while sessions.len() >= MAX_SESSIONS {
            sessions.join_next().await;
        }
        while sessions.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _peer)) => {
                sessions.spawn(handle_connection(stream, Arc::clone(&mailbox)));
            }
            Err(error) => {
                tracing::warn!(%error, "the mail sink could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn handle_connection(stream: TcpStream, mailbox: Arc<Mailbox>) {
    let done = match stream.set_nodelay(true) {
        Ok(()) => run_session(stream, &mailbox).await,
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        tracing::debug!(%error, "a session with the mail sink broke");
    }
}

async fn run_session(mut stream: TcpStream, mailbox: &Mailbox) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read);
    let mut session = SinkSession::default();
    write.write_all(b"220 tidings dev ESMTP\r\n").await?;
    while let Some(line) = command_line(&mut lines).await? {
        match session.command(line.trim_end_matches(['\r', '\n'])) {
            SinkAction::Answer(text) => write.write_all(format!("{text}\r\n").as_bytes()).await?,
            SinkAction::Offer => write.write_all(ehlo_reply().as_bytes()).await?,
            SinkAction::Receive(envelope) => {
                write.write_all(b"354 end with a dot alone on a line\r\n").await?;
                let answer = receive(&mut lines, &envelope, mailbox).await?;
                write.write_all(answer.as_bytes()).await?;
            }
            SinkAction::Quit => return write.write_all(b"221 2.0.0 bye\r\n").await,
        }
    }
    Ok(())
}

fn ehlo_reply() -> String {
    format!(
        "250-tidings dev\r\n250-SIZE {MAX_MAIL_BYTES}\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-PIPELINING\r\n\
         250 ENHANCEDSTATUSCODES\r\n"
    )
}

async fn command_line(lines: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    timeout(SILENCE, lines.take(MAX_COMMAND_BYTES).read_until(b'\n', &mut line)).await??;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a command line without an end"));
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Reads up to the final dot and returns the reply. This only reports success once the email is on disk.
async fn receive(
    lines: &mut (impl AsyncBufRead + Unpin),
    envelope: &SinkEnvelope,
    mailbox: &Mailbox,
) -> io::Result<&'static str> {
    let Some(body) = read_mail(lines).await? else { return Ok("552 5.3.4 over the size that EHLO offered\r\n") };
    let mut mail = trace(envelope).into_bytes();
    mail.extend_from_slice(&body);
    Ok(match mailbox.store_email(&mail).await {
        Ok(_) => "250 2.0.0 kept\r\n",
        Err(error) => {
            tracing::warn!(%error, "the mail sink could not write an email");
            "452 4.3.1 could not be written\r\n"
        }
    })
}

fn trace(envelope: &SinkEnvelope) -> String {
    let delivered: String = envelope.to.iter().map(|to| format!("Delivered-To: {to}\r\n")).collect();
    format!("Return-Path: <{}>\r\n{delivered}", envelope.from)
}

/// Removes the dots added by SMTP (RFC 5321 4.5.2). Returns `None` if the email is too large, after reading
/// to its end.
async fn read_mail(lines: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut mail = Vec::new();
    let mut too_large = false;
    loop {
        let start = mail.len();
        timeout(SILENCE, lines.take(MAX_MAIL_BYTES as u64).read_until(b'\n', &mut mail)).await??;
        match &mail[start..] {
            b".\r\n" | b".\n" => {
                mail.truncate(start);
                return Ok((!too_large).then_some(mail));
            }
            [.., b'\n'] if mail[start] == b'.' => drop(mail.remove(start)),
            [.., b'\n'] => {}
            _ if mail.len() - start < MAX_MAIL_BYTES => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
        if too_large || mail.len() > MAX_MAIL_BYTES {
            too_large = true;
            mail.clear();
        }
    }
}

#[cfg(test)]
mod tests;
