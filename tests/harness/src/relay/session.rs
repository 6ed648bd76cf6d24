//! One SMTP conversation (RFC 5321) with the faults of the script.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::{Act, At, Privacy, State, locked};

/// Greets a client that has too many connections.
pub(super) async fn refuse(mut socket: TcpStream) -> Result<()> {
    Ok(socket.write_all(b"421 4.7.0 Too many concurrent SMTP connections\r\n").await?)
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

struct Session<'a> {
    stream: BufReader<Box<dyn Stream>>,
    state: &'a State,
    private: bool,
    logged_in: bool,
    from: String,
    to: Vec<String>,
    /// Messages of this session that were offered.
    messages: usize,
}

/// Serves a client until it leaves. An error ends the connection.
pub(super) async fn run(socket: TcpStream, state: &State) -> Result<()> {
    socket.set_nodelay(true)?;
    let (stream, private): (Box<dyn Stream>, bool) = match (&state.tls, state.settings.privacy) {
        (Some(tls), Privacy::Implicit) => (Box::new(tls.accept(socket).await?), true),
        _ => (Box::new(socket), false),
    };
    let stream = BufReader::new(stream);
    let mut session =
        Session { stream, state, private, logged_in: false, from: String::new(), to: Vec::new(), messages: 0 };
    session.step(At::Greeting, "220 relay.test ESMTP").await?;
    while let Some(line) = session.line().await? {
        let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        locked(&state.commands).push(verb.clone());
        match verb.as_str() {
            "EHLO" => session.ehlo().await?,
            "STARTTLS" => session = session.start_tls().await?,
            "AUTH" => session.auth(&line).await?,
            "MAIL" => session.mail(&line).await?,
            "RCPT" => session.rcpt(&line).await?,
            "DATA" => session.data().await?,
            "RSET" => session.reset().await?,
            "NOOP" => session.say("250 2.0.0 ok").await?,
            "QUIT" => return session.say("221 2.0.0 bye").await,
            _ => session.say("502 5.5.2 unknown command").await?,
        }
    }
    Ok(())
}

