//! `tidings dev` runs all of Tidings on a laptop as one process tree: the Temporal dev server with its UI,
//! worker and gateway on SQLite, and a mail sink with an inbox in the browser. Its data is under `.tidings/`.

use std::{
    env,
    fs::{DirBuilder, File, TryLockError},
    os::unix::fs::DirBuilderExt as _,
    path::Path,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use futures::future::try_join;
use tidings_model::settings::UnknownRecipients;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{Config, gateway::GatewayListeners, registration::PatchMode, storage};

mod demo;
mod inbox;
mod mailbox;
mod pages;
mod settings;
mod sink;
mod temporal;
mod workshop;

use mailbox::Mailbox;
use settings::DevPort;

const FOLDER: &str = ".tidings";
/// Shutdown grace for activities in progress. The next start completes the rest.
const PATIENCE: Duration = Duration::from_secs(10);

const DEFAULT_TEMPORAL_PORT: u16 = 7233;

/// The options of `tidings dev`.
#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// Port of the Temporal dev server
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_TEMPORAL_PORT)]
    temporal_port: u16,
    /// Port of the Temporal UI
    #[arg(long, value_name = "PORT", default_value_t = 8233)]
    ui_port: u16,
    /// Port of the mail sink
    #[arg(long, value_name = "PORT", default_value_t = 1025)]
    smtp_port: u16,
    /// Port of the inbox page
    #[arg(long, value_name = "PORT", default_value_t = 8025)]
    inbox_port: u16,
    /// Port of the gateway, which serves the links of messages
    #[arg(long, value_name = "PORT", default_value_t = 8026)]
    gateway_port: u16,
    /// Port of the API, where services send events with a token
    #[arg(long, value_name = "PORT", default_value_t = 8027)]
    api_port: u16,
    /// Port of the workshop, which shows each template
    #[arg(long, value_name = "PORT", default_value_t = 8028)]
    workshop_port: u16,
    /// Send email to this relay instead of the sink and its inbox
    #[arg(long, value_name = "URL")]
    smtp_url: Option<Url>,
    /// Emit sample events, and check that the emails account for all of them
    #[arg(long, conflicts_with = "smtp_url")]
    demo: bool,
    /// Exit when the emails of the sample events have arrived
    #[arg(long, requires = "demo")]
    once: bool,
}

impl DevArgs {
    fn temporal_ports(&self) -> [DevPort; 2] {
        [
            DevPort { number: self.temporal_port, flag: "--temporal-port", what: "the Temporal dev server" },
            DevPort { number: self.ui_port, flag: "--ui-port", what: "the Temporal UI" },
        ]
    }

    fn smtp(&self) -> DevPort {
        DevPort { number: self.smtp_port, flag: "--smtp-port", what: "the mail sink" }
    }

    fn inbox(&self) -> DevPort {
        DevPort { number: self.inbox_port, flag: "--inbox-port", what: "the inbox page" }
    }

    fn gateway(&self) -> DevPort {
        DevPort { number: self.gateway_port, flag: "--gateway-port", what: "the gateway" }
    }

    fn api(&self) -> DevPort {
        DevPort { number: self.api_port, flag: "--api-port", what: "the API" }
    }

    fn workshop(&self) -> DevPort {
        DevPort { number: self.workshop_port, flag: "--workshop-port", what: "the workshop" }
    }

    fn api_url(&self) -> String {
        format!("http://localhost:{}", self.api_port)
    }

    fn gateway_url(&self) -> String {
        format!("http://localhost:{}", self.gateway_port)
    }

    fn inbox_url(&self) -> String {
        format!("http://localhost:{}", self.inbox_port)
    }

    fn workshop_url(&self) -> String {
        format!("http://localhost:{}", self.workshop_port)
    }

    fn temporal_address(&self) -> String {
        match self.temporal_port {
            DEFAULT_TEMPORAL_PORT if env::var_os("TEMPORAL_ADDRESS").is_none() => String::new(),
            port => format!("TEMPORAL_ADDRESS=127.0.0.1:{port} "),
        }
    }

    fn temporal_ui_url(&self) -> String {
        format!("http://localhost:{}", self.ui_port)
    }
}

/// Runs until Ctrl-C or SIGTERM, or with `--once` until the demo is over. `config` is the configuration file.
///
/// # Errors
/// A port is taken, a file cannot be written, the configuration is wrong, a part stopped by itself, or the
/// emails do not account for all sample events.
pub async fn run(args: DevArgs, config: Option<&Path>) -> anyhow::Result<()> {
    let folder = Path::new(FOLDER);
    let _lock = lock_folder(folder)?;
    let config = settings::dev_config(config, &args, folder)?;
    for port in args.temporal_ports() {
        drop(port.listen()?);
    }
    let mail = LocalMail::open(&args, folder).await?;
    let workshop = TcpListener::from_std(args.workshop().listen()?)?;
    let public = TcpListener::from_std(args.gateway().listen()?)?;
    let gateway = GatewayListeners { public, api: Some(TcpListener::from_std(args.api().listen()?)?) };
    let mut server = temporal::TemporalDevServer::start(folder, args.temporal_port, args.ui_port).await?;
    let ended = tokio::select! {
        error = server.wait_until_exit() => Err(error.into()),
        done = run_parts(&args, config, mail, workshop, gateway) => done,
    };
    server.stop().await;
    ended
}

