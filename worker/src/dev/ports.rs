//! The ports of `tidings dev`: all free, or a clear word about the one that is not.

use std::{
    fmt, fs, io,
    net::{Ipv4Addr, TcpListener},
    path::Path,
};

/// A port of this machine's loopback address, with the flag that moves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub number: u16,
    pub flag: &'static str,
    pub what: &'static str,
}

/// Why a port cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("port {} for {} is not free{}: choose another with {} PORT", .port.number, .port.what, Detail(.holder, .source), .port.flag)]
pub(super) struct Error {
    port: Port,
    /// The process that listens on the port, if known.
    holder: Option<String>,
    source: io::Error,
}

struct Detail<'a>(&'a Option<String>, &'a io::Error);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1.kind()) {
            (Some(holder), _) => write!(f, ", {holder} listens there"),
            (None, io::ErrorKind::AddrInUse) => Ok(()),
            (None, _) => write!(f, " ({})", self.1),
        }
    }
}

impl Port {
    /// Listens on the port.
    ///
    /// # Errors
    /// When it is taken, or not allowed.
    pub fn listen(self) -> Result<TcpListener, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.number)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map_err(|source| Error { port: self, holder: holder(self.number), source })
    }
}

/// `NAME (process ID)` of who listens on a port; `None` where the system has no /proc, or does not tell.
fn holder(port: u16) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| listening_inode(table, port))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let id_and_folder = |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path()));
    let (id, folder) = processes.filter_map(id_and_folder).find(|(_, folder)| has_open(folder, &socket))?;
    let name = fs::read_to_string(folder.join("comm")).ok()?;
    Some(format!("{} (process {id})", name.trim()))
}

/// The tenth column of the row whose local address ends in the port and whose state is `LISTEN` (`proc_pid_net(5)`).
fn listening_inode(table: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    fs::read_to_string(table).ok()?.lines().find_map(|row| {
        let columns: Vec<_> = row.split_whitespace().collect();
        let ours = columns.get(1)?.ends_with(&suffix) && *columns.get(3)? == LISTEN;
        ours.then(|| columns.get(9).map(|&inode| inode.to_owned()))?
    })
}

fn has_open(process: &Path, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == Path::new(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_reported_with_its_holder_and_the_flag() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = taken.local_addr().unwrap().port();
        let error = Port { number, flag: "--smtp-port", what: "the mail sink" }.listen().unwrap_err().to_string();
        assert!(error.contains(&number.to_string()) && error.contains("--smtp-port"), "{error}");
        if cfg!(target_os = "linux") {
            assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        }
    }
}
