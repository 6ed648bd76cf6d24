//! The files of one language, and what their messages need.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use fluent_bundle::FluentResource;
use fluent_syntax::ast::{CallArguments, Entry, Expression, InlineExpression, Pattern, PatternElement};
use unic_langid::LanguageIdentifier;

/// The files of languages, by tag in lower case.
pub(crate) type Catalogues = BTreeMap<String, Catalogue>;

/// The files of one language.
#[derive(Clone)]
pub(crate) struct Catalogue {
    pub tag: LanguageIdentifier,
    files: Vec<(Arc<FluentResource>, Option<PathBuf>)>,
}

/// Some files of a language.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    All,
    /// Those in the binary.
    Shipped,
    /// Those of a team.
    Own,
}

impl Catalogue {
    pub(super) fn new(tag: LanguageIdentifier) -> Self {
        Self { tag, files: Vec::new() }
    }

    pub(super) fn add(&mut self, resource: Arc<FluentResource>, path: Option<&Path>) {
        self.files.push((resource, path.map(Path::to_owned)));
    }

    /// Adds the files of another catalogue of the language.
    pub(super) fn extend(&mut self, other: &Self) {
        self.files.extend(other.files.iter().cloned());
    }

    pub(super) fn resources(&self) -> impl Iterator<Item = Arc<FluentResource>> {
        self.files.iter().map(|(resource, _)| resource.clone())
    }

    /// The messages of these files with their variables.
    pub fn messages(&self, of: Files) -> BTreeMap<&str, BTreeSet<&str>> {
        let wanted = |path: &Option<PathBuf>| match of {
            Files::All => true,
            Files::Shipped => path.is_none(),
            Files::Own => path.is_some(),
        };
        let files = self.files.iter().filter(|(_, path)| wanted(path));
        let entries = files.flat_map(|(resource, _)| resource.entries());
        let messages = entries.filter_map(|entry| match entry {
            Entry::Message(message) => Some((message.id.name, message.value.as_ref()?)),
            _ => None,
        });
        messages.map(|(id, pattern)| (id, variables(pattern))).collect()
    }
}

fn variables<'a>(pattern: &Pattern<&'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    of_pattern(pattern, &mut found);
    found
}

fn of_pattern<'a>(pattern: &Pattern<&'a str>, found: &mut BTreeSet<&'a str>) {
    for element in &pattern.elements {
        if let PatternElement::Placeable { expression } = element {
            of_expression(expression, found);
        }
    }
}

fn of_expression<'a>(expression: &Expression<&'a str>, found: &mut BTreeSet<&'a str>) {
    match expression {
        Expression::Select { selector, variants } => {
            of_inline(selector, found);
            for variant in variants {
                of_pattern(&variant.value, found);
            }
        }
        Expression::Inline(inline) => of_inline(inline, found),
    }
}

fn of_inline<'a>(inline: &InlineExpression<&'a str>, found: &mut BTreeSet<&'a str>) {
    match inline {
        InlineExpression::VariableReference { id } => {
            found.insert(id.name);
        }
        InlineExpression::FunctionReference { arguments, .. }
        | InlineExpression::TermReference { arguments: Some(arguments), .. } => of_arguments(arguments, found),
        InlineExpression::Placeable { expression } => of_expression(expression, found),
        _ => {}
    }
}

fn of_arguments<'a>(arguments: &CallArguments<&'a str>, found: &mut BTreeSet<&'a str>) {
    let named = arguments.named.iter().map(|argument| &argument.value);
    for argument in arguments.positional.iter().chain(named) {
        of_inline(argument, found);
    }
}
