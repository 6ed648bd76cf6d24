//! `#[needs(TOOL, ...)]` marks a test as ignored, with the reason, if a tool is missing.
//!
//! `./dev test` finds the tools. A plain `cargo test` finds those that the environment names.

use proc_macro::{TokenStream, TokenTree};

mod tools;

/// Ignores the test if one of the named tools was missing when the test was compiled. Stands above `#[test]` or
/// `#[tokio::test]`.
#[proc_macro_attribute]
pub fn needs(tools: TokenStream, test: TokenStream) -> TokenStream {
    let mut answer = test.clone();
    if !test.into_iter().any(|token| is_test_attribute(&token)) {
        answer.extend(error("`#[needs]` stands above `#[test]`"));
    }
    for name in tools.to_string().split(',').map(str::trim) {
        match tools::TOOLS.into_iter().find(|(tool, ..)| *tool == name) {
            None => answer.extend(error(&format!("there is no tool `{name}`"))),
            Some(_) if env!("FOUND").split(' ').any(|found| found == name) => {}
            Some((_, variable, _)) => {
                let mut ignored = parsed(&format!("#[ignore = \"needs {variable}, which `./dev test` sets\"]"));
                ignored.extend(answer);
                return ignored;
            }
        }
    }
    answer
}

fn is_test_attribute(token: &TokenTree) -> bool {
    let TokenTree::Group(attribute) = token else { return false };
    attribute.stream().into_iter().any(|token| matches!(token, TokenTree::Ident(name) if name.to_string() == "test"))
}

fn error(text: &str) -> TokenStream {
    parsed(&format!("compile_error!({text:?});"))
}

fn parsed(code: &str) -> TokenStream {
    code.parse().unwrap_or_default()
}
