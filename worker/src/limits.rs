//! System limits for this process: memory (from its control group) and file descriptors.

use std::{fs, path::Path};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const GROUPS: &str = "/sys/fs/cgroup";
const MEMORY_GROUPS: &str = "/sys/fs/cgroup/memory";
/// Without a limit, version 1 reports a number near this one.
const NO_LIMIT: u64 = 1 << 60;

/// Reserved, e.g. for databases, Temporal, the runtime and files.
pub(crate) const OWN_DESCRIPTORS: usize = 100;

pub(crate) fn memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    memory_of(&groups, |file| fs::read_to_string(file).ok())
}

/// Returns the lowest limit among the groups and their ancestors. `groups` is the content of
/// `/proc/self/cgroup`. In a container, its paths may refer to the host; then the root has the limit.
fn memory_of(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut least = None;
    for line in groups.lines() {
        let fields: Vec<_> = line.splitn(3, ':').collect();
        let [_, controllers, path] = fields[..] else { continue };
        let (root, file) = match controllers {
            "" => (GROUPS, "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (MEMORY_GROUPS, "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit: Option<u64> =
                read(&Path::new(root).join(group).join(file)).and_then(|limit| limit.trim().parse().ok());
            least = least.into_iter().chain(limit.filter(|limit| *limit < NO_LIMIT)).min();
        }
    }
    least
}

/// Returns the soft limit, raised to the hard limit. `None` if there is none.
pub(crate) fn raise_descriptors() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
}

/// `effect` begins the warning, e.g. `some connections to relays may fail`.
pub(crate) fn check_descriptors(limit: Option<u64>, needed: usize, effect: &str) {
    if limit.is_some_and(|limit| limit < needed as u64) {
        tracing::warn!(
            limit,
            needed,
            "{effect}, for lack of file descriptors: raise their hard limit (ulimit -Hn, LimitNOFILE= of systemd, ulimits of a container)"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const V1: &str = "5:devices:/\n4:memory:/pods/a\n2:cpu,cpuacct:/\n0::/\n";

    fn least(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        memory_of(groups, |file| files.get(file.to_str()?).map(ToString::to_string))
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_around_it_counts() {
        let v1 = |group: &str| format!("/sys/fs/cgroup/memory/{group}memory.limit_in_bytes");
        for (groups, files, limit) in [
            (
                "0::/a.slice/b.scope\n",
                vec![("/sys/fs/cgroup/a.slice/b.scope/memory.max".to_owned(), "268435456\n")],
                Some(268_435_456),
            ),
            (
                "0::/a.slice/b.scope\n",
                vec![
                    ("/sys/fs/cgroup/a.slice/b.scope/memory.max".to_owned(), "max\n"),
                    ("/sys/fs/cgroup/a.slice/memory.max".to_owned(), "100\n"),
                ],
                Some(100),
            ),
            ("0::/\n", vec![("/sys/fs/cgroup/memory.max".to_owned(), "max\n")], None),
            (V1, vec![(v1("pods/a/"), "200\n"), (v1("pods/"), "100\n"), (v1(""), "9223372036854771712\n")], Some(100)),
            // The path is that of the host, and the root that of the container.
            (V1, vec![(v1(""), "300\n")], Some(300)),
            (V1, vec![(v1(""), "9223372036854771712\n")], None),
            ("", vec![], None),
        ] {
            let files: Vec<_> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
            assert_eq!(least(groups, &files), limit, "{groups} {files:?}");
        }
    }

    #[test]
    fn the_limit_of_descriptors_is_raised_to_the_hard_limit() {
        let raised = raise_descriptors();
        assert_eq!(getrlimit(Resource::Nofile).current, raised);
    }
}
