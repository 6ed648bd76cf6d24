//! Host names in ASCII.

/// Checks for a host name like `lists.example.com`: labels of letters, digits, `-` and `_`, 253 bytes at most.
#[must_use]
pub fn is_host_name(name: &str) -> bool {
    let label =
        |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    name.len() <= 253 && name.split('.').all(label)
}
