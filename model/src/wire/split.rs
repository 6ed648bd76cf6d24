//! Splits lists and objects with possibly invalid parts. Only looks at brackets and quotes, so one broken
//! part does not affect the others.

/// Returns the parts between commas. `None` if a bracket or quote is unclosed.
pub(super) fn split_parts(data: &[u8]) -> Option<Vec<&[u8]>> {
    let ([b'[', inside @ .., b']'] | [b'{', inside @ .., b'}']) = data.trim_ascii() else { return None };
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inside.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                parts.push(inside[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = inside[start..].trim_ascii();
    if !parts.is_empty() || !last.is_empty() {
        parts.push(last);
    }
    (!quoted && depth == 0).then_some(parts)
}

/// An invalid name becomes empty.
pub(super) fn split_members(data: &[u8]) -> Option<Vec<(String, &[u8])>> {
    if data.trim_ascii().first() != Some(&b'{') {
        return None;
    }
    split_parts(data)?.into_iter().map(member).collect()
}

fn member(part: &[u8]) -> Option<(String, &[u8])> {
    let mut escaped = false;
    let closes = |byte: &u8| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => *byte == b'"',
    };
    let end = part.strip_prefix(b"\"")?.iter().position(closes)? + 2;
    let value = part[end..].trim_ascii_start().strip_prefix(b":")?;
    Some((serde_json::from_slice(&part[..end]).unwrap_or_default(), value.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_need_not_be_json() {
        for (list, expected) in [
            ("[]", Some(vec![])),
            (" [ 1 ,NaN, {\"a\":[1,2}] ] ", Some(vec!["1", "NaN", "{\"a\":[1,2}]"])),
            (r#"["a,]\"[",2]"#, Some(vec![r#""a,]\"[""#, "2"])),
            ("[1,]", Some(vec!["1", ""])),
            ("[[]", None),
            ("[]]", None),
            ("[\"]", None),
            ("[1}", None),
            ("7", None),
            ("[", None),
        ] {
            let parts = split_parts(list.as_bytes());
            let parts = parts.map(|parts| parts.into_iter().map(|part| str::from_utf8(part).unwrap()).collect());
            assert_eq!(parts, expected, "{list}");
        }
    }

    #[test]
    fn a_member_has_a_name_and_any_value() {
        let found = split_members(br#"{ "a\"b" : NaN, "c":[1,2], "":{} }"#).unwrap();
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), str::from_utf8(value).unwrap())).collect();
        assert_eq!(found, [("a\"b", "NaN"), ("c", "[1,2]"), ("", "{}")]);
        for broken in ["[1]", "{a: 1}", "{\"a\"}", "{\"a\" 1}", "{1}"] {
            assert_eq!(split_members(broken.as_bytes()), None, "{broken}");
        }
    }
}
