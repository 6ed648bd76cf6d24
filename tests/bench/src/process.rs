//! Reads a process's memory and CPU time from Linux's `/proc`.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

use crate::figure::count;

pub const MEBIBYTE: f64 = 1_048_576.0;
/// The length of a tick in `/proc/PID/stat` (`USER_HZ`, `proc_pid_stat(5)`).
const TICK: Duration = Duration::from_millis(10);
/// The position of `utime` and `stime` after the process's name. The name stands in parentheses and may contain spaces.
const UTIME: usize = 11;

/// The value of `field` in `status`, in MiB.
pub fn resident(pid: u32, field: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("needs /proc")?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.strip_suffix("kB"));
    let kilobytes = kilobytes.with_context(|| format!("no {field}"))?.trim().parse::<usize>()?;
    Ok(count(kilobytes) * 1_024.0 / MEBIBYTE)
}

/// The CPU time of all threads so far, also of those that have ended.
pub fn cpu(pid: u32) -> Result<Duration> {
    ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).context("needs /proc")?).map(|ticks| TICK * ticks)
}

fn ticks(stat: &str) -> Result<u32> {
    let (_, words) = stat.rsplit_once(") ").context("no name")?;
    words.split(' ').skip(UTIME).take(2).map(|ticks| Ok(ticks.parse::<u32>()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_process_is_called() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 900 0 0 0 170 35 0 0 20 0 8 0 1000 0 0";
        assert_eq!(ticks(stat).unwrap(), 205);
    }

    #[test]
    fn this_process_has_used_the_cpu_and_has_memory() {
        let pid = std::process::id();
        let before = cpu(pid).unwrap();
        while cpu(pid).unwrap() == before {}
        assert!(resident(pid, "VmHWM").unwrap() > 1.0);
    }
}
