//! Changes of day two, as docs/changes.md lists them: each row names its tests, and each key of the configuration has a row. The tests
//! here are those of a digest that waits for its next attempt while the file changes (rule 60).

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use tidings_activities::{
    CancellableResult,
    digest::{claim, send},
};
use tidings_harness::{
    env::{activities, key, settings, sqlite},
    relay::{Act, At, Fault, Relay},
    steps::{claim_of, recorded_event, send_of},
};
use tidings_mail::dkim::{DkimSigner, StreamSigners, TenantSigners};
use tidings_model::{
    link_keys::LinkKeys,
    settings::{Settings, TenantSettings},
    step::{ClaimAnswer, ClaimInput, SendAnswer, SendDigestInput},
    window::{DigestOutcome, Window},
};
use tidings_services::StepServices;
use tidings_store::SqliteStore;

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The first cells of tables of the configuration whose rows are settings.
const OF_SETTINGS: [&str; 3] = ["key", "table", "variable"];

/// The tables of a page: the heading above, and the cells of each line.
fn tables(page: &str) -> Vec<(&str, Vec<Vec<&str>>)> {
    let (mut heading, mut found, mut inside) = ("", Vec::<(&str, Vec<Vec<&str>>)>::new(), false);
    for line in page.lines() {
        if let Some((_, title)) = line.split_once("# ").filter(|(marks, _)| marks.bytes().all(|byte| byte == b'#')) {
            heading = title;
        }
        let row = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        if let (Some(_), false) = (row, inside) {
            found.push((heading, Vec::new()));
        }
        inside = row.is_some();
        if let (Some(row), Some((_, rows))) = (row, found.last_mut()) {
            rows.push(row.split('|').map(str::trim).collect());
        }
    }
    found
}

fn page(name: &str) -> Result<String> {
    fs::read_to_string(Path::new(ROOT).join("docs").join(name)).context(name.to_owned())
}

