//! The workshop of `tidings dev`: the real program, with a real key's open window and a browser.

use std::{env, fs, time::Duration};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tidings_harness::{
    cli_env::{binary, command},
    http::request,
    port::Port,
    wait::eventually,
};
use tidings_mail::render::TemplateRenderer;
use tidings_needs::needs;
use tokio::process::{Child, Command};

use super::looks::{browser, finds_nothing};

/// The servers of `tidings dev` start one after another.
const START: Duration = Duration::from_mins(2);
const FLAGS: [&str; 7] = ["temporal", "ui", "smtp", "inbox", "gateway", "api", "workshop"];

/// A running `tidings dev` whose folder of templates has `reviews`. It ends when it is dropped, and its Temporal server with it.
struct Dev {
    folder: TempDir,
    /// In the order of [`FLAGS`].
    ports: Vec<Port>,
    _process: Child,
}

impl Dev {
    async fn start() -> Result<Self> {
        let folder = TempDir::new()?;
        let own = folder.path().join("templates/reviews");
        fs::create_dir_all(&own)?;
        for name in ["subject.txt", "body.html", "body.txt", "sample.json"] {
            let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/../templates/activity");
            fs::copy(format!("{built_in}/{name}"), own.join(name))?;
        }
        fs::write(own.join("subject.txt"), "Reviews for you")?;
        let config = "templates = \"templates\"\n[mail]\nfrom = \"Acme <digest@acme.example>\"\n\
                      [digest.reviews]\ncadence = \"after 1h\"\nzone = \"UTC\"\n";
        fs::write(folder.path().join("tidings.toml"), config)?;
        let ports = FLAGS.iter().map(|_| Port::take()).collect::<Result<Vec<_>>>()?;
        let mut tidings = command(&binary()?, folder.path(), "127.0.0.1:1");
        tidings.arg("dev");
        for (flag, port) in FLAGS.iter().zip(&ports) {
            tidings.arg(format!("--{flag}-port")).arg(port.number.to_string());
        }
        let said = fs::File::create(folder.path().join("dev.log"))?;
        let process = tidings.stdout(said.try_clone()?).stderr(said).spawn()?;
        let dev = Self { folder, ports, _process: process };
        let answers = async || Ok(dev.get("/").await.ok().filter(|(status, _)| *status == 200));
        eventually("the workshop answers", START, answers).await.with_context(|| dev.said())?;
        Ok(dev)
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("dev.log")).unwrap_or_default()
    }

    fn port(&self) -> u16 {
        self.ports[6].number
    }

    async fn get(&self, path: &str) -> Result<(u16, String)> {
        request(self.port(), &format!("GET {path} HTTP/1.1\r\n"), "").await
    }

    async fn page(&self, path: &str) -> Result<String> {
        let (status, page) = self.get(path).await?;
        ensure!(status == 200, "{path}: {status}: {page}");
        Ok(page)
    }

    fn tidings(&self) -> Result<Command> {
        Ok(command(&binary()?, self.folder.path(), &format!("127.0.0.1:{}", self.ports[0].number)))
    }

    /// Emits an event for `acme/reviews/ann`.
    async fn emit(&self, title: &str) -> Result<()> {
        let arguments = ["emit", "--tenant", "acme", "--user", "ann", "--digest", "reviews"];
        let emitted =
            self.tidings()?.args(arguments).args(["--category", "comment", "--title", title]).output().await?;
        ensure!(emitted.status.success(), "{}", String::from_utf8_lossy(&emitted.stderr));
        Ok(())
    }
}

/// The addresses on which something listens on this port, as Linux writes them.
fn listening(port: u16) -> Result<Vec<String>> {
    let tables = [fs::read_to_string("/proc/net/tcp")?, fs::read_to_string("/proc/net/tcp6").unwrap_or_default()];
    let end = format!(":{port:04X}");
    let of_row = |row: &str| {
        let columns: Vec<_> = row.split_whitespace().collect();
        let address = columns.get(1)?.strip_suffix(&end)?;
        (*columns.get(3)? == "0A").then(|| address.to_owned())
    };
    Ok(tables.iter().flat_map(|table| table.lines()).filter_map(of_row).collect())
}

#[needs(temporal, spamassassin)]
#[tokio::test(flavor = "multi_thread")]
async fn the_workshop_shows_every_template_and_a_keys_open_window() -> Result<()> {
    let dev = Dev::start().await?;
    eventually("dev says where the workshop is", START, async || {
        Ok(dev.said().contains(&format!("Workshop     http://localhost:{}", dev.port())).then_some(()))
    })
    .await?;
    assert_eq!(listening(dev.port())?, ["0100007F"], "on the loopback address alone");
    let (status, refused) = {
        let head = format!("GET / HTTP/1.1\r\nHost: evil.example:{}\r\n", dev.port());
        request(dev.port(), &head, "").await?
    };
    ensure!(status != 200 && !refused.contains("Templates"), "{status}: {refused}");

    for name in TemplateRenderer::new(None)?.names() {
        let page = dev.page(&format!("/template?name={name}&lang=ar&zone=Asia/Tokyo&part=source")).await?;
        ensure!(page.contains("dir=&quot;rtl&quot;") && page.contains("lang=&quot;ar&quot;"), "{name}: {page}");
        ensure!(page.contains("Nothing found, in any language."), "{name}: {page}");
    }
    let page = dev.page("/template?name=reviews&spam=on").await?;
    ensure!(page.contains("a message is spam from 5 on.") && page.contains("Reviews for you"), "{page}");

    let key = "key=acme/reviews/ann";
    let page = dev.page(&format!("/template?name=reviews&{key}")).await?;
    ensure!(page.contains("no window is open") && page.contains("tidings emit"), "{page}");
    dev.emit("Bob <asks> you").await?;
    let shown = async || {
        let page = dev.page(&format!("/template?name=reviews&{key}&part=text")).await?;
        Ok(page.contains("Bob &lt;asks&gt; you").then_some(page))
    };
    eventually("the window is open", START, shown).await?;
    let frame = dev.page(&format!("/message?name=summary&{key}&lang=ar&scheme=dark")).await?;
    ensure!(frame.contains("Bob &lt;asks&gt; you") && frame.contains("dir=\"rtl\""), "{frame}");
    let page = dev.page(&format!("/template?name=summary&{key}")).await?;
    ensure!(page.contains("its messages use the template reviews"), "{page}");
    ensure!(dev.page(&format!("/template?name=nothing&{key}")).await?.contains("there is no such template"));
    Ok(())
}

/// Each page in light and dark, at 320 pixels and with large text. A changed file shows by itself.
#[needs(temporal, python, chromium, page_checkers)]
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_finds_no_fault_in_the_workshop_and_sees_changes() -> Result<()> {
    let dev = Dev::start().await?;
    let mut check = browser("workshop.py")?;
    if let Some(folder) = env::var_os("TIDINGS_TEST_SHOTS") {
        check.arg("--shots").arg(folder);
    }
    let paths = [
        "template?name=reviews",
        "",
        "?check=on",
        "template?name=alerts&lang=ar&scheme=dark&width=narrow&images=off",
        "template?name=summary&part=text&lang=de",
        "template?name=review&part=source",
        "template?name=nothing",
    ];
    check.args(paths.map(|path| format!("http://localhost:{}/{path}", dev.port())));
    let subject = dev.folder.path().join("templates/reviews/subject.txt");
    check.arg("--edit").arg(subject).args(["Reviews for you", "Something else"]);
    tokio::task::spawn_blocking(move || finds_nothing(&mut check)).await??;
    Ok(())
}
