//! Post-processes rendered HTML: unsafe links that a template built from values (escaping cannot catch
//! those), tracked links, and unclosed elements.

use std::{borrow::Cow, ops::Range};

use memchr::memchr3;

use super::tag::{TagEdge, tag_edges};

/// Email clients open or load these URLs.
const LINKS: [&str; 6] = ["href", "src", "action", "formaction", "background", "poster"];
/// Quickly rules out nearly all other attributes.
const LINK_ENDS: &[u8] = b"fcndr";
/// Elements without an end tag (HTML, 13.1.2).
pub(super) const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];

/// Allows http, https and mailto (rule 22).
pub(super) fn without_unsafe_links(html: String) -> String {
    let unsafe_links: Vec<_> = links(&html).filter(|place| !is_safe(&html[place.clone()])).collect();
    with_links(html, unsafe_links, |_| Some("#".into()))
}

/// Replaces links at these sorted positions, unless `new` returns `None`.
pub(super) fn with_links(
    html: String,
    places: Vec<Range<usize>>,
    mut new: impl FnMut(&str) -> Option<String>,
) -> String {
    if places.is_empty() {
        return html;
    }
    let (mut changed, mut from) = (String::with_capacity(html.len()), 0);
    for place in places {
        if let Some(link) = new(&html[place.clone()]) {
            changed.push_str(&html[from..place.start]);
            changed.push_str(&link);
            from = place.end;
        }
    }
    changed + &html[from..]
}

pub(super) fn find_unbalanced(html: &str) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    for mark in tag_edges(html) {
        match mark {
            TagEdge::Start(tag)
                if html[tag.place.clone()].ends_with("/>") || VOID.iter().any(|void| tag.has_name(void)) => {}
            TagEdge::Start(tag) => open.push(tag.name.to_ascii_lowercase()),
            TagEdge::End { name, .. } => {
                let name = name.to_ascii_lowercase();
                if open.pop().as_ref() != Some(&name) {
                    return Some(format!("</{name}> closes nothing that is open there"));
                }
            }
        }
    }
    open.pop().map(|name| format!("<{name}> is not closed"))
}

fn anchors(html: &str) -> impl Iterator<Item = Range<usize>> {
    let is_anchor = |place: &Range<usize>| {
        let tag = html[..place.start].rsplit('<').next().unwrap_or_default();
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let attribute = tag.trim_end_matches(['"', '\'']).trim_end().strip_suffix('=').unwrap_or_default().trim_end();
        let is_link = ["a", "area"].iter().any(|link| name.eq_ignore_ascii_case(link));
        is_link && ends_with_word(attribute.as_bytes(), b"href")
    };
    links(html).filter(is_anchor)
}

/// Looks at each byte once, apart from names, so the `src=` in `https://a.example/?src=x` is no attribute.
fn links(html: &str) -> impl Iterator<Item = Range<usize>> {
    let (mut from, mut name, mut in_tag) = (0, 0, false);
    std::iter::from_fn(move || {
        loop {
            let at = from + memchr3(b'<', b'>', b'=', html.as_bytes().get(from..)?)?;
            from = at + 1;
            if html.as_bytes()[at] != b'=' {
                in_tag = html.as_bytes()[at] == b'<';
                let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '<' | '>' | '=');
                name = from + html[from..].find(is_end).unwrap_or(html.len() - from);
            } else if in_tag && html.as_bytes().get(name..at).is_some_and(|text| !text.trim_ascii().is_empty()) {
                let value = value(html, from);
                from = value.end;
                name = from + usize::from(html[from..].starts_with(['"', '\'']));
                if is_link(html.as_bytes()[..at].trim_ascii_end()) {
                    return Some(value);
                }
            }
        }
    })
}

fn value(html: &str, from: usize) -> Range<usize> {
    let value = html[from..].trim_start();
    let start = html.len() - value.len();
    let is_end = |c: char| c.is_whitespace() || c == '>';
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => start + 1..value[1..].find(quote).map_or(html.len(), |end| start + 1 + end),
        _ => start..value.find(is_end).map_or(html.len(), |end| start + end),
    }
}

