//! Inlines the rules in a team's own `<style>` elements as `style` attributes, because many email clients
//! ignore `<style>`.
//!
//! css-inline only matches selectors here. Its output would lose Outlook conditions such as `<![if !mso]>`,
//! fallback values for older clients, and nested rules. So we edit the HTML ourselves, and every byte outside
//! of styles stays as the template wrote it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    ops::Range,
};

use css_inline::{CSSInliner, InlineError};
use cssparser::Parser;

#[cfg(test)]
mod tests;

use super::css::{CssDeclaration, CssRule, KeepReason, rules, specificity, without_states};

use super::{
    html::VOID,
    support::TemplateWarning,
    tag::{HtmlTag, TagEdge, blank_code, code, tag_edges, tags},
};

/// Marks a team's own `<style>` between loading and sending.
const OWN: &str = "data-tidings-own";
/// Only in the copy for css-inline.
const NUMBER: &str = "data-n";
/// css-inline recurses through elements.
const DEPTH: usize = 200;
/// Elements with an optional end tag (HTML, 13.1.2.4), as far as email uses them.
const OPTIONAL: [&str; 14] =
    ["p", "li", "dt", "dd", "td", "th", "tr", "tbody", "thead", "tfoot", "colgroup", "option", "body", "html"];

/// Rules without `!important`, with the property names.
pub(super) type OverriddenRules = BTreeMap<String, BTreeSet<String>>;

struct TextEdit {
    place: Range<usize>,
    text: String,
}

/// `None` if there are no `<style>` elements.
pub(super) fn mark_styles(source: &str) -> Option<String> {
    let blank = blank_code(source, &code(source));
    let edit = |tag: &HtmlTag<'_>| {
        let at = tag.place.start + 1 + tag.name.len();
        TextEdit { place: at..at, text: format!(" {OWN}") }
    };
    let edits: Vec<_> = tags(&blank).iter().filter(|tag| tag.has_name("style")).map(edit).collect();
    (!edits.is_empty()).then(|| apply_edits(source, edits))
}

pub(super) fn inline_styles(html: String) -> String {
    if html.contains(OWN) { inline(&html, false).0 } else { html }
}

/// Expects HTML before inlining.
pub(super) fn overridden_rules(html: &str) -> OverriddenRules {
    inline(html, true).1
}

pub(super) fn style_warnings(source: &str, weak: &OverriddenRules) -> Vec<TemplateWarning> {
    let blank = blank_code(source, &code(source));
    let sheets = tags(&blank).into_iter().filter(|tag| tag.has_name("style"));
    let remark = |rule: CssRule<'_>| {
        let is_late = is_late(&rule);
        let CssRule { place, written, stays, declarations, .. } = rule;
        let reason = match stays {
            Some(KeepReason::Rules) => Some("it has rules inside"),
            Some(KeepReason::Root) => Some("its selector asks for more than elements, classes and ids"),
            None | Some(KeepReason::Condition) => None,
        };
        let text = if let Some(reason) = reason {
            format!("`{written}` stays in <style>: {reason}")
        } else {
            let overridden = weak.get(&written).filter(|_| is_late)?;
            let names = declarations.iter().filter(|one| !one.important && overridden.contains(&one.name));
            let names: BTreeSet<_> = names.map(|one| format!("`{}`", one.name)).collect();
            if names.is_empty() {
                return None;
            }
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            format!("`{written}` needs `!important` for {names}: the inlined styles are stronger")
        };
        Some(TemplateWarning { at: place.start, text })
    };
    sheets.flat_map(|sheet| rules(&blank, &sheet)).filter_map(remark).collect()
}

/// Returns `true` if clients apply this rule on top of the style attribute: under a condition or in a state.
fn is_late(rule: &CssRule<'_>) -> bool {
    let has_state = |selector: &&str| without_states(selector) != **selector;
    rule.stays == Some(KeepReason::Condition) || rule.stays.is_none() && rule.selectors.iter().any(has_state)
}

