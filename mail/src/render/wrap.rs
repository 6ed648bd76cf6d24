//! Wraps the text part. RFC 5322, 2.1.1, recommends at most 78 columns; quoting in a reply needs some of
//! them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::bidi::ISOLATE;

const COLUMNS: usize = 72;

/// Never start a line with these: closing brackets, stops, repetition and length marks, small kana (JIS X
/// 4051), and anything resembling a bullet.
const NEVER_FIRST: &str = "、。，．・：；？！‼⁇⁈⁉）］｝｠」』】〕〉》〙〗〟’”»ー‐–〜～ゝゞヽヾ々〻ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶ％‰℃…‥\u{3000})]}>,.:;!?%\"'-*/";
/// Never end a line with these: opening brackets, and signs before a number.
const NEVER_LAST: &str = "（［｛｟「『【〔〈《〘〖〝‘“«＃￥＄№([{<\"'#$";

/// Continuation lines are indented like the first. Longer words stay whole, because a broken link leads
/// elsewhere.
pub(super) fn wrap_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        // No character takes more columns than bytes.
        if line.len() <= COLUMNS { out.push_str(line) } else { wrap(line, &mut out) }
    }
    out
}

fn wrap(line: &str, out: &mut String) {
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let bullet = if ["* ", "- "].iter().any(|bullet| line[spaces..].starts_with(bullet)) { 2 } else { 0 };
    let (prefix, words) = line.split_at(spaces + bullet);
    out.push_str(prefix);
    let (mut column, mut open) = (prefix.len(), 0_usize);
    let pieces = words.split(' ').enumerate().flat_map(|(word, text)| {
        pieces(text).enumerate().map(move |(piece, text)| (word > 0 || piece > 0, piece == 0, text))
    });
    for (has_before, is_word, piece) in pieces {
        let width = width(piece.trim_end_matches('\n'));
        let gap = usize::from(has_before && is_word);
        // A value should not look like a bullet.
        let may_begin = !["*", "-"].contains(&piece);
        if has_before && may_begin && column + gap + width > COLUMNS {
            // A line counts as a paragraph, and its end would close open isolates.
            out.extend(std::iter::repeat_n(ISOLATE.1, open));
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', prefix.len()));
            out.extend(std::iter::repeat_n(ISOLATE.0, open));
            column = prefix.len();
        } else {
            out.extend(std::iter::repeat_n(' ', gap));
            column += gap;
        }
        out.push_str(piece);
        column += width;
        if !piece.is_ascii() {
            open = (open + piece.matches(ISOLATE.0).count()).saturating_sub(piece.matches(ISOLATE.1).count());
        }
    }
}

fn width(piece: &str) -> usize {
    if piece.is_ascii() { piece.len() } else { piece.width() }
}

fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(word);
    std::iter::from_fn(move || {
        let text = rest?;
        let (piece, after) = match first_break(text) {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        };
        rest = after;
        Some(piece)
    })
}

fn first_break(word: &str) -> Option<usize> {
    if word.is_ascii() {
        return None;
    }
    let mut pairs = word.char_indices().zip(word.char_indices().skip(1));
    pairs.find(|((_, before), (_, after))| may_break(*before, *after)).map(|(_, (at, _))| at)
}

/// A zero-width character belongs to the one before it.
fn may_break(before: char, after: char) -> bool {
    let is_visible = |c: char| c.width().is_some_and(|width| width > 0);
    (is_ideographic(before) || is_ideographic(after))
        && is_visible(before)
        && is_visible(after)
        && !NEVER_LAST.contains(before)
        && !NEVER_FIRST.contains(after)
}

