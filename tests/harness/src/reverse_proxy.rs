//! A real nginx and a real Caddy with TLS, in front of a server on this machine. Their configuration is what docs/gateway.md shows,
//! with other addresses.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{port::Port, relay::Authority};

/// The name of the gateway in docs/gateway.md.
pub const HOST: &str = "mail.acme.example";
/// The address of the gateway in docs/gateway.md.
const UPSTREAM: &str = "127.0.0.1:8080";
/// The end of a fenced block.
const FENCE: &str = "```";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Nginx,
    Caddy,
}

/// A running proxy, which is killed when it is dropped.
pub struct ReverseProxy {
    pub port: Port,
    /// The certificate of the authority that signed the proxy's.
    pub authority: PathBuf,
    folder: TempDir,
    child: Child,
}

impl ReverseProxy {
    /// Starts a proxy in front of `upstream`, as the page says.
    ///
    /// # Errors
    /// When the page has no such configuration, or the program does not start.
    pub fn start(program: Program, page: &str, upstream: SocketAddr) -> Result<Self> {
        let (folder, port) = (TempDir::new()?, Port::take()?);
        let at = |name: &str| folder.path().join(name);
        let authority = Authority::new(HOST)?;
        authority.write(&at("authority.pem"))?;
        authority.write_certificate(&at("certificate.pem"), &at("key.pem"))?;
        let block = block(page, program)?;
        ensure!(block.contains(UPSTREAM), "the configuration does not name {UPSTREAM}:\n{block}");
        let block = block.replace(UPSTREAM, &upstream.to_string());
        let mut command = match program {
            Program::Nginx => {
                fs::write(at("nginx.conf"), nginx(&block, &folder, port.number)?)?;
                let mut command = Command::new(tool("TIDINGS_TEST_NGINX")?);
                command.arg("-p").arg(folder.path()).arg("-c").arg(at("nginx.conf")).arg("-e").arg(at("log"));
                command
            }
            Program::Caddy => {
                fs::write(at("Caddyfile"), caddy(&block, &folder, port.number)?)?;
                let mut command = Command::new(tool("TIDINGS_TEST_CADDY")?);
                command.args(["run", "--adapter", "caddyfile", "--config"]).arg(at("Caddyfile"));
                command.env("HOME", folder.path()).env("XDG_DATA_HOME", folder.path());
                command
            }
        };
        let log = File::create(at("output"))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn().context("no program")?;
        let mut proxy = Self { port, authority: at("authority.pem"), folder, child };
        let is_served = proxy.port.is_served_by(&mut proxy.child)?;
        ensure!(is_served, "no start: {}", proxy.log());
        Ok(proxy)
    }

    /// All that the proxy wrote.
    #[must_use]
    pub fn log(&self) -> String {
        ["output", "log"].map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()).concat()
    }
}

impl Drop for ReverseProxy {
    fn drop(&mut self) {
        // nginx ends its workers on SIGTERM, and leaves them alone when it is killed.
        let _ = crate::process::signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

fn tool(variable: &'static str) -> Result<OsString> {
    env::var_os(variable).with_context(|| format!("{variable} is not set"))
}

/// The configuration of a program on the page: the block under its name.
fn block(page: &str, program: Program) -> Result<&str> {
    let name = match program {
        Program::Nginx => "\nnginx:\n",
        Program::Caddy => "\nCaddy:\n",
    };
    let (_, rest) = page.split_once(name).with_context(|| format!("{program:?} is not on the page"))?;
    let (_, rest) = rest.split_once(FENCE).context("no block")?;
    let (_, rest) = rest.split_once('\n').context("no block")?;
    Ok(rest.split_once(FENCE).context("the block has no end")?.0)
}

/// `text` with one place replaced, which must be there.
fn replaced(text: &str, from: &str, to: &str) -> Result<String> {
    ensure!(text.matches(from).count() == 1, "{from:?} is not there once in\n{text}");
    Ok(text.replace(from, to))
}

fn nginx(block: &str, folder: &TempDir, port: u16) -> Result<String> {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let block = replaced(block, "listen 443 ssl;", &format!("listen 127.0.0.1:{port} ssl;"))?;
    let block = replaced(&block, "/etc/ssl/mail.acme.example.pem", &path("certificate.pem"))?;
    let block = replaced(&block, "/etc/ssl/mail.acme.example.key", &path("key.pem"))?;
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {};\n", path(name)))
        .concat();
    // The workers read the folder as the user of the test.
    let user = if is_root(folder.path())? { "user root;\n" } else { "" };
    Ok(format!(
        "{user}daemon off;\npid {};\nworker_processes 1;\nevents {{}}\nhttp {{\n{temporary}{block}}}\n",
        path("pid")
    ))
}

fn caddy(block: &str, folder: &TempDir, port: u16) -> Result<String> {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let own = format!(
        "https://{HOST}:{port} {{\n    bind 127.0.0.1\n    tls {} {}",
        path("certificate.pem"),
        path("key.pem")
    );
    let block = replaced(block, &format!("{HOST} {{"), &own)?;
    Ok(format!("{{\n    admin off\n    auto_https disable_redirects\n}}\n{block}"))
}

fn is_root(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::metadata(folder)?.uid() == 0)
}
