//! Reads a process's memory and CPU time from Linux's `/proc`.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

use crate::figure::count;

pub const MEBIBYTE: f64 = 1_048_576.0;
/// The length of a tick in `/proc/PID/stat` (`USER_HZ`, `proc_pid_stat(5)`).
const TICK: Duration = Duration::from_millis(10);
/// The position of the parent's id after the process's name. The name stands in parentheses and may contain spaces.
const PARENT: usize = 1;
/// The position of `utime` and `stime`, which `cutime` and `cstime` follow.
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
    ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).context("needs /proc")?, 2).map(|ticks| TICK * ticks)
}

/// The CPU time between two moments, in ms for each digest that was sent.
pub fn per_digest(before: Duration, after: Duration, digests: usize) -> f64 {
    1_000.0 * after.saturating_sub(before).as_secs_f64() / count(digests)
}

/// The CPU time of a process and its children so far, also of children that have ended.
pub fn cpu_with_children(pid: u32) -> Result<Duration> {
    let mut all = ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).context("needs /proc")?, 4)?;
    for process in fs::read_dir("/proc").context("needs /proc")? {
        // A process may end meanwhile. Then it is among the ended ones the next time.
        let Ok(stat) = fs::read_to_string(process?.path().join("stat")) else { continue };
        if parent_of(&stat)? == pid {
            all += ticks(&stat, 4)?;
        }
    }
    Ok(TICK * all)
}

/// The parent of a process.
pub fn parent(pid: u32) -> Result<u32> {
    parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).context("needs /proc")?)
}

fn parent_of(stat: &str) -> Result<u32> {
    let parent = words(stat)?.nth(PARENT).context("no parent")?;
    Ok(parent.parse()?)
}

/// The sum of the first `count` of `utime`, `stime`, `cutime` and `cstime`.
fn ticks(stat: &str, count: usize) -> Result<u32> {
    words(stat)?.skip(UTIME).take(count).map(|ticks| Ok(ticks.parse::<u32>()?)).sum()
}

/// The words after the process's name.
fn words(stat: &str) -> Result<impl Iterator<Item = &str>> {
    let (_, words) = stat.rsplit_once(") ").context("no name")?;
    Ok(words.split(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_process_is_called() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 900 0 0 0 170 35 0 0 20 0 8 0 1000 0 0";
        assert_eq!(ticks(stat, 2).unwrap(), 205);
        assert_eq!(parent_of(stat).unwrap(), 1);
    }

    #[test]
    fn the_time_of_children_is_added_also_when_they_have_ended() {
        let stat = "42 (a) S 1 42 42 0 -1 4194304 900 0 0 0 170 35 20 3 20 0 8 0 1000 0 0";
        assert_eq!(ticks(stat, 4).unwrap(), 228);
        let pid = std::process::id();
        assert!(cpu_with_children(parent(pid).unwrap()).unwrap() >= cpu(pid).unwrap());
    }

    #[test]
    fn this_process_has_used_the_cpu_and_has_memory() {
        let pid = std::process::id();
        let before = cpu(pid).unwrap();
        while cpu(pid).unwrap() == before {}
        assert!(resident(pid, "VmHWM").unwrap() > 1.0);
    }
}
