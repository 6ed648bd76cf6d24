//! `#[needs(TOOL, ...)]` marks a test as ignored, with the reason, if a tool is missing.
//!
//! `./dev test` finds the tools. A plain `cargo test` finds those that the environment names.
//!
//! `#[needs(own_process)]` runs a test in a process of its own. nextest does so anyway, and `cargo test` runs all tests of a binary as
//! threads of one process.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

mod tools;

/// In `#[needs(...)]`: the test counts threads, sets something that holds for the whole process, or must not share it for another reason.
const OWN_PROCESS: &str = "own_process";

/// Ignores the test if one of the named tools was missing when the test was compiled. Stands above `#[test]` or
/// `#[tokio::test]`.
#[proc_macro_attribute]
pub fn needs(tools: TokenStream, test: TokenStream) -> TokenStream {
    let mut answer = test.clone();
    if !test.into_iter().any(|token| is_test_attribute(&token)) {
        answer.extend(error("`#[needs]` stands above `#[test]`"));
    }
    for name in tools.to_string().split(',').map(str::trim) {
        if name == OWN_PROCESS {
            answer = in_its_own_process(answer);
            continue;
        }
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

/// Puts a look at the process in front of the test's body: in the process that all tests share, the test starts a process for itself
/// and answers as that one ends.
fn in_its_own_process(test: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = test.into_iter().collect();
    let name = tokens.iter().skip_while(|token| token.to_string() != "fn").nth(1).map(ToString::to_string);
    let (Some(name), Some(TokenTree::Group(body))) = (name, tokens.pop()) else {
        return error("`#[needs(own_process)]` stands above a function");
    };
    let mut whole = parsed(&format!(
        "if ::tidings_harness::own_process::is_elsewhere(::core::concat!(::core::module_path!(), \"::{name}\"))? {{ return Ok(()); }}"
    ));
    whole.extend(body.stream());
    tokens.push(Group::new(Delimiter::Brace, whole).into());
    tokens.into_iter().collect()
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
