//! Checks of finished HTML that escaping of single values cannot do: links that a template built from a value, and elements
//! left open.

use std::ops::Range;

use memchr::memchr3;

/// Attributes whose value an email client opens or loads.
const LINKS: [&str; 6] = ["href", "src", "action", "formaction", "background", "poster"];
/// The last letters of these attributes, a quick test that excludes nearly all others.
const LINK_ENDS: &[u8] = b"fcndr";
/// Elements without an end tag (HTML, 13.1.2).
pub(super) const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];

/// Replaces every link that is not http, https or mailto by `#` (rule 22).
pub(super) fn without_unsafe_links(html: String) -> String {
    let unsafe_links: Vec<_> = links(&html).filter(|place| !is_safe(&html[place.clone()])).collect();
    with_links(html, unsafe_links, |_| Some("#".into()))
}

/// Replaces links at these places, which are in order. A link for which there is nothing new stays.
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

/// Finds the first element that is not closed, or is closed without being open.
pub(super) fn unbalanced(html: &str) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    for tag in tags(html) {
        let inside = &html[tag.start + 1..tag.end - 1];
        let (closing, rest) = inside.strip_prefix('/').map_or((false, inside), |rest| (true, rest));
        let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("").to_ascii_lowercase();
        if name.is_empty() || VOID.contains(&name.as_str()) || inside.ends_with('/') {
            continue;
        }
        if !closing {
            open.push(name);
        } else if open.pop().as_deref() != Some(name.as_str()) {
            return Some(format!("</{name}> closes nothing that is open there"));
        }
    }
    open.pop().map(|name| format!("<{name}> is not closed"))
}

/// Finds the tags outside comments. A `>` inside an attribute ends a tag here, because values are escaped.
fn tags(html: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + html[from..].find('<')?;
            if html[start..].starts_with("<!--") {
                from = start + html[start..].find("-->")? + 3;
            } else {
                from = start + html[start..].find('>')? + 1;
                return Some(start..from);
            }
        }
    })
}

/// Finds the addresses that links of the text lead to: the `href` of `a` and `area`.
pub(super) fn anchors(html: &str) -> impl Iterator<Item = Range<usize>> {
    let is_anchor = |place: &Range<usize>| {
        let tag = html[..place.start].rsplit('<').next().unwrap_or_default();
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let attribute = tag.trim_end_matches(['"', '\'']).trim_end().strip_suffix('=').unwrap_or_default().trim_end();
        let is_link = ["a", "area"].iter().any(|link| name.eq_ignore_ascii_case(link));
        is_link && ends_with_word(attribute.as_bytes(), b"href")
    };
    links(html).filter(is_anchor)
}

/// Finds the values of link attributes, quoted or not. Each byte is looked at once, apart from names: what stands inside of a value, such
/// as the `src=` of `https://a.example/?src=x`, is no attribute.
fn links(html: &str) -> impl Iterator<Item = Range<usize>> {
    let (mut from, mut name, mut in_tag) = (0, 0, false);
    std::iter::from_fn(move || {
        loop {
            let at = from + memchr3(b'<', b'>', b'=', html.as_bytes().get(from..)?)?;
            from = at + 1;
            if html.as_bytes()[at] != b'=' {
                // Values are escaped, so an angle bracket outside of a value is the template's.
                in_tag = html.as_bytes()[at] == b'<';
                let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '<' | '>' | '=');
                name = from + html[from..].find(is_end).unwrap_or(html.len() - from);
            } else if in_tag && html.as_bytes().get(name..at).is_some_and(|text| !text.trim_ascii().is_empty()) {
                // A `=` without a name before it begins a name.
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

/// The value of an attribute whose `=` ends at `from`, without quotes.
fn value(html: &str, from: usize) -> Range<usize> {
    let value = html[from..].trim_start();
    let start = html.len() - value.len();
    let is_end = |c: char| c.is_whitespace() || c == '>';
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => start + 1..value[1..].find(quote).map_or(html.len(), |end| start + 1 + end),
        _ => start..value.find(is_end).map_or(html.len(), |end| start + end),
    }
}

/// Reports if a tag up to here ends with the name of an attribute that has a link.
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
        assert_eq!(unbalanced("<!doctype html><p>a<br>b</p><!--[if mso]><table><![endif]-->"), None);
        assert_eq!(unbalanced("<p><b>a</b>").unwrap(), "<p> is not closed");
        assert_eq!(unbalanced("<p><b>a</p></b>").unwrap(), "</p> closes nothing that is open there");
    }
}