fn is_link(before: &[u8]) -> bool {
    let may_be_link = before.last().is_some_and(|end| LINK_ENDS.contains(&end.to_ascii_lowercase()));
    may_be_link && LINKS.iter().any(|link| ends_with_word(before, link.as_bytes()))
}

fn ends_with_word(text: &[u8], word: &[u8]) -> bool {
    let (before, end) = text.split_at(text.len().saturating_sub(word.len()));
    end.eq_ignore_ascii_case(word) && !before.last().is_some_and(u8::is_ascii_alphabetic)
}

fn is_safe(link: &str) -> bool {
    let starts = |scheme: &str| link.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    link.starts_with('#') || starts("https://") || starts("http://") || starts("mailto:")
}

/// Maps a target to its click tracking URL; `None` leaves the link unchanged.
pub type ClickUrl<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The same message always gets the same URLs.
pub struct TrackingUrls<'a> {
    pub click: Option<&'a ClickUrl<'a>>,
    pub picture: Option<&'a str>,
}

impl TrackingUrls<'_> {
    pub const NONE: Self = Self { click: None, picture: None };

    /// Links in `untouched` stay, e.g. the one to unsubscribe.
    pub(super) fn add_tracking(&self, mut html: String, untouched: &[&str]) -> String {
        if let Some(click) = self.click {
            let places = anchors(&html).collect();
            html = with_links(html, places, |link| {
                unescape_value(link).filter(|target| !untouched.contains(&&**target)).and_then(|target| click(&target))
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

/// `None` if the value has a character reference we never write.
fn unescape_value(value: &str) -> Option<Cow<'_, str>> {
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
            // Templates often contain `?a=b&c=d` without escaping; browsers accept it, so we do too.
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

    #[test]
    fn a_link_that_a_template_built_survives_only_with_a_safe_scheme() {
        let table = [
            (r#"<a href="javascript:x">"#, r##"<a href="#">"##),
            (r"<A HREF = 'JavaScript:x' id=a>", r"<A HREF = '#' id=a>"),
            (r"<a href=data:text/html,x>", r"<a href=#>"),
            (r#"<a = href="javascript:x">"#, r##"<a = href="#">"##),
            (
                r#"<img src=" javascript:x"><a href="https://a.example">"#,
                r##"<img src="#"><a href="https://a.example">"##,
            ),
            (r#"<a href="mailto:a@example.com">"#, r#"<a href="mailto:a@example.com">"#),
            ("<p>href=javascript:x</p>", "<p>href=javascript:x</p>"),
            (r#"<a title="a > b" href="javascript:x">"#, r##"<a title="a > b" href="#">"##),
            (
                r#"<a href="https://a.example/?action=view&amp;src=x"><img alt="src=x" src="cid:x">"#,
                r##"<a href="https://a.example/?action=view&amp;src=x"><img alt="src=x" src="#">"##,
            ),
        ];
        for (html, expected) in table {
            assert_eq!(without_unsafe_links(html.to_owned()), expected);
        }
    }

    #[test]
    fn checking_links_is_linear_in_the_page() {
        for part in ["<a href=x>", "f=", "<a href=", "<p title='", "= ="] {
            let page = part.repeat(1024 * 1024 / part.len());
            let began = std::time::Instant::now();
            without_unsafe_links(page);
            assert!(began.elapsed() < std::time::Duration::from_secs(5), "{part:?} took {:?}", began.elapsed());
        }
    }

    #[test]
    fn an_element_left_open_is_named() {
        assert_eq!(find_unbalanced("<!doctype html><p>a<br>b</p><!--[if mso]><table><![endif]-->"), None);
        assert_eq!(find_unbalanced("<p><b>a</b>").unwrap(), "<p> is not closed");
        assert_eq!(find_unbalanced("<p><b>a</p></b>").unwrap(), "</p> closes nothing that is open there");
    }

    fn counted(html: &str) -> String {
        let click = |target: &str| target.starts_with("http").then(|| format!("https://t.example/{}", target.len()));
        let tracker = TrackingUrls { click: Some(&click), picture: Some("https://t.example/o/x") };
        tracker.add_tracking(html.to_owned(), &["https://mail.example/u/x?a&b"])
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
        assert_eq!(TrackingUrls::NONE.add_tracking(html.to_owned(), &[]), html);
    }
}
