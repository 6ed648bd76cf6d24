//! A recipient chooses on the page of preferences, and the gateway dies: at each await of the request, or before it tells the open
//! window. What was answered with success is stored once, and the window hears of it. What was not answered is whole or not there:
//! choices, consent and their audit trail are one transaction.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{StatusCode, header},
};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tidings_harness::{
    cli_env::{binary, command},
    env::{Env, event, key, settings, sqlite, sqlite_url},
    gateway::{Gateway, form, public_routes, undo_of},
    http::request,
    interrupted_future::{Ended, run},
    port::Port,
    postgres::database,
    proxy::{Network, Proxy},
    wait::eventually,
};
use tidings_model::{
    PreferencesLink, UnsubscribeLink,
    delivery_events::{GRANT, WITHDRAW},
    link_keys::LinkKeys,
    records::{AuditFilter, PageRequest, Preferences},
    settings::Settings,
};
use tidings_needs::needs;
use tidings_store::{PostgresStore, Store, StoreBackend};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;
use url::Url;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_mins(1);
/// Made for this test.
const KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// More deaths than a request has awaits.
const DEATHS: u32 = 300;

/// Everything that the store has of a recipient's choices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    /// Choices and consent for `activity` and for `alerts`.
    chosen: [(Preferences, bool); 2],
    pub audit: Audit,
}

/// Digest type and action of each entry, sorted.
pub(super) type Audit = Vec<(String, String)>;

/// The buttons of the page, and that of a mail program.
#[derive(Clone, Copy, Debug)]
enum Button {
    Save,
    NoDigests,
    Undo,
    OneClick,
}

/// A form with every field of the page. It turns `alerts` off.
pub(super) fn every_field() -> String {
    form(&[
        ("activity:seen", "0 on"),
        ("activity:on", "1"),
        ("activity:often", "weekly"),
        ("activity:day", "fri"),
        ("activity:date", "1"),
        ("activity:time", "18:30"),
        ("activity:shown", "comment"),
        ("activity:shown", "share"),
        ("activity:category", "comment"),
        ("activity:pause", "2999-12-01"),
        ("alerts:seen", "0 on"),
        ("alerts:often", "default"),
        ("zone", "Asia/Tokyo"),
        ("zone_was", "UTC"),
        ("action", "save"),
    ])
}

/// The contents of the store after [`every_field`].
pub(super) fn saved() -> Stored {
    let zone = Some("Asia/Tokyo".to_owned());
    let activity = Preferences {
        cadence: Some("weekly fri 18:30".to_owned()),
        zone: zone.clone(),
        off: ["share".to_owned()].into(),
        // The first instant of the day in Tokyo.
        paused_until: "2999-11-30T15:00:00Z".parse().ok(),
        ..Preferences::default()
    };
    let alerts = Preferences { zone, ..Preferences::default() };
    let audit = entries(&[("activity", "preferences"), ("alerts", "preferences"), ("alerts", WITHDRAW)]);
    Stored { chosen: [(activity, true), (alerts, false)], audit }
}

fn entries(entries: &[(&str, &str)]) -> Audit {
    let mut entries: Audit = entries.iter().map(|(of, action)| ((*of).to_owned(), (*action).to_owned())).collect();
    entries.sort();
    entries
}

/// The audit entries of each user of `acme`, or of one.
pub(super) async fn audit(store: &dyn Store, user: Option<&str>) -> Result<BTreeMap<String, Audit>> {
    let filter = AuditFilter {
        tenant: Some("acme".to_owned()),
        digest_type: None,
        user: user.map(str::to_owned),
        actor: None,
        action: None,
        since: None,
        until: None,
        page: PageRequest { limit: 1_000_000, after: None },
    };
    let mut audit = BTreeMap::<String, Audit>::new();
    for entry in store.audit_entries(&filter).await?.rows {
        audit.entry(entry.user).or_default().push((entry.digest_type, entry.action));
    }
    for entries in audit.values_mut() {
        entries.sort();
    }
    Ok(audit)
}

/// The contents of the store about a user.
pub(super) async fn stored(store: &dyn Store, user: &str) -> Result<Stored> {
    let facts = async |digest_type| store.facts(&key(digest_type, user)).await;
    let (activity, alerts) = (facts("activity").await?, facts("alerts").await?);
    let audit = audit(store, Some(user)).await?.remove(user).unwrap_or_default();
    Ok(Stored { chosen: [activity, alerts].map(|facts| (facts.preferences, facts.consent)), audit })
}

impl Button {
    /// The contents of the store after the button.
    fn stored(self) -> Stored {
        let everything = |wanted| [(); 2].map(|()| (Preferences::default(), wanted));
        match self {
            Self::Save => saved(),
            Self::NoDigests => {
                Stored { chosen: everything(false), audit: entries(&[("activity", WITHDRAW), ("alerts", WITHDRAW)]) }
            }
            Self::Undo => {
                let undone = entries(&[("activity", "preferences"), ("alerts", "preferences"), ("alerts", GRANT)]);
                let mut audit = [saved().audit, undone].concat();
                audit.sort();
                Stored { chosen: everything(true), audit }
            }
            Self::OneClick => {
                let chosen = [false, true].map(|wanted| (Preferences::default(), wanted));
                Stored { chosen, audit: entries(&[("activity", WITHDRAW)]) }
            }
        }
    }

