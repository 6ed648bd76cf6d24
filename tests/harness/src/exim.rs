//! A private Exim on a free port: it relays to one server, which plays all others, and returns what that server refuses to a Maildir.
//!
//! Debian's package of Exim conflicts with that of Postfix, so that it is unpacked and not installed. Exim finds its programs, its
//! configuration and its user by fixed names; it runs in a root of its own, with copies of the libraries that it is linked with.

use std::{
    env, fs,
    fs::File,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
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
spool_directory = /spool
log_file_path = /log/%slog
pid_file_path = /spool/pid
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
  directory = /mail
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
const ROOT: &str = "root:x:0:0:root:/:/bin/sh\n";
const GROUP: &str = "Debian-exim:x:64001:\n";
const OWNER: &str = "64001:64001";

/// Its program in the package, and in the root.
const PROGRAM: &str = "usr/sbin/exim4";

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
    /// When Exim does not start. Only root can start it.
    pub fn start(internet: &Relay) -> Result<Self> {
        let package = env::var_os("TIDINGS_TEST_EXIM").context("TIDINGS_TEST_EXIM is not set")?;
        let (folder, port, closed) = (TempDir::new()?, Port::take()?, Port::take()?);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let at = |name: &str| folder.path().join(name);
        for name in ["etc/exim4", "dev", "spool", "log", "mail/cur", "mail/new", "mail/tmp"] {
            fs::create_dir_all(at(name))?;
        }
        let url = internet.url();
        let (_, internet) = url.rsplit_once(':').context("the relay has no port")?;
        let configuration = CONFIGURATION
            .replace("PORT", &port.number.to_string())
            .replace("INTERNET", internet)
            .replace("CLOSED", &closed.number.to_string());
        fs::write(at("etc/exim4/exim4.conf"), configuration)?;
        fs::write(at("etc/passwd"), USER.to_owned() + ROOT)?;
        fs::write(at("etc/group"), GROUP)?;
        fs::write(at("dev/null"), "")?;
        fs::set_permissions(at("dev/null"), fs::Permissions::from_mode(0o666))?;
        copy_program(Path::new(&package), folder.path())?;
        let owned = Command::new("chown").args(["-R", OWNER]).args(["spool", "log", "mail"].map(at)).status()?;
        ensure!(owned.success(), "chown failed");
        let output = File::create(at("output"))?;
        let child = Command::new("chroot")
            .arg(folder.path())
            .arg(Path::new("/").join(PROGRAM))
            .arg("-bdf")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("no chroot")?;
        let mut exim = Self { folder, port, _closed: closed, child };
        let is_served = exim.port.is_served_by(&mut exim.child)?;
        ensure!(is_served, "no start: {}", exim.log());
        Ok(exim)
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

/// Copies the program and its libraries to the same paths in `root`.
fn copy_program(package: &Path, root: &Path) -> Result<()> {
    let program = package.join(PROGRAM);
    let linked =
        Command::new("ldd").arg(&program).env("LD_LIBRARY_PATH", libraries(package)).output().context("no ldd")?;
    let linked = String::from_utf8(linked.stdout)?;
    // `libc.so.6 => /lib/libc.so.6 (0x...)`, and `/lib64/ld-linux-x86-64.so.2 (0x...)`.
    let paths = linked.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    for path in paths.chain([program.as_path()]) {
        let inside = path.strip_prefix(package).or_else(|_| path.strip_prefix("/"))?;
        let to = root.join(inside);
        fs::create_dir_all(to.parent().context("no folder")?)?;
        fs::copy(path, to).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The folders with libraries of the package, by Debian's names.
fn libraries(package: &Path) -> String {
    let folders = ["usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"];
    folders.map(|folder| package.join(folder).display().to_string()).join(":")
}

impl Drop for Exim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