fn inline(html: &str, is_check: bool) -> (String, OverriddenRules) {
    let marks = tag_edges(html);
    let elements: Vec<_> = marks.iter().filter_map(TagEdge::start_tag).collect();
    let sheets: Vec<_> =
        elements.iter().filter(|tag| tag.has_name("style") && tag.attribute(OWN).is_some()).copied().collect();
    let rules: Vec<_> = sheets.iter().flat_map(|sheet| rules(html, sheet)).collect();
    let of_all = |is_wanted: &dyn Fn(&CssRule<'_>) -> bool| {
        let wanted = rules.iter().enumerate().filter(|(_, rule)| is_wanted(rule));
        wanted.flat_map(|(at, rule)| rule.selectors.iter().map(move |selector| (at, *selector))).collect::<Vec<_>>()
    };
    let selectors = of_all(&|rule| rule.stays.is_none());
    let late = if is_check { of_all(&is_late) } else { Vec::new() };
    let late = late.into_iter().map(|(at, selector)| (at, selector, without_states(selector)));
    let late: Vec<_> = late
        .filter(|(at, selector, plain)| rules[*at].stays.is_some() || selector != plain)
        .map(|(at, _, plain)| (at, plain))
        .collect();
    let all: Vec<_> = selectors.iter().map(|one| one.1).chain(late.iter().map(|one| one.1.as_str())).collect();
    let found = if is_regular(&marks) { matches(html, &marks, &all).unwrap_or_default() } else { Vec::new() };
    let (mut edits, mut weak) = (Vec::new(), OverriddenRules::new());
    let mut used = vec![false; selectors.len()];
    // Most elements look alike, e.g. rows in a list, so we group them.
    let mut groups: BTreeMap<Vec<usize>, Vec<&HtmlTag<'_>>> = BTreeMap::new();
    for (element, numbers) in elements.iter().zip(found) {
        groups.entry(numbers).or_default().push(element);
    }
    for (numbers, alike) in groups {
        let (sure, later): (Vec<_>, Vec<_>) = numbers.into_iter().partition(|number| *number < selectors.len());
        for number in &sure {
            used[*number] = true;
        }
        let declared = cascade(&rules, &sure.into_iter().map(|number| selectors[number]).collect::<Vec<_>>());
        for (at, _) in later.into_iter().map(|number| &late[number - selectors.len()]) {
            let rule = &rules[*at];
            let is_overridden = |one: &&CssDeclaration| declared.iter().any(|other| other.family() == one.family());
            let names = rule.declarations.iter().filter(|one| !one.important).filter(is_overridden);
            let names: Vec<_> = names.map(|one| one.name.clone()).collect();
            if !names.is_empty() {
                weak.entry(rule.written.clone()).or_default().extend(names);
            }
        }
        let one = |CssDeclaration { name, value, important }: &CssDeclaration| {
            format!("{name}:{value}{}", if *important { " !important" } else { "" })
        };
        let css = declared.into_iter().map(one).collect::<Vec<_>>().join(";");
        if !css.is_empty() {
            edits.extend(alike.into_iter().map(|element| style_edit(html, element, &css)));
        }
    }
    // Keep a rule if any selector matches nothing: it may be for a state, or for a class added by the client.
    let stays =
        |at: usize| rules[at].stays.is_some() || selectors.iter().zip(&used).any(|(one, used)| one.0 == at && !used);
    let gone: Vec<_> = (0..rules.len()).filter(|at| !stays(*at)).map(|at| &rules[at].place).collect();
    for sheet in sheets {
        remove_rules(html, sheet, &gone, &mut edits);
    }
    (apply_edits(html, edits), weak)
}

