//! The workshop by HTTP, as a browser asks for it.

use std::{fs, net::SocketAddr, path::Path, pin::pin, time::Duration};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::*;

const SAMPLE: &str = r#"{"message": {"title": "Hello"}, "recipient": {"user": "ann", "name": "Ann"}}"#;

/// A workshop over a folder with the template `welcome`, whose HTML this is.
struct Shop {
    address: SocketAddr,
    folder: TempDir,
}

/// A folder of templates with `welcome`, whose HTML this is.
fn folder(html: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("welcome");
    fs::create_dir(&own).unwrap();
    for (name, text) in [
        ("subject.txt", "{{ message.title }}"),
        ("body.html", html),
        ("body.txt", "{{ message.title }}\n"),
        ("sample.json", SAMPLE),
    ] {
        fs::write(own.join(name), text).unwrap();
    }
    folder
}

fn config(folder: &TempDir) -> Config {
    let text = format!("templates = {:?}\n[mail]\nfrom = \"Acme <digest@acme.example>\"\n", folder.path());
    Config::parse_text(Path::new("tidings.toml"), &text, &|_| None).unwrap()
}

impl Shop {
    async fn open(html: &str) -> Self {
        let folder = folder(html);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, config(&folder), None));
        Self { address, folder }
    }

    fn write(&self, html: &str) {
        fs::write(self.folder.path().join("welcome/body.html"), html).unwrap();
    }

    /// The whole answer, head and body.
    async fn ask(&self, request: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!("{request}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n"), "").await
    }

    /// Pastes a JSON, and returns the address of its page.
    async fn paste(&self, path: &str, json: &str) -> String {
        let body = form_urlencoded::Serializer::new(String::new()).append_pair("json", json).finish();
        let answer = self
            .ask(
                &format!(
                    "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\
            Content-Type: application/x-www-form-urlencoded\r\n"
                ),
                &body,
            )
            .await;
        assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
        header(&answer, "location").to_owned()
    }
}

/// The value of a header of `answer`.
fn header<'a>(answer: &'a str, name: &str) -> &'a str {
    let (head, _body) = answer.split_once("\r\n\r\n").unwrap();
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))
}

/// The state of the files that a page shows.
fn seen(page: &str) -> &str {
    page.split_once("data-seen=\"").unwrap().1.split_once('"').unwrap().0
}

#[tokio::test]
async fn files_are_read_and_checked_once_for_each_state() {
    let folder = folder("<p>{{ message.title }}</p>");
    let bench = WorkshopState::new(config(&folder), None);
    let now = async || bench.templates(&FolderState::of_folder(bench.folder())).await.unwrap();
    let (first, again) = (now().await, now().await);
    assert!(Arc::ptr_eq(&first, &again));
    let found = async |name: &str| (first.findings_for(name).await.unwrap(), again.findings_for(name).await.unwrap());
    let (once, twice) = found("welcome").await;
    assert!(Arc::ptr_eq(&once, &twice));
    let (once, twice) = found("nothing").await;
    assert!(!Arc::ptr_eq(&once, &twice), "a name that is no template is not kept");
    fs::write(folder.path().join("welcome/body.html"), "<p><b>{{ message.title }}</p>").unwrap();
    let changed = now().await;
    assert!(!Arc::ptr_eq(&first, &changed) && !Arc::ptr_eq(&first.renderer, &changed.renderer));
    assert!(changed.findings_for("welcome").await.is_some());
}

#[tokio::test]
async fn the_list_leads_to_every_template_in_every_language() {
    let shop = Shop::open("<p>{{ message.title }}</p>").await;
    let page = shop.get("/").await;
    for (name, language) in [("activity", "ar"), ("review", "pt-BR"), ("welcome", "zh-Hans")] {
        let link = format!("<a href=\"/template?lang={language}&amp;name={name}\">{language}</a>");
        assert!(page.contains(&link), "{link}: {page}");
    }
    assert!(page.contains("welcome/body.html") && page.contains("built in"), "{page}");
}

#[tokio::test]
async fn a_page_shows_the_parts_and_the_size_of_its_message() {
    let shop = Shop::open("<p class=\"x\">{{ message.title }}</p>").await;
    let page = shop.get("/template?name=welcome").await;
    assert!(page.contains("HTML: 0.0 KB of 102 KB") && page.contains("Nothing found, in any language."), "{page}");
    assert!(
        page.contains("src=\"/message?name=welcome\"") && page.contains("&quot;title&quot;: &quot;Hello&quot;"),
        "{page}"
    );
    let text = shop.get("/template?name=welcome&part=text").await;
    assert!(text.contains("\nHello\n</pre>") && !text.contains("<iframe"), "{text}");
    let source = shop.get("/template?name=welcome&part=source").await;
    assert!(source.contains("&lt;p class=&quot;x&quot;&gt;Hello&lt;/p&gt;"), "{source}");
    let japanese = shop.get("/template?name=summary&lang=ja&zone=Asia/Tokyo&part=source").await;
    assert!(japanese.contains("lang=&quot;ja&quot;") && japanese.contains("selected>Asia/Tokyo"), "{japanese}");
}

