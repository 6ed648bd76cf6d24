//! E-mail addresses of people.

use lettre::Address;

/// Parses an e-mail address (RFC 5321 addr-spec).
///
/// # Errors
/// The text is not an address.
pub fn address(text: &str) -> Result<String, String> {
    let address: Address =
        text.parse().map_err(|_| "is not an address; write for example \"ann@acme.example\"".to_owned())?;
    Ok(address.to_string())
}