/// The texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows below the header and its rule.
fn body<'a>(rows: &'a [Vec<&'a str>]) -> &'a [Vec<&'a str>] {
    rows.get(2..).unwrap_or_default()
}

#[test]
fn every_row_of_the_changes_names_tests_that_exist() -> Result<()> {
    let changes = page("changes.md")?;
    let (mut rows, mut wrong) = (0, Vec::new());
    for (_, table) in tables(&changes) {
        for row in body(&table) {
            rows += 1;
            let [change, .., tests] = &row[..] else { continue };
            if quoted(tests).next().is_none() {
                wrong.push(format!("no test: {change}"));
            }
            for test in quoted(tests) {
                let exists = test.split_once("::").is_some_and(|(file, name)| {
                    let text = fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_default();
                    text.contains(&format!("fn {name}("))
                });
                if !exists {
                    wrong.push(format!("there is no {test}: {change}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "docs/changes.md\n{}", wrong.join("\n"));
    assert!(rows >= 50, "{rows} rows");
    Ok(())
}

#[test]
fn every_key_of_the_configuration_has_a_row_under_its_heading() -> Result<()> {
    let (configuration, changes) = (page("configuration.md")?, page("changes.md")?);
    let names = |rows: &[Vec<&str>]| -> BTreeSet<String> {
        rows.iter().flat_map(|row| quoted(row[0])).map(str::to_owned).collect()
    };
    let changed = tables(&changes);
    let (mut keys, mut missing) = (0, Vec::new());
    for (heading, rows) in tables(&configuration) {
        if !OF_SETTINGS.contains(&rows[0][0]) {
            continue;
        }
        let covered = changed.iter().filter(|(of, _)| *of == heading).map(|(_, rows)| names(body(rows)));
        let covered: BTreeSet<_> = covered.flatten().collect();
        for name in names(body(&rows)) {
            keys += 1;
            if !covered.contains(&name) {
                missing.push(format!("{heading}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/changes.md has no row for\n{}", missing.join("\n"));
    assert!(keys >= 100, "{keys} keys");
    Ok(())
}

/// A claimed digest for ann, of two lines.
struct Waits {
    _folder: tempfile::TempDir,
    store: Arc<SqliteStore>,
    relay: Relay,
    window: Window,
}

impl Waits {
    async fn start(settings: &Settings) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (store, relay, now) = (sqlite(folder.path()).await?, Relay::start().await?, Timestamp::now());
        let key = key("activity", "ann");
        let window = Window { digest_id: key.digest_id("run", 1), key, opened_at: now, due_at: now };
        let input =
            ClaimInput { flushed: true, ..claim_of(&window, ["e1", "e2"].map(|id| recorded_event(id, now)).into()) };
        let claimed = claim::run(&activities(store.clone(), &relay.url(), settings.clone())?, &input).await?;
        ensure!(matches!(claimed, ClaimAnswer::Claimed { items: 2, .. }), "{claimed:?}");
        relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".to_owned())).times(1));
        Ok(Self { _folder: folder, store, relay, window })
    }

    /// An attempt by a worker with this file and this relay, after so many that failed, a quarter of a minute apart.
    async fn attempt(&self, settings: &Settings, relay: &Relay, failed: u32) -> Result<SendAnswer> {
        self.attempt_by(&activities(self.store.clone(), &relay.url(), settings.clone())?, failed).await
    }

    async fn attempt_by(&self, deps: &StepServices, failed: u32) -> Result<SendAnswer> {
        let at = self.window.opened_at + SignedDuration::from_secs(15 * i64::from(failed));
        let input = SendDigestInput { failed, ..send_of(&self.window, at) };
        match send::run(deps, &input, std::future::pending()).await? {
            CancellableResult::Done(sent) => Ok(sent),
            CancellableResult::Cancelled => anyhow::bail!("nobody cancelled the attempt"),
        }
    }
}

/// The settings before each change: with links, keys and a return path.
fn before() -> Result<Settings> {
    let mut settings = settings("after 1s", "after 1s");
    settings.link_keys = Some(LinkKeys::generate().context("no randomness")?.parse()?);
    settings.pages.public_url = Some("https://old.example".to_owned());
    Ok(settings)
}

fn was_sent(sent: &SendAnswer) -> bool {
    matches!(sent, SendAnswer::Closed { closed, .. } if closed.outcome == DigestOutcome::Sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_that_waits_is_the_one_that_the_new_file_makes() -> Result<()> {
    type Change = fn(&mut Settings) -> Result<()>;
    let changes: [(Change, &str); 7] = [
        (
            |settings| {
                settings.streams.bulk.sender.address = "news@tidings.example".parse()?;
                Ok(())
            },
            "<news@tidings.example>",
        ),
        (
            |settings| {
                settings.streams.bulk.sender.reply_to = Some("help@tidings.example".parse()?);
                Ok(())
            },
            "Reply-To: help@tidings.example",
        ),
        (
            |settings| {
                settings.pages.public_url = Some("https://new.example".to_owned());
                Ok(())
            },
            "https://new.example/u/",
        ),
        (
            |settings| {
                settings.pages.unsubscribe = Some("https://acme.example/leave/{token}".parse()?);
                Ok(())
            },
            "https://acme.example/leave/",
        ),
        (
            |settings| {
                let mut acme = TenantSettings::new(settings.streams.clone());
                acme.brand.address_line = Some("Acmestreet".to_owned());
                settings.tenants.insert("acme".to_owned(), acme);
                Ok(())
            },
            "Acmestreet",
        ),
        (
            |settings| {
                settings.digests.get_mut("activity").context("no digest type")?.title = Some("Newsroom".to_owned());
                Ok(())
            },
            "Newsroom",
        ),
        (
            |settings| {
                let digest = settings.digests.get_mut("activity").context("no digest type")?;
                (digest.lines_per_message, digest.more_url) = (1, Some("https://acme.example/all".to_owned()));
                Ok(())
            },
            "https://acme.example/all",
        ),
    ];
    for (change, shown) in changes {
        let old = before()?;
        let waits = Waits::start(&old).await?;
        let mut new = old.clone();
        change(&mut new)?;
        ensure!(matches!(waits.attempt(&old, &waits.relay, 0).await?, SendAnswer::Deferred { .. }), "{shown}");
        ensure!(was_sent(&waits.attempt(&new, &waits.relay, 1).await?), "{shown}");
        let mails = waits.relay.mails();
        let [mail] = &mails[..] else { anyhow::bail!("{shown}: not one mail") };
        let text = String::from_utf8(mail.bytes())?;
        assert!(text.contains(shown), "{shown}: {text}");
        let id = format!("<{}@tidings.example>", waits.window.digest_id);
        assert_eq!(mail.header("Message-ID")?, id, "{shown}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_that_waits_is_signed_by_todays_key() -> Result<()> {
    let settings = before()?;
    let waits = Waits::start(&settings).await?;
    let signing = |selector: &str| -> Result<StepServices> {
        let bulk = Some(DkimSigner::new(selector, "tidings.example", include_bytes!("../data/dkim/rsa.pem"))?);
        let general = StreamSigners { bulk, transactional: None };
        let deps = activities(waits.store.clone(), &waits.relay.url(), settings.clone())?;
        Ok(StepServices { signers: TenantSigners { general, ..TenantSigners::default() }, ..deps })
    };
    ensure!(matches!(waits.attempt_by(&signing("old")?, 0).await?, SendAnswer::Deferred { .. }));
    ensure!(was_sent(&waits.attempt_by(&signing("new")?, 1).await?));
    let text = String::from_utf8(waits.relay.mail(0).context("no mail")?.bytes())?;
    assert!(text.contains("s=new;") && !text.contains("s=old;"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_that_waits_goes_by_the_relay_of_the_new_file() -> Result<()> {
    let (settings, new) = (before()?, Relay::start().await?);
    let waits = Waits::start(&settings).await?;
    ensure!(matches!(waits.attempt(&settings, &waits.relay, 0).await?, SendAnswer::Deferred { .. }));
    ensure!(was_sent(&waits.attempt(&settings, &new, 1).await?));
    assert_eq!((waits.relay.mails().len(), new.mails().len()), (0, 1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_between_attempts_is_that_of_the_file_at_the_failure() -> Result<()> {
    let old = before()?;
    let waits = Waits::start(&old).await?;
    let mut new = old.clone();
    new.streams.bulk.retry_delays = vec![Duration::from_secs(7)];
    match waits.attempt(&new, &waits.relay, 0).await? {
        SendAnswer::Deferred { again_in, .. } => assert_eq!(again_in, Some(Duration::from_secs(7))),
        other => anyhow::bail!("{other:?}"),
    }
    Ok(())
}
