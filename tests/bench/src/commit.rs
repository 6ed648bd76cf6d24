//! The measured commit.

use std::process::Command;

/// The commit that is checked out in this source tree, with `+ changes` if files outside docs have changes. `None`
/// without git or a repository.
pub fn current() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)docs"])?;
    Some(if changes.is_empty() { commit } else { format!("{commit} + changes") })
}
