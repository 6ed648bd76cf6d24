//! The access token by which Tidings logs in at a relay (XOAUTH2). It expires after an hour or so, and its source has a new one by then.

use std::{process::Stdio, time::Duration};

use tidings_model::relay_url::TokenSource;
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
    sync::Mutex,
    time::{Instant, timeout},
};

/// A command is asked for another token after this time. Providers' tokens are good for an hour.
const FRESH: Duration = Duration::from_mins(5);
/// The longest time for a command, or for a file on a slow disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest token.
const TOKEN_BYTES: usize = 16 * 1024;

/// The latest token of a relay. Connections that are opened meanwhile wait for the one that gets it.
#[derive(Default)]
pub(super) struct Tokens {
    latest: Mutex<Option<(String, Instant)>>,
}

impl Tokens {
    /// Returns the token for a login. A file is read each time.
    pub async fn get(&self, source: &TokenSource) -> Result<String, String> {
        let mut latest = self.latest.lock().await;
        if let (TokenSource::Command(_), Some((token, read_at))) = (source, &*latest)
            && read_at.elapsed() < FRESH
        {
            return Ok(token.clone());
        }
        let token = read(source).await?;
        *latest = Some((token.clone(), Instant::now()));
        Ok(token)
    }

    /// Gets another token instead of the latest, which the relay refused. Returns whether it differs.
    pub async fn renew(&self, source: &TokenSource) -> Result<bool, String> {
        let mut latest = self.latest.lock().await;
        let refused = latest.take();
        let token = read(source).await?;
        let differs = refused.is_none_or(|(refused, _)| refused != token);
        *latest = Some((token, Instant::now()));
        Ok(differs)
    }
}

/// The error is fit for logs: it has nothing that the file or the command said.
async fn read(source: &TokenSource) -> Result<String, String> {
    let (reading, name) = match source {
        TokenSource::File(path) => {
            let reading = async {
                let file = File::open(path).await.map_err(|error| format!("cannot be opened: {error}"))?;
                token(file).await
            };
            (timeout(PATIENCE, reading).await, format!("token_file {}", path.display()))
        }
        TokenSource::Command(words) => {
            let program = words.first().map(String::as_str).unwrap_or_default();
            (timeout(PATIENCE, run(words)).await, format!("token_command {program}"))
        }
    };
    let read = reading.unwrap_or_else(|_| Err(format!("takes longer than {PATIENCE:?}")));
    read.map_err(|problem| format!("{name} {problem}"))
}

async fn run(words: &[String]) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("is empty")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut running = command.spawn().map_err(|error| format!("cannot be run: {error}"))?;
    let output = running.stdout.take().ok_or("has no output")?;
    let token = token(output).await;
    let ended = running.wait().await.map_err(|error| format!("is lost: {error}"))?;
    if ended.success() { token } else { Err(format!("failed ({ended})")) }
}

/// Reads a token. White space around it does not count.
async fn token(from: impl AsyncRead + Unpin) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(TOKEN_BYTES).unwrap_or(u64::MAX) + 1;
    from.take(limit).read_to_end(&mut bytes).await.map_err(|error| format!("cannot be read: {error}"))?;
    let text = str::from_utf8(&bytes).unwrap_or_default().trim_start_matches('\u{feff}').trim();
    if text.is_empty() || bytes.len() > TOKEN_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has no access token: one word, and nothing else".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shell(script: String) -> TokenSource {
        TokenSource::Command(["/bin/sh", "-c", &script].map(str::to_owned).into())
    }

    #[tokio::test]
    async fn a_token_is_one_word_and_no_error_has_what_was_read() {
        for (script, expected) in [
            ("printf ' ya29.abc\\r\\n'", Ok("ya29.abc")),
            ("printf '\\357\\273\\277abc'", Ok("abc")),
            ("echo secret words", Err("has no access token")),
            ("printf 'secret\\001'", Err("has no access token")),
            ("printf '\\374secret'", Err("has no access token")),
            ("exit 0", Err("has no access token")),
            ("echo secret; echo secret >&2; exit 3", Err("failed (exit status: 3)")),
        ] {
            match (read(&shell(script.to_owned())).await, expected) {
                (Ok(token), Ok(expected)) => assert_eq!(token, expected, "{script}"),
                (Err(error), Err(expected)) => {
                    assert!(error.starts_with("token_command /bin/sh ") && error.contains(expected), "{error}");
                    assert!(!error.contains("secret"), "{error}");
                }
                other => panic!("{script}: {other:?}"),
            }
        }
        let long = tempfile::NamedTempFile::new().unwrap();
        fs::write(&long, "a".repeat(TOKEN_BYTES + 1)).unwrap();
        let error = read(&TokenSource::File(long.path().to_owned())).await.unwrap_err();
        assert!(error.starts_with("token_file /") && error.contains("has no access token"), "{error}");
        let error = read(&TokenSource::Command(vec!["/nonexistent/token".to_owned()])).await.unwrap_err();
        assert!(error.starts_with("token_command /nonexistent/token cannot be run"), "{error}");
    }

    #[tokio::test]
    async fn a_file_is_read_for_each_login_and_a_command_when_its_token_is_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("token");
        let (file, command) = (TokenSource::File(path.clone()), shell(format!("cat {}", path.display())));
        let (of_file, of_command) = (Tokens::default(), Tokens::default());
        fs::write(&path, "one\n").unwrap();
        assert_eq!((of_file.get(&file).await, of_command.get(&command).await), (Ok("one".into()), Ok("one".into())));
        assert_eq!(of_command.renew(&command).await, Ok(false));
        fs::write(&path, "two\n").unwrap();
        assert_eq!((of_file.get(&file).await, of_command.get(&command).await), (Ok("two".into()), Ok("one".into())));
        assert_eq!(of_command.renew(&command).await, Ok(true));
        assert_eq!(of_command.get(&command).await, Ok("two".into()));
    }
}
