//! Relaxed canonicalisation (RFC 6376 3.4.2 and 3.4.4), which removes the differences that relays may introduce.

/// Splits a message into headers, with the last line break, and body.
pub(super) fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let end = message.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, body) = message.split_at(end.map_or(message.len(), |end| end + 2));
    (head, body.strip_prefix(b"\r\n").unwrap_or(body))
}

/// Splits the headers, each with its continuation lines.
pub(super) fn fields(head: &[u8]) -> Vec<&[u8]> {
    let starts = head.windows(3).enumerate().filter(|(_, bytes)| bytes.starts_with(b"\r\n") && !is_space(bytes[2]));
    let starts: Vec<_> = [0].into_iter().chain(starts.map(|(at, _)| at + 2)).chain([head.len()]).collect();
    starts.windows(2).map(|ends| &head[ends[0]..ends[1]]).filter(|field| !field.is_empty()).collect()
}

/// The name of a header in lower case.
pub(super) fn name(field: &[u8]) -> String {
    let name = field.split(|byte| *byte == b':').next().unwrap_or_default();
    String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase()
}

/// Appends a header: name in lower case, one line, single spaces.
pub(super) fn header(field: &[u8], out: &mut Vec<u8>) {
    let value = field.iter().position(|byte| *byte == b':').map_or(&[][..], |colon| &field[colon + 1..]);
    out.extend_from_slice(name(field).as_bytes());
    out.push(b':');
    let breaks_or_space = |byte: &u8| is_space(*byte) || matches!(byte, b'\r' | b'\n');
    let words: Vec<_> = value.split(breaks_or_space).filter(|word| !word.is_empty()).collect();
    out.extend(words.join(&b' '));
    out.extend_from_slice(b"\r\n");
}

/// The body: single spaces, none at the end of a line, no empty lines at the end.
pub(super) fn body(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 2);
    for line in body.split(|byte| *byte == b'\n') {
        line_of_body(line.strip_suffix(b"\r").unwrap_or(line), &mut out);
        out.extend_from_slice(b"\r\n");
    }
    while out.ends_with(b"\r\n\r\n") {
        out.truncate(out.len() - 2);
    }
    if out == b"\r\n" {
        out.clear();
    }
    out
}

fn line_of_body(line: &[u8], out: &mut Vec<u8>) {
    let mut space = false;
    for byte in line {
        if is_space(*byte) {
            space = true;
            continue;
        }
        if space {
            out.push(b' ');
        }
        space = false;
        out.push(*byte);
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_example_of_the_standard() {
        // RFC 6376 3.4.5.
        let message = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
        let (head, rest) = split(message);
        let mut headers = Vec::new();
        for field in fields(head) {
            header(field, &mut headers);
        }
        assert_eq!(text(&headers), "a:X\r\nb:Y Z\r\n");
        assert_eq!(text(&body(rest)), " C\r\nD E\r\n");
    }

    #[test]
    fn a_body_ends_with_one_line_break_or_is_empty() {
        for (written, canonical) in [
            ("", ""),
            ("\r\n", ""),
            ("\r\n\r\n", ""),
            (" \t\r\n \r\n", ""),
            ("a", "a\r\n"),
            ("a\r\n", "a\r\n"),
            ("a\r\n \r\n\r\n", "a\r\n"),
            ("\r\n\r\na", "\r\n\r\na\r\n"),
            (".\r\n..\r\n.a\r\n", ".\r\n..\r\n.a\r\n"),
            ("  a \t  b\t\r\n", " a b\r\n"),
        ] {
            assert_eq!(text(&body(written.as_bytes())), canonical, "{written:?}");
        }
    }

    #[test]
    fn a_folded_header_is_one_line() {
        let head = b"Subject: =?utf-8?b?YQ==?=\r\n =?utf-8?b?Yg==?=\r\nTO:\r\n\tann@example.net\r\nEmpty:\r\n";
        let all: Vec<_> = fields(head)
            .into_iter()
            .map(|field| {
                let mut out = Vec::new();
                header(field, &mut out);
                text(&out).to_owned()
            })
            .collect();
        assert_eq!(all, ["subject:=?utf-8?b?YQ==?= =?utf-8?b?Yg==?=\r\n", "to:ann@example.net\r\n", "empty:\r\n"]);
    }

    #[test]
    fn a_message_without_a_body_has_only_headers() {
        assert_eq!(split(b"A: b\r\n"), (&b"A: b\r\n"[..], &b""[..]));
        assert_eq!(split(b"A: b\r\n\r\n"), (&b"A: b\r\n"[..], &b""[..]));
    }
}
