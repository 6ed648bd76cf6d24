//! A port for a server that is started by its number. Ports that the kernel gives away are not safe for that: between the
//! look and the start another test's server may be given the same one.

use std::{
    env, fs,
    fs::File,
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    os::unix::fs::MetadataExt,
    process,
};

use anyhow::{Context, Result};

/// Below what Linux gives away by itself (`net.ipv4.ip_local_port_range`).
const PORTS: Range<u16> = 20_000..32_000;

/// A free port, ours until it is dropped.
pub struct Port {
    pub number: u16,
    /// Locked: no other test takes the port.
    _lock: File,
}

impl Port {
    /// Takes the first one that nobody has.
    ///
    /// # Errors
    /// When there is none, or the temporary folder cannot be written.
    pub fn take() -> Result<Self> {
        // Another user's locks are not ours to open.
        let user = fs::metadata("/proc/self")?.uid();
        let folder = env::temp_dir().join(format!("tidings-test-ports-{user}"));
        fs::create_dir_all(&folder)?;
        // Tests that start together begin to look at different places.
        let start = process::id() as usize * 97 % PORTS.len();
        let numbers = PORTS.skip(start).chain(PORTS.take(start));
        for number in numbers {
            let lock = File::create(folder.join(number.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        None.context("no port is free")
    }
}