    /// The request of a user's button with this form.
    fn request(self, user: &str, form: &str) -> Result<Request> {
        let path = match self {
            Self::OneClick => {
                let link =
                    UnsubscribeLink::Unsubscribe { key: key("activity", user), message: Uuid::nil(), generation: 0 };
                format!("/u/{}", link.token(&KEYS.parse::<LinkKeys>()?).context("no key signs")?)
            }
            Self::Save | Self::NoDigests | Self::Undo => page(user)?,
        };
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        Ok(request.body(Body::from(form.to_owned()))?)
    }
}

async fn open(url: &str) -> Result<Arc<dyn Store>> {
    Ok(StoreBackend::connect(url).await?.checked_store().await?)
}

/// The path of the page of a user.
fn page(user: &str) -> Result<String> {
    let link = PreferencesLink { key: key("activity", user), message: Uuid::nil(), generation: 0 };
    Ok(format!("/p/{}", link.token(&KEYS.parse::<LinkKeys>()?).context("no key signs")?))
}

/// A database, and a gateway that lives.
struct Bench {
    runtime: Runtime,
    url: String,
    settings: Settings,
    store: Arc<dyn Store>,
    router: Router,
}

impl Bench {
    /// A bench on a database that is migrated.
    fn new(runtime: Runtime, url: String) -> Result<Self> {
        let mut settings = settings("after 1d", "after 1d");
        settings.link_keys = Some(KEYS.parse()?);
        let (store, router) = runtime.block_on(async {
            let store = open(&url).await?;
            Ok::<_, anyhow::Error>((store.clone(), public_routes(store, settings.clone(), None)?))
        })?;
        Ok(Self { runtime, url, settings, store, router })
    }

    /// Presses a button at the gateway that lives, and returns the page.
    fn press(&self, button: Button, user: &str, form: &str) -> Result<String> {
        let mut response = self.runtime.block_on(self.router.clone().oneshot(button.request(user, form)?))?;
        if response.status() == StatusCode::CONFLICT {
            // The database still carried out what a dead gateway asked for.
            response = self.runtime.block_on(self.router.clone().oneshot(button.request(user, form)?))?;
        }
        let status = response.status();
        let body = self.runtime.block_on(to_bytes(response.into_body(), 1_000_000))?;
        let page = String::from_utf8(body.to_vec())?;
        ensure!(status == StatusCode::OK, "{status}: {page}");
        Ok(page)
    }

    /// Presses a button at a gateway that dies after this number of polls of the request. Answers `true` if the gateway answered before.
    fn press_and_die(&self, button: Button, user: &str, form: &str, polls: u32) -> Result<bool> {
        // The runtime stands for the process: with it every connection ends, amid whatever the connection does.
        let process = Builder::new_current_thread().enable_all().build()?;
        let ended = process.block_on(async {
            let router = public_routes(open(&self.url).await?, self.settings.clone(), None)?;
            // Its connections are there before the request: the password of each takes hundreds of polls.
            let shown = router.clone().oneshot(Request::get(page(user)?).body(Body::empty())?).await?;
            ensure!(shown.status() == StatusCode::OK, "{}", shown.status());
            Ok::<_, anyhow::Error>(run(router.oneshot(button.request(user, form)?), polls).await)
        })?;
        drop(process);
        match ended {
            Ended::With(response) => {
                let status = response?.status();
                ensure!(status == StatusCode::OK, "{status}");
                Ok(true)
            }
            Ended::Stopped(_) => Ok(false),
        }
    }

    /// The contents of the store about a user, once two looks are the same: a dead gateway's commit may come between the statements of one.
    fn stored(&self, user: &str) -> Result<Stored> {
        self.runtime.block_on(async {
            let mut last = stored(&*self.store, user).await?;
            loop {
                let now = stored(&*self.store, user).await?;
                if now == last {
                    return Ok(now);
                }
                last = now;
            }
        })
    }

    /// Lets gateways die at each await of a request in turn. A user of its own presses the button each time, and once again.
    fn dies_at_each_await(&self, button: Button) -> Result<()> {
        let after = button.stored();
        let (mut polls, mut nothing, mut unheard) = (0_u32, 0, 0);
        for death in 0..DEATHS {
            let user = format!("{button:?}{death}");
            let form = match button {
                Button::Save => every_field(),
                Button::NoDigests => form(&[("activity:seen", "0 on"), ("alerts:seen", "0 on"), ("action", "none")]),
                Button::Undo => {
                    let undo =
                        undo_of(&self.press(Button::Save, &user, &every_field())?).context("no button to undo")?;
                    form(&[("undo", &undo)])
                }
                Button::OneClick => "List-Unsubscribe=One-Click".to_owned(),
            };
            let before = self.stored(&user)?;
            let answered = self.press_and_die(button, &user, &form, polls)?;
            let now = self.stored(&user)?;
            let whole = now == after || (!answered && now == before);
            ensure!(whole, "{button:?}, dead after {polls} polls, answered: {answered}: {now:#?}");
            self.press(button, &user, &form)?;
            let once = self.stored(&user)?;
            ensure!(once == after, "{button:?} again after {polls} polls: {once:#?}");
            if !answered {
                (nothing, unheard) = (nothing + u32::from(now == before), unheard + u32::from(now == after));
                polls += 1;
                continue;
            }
            // Deaths on one side of the commit alone would show nothing. Two awaits may have been one this time.
            if nothing > 0 && unheard > 0 {
                println!(
                    "{button:?}: {polls} polls, nothing stored in {nothing}, stored without an answer in {unheard}"
                );
                return Ok(());
            }
            polls = polls.saturating_sub(5);
        }
        bail!("{button:?}: nothing stored in {nothing}, stored without an answer in {unheard} of {DEATHS} deaths")
    }

