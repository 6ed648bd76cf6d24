//! Breaks long lines of HTML within tags, where a line end means the same as a space.

/// Courier 1.0.16 encodes a part anew for servers without 8BITMIME if a decoded line has more than 500 bytes, and breaks its signature.
const LINE_BYTES: usize = 480;

/// Replaces spaces between attributes by line ends. A value that is longer than a line stays whole.
pub(super) fn short_lines(html: &str) -> String {
    let mut bytes = html.as_bytes().to_vec();
    let (mut line, mut space, mut quote, mut in_tag, mut at) = (0, None, None, false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => (line, space) = (at + 1, None),
            b'<' if !in_tag && html[at..].starts_with("<!--") => {
                let end = html[at..].find("-->").map_or(bytes.len(), |end| at + end);
                if let Some(last) = html[at..end].rfind('\n') {
                    (line, space) = (at + last + 1, None);
                }
                at = end;
                continue;
            }
            b'<' if !in_tag => in_tag = true,
            b'>' if in_tag && quote.is_none() => in_tag = false,
            byte @ (b'"' | b'\'') if in_tag => match quote {
                None => quote = Some(byte),
                Some(open) if open == byte => quote = None,
                Some(_) => {}
            },
            b' ' if in_tag && quote.is_none() => space = Some(at),
            _ => {}
        }
        if at - line.min(at) >= LINE_BYTES
            && let Some(last) = space.take()
        {
            bytes[last] = b'\n';
            line = last + 1;
        }
        at += 1;
    }
    // Only ASCII was replaced by ASCII.
    String::from_utf8(bytes).unwrap_or_else(|_| html.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_line_breaks_between_attributes_only() {
        let cell = r#"<td align="left" style="color: red; padding: 0 1px"><p class="a b">text of a cell</p></td>"#;
        let broken = short_lines(&cell.repeat(30));
        assert!(broken.lines().all(|line| line.len() <= LINE_BYTES), "{broken}");
        assert_eq!(broken.replace('\n', " "), cell.repeat(30));
        assert!(!broken.contains("color:\nred") && !broken.contains("text\nof"));
        let short = "<p class=\"a\">one</p>\n<p class=\"b\">two</p>\n".repeat(100);
        assert_eq!(short_lines(&short), short);
    }

    #[test]
    fn comments_and_long_values_stay_whole() {
        let link = format!("<a class=\"l\" href=\"https://a.example/{}\">a</a>", "x".repeat(900));
        let comment = format!("<!--[if mso]>{}<![endif]-->", "<td a=\"'\" b>".repeat(90));
        for html in [&link, &comment] {
            let broken = short_lines(html);
            assert_eq!(broken.replace('\n', " "), **html);
        }
        assert_eq!(short_lines(&comment), comment);
    }

    proptest! {
        #[test]
        fn only_spaces_become_line_ends(html in "[<>\"'a \n=!\\-é]{0,2000}") {
            let broken = short_lines(&html);
            prop_assert_eq!(broken.replace('\n', " "), html.replace('\n', " "));
        }
    }
}
