//! Puts the styles of a team's own `<style>` elements into `style` attributes, once, when the templates are loaded. Many email
//! clients read no `<style>`. Nothing else of a source changes: not a byte of Tera's code, and no line moves.

use css_inline::InlineError;
use cssparser::Parser;

mod decide;
mod elements;
mod family;
mod file;
mod matches;
mod selector;
mod sheet;
mod structure;
mod variables;

#[cfg(test)]
mod tests;

use decide::{Decision, Known, decide};
use elements::{Element, elements};
use family::members;
pub(super) use file::File;
use matches::Matches;
use sheet::{Declaration, Rule, rules, sheets};
use structure::is_regular;
use variables::Variables;

use super::{support::Remark, tag::marks};

/// The templates with inline styles.
#[derive(Default)]
pub(super) struct Inlined {
    /// The sources that change, each with its name.
    pub sources: Vec<(String, String)>,
    /// The remarks on what stays in `<style>`, each with the name of its file.
    pub remarks: Vec<(String, Remark)>,
}

/// A change of a source.
struct Edit {
    from: usize,
    to: usize,
    text: String,
}

/// Inlines the styles of all files.
pub(super) fn inlined(files: &[File<'_>]) -> Result<Inlined, InlineError> {
    let members = members(files);
    let mut order: Vec<_> = (0..files.len()).filter(|at| files[*at].own).collect();
    order.sort_by_key(|at| members[*at].depth);
    let rules: Vec<_> = order.into_iter().flat_map(|at| rules(at, &files[at])).collect();
    if rules.is_empty() {
        return Ok(Inlined::default());
    }
    let mut all = Vec::new();
    let variables = Variables::of(files);
    let ways: Vec<_> = files.iter().enumerate().map(|(at, file)| elements(at, file, &variables, &mut all)).collect();
    let selectors: Vec<_> =
        rules.iter().enumerate().flat_map(|(at, rule)| rule.selectors.iter().map(move |one| (at, one))).collect();
    let matches = Matches::new(&all, &ways, &selectors.iter().map(|(_, one)| *one).collect::<Vec<_>>())?;
    let regular: Vec<_> = files.iter().map(|file| is_regular(&file.regions, &marks(&file.blank))).collect();
    let known = Known {
        files,
        members: &members,
        regular: &regular,
        rules: &rules,
        elements: &all,
        selectors: &selectors,
        matches: &matches,
    };
    let Decision { inlined, stays, remarks } = decide(&known);
    let mut sources = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let own = all.iter().zip(&inlined).filter(|(element, declared)| element.file == at && !declared.is_empty());
        let mut edits: Vec<_> = own.map(|(element, declared)| styled(file, element, declared)).collect();
        let gone = rules.iter().zip(&stays).filter(|(rule, stays)| rule.file == at && !**stays).map(|(rule, _)| rule);
        edits.extend(without(file, &gone.collect::<Vec<_>>()));
        if !edits.is_empty() {
            sources.push((file.name.to_owned(), edited(file.source, edits)));
        }
    }
    let remark = |(rule, text): (&Rule, Option<String>)| {
        Some((files[rule.file].name.to_owned(), Remark { at: rule.place.start, text: text? }))
    };
    Ok(Inlined { sources, remarks: rules.iter().zip(remarks).filter_map(remark).collect() })
}

/// Puts declarations before those of the element's own `style`, which override them as CSS says: a later declaration wins,
/// unless only the earlier one is important.
fn styled(file: &File<'_>, element: &Element, declared: &[&Declaration]) -> Edit {
    let one = |one: &&Declaration| {
        let Declaration { name, value, important } = one;
        format!("{name}:{value}{}", if *important { " !important" } else { "" })
    };
    let css = declared.iter().map(one).collect::<Vec<_>>().join(";");
    let Some((value, quote)) = &element.style else {
        let at = element.after_name;
        return Edit { from: at, to: at, text: format!(" style=\"{}\"", quoted(&css, '"')) };
    };
    let css = quoted(&css, quote.unwrap_or('"'));
    let text = match quote {
        _ if value.is_empty() && quote.is_none() => format!("=\"{css}\""),
        _ if value.is_empty() => css,
        Some(_) => format!("{css};"),
        None => {
            return Edit {
                from: value.start,
                to: value.end,
                text: format!("\"{css};{}\"", &file.source[value.clone()]),
            };
        }
    };
    Edit { from: value.start, to: value.start, text }
}

/// Writes a value so that it can stand between these quotes.
fn quoted(css: &str, quote: char) -> String {
    let css = css.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (other, escaped) = if quote == '"' { ("'", "&quot;") } else { ("\"", "&#39;") };
    if css.contains(other) { css.replace(quote, escaped) } else { css.replace(quote, other) }
}

/// Removes rules, and a `<style>` that is left without any. Their lines stay, so that the lines of all that follows are the same.
fn without(file: &File<'_>, gone: &[&Rule]) -> Vec<Edit> {
    let lines = |from: usize, to: usize| "\n".repeat(file.source[from..to].matches('\n').count());
    let edit = |from: usize, to: usize| Edit { from, to, text: lines(from, to) };
    let mut edits = Vec::new();
    for sheet in sheets(file) {
        let inside =
            gone.iter().filter(|rule| sheet.text.start <= rule.place.start && rule.place.end <= sheet.text.end);
        let of_rules: Vec<_> = inside.map(|rule| edit(rule.place.start, rule.place.end)).collect();
        if of_rules.is_empty() {
            continue;
        }
        let offset = sheet.text.start;
        let text = &file.source[sheet.text.clone()];
        let moved =
            of_rules.iter().map(|one| Edit { from: one.from - offset, to: one.to - offset, text: String::new() });
        let rest = edited(text, moved.collect());
        let has_code = file.code_in(sheet.place.start, sheet.place.end).next().is_some();
        if !has_code && Parser::new(&rest).is_exhausted() {
            edits.push(edit(sheet.place.start, sheet.place.end));
        } else {
            edits.extend(of_rules);
        }
    }
    edits
}

fn edited(source: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.from);
    let mut text = String::with_capacity(source.len());
    let mut from = 0;
    for edit in edits {
        text.push_str(&source[from..edit.from]);
        text.push_str(&edit.text);
        from = edit.to;
    }
    text + &source[from..]
}
