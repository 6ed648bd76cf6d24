//! Branding of a tenant's messages and pages.

use std::{fmt, str::FromStr};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantBrand {
    /// Required with a logo.
    pub name: Option<String>,
    pub logo_url: Option<String>,
    pub colour: Option<BrandColour>,
    /// Below messages, e.g. the sender's postal address.
    pub address_line: Option<String>,
    /// BCP 47 tag for recipients without a language.
    pub locale: Option<String>,
}

/// An sRGB colour, e.g. `#1f56c8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrandColour([u8; 3]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a colour; write for example \"#1f56c8\"")]
pub struct NotAColour;

impl BrandColour {
    /// For text of any size (WCAG 2.2, 1.4.3, level AA).
    pub const LEAST_CONTRAST: f64 = 4.5;

    /// The contrast of white text on this colour, from 1 to 21 (WCAG 2.2).
    #[must_use]
    pub fn contrast_with_white(self) -> f64 {
        let [red, green, blue] = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        let luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        1.05 / (luminance + 0.05)
    }
}

impl FromStr for BrandColour {
    type Err = NotAColour;

    fn from_str(text: &str) -> Result<Self, NotAColour> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6).ok_or(NotAColour)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NotAColour);
        }
        let [_, red, green, blue] = u32::from_str_radix(digits, 16).map_err(|_| NotAColour)?.to_be_bytes();
        Ok(Self([red, green, blue]))
    }
}

impl fmt::Display for BrandColour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_that_of_wcag() {
        for (colour, contrast) in [("#ffffff", 1.0), ("#000000", 21.0), ("#767676", 4.54), ("#777777", 4.48)] {
            let found = colour.parse::<BrandColour>().unwrap().contrast_with_white();
            assert!((found - contrast).abs() < 0.01, "{colour}: {found}");
        }
    }

    #[test]
    fn a_colour_is_six_digits_after_a_hash() {
        assert_eq!("#1F56c8".parse::<BrandColour>().unwrap().to_string(), "#1f56c8");
        for wrong in ["", "#", "1f56c8", "#1f56c", "#1f56c8a", "#1f56cg", "blue", "#+1f56c", "#ééé"] {
            assert_eq!(wrong.parse::<BrandColour>(), Err(NotAColour), "{wrong}");
        }
    }
}
