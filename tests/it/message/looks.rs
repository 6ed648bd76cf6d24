//! Shipped emails in a browser.

use std::{env, fs, process::Command};

use anyhow::{Context, Result, ensure};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;
use tidings_harness::{env::key, python::python};
use tidings_mail::render::{TemplateRenderer, TemplateView, ViewInput, ViewLinks};
use tidings_model::{
    records::{DigestContents, Recipient},
    settings::TenantBrand,
    window::Window,
};
use tidings_needs::needs;
use uuid::Uuid;

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
    let renderer = TemplateRenderer::new(None)?;
    for (name, language) in renderer.names().iter().flat_map(|name| LANGUAGES.map(|language| (name, language))) {
        let folder = mails.path().join(name).join(language);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("body.html"), renderer.preview(name, Some(language))?.html)?;
    }
    for name in ["activity", "alerts"] {
        let folder = mails.path().join(name).join("branded");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("body.html"), branded(&renderer, name)?)?;
    }
    finds_nothing(browser("mails.py")?.arg(mails.path()))
}

/// The sample of a digest in a tenant's looks. The browser does not find the logo, as if pictures were off.
fn branded(renderer: &TemplateRenderer, name: &str) -> Result<String> {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../templates/activity/sample.json");
    let sample: Value = serde_json::from_str(&fs::read_to_string(sample)?)?;
    let contents: DigestContents = serde_json::from_value(sample["contents"].clone())?;
    let brand = TenantBrand {
        name: Some("Acme & Sons".to_owned()),
        logo_url: Some("https://acme.invalid/logo.png".to_owned()),
        colour: Some("#8a1c4a".parse()?),
        address_line: Some("Acme Ltd, 1 Main Street, Springfield".to_owned()),
        locale: None,
    };
    let at = Timestamp::from_second(1_738_569_600)?;
    let window = Window { key: key("activity", "ann"), digest_id: Uuid::nil(), opened_at: at, due_at: at };
    let recipient = Recipient::for_development(&window.key);
    let links =
        ViewLinks { unsubscribe_url: Some("https://mail.tidings.example/u/x".to_owned()), ..ViewLinks::default() };
    let view = TemplateView::new(&ViewInput {
        contents: &contents,
        window: &window,
        recipient: &recipient,
        zone: &TimeZone::UTC,
        title: None,
        cadence: "daily 08:00",
        links: &links,
        brand: &brand,
        phrases: renderer.phrases([]),
    });
    Ok(renderer.render(name, &view)?.html)
}
