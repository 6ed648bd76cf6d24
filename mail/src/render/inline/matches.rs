//! The elements that selectors match. css-inline matches them in a copy of the elements, in which there is nothing else: no text,
//! no code of Tera, and no element that the parser of HTML would move.

use std::{collections::BTreeSet, fmt::Write};

use css_inline::{CSSInliner, InlineError};

use super::{
    elements::{Element, Step},
    selector::{ANY, Compound, Feature, Selector},
};
use crate::render::tag::tags;

/// The attribute of the copy that has an element's number.
const NUMBER: &str = "n";

/// The elements that selectors match.
pub(super) struct Matches {
    /// For each element, the rules of the copy that match it in every message; then those that may match it in some message.
    found: Vec<BTreeSet<usize>>,
    elements: usize,
    /// The first rule of the copy for each selector.
    first: Vec<usize>,
}

impl Matches {
    /// Matches selectors with elements. `ways` leads through the elements of each file.
    pub fn new(elements: &[Element], ways: &[Vec<Step>], selectors: &[&Selector]) -> Result<Self, InlineError> {
        let known: BTreeSet<&Feature> =
            selectors.iter().flat_map(|selector| &selector.compounds).flat_map(|compound| &compound.features).collect();
        let known: Vec<_> = known.into_iter().collect();
        let mut html = String::new();
        for is_possible in [false, true] {
            for way in ways {
                html.push_str("<x-file>");
                for step in way {
                    copy(step, elements, &known, is_possible, &mut html);
                }
                html.push_str("</x-file>");
            }
        }
        let (mut css, mut rules, mut first) = (String::new(), 0, Vec::new());
        for selector in selectors {
            first.push(rules);
            let all = std::iter::once(&selector.compounds[..]);
            for compounds in all.chain(selector.compounds.iter().map(std::slice::from_ref)) {
                let _ = write!(css, "{}{{r{rules}:0}}", written(compounds, &known));
                rules += 1;
            }
        }
        let inlined = CSSInliner::options().load_remote_stylesheets(false).build().inline_fragment(&html, &css)?;
        let mut found = vec![BTreeSet::new(); 2 * elements.len()];
        for tag in tags(&inlined) {
            let value = |name: &str| tag.attribute(name).map(|attribute| &inlined[attribute.value.clone()]);
            let number = value(NUMBER).and_then(|number| number.parse::<usize>().ok());
            let matched = value("style").unwrap_or_default().split(';');
            let rule =
                |declaration: &str| declaration.trim().strip_prefix('r')?.split(':').next()?.parse::<usize>().ok();
            if let Some(of_element) = number.and_then(|number| found.get_mut(number)) {
                of_element.extend(matched.filter_map(rule));
            }
        }
        Ok(Self { found, elements: elements.len(), first })
    }

    /// Reports if the selector matches the element by what is around it in its file, in every message.
    pub fn is_sure(&self, element: usize, selector: usize) -> bool {
        self.found[element].contains(&self.first[selector])
    }

    /// Reports if it may match.
    pub fn is_possible(&self, element: usize, selector: usize) -> bool {
        self.found[self.elements + element].contains(&self.first[selector])
    }

    /// Reports if a compound of the selector may match the element, whatever is around it.
    pub fn may_be(&self, element: usize, selector: usize, compound: usize) -> bool {
        self.found[self.elements + element].contains(&(self.first[selector] + 1 + compound))
    }
}

fn copy(step: &Step, elements: &[Element], known: &[&Feature], is_possible: bool, html: &mut String) {
    match step {
        Step::Open(at) => open(*at, elements, known, is_possible, html),
        Step::Void(at) => {
            open(*at, elements, known, is_possible, html);
            close(&elements[*at].name, html);
        }
        Step::Close(name) => close(name, html),
    }
}

/// Writes the start of an element. Its classes are the numbers of its features, so that no name needs an escape.
fn open(at: usize, elements: &[Element], known: &[&Feature], is_possible: bool, html: &mut String) {
    let Element { name, features, patterns, .. } = &elements[at];
    let has = |feature: &Feature| {
        features.contains(feature) || is_possible && patterns.iter().any(|pattern| feature.fits(pattern))
    };
    let classes: Vec<_> =
        known.iter().enumerate().filter(|(_, feature)| has(feature)).map(|(number, _)| format!("f{number}")).collect();
    let number = if is_possible { elements.len() + at } else { at };
    let _ = write!(html, "<x-{name} class=\"{}\" {NUMBER}=\"{number}\">", classes.join(" "));
}

fn close(name: &str, html: &mut String) {
    let _ = write!(html, "</x-{name}>");
}

fn written(compounds: &[Compound], known: &[&Feature]) -> String {
    let mut css = String::new();
    for (at, compound) in compounds.iter().enumerate() {
        if at > 0 {
            css.push_str(if compound.is_child { " > " } else { " " });
        }
        let numbers = compound.features.iter().filter(|feature| **feature != Feature::Type(ANY.into()));
        let mut classes = numbers.filter_map(|feature| known.binary_search(&feature).ok()).peekable();
        if classes.peek().is_none() {
            css.push('*');
        }
        css.extend(classes.map(|number| format!(".f{number}")));
    }
    css
}