/// Han, kana and their punctuation. Korean puts spaces between words.
const fn is_ideographic(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{312f}' | '\u{3190}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ff9f}' | '\u{ffe0}'..='\u{ffe6}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::TemplateRenderer;

    #[test]
    fn a_long_line_goes_on_below_its_own_text() {
        let title = "Make the connection owned in the locked database struct, so that it outlives";
        let (first, rest) = ("Make the connection owned in the locked database struct, so that it", "outlives");
        for (prefix, indent) in [("", ""), ("* ", "  "), ("  ", "  "), ("  - ", "    ")] {
            let expected = format!("{prefix}{first}\n{indent}{rest}\nnext\n");
            assert_eq!(wrap_text(&format!("{prefix}{title}\nnext\n")), expected);
        }
    }

    #[test]
    fn a_link_stays_whole_and_a_star_begins_no_line() {
        let link = format!("  https://example.com/{}\n", "x".repeat(100));
        assert_eq!(wrap_text(&link), link);
        let forged = format!("{} * Forged line", "x".repeat(71));
        assert!(!wrap_text(&forged).lines().any(|line| line.starts_with("* ")));
    }

    #[test]
    fn an_isolate_ends_with_its_line_and_begins_again() {
        let (one, two) = ("א".repeat(40), "ב".repeat(40));
        assert_eq!(
            wrap_text(&format!("* \u{2068}{one} {two}\u{2069}")),
            format!("* \u{2068}{one}\u{2069}\n  \u{2068}{two}\u{2069}")
        );
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        let sentence = "変更".repeat(20);
        let (first, rest) = ("変更".repeat(17) + "変", "更変更変更");
        assert_eq!(wrap_text(&format!("* {sentence}\n")), format!("* {first}\n  {rest}\n"));
        assert_eq!(wrap_text(&"ｱ".repeat(72)), "ｱ".repeat(72));
        assert_eq!(wrap_text(&"각".repeat(40)), "각".repeat(40));
    }

    #[test]
    fn no_line_begins_with_a_stop_or_ends_with_an_opening_bracket() {
        let ends = |before: usize, mark: &str| wrap_text(&format!("{}{mark}{}", "字".repeat(before), "字".repeat(9)));
        for mark in ["、", "。」", "ー", "ょ", "％", ")", "-", "*"] {
            assert_eq!(ends(36, mark), format!("{}\n字{mark}{}", "字".repeat(35), "字".repeat(9)), "{mark}");
        }
        for mark in ["「", "（", "(", "￥"] {
            assert_eq!(ends(35, mark), format!("{}\n{mark}{}", "字".repeat(35), "字".repeat(9)), "{mark}");
        }
    }

    #[test]
    fn a_link_behind_ideographs_stays_whole() {
        let link = format!("https://example.com/{}", "x".repeat(60));
        assert_eq!(wrap_text(&format!("詳細：{link}。")), format!("詳細：\n{link}。"));
    }

    #[test]
    fn text_fits_in_72_columns_apart_from_links() {
        let renderer = TemplateRenderer::new(None).unwrap();
        for language in renderer.words.catalogues().map(|catalogue| catalogue.tag.to_string()) {
            for name in renderer.names() {
                let text = renderer.preview(&name, Some(&language)).unwrap().text;
                let long = |line: &&str| line.width() > 72 && !line.contains("https://");
                assert_eq!(text.lines().find(long), None, "{name} in {language}");
            }
        }
    }

    proptest! {
        #[test]
        fn text_of_ascii_is_as_wide_as_its_bytes(text in "[ -~]{0,40}") {
            prop_assert_eq!(text.width(), width(&text));
        }

        #[test]
        fn breaking_ideographs_keeps_every_character(text in "(( |  |\\* )?[字かょ、。「」a1\u{301}-]{1,60}\n?){0,20}") {
            let wrapped = wrap_text(&text);
            let visible = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(visible(&wrapped), visible(&text));
        }

        #[test]
        fn breaking_lines_changes_white_space_only(text in "(( |  |\\* )?[a-z*-]{1,30}\n?){0,60}") {
            let wrapped = wrap_text(&text);
            prop_assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
            let fits = |line: &str| line.chars().count() <= COLUMNS || line.trim_start_matches([' ', '*', '-']).split(' ').count() == 1;
            let stars = |line: &str| line.contains(" *") || line.contains(" -");
            prop_assert!(wrapped.lines().all(|line| fits(line) || stars(line)), "{wrapped}");
        }
    }
}
