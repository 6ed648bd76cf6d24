//! Links of a finished message that are counted: each link to a page is replaced, and a picture stands at the end.

use std::borrow::Cow;

use super::html::{anchors, with_links};

/// Returns the address that counts a click and leads to this target; `None` for a link that stays unchanged.
pub type Click<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The addresses that count. The same message has the same addresses each time.
pub struct Tracker<'a> {
    /// Counts clicks.
    pub click: Option<&'a Click<'a>>,
    /// The address of the picture that counts openings.
    pub picture: Option<&'a str>,
}

impl Tracker<'_> {
    /// Counts nothing.
    pub const NONE: Self = Self { click: None, picture: None };

    /// Returns the HTML with addresses that count. Links in `untouched` stay: those to unsubscribe and to choose.
    pub(super) fn applied(&self, mut html: String, untouched: &[&str]) -> String {
        if let Some(click) = self.click {
            let places = anchors(&html).collect();
            html = with_links(html, places, |link| {
                unescaped(link).filter(|target| !untouched.contains(&&**target)).and_then(|target| click(&target))
            });
        }
        if let Some(picture) = self.picture {
            let end = html.rfind("</body>").unwrap_or(html.len());
            html.insert_str(
                end,
                &format!("<img src=\"{picture}\" width=\"1\" height=\"1\" alt=\"\" style=\"border:0\">"),
            );
        }
        html
    }
}

/// Returns the value of an attribute. `None` if it has a reference that our templates do not write.
fn unescaped(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('&') {
        return Some(value.into());
    }
    let mut parts = value.split('&');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').unwrap_or(("", part));
        text.push(match name {
            "amp" | "#38" => '&',
            "lt" | "#60" => '<',
            "gt" | "#62" => '>',
            "quot" | "#34" => '"',
            "#39" | "apos" => '\'',
            "#96" => '`',
            // `?a=b&c=d` without escapes is common in templates, and a browser reads it as it stands.
            _ if !part.contains(';') => '&',
            _ => return None,
        });
        text.push_str(rest);
    }
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(html: &str) -> String {
        let click = |target: &str| target.starts_with("http").then(|| format!("https://t.example/{}", target.len()));
        let tracker = Tracker { click: Some(&click), picture: Some("https://t.example/o/x") };
        tracker.applied(html.to_owned(), &["https://mail.example/u/x?a&b"])
    }

    #[test]
    fn links_to_pages_are_replaced_and_others_stay() {
        for (html, expected) in [
            (r#"<a href="https://a.example/">"#, r#"<a href="https://t.example/18">"#),
            (r#"<a class="x" href='http://a.example'>"#, r#"<a class="x" href='https://t.example/16'>"#),
            (r#"<A HREF="https://a.example/?a=b&amp;c=d">"#, r#"<A HREF="https://t.example/26">"#),
            (r#"<a href="https://a.example/?a=b&c=d">"#, r#"<a href="https://t.example/26">"#),
            (r#"<area href="https://a.example/">"#, r#"<area href="https://t.example/18">"#),
            (r#"<a href="https://mail.example/u/x?a&amp;b">"#, r#"<a href="https://mail.example/u/x?a&amp;b">"#),
            (r#"<a href="mailto:a@b.example">"#, r#"<a href="mailto:a@b.example">"#),
            (r#"<img src="https://a.example/logo.png">"#, r#"<img src="https://a.example/logo.png">"#),
            (r#"<link href="https://a.example/x.css">"#, r#"<link href="https://a.example/x.css">"#),
            (r#"<a href="https://a.example/&eacute;x">"#, r#"<a href="https://a.example/&eacute;x">"#),
            ("href=\"https://a.example/\"", "href=\"https://a.example/\""),
        ] {
            let picture = r#"<img src="https://t.example/o/x" width="1" height="1" alt="" style="border:0">"#;
            assert_eq!(counted(html), format!("{expected}{picture}"));
        }
    }

    #[test]
    fn the_picture_is_the_last_of_the_body() {
        let html = counted("<html><body><p>a</p></body></html>");
        assert!(html.ends_with("alt=\"\" style=\"border:0\"></body></html>"), "{html}");
    }

    #[test]
    fn nothing_changes_without_a_tracker() {
        let html = r#"<body><a href="https://a.example/"></body>"#;
        assert_eq!(Tracker::NONE.applied(html.to_owned(), &[]), html);
    }
}
