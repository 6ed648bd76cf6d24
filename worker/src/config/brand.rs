//! The looks of a tenant's pages, and the names that recipients read.

use tidings_model::settings::{Colour, NotAColour};
use url::Url;

/// Characters of a name that recipients read.
const NAME_CHARS: usize = 80;
/// Characters of a sentence that recipients read.
const SENTENCE_CHARS: usize = 300;

/// Parses a name that recipients read.
pub(super) fn name(text: &str) -> Result<String, String> {
    line(text, NAME_CHARS)
}

/// Parses a sentence that recipients read.
pub(super) fn sentence(text: &str) -> Result<String, String> {
    line(text, SENTENCE_CHARS)
}

fn line(text: &str, limit: usize) -> Result<String, String> {
    let chars = text.chars().count();
    if text.trim().is_empty() {
        return Err("is empty; leave the key out".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("has a line break or another control character; write one line of text".to_owned());
    }
    if chars > limit {
        return Err(format!("has {chars} characters, the limit is {limit}"));
    }
    Ok(text.to_owned())
}

/// Parses the address of a picture. Pages allow pictures of its origin and no other.
pub(super) fn logo_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://acme.example/logo.png\"";
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
    if url.scheme() != "https" {
        return Err(format!("{:?} is not https, which pages need; {right}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("has a user or password, which every recipient would see; {right}"));
    }
    Ok(url.to_string())
}

/// Parses the colour of buttons, on which white text must be readable.
pub(super) fn colour(text: &str) -> Result<Colour, String> {
    let colour: Colour = text.parse().map_err(|error: NotAColour| error.to_string())?;
    let contrast = colour.contrast_with_white();
    if contrast < Colour::LEAST_CONTRAST {
        let least = Colour::LEAST_CONTRAST;
        return Err(format!(
            "has a contrast of {contrast:.1} to the white text on it, and {least} is the least; write a darker colour"
        ));
    }
    Ok(colour)
}

/// Parses a BCP 47 tag by its form.
pub(super) fn locale(text: &str) -> Result<String, String> {
    let mut parts = text.split('-');
    let is_language = parts.next().is_some_and(|part| (2..=3).contains(&part.len()) && alphabetic(part));
    if is_language && parts.all(|part| (1..=8).contains(&part.len()) && alphanumeric(part)) {
        Ok(text.to_owned())
    } else {
        Err("is not a language tag (BCP 47); write for example \"de\" or \"pt-BR\"".to_owned())
    }
}

fn alphabetic(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn alphanumeric(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
