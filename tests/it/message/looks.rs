//! Shipped emails in a browser.

use std::{env, fs, process::Command};

use anyhow::{Context, Result, ensure};
use tidings_harness::python::python;
use tidings_mail::render::Renderer;
use tidings_needs::needs;

/// One language of each kind: long words, from right to left, without spaces.
const LANGUAGES: [&str; 4] = ["en", "de", "ar", "ja"];

/// A script of `tests/pages` with Chromium as its first argument.
pub(super) fn browser(script: &str) -> Result<Command> {
    let packages = env::var_os("TIDINGS_TEST_PAGE_CHECKERS").context("TIDINGS_TEST_PAGE_CHECKERS is not set")?;
    let mut command = Command::new(python()?);
    command.arg(script).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/pages")).env("PYTHONPATH", packages);
    command.arg(env::var_os("TIDINGS_TEST_CHROMIUM").context("TIDINGS_TEST_CHROMIUM is not set")?);
    Ok(command)
}

/// Runs a script of `tests/pages`, which fails if it finds something.
pub(super) fn finds_nothing(command: &mut Command) -> Result<()> {
    let said = command.output()?;
    let [out, problems] = [&said.stdout, &said.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    ensure!(said.status.success(), "{out}{problems}");
    Ok(())
}

/// Light and dark, on a phone, with large text, without a style sheet, and made dark by the email program.
#[needs(python, chromium, page_checkers)]
#[test]
fn a_browser_finds_no_fault_in_any_shipped_email() -> Result<()> {
    let mails = tempfile::tempdir()?;
    let renderer = Renderer::new(None)?;
    for (name, language) in renderer.names().iter().flat_map(|name| LANGUAGES.map(|language| (name, language))) {
        let folder = mails.path().join(name).join(language);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("body.html"), renderer.preview(name, Some(language))?.html)?;
    }
    finds_nothing(browser("mails.py")?.arg(mails.path()))
}
