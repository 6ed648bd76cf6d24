//! Ports for servers that are started with a fixed port. A port that the kernel assigns is not safe: another server may
//! get it between the search and the start.

use std::{
    env, fs,
    fs::File,
    net::{Ipv4Addr, TcpListener, TcpStream},
    ops::Range,
    os::unix::fs::MetadataExt,
    process::{self, Child},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// Ports below those that Linux assigns (`net.ipv4.ip_local_port_range`).
const PORTS: Range<u16> = 20_000..32_000;

/// A free port, reserved until it is dropped.
pub struct Port {
    pub number: u16,
    /// A locked file: no other test takes the port.
    _lock: File,
}

impl Port {
    /// Takes the first free port.
    ///
    /// # Errors
    /// When no port is free or the temporary folder cannot be written.
    pub fn take() -> Result<Self> {
        // Another user's lock files cannot be opened.
        let user = fs::metadata("/proc/self")?.uid();
        let folder = env::temp_dir().join(format!("tidings-test-ports-{user}"));
        fs::create_dir_all(&folder)?;
        // Tests that start together begin their search at different ports.
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

    /// Waits ten seconds at most until a program accepts connections. `false`: it has ended, or does not.
    ///
    /// # Errors
    /// When the program cannot be looked at.
    pub fn is_served_by(&self, program: &mut Child) -> Result<bool> {
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.number)).is_err() {
            if program.try_wait()?.is_some() || Instant::now() >= until {
                return Ok(false);
            }
            sleep(Duration::from_millis(20));
        }
        Ok(true)
    }
}