impl Session<'_> {
    async fn ehlo(&mut self) -> Result<()> {
        let mut lines = vec!["relay.test".to_owned()];
        if self.state.settings.privacy == Privacy::StartTls && !self.private {
            lines.push("STARTTLS".into());
        }
        if self.state.settings.login.is_some() {
            lines.push("AUTH PLAIN LOGIN XOAUTH2".into());
        }
        lines.extend(self.state.settings.extensions.iter().cloned());
        let last = lines.len() - 1;
        let reply = lines.iter().enumerate().map(|(n, line)| format!("250{}{line}", if n == last { ' ' } else { '-' }));
        let reply = reply.collect::<Vec<_>>().join("\r\n");
        self.step(At::Ehlo, &reply).await.map(drop)
    }

    async fn start_tls(mut self) -> Result<Self> {
        if !self.step(At::StartTls, "220 2.0.0 go ahead").await? {
            return Ok(self);
        }
        let Some(tls) = &self.state.tls else { bail!("no certificate") };
        let stream: Box<dyn Stream> = Box::new(tls.accept(self.stream.into_inner()).await?);
        Ok(Self { stream: BufReader::new(stream), private: true, ..self })
    }

    async fn auth(&mut self, line: &str) -> Result<()> {
        let said = match line.split(' ').collect::<Vec<_>>().as_slice() {
            [_, "PLAIN", initial] => decoded(initial)?,
            [_, "LOGIN"] => {
                let user = self.ask("334 VXNlcm5hbWU6").await?;
                format!("\0{user}\0{}", self.ask("334 UGFzc3dvcmQ6").await?)
            }
            [_, "XOAUTH2", initial] => return self.xoauth2(&decoded(initial)?).await,
            _ => return self.say("504 5.5.4 unknown mechanism").await,
        };
        let wanted = self.state.settings.login.as_ref().map(|(user, password)| format!("\0{user}\0{password}"));
        if wanted != Some(said) {
            return self.say("535 5.7.8 wrong user or password").await;
        }
        self.logged_in = self.step(At::Auth, "235 2.7.0 welcome").await?;
        Ok(())
    }

    /// The password of the settings is the access token. Google and Microsoft refuse a token by a challenge.
    async fn xoauth2(&mut self, said: &str) -> Result<()> {
        let wanted = |(user, token): &(String, String)| format!("user={user}\x01auth=Bearer {token}\x01\x01");
        if self.state.settings.login.as_ref().map(wanted).is_none_or(|wanted| wanted != said) {
            let empty = self.ask("334 eyJzdGF0dXMiOiI0MDAifQ==").await?;
            ensure!(empty.is_empty(), "a challenge of XOAUTH2 is answered with an empty line");
            return self.say("535 5.7.8 Username and Password not accepted").await;
        }
        self.logged_in = self.step(At::Auth, "235 2.7.0 welcome").await?;
        Ok(())
    }

    async fn ask(&mut self, challenge: &str) -> Result<String> {
        self.say(challenge).await?;
        decoded(&self.line().await?.unwrap_or_default())
    }

    async fn mail(&mut self, line: &str) -> Result<()> {
        if self.state.settings.login.is_some() && !self.logged_in {
            return self.say("530 5.7.0 authentication required").await;
        }
        if !self.from.is_empty() {
            return self.say("503 5.5.1 nested MAIL").await;
        }
        if self.state.settings.messages.is_some_and(|most| self.messages >= most) {
            return self.say("451 4.3.2 Mails per session limit").await;
        }
        self.messages += 1;
        if self.step(At::Mail, "250 2.1.0 ok").await? {
            self.from = path(line);
        }
        Ok(())
    }

    async fn rcpt(&mut self, line: &str) -> Result<()> {
        self.to.push(path(line));
        if !self.step(At::Rcpt, "250 2.1.5 ok").await? {
            self.to.pop();
        }
        Ok(())
    }

    async fn reset(&mut self) -> Result<()> {
        self.from.clear();
        self.to.clear();
        self.step(At::Rset, "250 2.0.0 ok").await.map(drop)
    }

    async fn data(&mut self) -> Result<()> {
        if !self.step(At::Data, "354 go on").await? {
            return Ok(());
        }
        let content = self.content().await?;
        let (from, to) = (std::mem::take(&mut self.from), std::mem::take(&mut self.to));
        match self.state.act(At::Dot, &to) {
            None => {
                self.state.keep(&from, &to, &content)?;
                self.say("250 2.0.0 queued").await
            }
            Some(Act::Slow(time)) => {
                tokio::time::sleep(time).await;
                self.state.keep(&from, &to, &content)?;
                self.say("250 2.0.0 queued").await
            }
            Some(Act::KeepAndClose) => {
                self.state.keep(&from, &to, &content)?;
                bail!("as told")
            }
            Some(Act::KeepAndReply(reply)) => {
                self.state.keep(&from, &to, &content)?;
                self.say(&reply).await
            }
            Some(act) => self.fail(act, "").await.map(drop),
        }
    }

    /// Reads the content up to the final dot.
    async fn content(&mut self) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        let mut first = true;
        loop {
            let mut line = Vec::new();
            self.stream.read_until(b'\n', &mut line).await?;
            ensure!(line.ends_with(b"\r\n"), "the client left within the content");
            if line == b".\r\n" {
                return Ok(content);
            }
            content.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
            if std::mem::take(&mut first)
                && let Some(act) = self.state.act(At::Body, &self.to)
            {
                self.fail(act, "").await?;
            }
        }
    }

    /// Replies with `reply` unless a fault matches. Answers `true` if the normal reply was sent.
    async fn step(&mut self, at: At, reply: &str) -> Result<bool> {
        match self.state.act(at, &self.to) {
            None => self.say(reply).await.map(|()| true),
            Some(act) => self.fail(act, reply).await,
        }
    }

    /// Answers `true` if the normal reply was sent after a delay.
    async fn fail(&mut self, act: Act, duty: &str) -> Result<bool> {
        match act {
            Act::Reply(reply) => self.say(&reply).await?,
            Act::Slip(reply) => {
                self.say(&reply).await?;
                return Ok(true);
            }
            Act::ReplyAndClose(reply) => {
                self.say(&reply).await?;
                bail!("as told")
            }
            Act::Slow(time) => {
                tokio::time::sleep(time).await;
                if !duty.is_empty() {
                    self.say(duty).await?;
                }
                return Ok(true);
            }
            Act::Silent => self.listen().await?,
            Act::HalfClose => {
                self.stream.get_mut().shutdown().await?;
                self.listen().await?;
            }
            Act::Close | Act::KeepAndClose | Act::KeepAndReply(_) => bail!("as told"),
        }
        Ok(false)
    }

    /// Reads until the client leaves.
    async fn listen(&mut self) -> Result<()> {
        tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await?;
        bail!("the client left")
    }

    async fn say(&mut self, reply: &str) -> Result<()> {
        let latin1 = |c| u8::try_from(c).unwrap_or(b'?');
        let bytes =
            if self.state.settings.latin1 { reply.chars().map(latin1).collect() } else { reply.as_bytes().to_vec() };
        let stream = self.stream.get_mut();
        stream.write_all(&[&bytes[..], b"\r\n"].concat()).await?;
        Ok(stream.flush().await?)
    }

    async fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let patience = self.state.settings.idle.unwrap_or(Duration::MAX);
        let Ok(read) = timeout(patience, self.stream.read_line(&mut line)).await else {
            self.step(At::Idle, "421 4.4.2 idle for too long").await?;
            return Ok(None);
        };
        Ok((read? > 0).then(|| line.trim_end().to_owned()))
    }
}

/// The path between angle brackets.
fn path(line: &str) -> String {
    let inside = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inside.map_or_else(String::new, |(path, _)| path.to_owned())
}

fn decoded(text: &str) -> Result<String> {
    Ok(String::from_utf8(BASE64_STANDARD.decode(text)?)?)
}