/// Returns `true` if all tags nest properly. Otherwise a parser would repair the tree, with an unbounded
/// number of copies.
fn is_regular(marks: &[TagEdge<'_>]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let is_optional = |name: &str| OPTIONAL.iter().any(|optional| name.eq_ignore_ascii_case(optional));
    for mark in marks {
        match mark {
            TagEdge::Start(tag) if VOID.iter().any(|void| tag.has_name(void)) => {}
            TagEdge::Start(tag) => open.push(tag.name),
            TagEdge::End { name, .. } => loop {
                match open.pop() {
                    Some(last) if last.eq_ignore_ascii_case(name) => break,
                    Some(last) if is_optional(last) => {}
                    _ => return false,
                }
            },
        }
        if open.len() > DEPTH {
            return false;
        }
    }
    open.into_iter().all(is_optional)
}

fn matches(html: &str, marks: &[TagEdge<'_>], selectors: &[&str]) -> Result<Vec<Vec<usize>>, InlineError> {
    let (mut copy, mut css) = (String::with_capacity(html.len()), String::new());
    for (number, selector) in selectors.iter().enumerate() {
        let _ = write!(css, "{selector}{{r{number}:0}}");
    }
    // Few style sheets match on other attributes, which make up most of a message.
    let asks_more = css.contains('[') || css.contains("link");
    let is_asked = |name: &str| {
        let is = |other: &&str| name.eq_ignore_ascii_case(other);
        ["class", "id"].iter().any(is) || asks_more && !["style", "rel", NUMBER].iter().any(is)
    };
    let (mut from, mut elements) = (0, 0);
    for mark in marks {
        let between = &html[from..mark.at()];
        match between.trim() {
            _ if from == 0 => copy.push_str(between),
            comment if comment.is_empty() || comment.starts_with("<!--") && comment.ends_with("-->") => {}
            _ => copy.push('x'),
        }
        match mark {
            TagEdge::Start(tag) => {
                let _ = write!(copy, "<{} {NUMBER}={elements}", tag.name);
                for attribute in tag.attributes.iter().filter(|one| is_asked(one.name)) {
                    copy.extend([" ", &html[attribute.place.clone()]]);
                }
                copy.push('>');
                elements += 1;
                from = tag.place.end.max(tag.text.end);
            }
            TagEdge::End { name, at } => {
                copy.extend(["</", name, ">"]);
                from = html[*at..].find('>').map_or(html.len(), |end| at + end + 1);
            }
        }
    }
    let options = CSSInliner::options().load_remote_stylesheets(false).minify_css(true).extra_css(Some(css.into()));
    let copy = options.build().inline(&copy)?;
    let mut found = vec![Vec::new(); elements];
    for tag in tags(&copy) {
        let value = |name: &str| tag.attribute(name).map(|attribute| &copy[attribute.value.clone()]);
        let (Some(number), Some(style)) =
            (value(NUMBER).and_then(|number| number.parse::<usize>().ok()), value("style"))
        else {
            continue;
        };
        let matched =
            style.split(';').filter_map(|one| one.strip_prefix('r')?.strip_suffix(":0")?.parse::<usize>().ok());
        if let Some(of_element) = found.get_mut(number).filter(|of_element| of_element.is_empty()) {
            of_element.extend(matched);
        }
    }
    Ok(found)
}

/// Combines declarations and drops those overridden by a stronger rule. Repetitions within one rule stay, as
/// fallbacks for older clients. css-inline would drop them, and it puts `padding` after an earlier rule's
/// `padding-left`.
fn cascade<'r>(rules: &'r [CssRule<'_>], matched: &[(usize, &str)]) -> Vec<&'r CssDeclaration> {
    let mut sure: Vec<_> = matched.iter().map(|(rule, selector)| (specificity(selector), *rule)).collect();
    sure.sort_unstable();
    let last = |at: usize| !sure[at + 1..].iter().any(|(_, rule)| *rule == sure[at].1);
    let order: Vec<_> = (0..sure.len()).filter(|at| last(*at)).map(|at| sure[at].1).collect();
    let mut declared: Vec<(usize, &CssDeclaration)> = Vec::new();
    for rule in order {
        for one in &rules[rule].declarations {
            let is_same = |other: &(usize, &CssDeclaration)| other.0 != rule && other.1.name == one.name;
            if declared.iter().any(|other| is_same(other) && other.1.important && !one.important) {
                continue;
            }
            declared.retain(|other| !is_same(other));
            declared.push((rule, one));
        }
    }
    declared.into_iter().map(|(_, one)| one).collect()
}

/// Puts declarations before the element's own `style`, so they lose to it: a later declaration wins, unless
/// only the earlier one is important.
fn style_edit(html: &str, element: &HtmlTag<'_>, css: &str) -> TextEdit {
    let Some(style) = element.attribute("style") else {
        let at = element.place.start + 1 + element.name.len();
        return TextEdit { place: at..at, text: format!(" style=\"{}\"", quote_value(css, '"')) };
    };
    let (value, css) = (&style.value, quote_value(css, style.quote.unwrap_or('"')));
    let start = value.start..value.start;
    match style.quote {
        None if value.is_empty() => TextEdit { place: start, text: format!("=\"{css}\"") },
        None => TextEdit { place: value.clone(), text: format!("\"{css};{}\"", &html[value.clone()]) },
        Some(_) if value.is_empty() => TextEdit { place: start, text: css },
        Some(_) => TextEdit { place: start, text: format!("{css};") },
    }
}

fn quote_value(css: &str, quote: char) -> String {
    let css = css.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (other, escaped) = if quote == '"' { ("'", "&quot;") } else { ("\"", "&#39;") };
    if css.contains(other) { css.replace(quote, escaped) } else { css.replace(quote, other) }
}

/// Removes the whole element if nothing remains.
fn remove_rules(html: &str, sheet: &HtmlTag<'_>, gone: &[&Range<usize>], edits: &mut Vec<TextEdit>) {
    let inside = gone.iter().filter(|place| sheet.text.start <= place.start && place.end <= sheet.text.end);
    let of_rules: Vec<_> = inside.map(|place| TextEdit { place: (*place).clone(), text: String::new() }).collect();
    let (mut rest, mut from) = (String::new(), sheet.text.start);
    for TextEdit { place, .. } in &of_rules {
        rest.push_str(&html[from..place.start]);
        from = place.end;
    }
    rest.push_str(&html[from..sheet.text.end]);
    if !of_rules.is_empty() && Parser::new(&rest).is_exhausted() {
        let end = html[sheet.text.end..].find('>').map_or(html.len(), |end| sheet.text.end + end + 1);
        edits.push(TextEdit { place: sheet.place.start..end, text: String::new() });
    } else {
        let mark = sheet.attribute(OWN).map(|mark| mark.place.start - 1..mark.place.end);
        edits.extend(mark.map(|place| TextEdit { place, text: String::new() }));
        edits.extend(of_rules);
    }
}

fn apply_edits(text: &str, mut edits: Vec<TextEdit>) -> String {
    edits.sort_by_key(|edit| edit.place.start);
    let (mut changed, mut from) = (String::with_capacity(text.len()), 0);
    for TextEdit { place, text: new } in edits {
        changed.extend([&text[from..place.start], &new]);
        from = place.end;
    }
    changed + &text[from..]
}
