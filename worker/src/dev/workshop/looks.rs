//! The HTML of a message in the frame of a page. A browser answers `prefers-color-scheme` as its system is set, and a page cannot
//! change that. So the copy in the frame has the answer written into it; nothing else of the message changes.

use super::wanted::Scheme;

const FEATURE: &str = "prefers-color-scheme";
/// Media features that hold for every window, and for none.
const ALWAYS: &str = "(min-width:0)";
const NEVER: &str = "(max-width:0)";

/// The HTML with media queries that answer `scheme`, and with `color-scheme` set to it.
pub(super) fn in_scheme(html: &str, scheme: Scheme) -> String {
    let mut made = String::with_capacity(html.len() + 100);
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        made.push_str(text);
        let end = if starts_with(tag, "<style") {
            // Up to the end of the style sheet. A value cannot contain a tag, because values are escaped.
            find(tag, "</style").unwrap_or(tag.len())
        } else {
            tag.find('>').map_or(tag.len(), |end| end + 1)
        };
        made.push_str(&answered(&tag[..end], scheme));
        rest = &tag[end..];
    }
    made.push_str(rest);
    let fixed = match scheme {
        Scheme::Light => "<style>:root{color-scheme:light!important}</style>",
        Scheme::Dark => "<style>:root{color-scheme:dark!important}</style>",
    };
    let at = find(&made, "</head>").unwrap_or(made.len());
    made.insert_str(at, fixed);
    made
}

/// Replaces each `(prefers-color-scheme: ...)` of a tag or a style sheet.
fn answered(css: &str, scheme: Scheme) -> String {
    let mut made = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(at) = find(rest, FEATURE) {
        let after = at + FEATURE.len();
        let open = rest[..at].trim_end().strip_suffix('(').map(str::len);
        let value = rest[after..].trim_start().strip_prefix(':').and_then(|value| value.split_once(')'));
        if let (Some(open), Some((value, behind))) = (open, value) {
            let holds = match scheme {
                Scheme::Light => value.trim().eq_ignore_ascii_case("light"),
                Scheme::Dark => value.trim().eq_ignore_ascii_case("dark"),
            };
            made.push_str(&rest[..open]);
            made.push_str(if holds { ALWAYS } else { NEVER });
            rest = behind;
        } else {
            made.push_str(&rest[..after]);
            rest = &rest[after..];
        }
    }
    made + rest
}

/// Finds ASCII text in any case.
fn find(text: &str, wanted: &str) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    text.windows(wanted.len()).position(|part| part.eq_ignore_ascii_case(wanted))
}

fn starts_with(text: &str, wanted: &str) -> bool {
    text.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_queries_answer_the_scheme_and_text_stays() {
        let html = "<html><head><STYLE>@media ( Prefers-Color-Scheme : dark ) and (max-width: 9px) { a { b: c } }\n\
                    @media not (prefers-color-scheme:light) { i > b { c: d } }</STYLE></head>\
                    <source media=\"(prefers-color-scheme: dark)\"><p>(prefers-color-scheme: dark) é</p>";
        let dark = in_scheme(html, Scheme::Dark);
        assert_eq!(
            dark,
            "<html><head><STYLE>@media (min-width:0) and (max-width: 9px) { a { b: c } }\n\
             @media not (max-width:0) { i > b { c: d } }</STYLE><style>:root{color-scheme:dark!important}</style></head>\
             <source media=\"(min-width:0)\"><p>(prefers-color-scheme: dark) é</p>"
        );
        let light = in_scheme(html, Scheme::Light);
        assert!(light.contains("@media (max-width:0) and") && light.contains("@media not (min-width:0)"), "{light}");
        assert!(light.contains("color-scheme:light!important"), "{light}");
    }

    #[test]
    fn html_that_breaks_off_keeps_its_bytes() {
        for html in ["", "<", "<style>(prefers-color-scheme", "<p title='(prefers-color-scheme: dark'", "é</style>"] {
            let made = in_scheme(html, Scheme::Light);
            assert!(made.starts_with(html), "{made}");
        }
    }
}
