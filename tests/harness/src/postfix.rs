//! A private Postfix on free ports: it takes messages for mailboxes that do not exist, are full or never answer, and returns each
//! to a program.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::port::Port;

/// The settings except for the folders; docs/delivery.md shows those that every Postfix needs. Each domain returns messages for another reason. A deferred message is returned after its
/// first attempt.
const MAIN: &str = "\
compatibility_level = 3.6
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
maillog_file_prefixes = /
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.acme.example
mydestination =
relay_domains = mail.acme.example
recipient_delimiter = +
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_reject_unlisted_recipient = no
alias_maps =
alias_database =
virtual_mailbox_domains = unknown.example
virtual_mailbox_maps = inline:{ { known@unknown.example = known } }
virtual_mailbox_base = /nonexistent
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
maximal_queue_lifetime = 0
bounce_queue_lifetime = 0
queue_run_delay = 1s
minimal_backoff_time = 1s
";

/// The services, as in Debian's master.cf.
const MASTER: &str = "\
127.0.0.1:PORT inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
tidings unix - n n - 10 pipe
  flags=R user=nobody argv=PROGRAM ${recipient}
";

/// A running Postfix, which stops when it is dropped.
pub struct Postfix {
    folder: TempDir,
    port: Port,
    /// The port of the silent domain, on which no server listens.
    _closed: Port,
}

impl Postfix {
    /// Starts Postfix. `program` gets each message for mail.acme.example, with the address as its argument, as the user `nobody`.
    ///
    /// # Errors
    /// When Postfix does not start. Only root can start it.
    pub fn start(program: &Path) -> Result<Self> {
        let (folder, port, closed) = (TempDir::new()?, Port::take()?, Port::take()?);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let at = |name: &str| folder.path().join(name);
        for name in ["conf", "queue", "data"] {
            fs::create_dir(at(name))?;
        }
        run(Command::new("chown").arg("postfix").arg(at("data")))?;
        let own = format!(
            "queue_directory = {}\ndata_directory = {}\nmaillog_file = {}\n\
             transport_maps = inline:{{ {{ mail.acme.example = tidings: }} {{ full.example = error:5.2.2 mailbox full }}\n \
             {{ silent.example = smtp:[127.0.0.1]:{} }} }}\n",
            at("queue").display(),
            at("data").display(),
            at("log").display(),
            closed.number
        );
        let master =
            MASTER.replace("PORT", &port.number.to_string()).replace("PROGRAM", &program.display().to_string());
        fs::write(at("conf").join("main.cf"), format!("{MAIN}{own}"))?;
        fs::write(at("conf").join("master.cf"), master)?;
        let postfix = Self { folder, port, _closed: closed };
        postfix.command("start").with_context(|| postfix.log())?;
        Ok(postfix)
    }

    /// The address of the relay.
    #[must_use]
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port.number)
    }

    /// All that Postfix logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, command: &str) -> Result<()> {
        run(Command::new("/usr/sbin/postfix").arg("-c").arg(self.at("conf")).arg(command))
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        let _ = self.command("stop");
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
