//! Public names that changed before 0.1.0. Whoever still uses a former name gets an error with today's.

/// Where a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePlace {
    /// A key of `tidings.toml`.
    Key,
    /// A subcommand of `tidings`.
    Command,
    /// A flag of the command line, without its dashes.
    Flag,
    /// A field of JSON that the API reads or writes.
    Field,
    /// A path of the API.
    Route,
    /// A variable of templates. An unknown one is false in an `if`, so a template that uses it must not load.
    Variable,
}

use NamePlace::{Command, Field, Flag, Key, Route, Variable};

/// Each place with the former name and today's. CHANGELOG.md has the same rows.
pub const CHANGED_NAMES: [(NamePlace, &str, &str); 21] = [
    (Key, "first_now", "send_first"),
    (Key, "throttled", "on_throttle"),
    (Key, "capped", "on_cap"),
    (Key, "linger", "keep_open"),
    (Key, "max_items", "lines_per_message"),
    (Key, "max_lines", "items_per_line"),
    (Key, "type", "digest_type"),
    (Command, "digests", "digest"),
    (Command, "pauses", "pause"),
    (Command, "upkeep", "retention"),
    (Flag, "where", "filter"),
    (Flag, "type", "digest-type"),
    (Field, "where", "filter"),
    (Field, "but", "not_sent_because"),
    (Field, "type", "digest_type"),
    (Field, "notices", "webhook_events"),
    (Route, "/v1/digests", "/v1/ledger/digests"),
    (Variable, "digest.groups", "digest.lines"),
    (Variable, "digest.more.groups", "digest.more.lines"),
    (Variable, "digest.group_count", "digest.line_count"),
    (Variable, "section.groups", "section.lines"),
];

/// Returns today's name for a former one.
#[must_use]
pub fn current_name(place: NamePlace, former: &str) -> Option<&'static str> {
    CHANGED_NAMES.iter().find(|(of, name, _)| *of == place && *name == former).map(|(.., name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_has_each_name() {
        let changelog = include_str!("../../CHANGELOG.md");
        let table = changelog.split("### Changed names").nth(1).and_then(|rest| rest.split("###").next()).unwrap();
        for (place, former, current) in CHANGED_NAMES {
            let has_both = |row: &str| row.contains(former) && row.contains(current);
            assert!(table.lines().any(has_both), "{place:?} {former}");
        }
    }

    #[test]
    fn each_former_name_has_one_successor_which_is_no_former_name() {
        for (place, former, current) in CHANGED_NAMES {
            assert_eq!(current_name(place, former), Some(current));
            assert_eq!(current_name(place, current), None);
        }
        assert_eq!(current_name(NamePlace::Key, "where"), None);
    }
}
