//! `tidings.toml`: settings, or all that is wrong with its place and what would be right, and never a password.

use std::path::Path;

use tidings::config::{Config, ConfigError, ConfigProblem};

use super::lines::lines;

/// Stands in an input where a password would.
const SECRET: &str = "hunter2";
/// A first line of this kind is a variable of the environment: `#$ NAME=VALUE`.
const VARIABLE: &str = "#$ ";
/// Keys whose value contains a password, and tables that could be replaced by such a value.
const SECRET_KEYS: [&str; 16] = [
    "database_url",
    "smtp_url",
    "url",
    "url_env",
    "dkim",
    "mail",
    "relay",
    "stream",
    "bulk",
    "transactional",
    "recipients",
    "retention",
    "tenant",
    "digest",
    "password",
    "ses",
];

/// The text of a file, with variables of the environment in its first lines.
///
/// # Panics
/// Where a rule is broken.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let all = lines(bytes);
    let variables: Vec<_> = all.iter().map_while(|line| line.strip_prefix(VARIABLE)?.split_once('=')).collect();
    let environment = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned()).filter(|value| !value.is_empty())
    };
    let read = Config::parse_text(Path::new("tidings.toml"), &text, &environment);
    let shown = match &read {
        Ok(config) => format!("{config:?} {:?} {:?}", config.unchecked_settings(), config.warnings()),
        Err(ConfigError::Wrong(problems)) => {
            assert!(!problems.is_empty(), "wrong, but nothing is");
            for problem in problems {
                says_where_and_what(problem, &all);
            }
            format!("{} {problems:?}", read.as_ref().err().map(ToString::to_string).unwrap_or_default())
        }
        Err(error) => panic!("nothing is read from a disk: {error}"),
    };
    let mut with_it = all.iter().filter(|line| line.contains(SECRET)).peekable();
    let secret = with_it.peek().is_some() && with_it.all(|line| is_secret(line));
    assert!(!secret || !shown.contains(SECRET), "a password is shown: {shown}");
}

fn says_where_and_what(problem: &ConfigProblem, lines: &[String]) {
    let ConfigProblem { place, problem: what, .. } = problem;
    let line = place.strip_prefix("tidings.toml:").map(str::parse::<usize>);
    match line {
        Some(line) => assert!(line.is_ok_and(|line| (1..=lines.len()).contains(&line)), "{problem}"),
        None => assert!(["environment", "default"].contains(&place.as_str()), "{problem}"),
    }
    assert!(!what.is_empty(), "{problem:?}");
}

/// Answers `true` if the line has its secret as a password: in a URL, as a value of the file, or in a variable of Tidings.
fn is_secret(line: &str) -> bool {
    let line = line.strip_prefix(VARIABLE).unwrap_or(line);
    let Some((key, value)) = line.split_once('=') else { return false };
    let key = key.trim();
    // How long a category named like that may wait.
    let known = !key.contains("delay")
        && (key.starts_with("TIDINGS_") || SECRET_KEYS.contains(&key.rsplit('.').next().unwrap_or_default()));
    let value = value.trim_start();
    // What stands behind the closing quotes is a comment.
    let value = if value.starts_with('"') { value.split('"').find(|part| !part.is_empty()) } else { Some(value) };
    if key.rsplit('.').next() == Some("url_env") && is_text(line) {
        return line.matches(SECRET).count() == 1 && value.is_some_and(|value| value.contains(SECRET));
    }
    let password = value.and_then(|value| value.split_once("://")).and_then(|(scheme, rest)| {
        let (before, _) = rest.rsplit_once('@')?;
        // Without a password the user may be a token.
        let (user, password) = before.split_once(':').unwrap_or(("", before));
        Some((scheme.chars().all(char::is_alphanumeric) && !user.contains(['/', '?', '#', '"']), password))
    });
    let alone = line.matches(SECRET).count() == 1;
    known && alone && password.is_some_and(|(is_url, password)| is_url && password.contains(SECRET))
}

/// Answers `true` if the value is one string in plain quotes, with at most a comment after it.
fn is_text(line: &str) -> bool {
    let Some((_, value)) = line.split_once('=') else { return false };
    let parts: Vec<_> = value.split('"').collect();
    matches!(parts[..], [before, text, after] if before.trim().is_empty()
        && !text.contains('\\') && !after.contains(SECRET) && matches!(after.trim_start().chars().next(), None | Some('#')))
}