    fn every_button(&self) -> Result<()> {
        let buttons = [Button::Save, Button::NoDigests, Button::Undo, Button::OneClick];
        buttons.into_iter().try_for_each(|button| self.dies_at_each_await(button))
    }
}

#[test]
fn a_choice_is_whole_or_absent_wherever_the_gateway_dies_on_sqlite() -> Result<()> {
    let (folder, runtime) = (TempDir::new()?, Runtime::new()?);
    runtime.block_on(sqlite(folder.path()))?;
    Bench::new(runtime, sqlite_url(folder.path()))?.every_button()
}

#[needs(postgres)]
#[test]
fn a_choice_is_whole_or_absent_wherever_the_gateway_dies_on_postgresql() -> Result<()> {
    let runtime = Runtime::new()?;
    let url = runtime.block_on(async {
        let url = database().await?;
        PostgresStore::connect(&url).await?.migrate().await?;
        Ok::<_, anyhow::Error>(url)
    })?;
    Bench::new(runtime, url)?.every_button()
}

/// A real gateway is killed (SIGKILL) between the commit and its signal to the open window, which it cannot send because Temporal stands
/// still for it.
async fn dies_before_its_signal<S: Store>(store: Arc<S>, url: &str, folder: TempDir) -> Result<()> {
    let mut env = Env::with_store(settings("after 15s", "after 1d"), store, folder).await?;
    env.start_worker()?;
    let proxy = Proxy::start(&Url::parse(&format!("http://{}", env.server.target()))?).await?;
    let (port, folder) = (Port::take()?, env.folder.path());
    let number = port.number;
    let config = format!(
        "database_url = \"{url}\"\nlink_keys_file = \"keys\"\n[gateway]\nlisten = \"127.0.0.1:{number}\"\n\
         public_url = \"http://localhost:{number}\"\n[mail]\nfrom = \"digest@tidings.example\"\n\
         [digest.activity]\ncadence = \"after 15s\"\n[digest.alerts]\ncadence = \"after 1d\"\n"
    );
    fs::write(folder.join("tidings.toml"), config)?;
    fs::write(folder.join("keys"), KEYS)?;
    let gateway = Gateway::start(command(&binary()?, folder, &proxy.target()), folder, &port).await?;
    eventually("the gateway has Temporal's answer", MINUTE, async || {
        let (_, ready) = request(number, "GET /readyz HTTP/1.1\r\n", "").await?;
        Ok(ready.contains("\"temporal\":\"ok\"").then_some(()))
    })
    .await?;

    let ann = key("activity", "ann");
    env.events.emit(event(&ann, "e1")).await?;
    env.status_when(&ann, "planned", |status| status.due_at.is_some()).await?;
    proxy.set(Network::Frozen);
    let head = format!("POST {} HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n", page("ann")?);
    let choice = form(&[("activity:seen", "0 on"), ("activity:on", "1"), ("activity:pause", "2999-12-01")]);
    let answer = tokio::spawn(async move { request(number, &head, &choice).await });
    eventually("the choice is stored", MINUTE, async || Ok((env.store.facts(&ann).await?.revision == 1).then_some(())))
        .await?;
    drop(gateway);
    ensure!(answer.await?.is_err(), "the gateway answered before it died");

    assert_eq!(audit(&*env.store, Some("ann")).await?.remove("ann"), Some(entries(&[("activity", "preferences")])));
    let far = Timestamp::now() + SignedDuration::from_hours(24 * 365);
    let paused = env.status_when(&ann, "the window is paused", |status| status.due_at > Some(far)).await?;
    assert_eq!(paused.pending, 1, "{paused:?}");
    assert!(env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_window_hears_of_a_choice_after_its_gateway_died_on_sqlite() -> Result<()> {
    let folder = TempDir::new()?;
    let url = sqlite_url(folder.path());
    dies_before_its_signal(sqlite(folder.path()).await?, &url, folder).await
}

#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_window_hears_of_a_choice_after_its_gateway_died_on_postgresql() -> Result<()> {
    let url = database().await?;
    let store = PostgresStore::connect(&url).await?;
    store.migrate().await?;
    dies_before_its_signal(Arc::new(store), &url, TempDir::new()?).await
}
