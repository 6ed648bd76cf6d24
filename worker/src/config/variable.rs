//! Names of environment variables in `tidings.toml`.

/// The name as a problem shows it. A token instead of a name is not shown: only words in capital letters with an underscore are
/// certain to be a name.
pub(super) fn shown(variable: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = variable.contains('_') && variable.bytes().all(fits);
    if is_name { variable.to_owned() } else { "***".to_owned() }
}

/// Accepts the names that Kubernetes accepts. A URL or a secret fails, because a value is easily mixed up with its variable.
pub(super) fn variable_name(text: &str, right: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !text.is_empty() && text.bytes().all(fits) {
        return Ok(());
    }
    Err(format!("is not the name of a variable; write for example {right}"))
}