#[tokio::test]
async fn a_frame_is_dark_without_images_and_never_runs_scripts() {
    let shop = Shop::open("<p>{{ message.title }}</p>").await;
    let frame = shop.get("/message?name=activity&scheme=dark&images=off").await;
    let policy = header(&frame, "content-security-policy");
    assert!(policy.starts_with("sandbox allow-popups") && policy.contains("img-src 'none'"), "{policy}");
    assert!(!policy.contains("allow-scripts") && !policy.contains("allow-same-origin"), "{policy}");
    assert!(frame.contains("@media (min-width:0)") && !frame.contains("prefers-color-scheme"), "{frame}");
    let frame = shop.get("/message?name=activity").await;
    assert!(
        frame.contains("@media (max-width:0)") && header(&frame, "content-security-policy").contains("img-src data:")
    );
}

#[tokio::test]
async fn own_json_has_an_address_and_stays_in_the_sandbox() {
    let shop = Shop::open("<p>{{ message.title }}</p>").await;
    let hostile = SAMPLE.replace("Hello", "</textarea><script>alert(1)</script>");
    let page = shop.paste("/template?name=welcome&lang=de&spam=on", &hostile).await;
    assert!(page.starts_with("/template?data=") && page.ends_with("&lang=de&name=welcome"), "{page}");
    let shown = shop.get(&page).await;
    assert!(shown.contains("&lt;&#x2F;textarea&gt;") || shown.contains("&lt;/textarea&gt;"), "{shown}");
    assert!(!shown.contains("<script>"), "{shown}");
    assert!(header(&shown, "content-security-policy").contains("script-src 'self';"));
    let frame = shop.get(&page.replace("/template?", "/message?")).await;
    assert!(
        frame.contains("&lt;script&gt;") && header(&frame, "content-security-policy").contains("default-src 'none'")
    );

    let wrong = shop.get(&shop.paste("/template?name=welcome", "{\n\"message\": 1}").await).await;
    assert!(wrong.contains("This message cannot be made") && wrong.contains("your JSON"), "{wrong}");
    assert!(wrong.contains("at line 2 column"), "{wrong}");
    assert_eq!(shop.paste(&page, " \r\n").await, "/template?lang=de&name=welcome");
    let gone = shop.get("/template?name=welcome&data=00000000-0000-0000-0000-000000000000").await;
    assert!(gone.contains("Paste it again below."), "{gone}");
}

#[tokio::test]
async fn a_broken_template_shows_its_line_until_it_is_corrected() {
    let shop = Shop::open("<p>{{ message.title }}</p>").await;
    let right = shop.get("/template?name=welcome").await;
    let path = format!("/changes?seen={}", seen(&right));
    let mut waiting = pin!(shop.get(&path));
    assert!(timeout(Duration::from_millis(500), &mut waiting).await.is_err(), "nothing has changed");
    shop.write("<p>\n{{ message.title</p>");
    assert!(waiting.await.starts_with("HTTP/1.1 200 "));

    let broken = shop.get("/template?name=welcome").await;
    assert!(broken.contains("welcome/body.html:2") && broken.contains("Correct it there."), "{broken}");
    assert!(broken.contains("<li class=\"here\"><code>{{ message.title&lt;"), "{broken}");
    assert!(shop.get("/").await.contains("welcome/body.html:2"));
    assert!(shop.get("/message?name=welcome").await.starts_with("HTTP/1.1 422 "));
    shop.write("<p>\n<b>{{ message.title }}</b></p>");
    assert!(shop.get(&format!("/changes?seen={}", seen(&broken))).await.starts_with("HTTP/1.1 200 "));
    assert!(shop.get("/message?name=welcome").await.contains("<b>Hello</b>"));

    shop.write("<p>{{ message.titel }}</p>");
    let missing = shop.get("/template?name=welcome").await;
    assert!(missing.contains("welcome/body.html:1") && missing.contains("titel"), "{missing}");
}

#[tokio::test]
async fn findings_of_a_check_name_file_and_line() {
    let shop = Shop::open("<p>\n<b style=\"display: flex\">{{ message.title }}</p>").await;
    for page in ["/template?name=welcome", "/?check=on"] {
        let page = shop.get(page).await;
        assert!(page.contains("welcome/body.html:2</b>: `display: flex` is not supported by "), "{page}");
        assert!(
            page.contains("&lt;&#x2F;p&gt; closes nothing") || page.contains("&lt;/p&gt; closes nothing"),
            "{page}"
        );
    }
    assert!(!shop.get("/template?name=alerts").await.contains("display: flex"));
}

#[tokio::test]
async fn foreign_hosts_and_forms_of_other_pages_are_refused() {
    let shop = Shop::open("<p>{{ message.title }}</p>").await;
    let refused = shop.ask("GET /template?name=welcome HTTP/1.1\r\nHost: evil.example\r\n", "").await;
    assert!(refused.starts_with("HTTP/1.1 421 ") && !refused.contains("Hello"), "{refused}");
    let refused =
        shop.ask("POST /template?name=welcome HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n", "json=1").await;
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
}
