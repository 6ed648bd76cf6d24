//! Finds the tools that tests need. A build that finds others compiles the tests again.

use std::env;

#[path = "src/tools.rs"]
mod tools;

/// The names of the tools that `./dev test` has found, or `all`. Unlike the URLs of its databases, they are the same in every run.
const LIST: &str = "TIDINGS_TEST_TOOLS";

fn main() {
    println!("cargo::rerun-if-changed=src/tools.rs");
    println!("cargo::rerun-if-env-changed={LIST}");
    let names = match env::var(LIST) {
        Ok(list) if list == "all" => tools::TOOLS.map(|(name, ..)| name).join(" "),
        Ok(list) => list,
        Err(_) => found().join(" "),
    };
    println!("cargo::rustc-env=FOUND={names}");
}

fn found() -> Vec<&'static str> {
    println!("cargo::rerun-if-env-changed=PATH");
    let mut names = Vec::new();
    for (name, variable, program) in tools::TOOLS {
        println!("cargo::rerun-if-env-changed={variable}");
        if env::var_os(variable).is_some() || program.is_some_and(is_on_the_path) {
            names.push(name);
        }
    }
    names
}

fn is_on_the_path(program: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(program).is_file())
}
