//! Confirmation before an irreversible command.

use std::io::{self, IsTerminal as _, Write as _};

use tidings_model::foreign_text::clean_edges;

use crate::error::UsageError;

/// Prompts on the terminal. Returns `true` if the user typed `expected`. `instead` suggests an option for a
/// dry run.
///
/// # Errors
/// There is no terminal, or it is gone.
pub(crate) fn confirm_command(question: &str, expected: &str, instead: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let problem = format!("--yes: is required, because there is no terminal to ask on; {instead}");
        return Err(UsageError(problem).into());
    }
    anstream::eprint!("{question} Nothing brings it back. Type {expected} to go on: ");
    io::stderr().flush()?;
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    Ok(clean_edges(&typed) == expected)
}
