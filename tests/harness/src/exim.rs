//! A private Exim on a free port: it relays to one server, which plays all others, and returns what that server refuses to a Maildir.
//!
//! Debian's package of Exim conflicts with that of Postfix, so that it is unpacked and not installed. Exim finds its programs, its
//! configuration and its user by fixed names; it runs where the unpacked folders are on top of those of the system.

use std::{
    env, fs,
    fs::File,
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{port::Port, relay::Relay};

/// The configuration. Nobody listens for the silent domain. Without a rule in `retry`, a deferred message is returned after its first
/// attempt.
const CONFIGURATION: &str = "\
primary_hostname = mail.acme.example
local_interfaces = 127.0.0.1
daemon_smtp_ports = PORT
spool_directory = FOLDER/spool
log_file_path = FOLDER/log/%slog
pid_file_path = FOLDER/spool/pid
keep_environment =
tls_advertise_hosts =
host_lookup =
acl_smtp_rcpt = accept
begin routers
returned:
  driver = accept
  domains = mail.acme.example
  transport = maildir
silent:
  driver = manualroute
  domains = silent.example
  transport = closed
  route_list = * 127.0.0.1
  self = send
others:
  driver = manualroute
  transport = internet
  route_list = * 127.0.0.1
  self = send
begin transports
maildir:
  driver = appendfile
  maildir_format
  directory = FOLDER/mail
  user = Debian-exim
internet:
  driver = smtp
  port = INTERNET
  allow_localhost
closed:
  driver = smtp
  port = CLOSED
  allow_localhost
begin retry
";

/// The user that Exim was built for, with a number that no other one has.
const USER: &str = "Debian-exim:x:64001:64001::/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "Debian-exim:x:64001:\n";
const OWNER: &str = "64001:64001";

/// In a namespace of its own for mounts. `$1` has the unpacked package, `$2` our folder.
const START: &str = "\
mount -t overlay usr -o \"lowerdir=$1/usr:/usr\" /usr &&
mount -t overlay etc -o \"lowerdir=$2/etc:/etc\" /etc &&
exec /usr/sbin/exim4 -bdf";

/// A running Exim, which is killed when it is dropped.
pub struct Exim {
    folder: TempDir,
    port: Port,
    /// The port of the silent domain, on which no server listens.
    _closed: Port,
    child: Child,
}

impl Exim {
    /// Starts Exim. `internet` is the server of all domains but `silent.example` and `mail.acme.example`.
    ///
    /// # Errors
    /// When Exim does not start. Only root can start it, on a machine that lets root mount.
    pub fn start(internet: &Relay) -> Result<Self> {
        let package = env::var_os("TIDINGS_TEST_EXIM").context("TIDINGS_TEST_EXIM is not set")?;
        let (folder, port, closed) = (TempDir::new()?, Port::take()?, Port::take()?);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let at = |name: &str| folder.path().join(name);
        for name in ["etc/exim4", "spool", "log", "mail"] {
            fs::create_dir_all(at(name))?;
        }
        let url = internet.url();
        let (_, internet) = url.rsplit_once(':').context("the relay has no port")?;
        let configuration = CONFIGURATION
            .replace("PORT", &port.number.to_string())
            .replace("INTERNET", internet)
            .replace("CLOSED", &closed.number.to_string())
            .replace("FOLDER", &folder.path().display().to_string());
        fs::write(at("etc/exim4/exim4.conf"), configuration)?;
        fs::write(at("etc/passwd"), USER.to_owned() + &fs::read_to_string("/etc/passwd")?)?;
        fs::write(at("etc/group"), GROUP.to_owned() + &fs::read_to_string("/etc/group")?)?;
        let owned = Command::new("chown").arg(OWNER).args(["spool", "log", "mail"].map(at)).status()?;
        ensure!(owned.success(), "chown failed");
        let output = File::create(at("output"))?;
        let child = Command::new("unshare")
            .args(["--mount", "sh", "-c", START, "sh"])
            .args([Path::new(&package), folder.path()])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("no unshare")?;
        let mut exim = Self { folder, port, _closed: closed, child };
        exim.accepts()?;
        Ok(exim)
    }

    /// Waits until Exim accepts connections.
    fn accepts(&mut self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", self.port.number)).is_err() {
            ensure!(self.child.try_wait()?.is_none() && Instant::now() < until, "no start: {}", self.log());
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The address of the relay.
    #[must_use]
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port.number)
    }

    /// The folder with what comes back to mail.acme.example.
    #[must_use]
    pub fn maildir(&self) -> PathBuf {
        self.folder.path().join("mail")
    }

    /// All that Exim logged.
    #[must_use]
    pub fn log(&self) -> String {
        let names = ["output", "log/mainlog", "log/rejectlog", "log/paniclog"];
        names.map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()).concat()
    }
}

impl Drop for Exim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