/// Runs all other parts once the server is ready. The worker stops before the inbox does.
async fn run_parts(
    args: &DevArgs,
    config: Config,
    mail: LocalMail,
    workshop: TcpListener,
    gateway: GatewayListeners,
) -> anyhow::Result<()> {
    storage::migrate(&config.database_url).await?;
    let mailbox = Arc::clone(&mail.mailbox);
    let shutdown = CancellationToken::new();
    let mut worker = pin!(async {
        let worker = crate::worker::run(config.clone(), UnknownRecipients::Invent, PatchMode::Active, shutdown.clone());
        let gateway = crate::gateway::run(config.clone(), UnknownRecipients::Invent, gateway, shutdown.clone());
        Box::pin(try_join(worker, gateway)).await.map(drop)
    });
    let inbox = args.smtp_url.is_none().then(|| args.inbox_url());
    let mut pages = pin!(async {
        tokio::select! {
            done = mail.serve(args) => done,
            done = workshop::serve(workshop, config.clone(), inbox) => done.context("the workshop ended"),
        }
    });
    let ended = tokio::select! {
        done = &mut worker => return done.and_then(|()| bail!("the worker and the gateway ended")),
        done = &mut pages => done,
        done = wait_for_signal() => done,
        done = run_foreground(args, &config, &mailbox) => done,
    };
    shutdown.cancel();
    tokio::select! {
        stopped = worker => ended.and(stopped),
        () = sleep(PATIENCE) => ended,
        _ = pages => ended,
    }
}

/// Runs the demo if requested and prints the URLs. Only returns with `--once`.
async fn run_foreground(args: &DevArgs, config: &Config, mailbox: &Mailbox) -> anyhow::Result<()> {
    if args.demo {
        demo::run(config, mailbox).await?;
    }
    if args.once {
        println!("Emails are in {FOLDER}/mail.");
        return Ok(());
    }
    print_urls(args, config);
    std::future::pending().await
}

struct LocalMail {
    mailbox: Arc<Mailbox>,
    smtp: TcpListener,
    inbox: TcpListener,
}

impl LocalMail {
    async fn open(args: &DevArgs, folder: &Path) -> anyhow::Result<Self> {
        let smtp = TcpListener::from_std(args.smtp().listen()?)?;
        let inbox = TcpListener::from_std(args.inbox().listen()?)?;
        let mailbox = Mailbox::open(&folder.join("mail")).await.context("the folder .tidings/mail cannot be read")?;
        Ok(Self { mailbox: Arc::new(mailbox), smtp, inbox })
    }

    async fn serve(self, args: &DevArgs) -> anyhow::Result<()> {
        let about = inbox::InboxAddresses {
            smtp: format!("127.0.0.1:{}", args.smtp_port),
            temporal_ui: args.temporal_ui_url(),
        };
        tokio::select! {
            () = sink::serve(self.smtp, Arc::clone(&self.mailbox)) => bail!("the mail sink ended"),
            done = inbox::serve(self.inbox, self.mailbox, about) => done.context("the inbox page ended"),
        }
    }
}

/// One `tidings dev` per folder. The system releases the lock when the process ends, even after a crash.
fn lock_folder(folder: &Path) -> anyhow::Result<File> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    let path = folder.join("lock");
    let file = File::options().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("{} cannot be written", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another `tidings dev` is running in this folder: stop it first (Ctrl-C in its terminal)")
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("{} cannot be locked", path.display())),
    }
}

/// Also stops on SIGHUP: the server must not outlive a closed terminal.
async fn wait_for_signal() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

fn print_urls(args: &DevArgs, config: &Config) {
    match &args.smtp_url {
        None => println!("\nInbox        {}", args.inbox_url()),
        Some(_) => println!("\nInbox        none: email goes to --smtp-url"),
    }
    println!("Workshop     {}: each template, reloaded when a file changes", args.workshop_url());
    println!("Temporal UI  {}", args.temporal_ui_url());
    println!("Gateway      {}: serves the links at the end of each email", args.gateway_url());
    println!("API          {}", args.api_url());
    for name in config.webhooks().unwrap_or_default().keys() {
        println!("Webhook      {}/webhooks/{name}", args.gateway_url());
    }
    println!("Next, an event of your own, from another terminal:");
    println!("  {}{}", args.temporal_address(), example());
    println!("Ctrl-C stops everything.");
}

fn example() -> String {
    let program = env::args().next().unwrap_or_else(|| "tidings".to_owned());
    format!("{program} emit --tenant acme --user ann --digest activity --category comment --title 'Bob replied to you'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_dev_in_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock_folder(folder.path()).unwrap();
        assert!(lock_folder(folder.path()).unwrap_err().to_string().contains("another"));
        drop(first);
        // A process that another test has just forked holds the lock until it executes its program.
        while lock_folder(folder.path()).is_err() {
            std::thread::yield_now();
        }
    }
}
