//! The looks of a tenant, as templates receive them.

use serde::Serialize;
use tidings_model::settings;

use super::clean::{self, NAME_CHARS};

/// Limit of the address line in characters.
const LINE_CHARS: usize = 300;

/// The variable `brand` of templates. Nothing is set for a tenant without looks of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Brand {
    /// The name that recipients know. Set if there is a logo.
    pub name: Option<String>,
    /// An https address of a picture.
    pub logo_url: Option<String>,
    /// `#1f56c8`, on which white text is readable.
    pub colour: Option<String>,
    /// A line for the footer.
    pub address_line: Option<String>,
}

impl Brand {
    /// Cleans the values as those of events are.
    #[must_use]
    pub fn new(brand: &settings::Brand) -> Self {
        let text = |value: &Option<String>, chars| value.as_deref().map(|text| clean::text(text, chars).into_owned());
        Self {
            name: text(&brand.name, NAME_CHARS),
            logo_url: brand.logo_url.as_deref().and_then(clean::url),
            colour: brand.colour.map(|colour| colour.to_string()),
            address_line: text(&brand.address_line, LINE_CHARS),
        }
    }

    /// A brand with everything, for checks of templates.
    pub(super) fn sample() -> Self {
        let text = |text: &str| Some(text.to_owned());
        Self {
            name: text("Acme & Sons"),
            logo_url: text("https://acme.example/logo.png"),
            colour: text("#8a1c4a"),
            address_line: text("Acme & Sons, 1 Main Street, Springfield"),
        }
    }
}
