//! The inbox by HTTP, as a browser asks for it.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

const HOSTILE: &[u8] = b"From: x@dev.invalid\r\nTo: ann@dev.invalid\r\nSubject: <script>alert(1)</script>\r\n\
    MIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\
    <script>fetch('/api/mails')</script><img src=x onerror=alert(1)>";

struct Browser {
    address: std::net::SocketAddr,
    mailbox: Arc<Mailbox>,
    _folder: tempfile::TempDir,
}

impl Browser {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Arc::new(Mailbox::open(folder.path()).await.unwrap());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let about = InboxAddresses { smtp: "127.0.0.1:1025".into(), temporal_ui: "http://127.0.0.1:8233".into() };
        tokio::spawn(serve(listener, Arc::clone(&mailbox), about));
        Self { address, mailbox, _folder: folder }
    }

    /// The whole answer, head and body.
    async fn get(&self, path: &str) -> String {
        self.get_as("localhost", path).await
    }

    async fn get_as(&self, host: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

/// The value of a header of `answer`.
fn header<'a>(answer: &'a str, name: &str) -> &'a str {
    let (head, _body) = answer.split_once("\r\n\r\n").unwrap();
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))
}

#[tokio::test]
async fn the_inbox_lists_an_email_with_its_digest_and_raw_bytes() {
    let browser = Browser::open().await;
    let mail = b"Subject: 3 new\r\nX-Tidings-Message: 7f1c\r\n\r\nText.\r\n";
    let id = browser.mailbox.store_email(mail).await.unwrap();
    let listed = browser.get("/api/mails").await;
    assert!(listed.contains(r#""subject":"3 new""#) && listed.contains(r#""digest_id":"7f1c""#), "{listed}");
    let raw = browser.get(&format!("/api/mails/{id}/raw")).await;
    assert!(header(&raw, "content-disposition").starts_with("attachment"));
    assert_eq!(raw.split_once("\r\n\r\n").unwrap().1.as_bytes(), mail);
}

#[tokio::test]
async fn a_hostile_mail_is_served_in_a_sandbox_without_scripts_or_origin() {
    let browser = Browser::open().await;
    let id = browser.mailbox.store_email(HOSTILE).await.unwrap();
    let answer = browser.get(&format!("/api/mails/{id}/html")).await;
    let policy = header(&answer, "content-security-policy");
    let directives: Vec<_> = policy.split(';').map(str::trim).collect();
    assert!(directives.contains(&"sandbox allow-popups allow-popups-to-escape-sandbox"), "{policy}");
    assert!(directives.contains(&"default-src 'none'"), "{policy}");
    assert!(!policy.contains("allow-scripts") && !policy.contains("script-src"), "{policy}");
    assert!(!policy.contains("allow-same-origin"), "{policy}");
}

#[tokio::test]
async fn the_page_runs_its_own_script_only_and_frames_mails_without_rights() {
    let browser = Browser::open().await;
    let page = browser.get("/").await;
    let policy = header(&page, "content-security-policy");
    assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    let frame = page.lines().find(|line| line.contains("<iframe")).expect("the page has a frame");
    assert!(frame.contains(r#"sandbox="allow-popups allow-popups-to-escape-sandbox""#), "{frame}");
    assert!(!include_str!("page.js").contains("innerHTML"));
}

#[tokio::test]
async fn an_unknown_mail_is_not_found() {
    let browser = Browser::open().await;
    assert!(browser.get("/api/mails/1").await.starts_with("HTTP/1.1 404"));
    assert!(browser.get("/api/mails/..%2F..%2Fetc%2Fpasswd/raw").await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_name_that_another_website_points_here_reads_no_mail() {
    let browser = Browser::open().await;
    browser.mailbox.store_email(b"Subject: secret\r\n\r\nText.\r\n").await.unwrap();
    for path in ["/", "/page.js", "/api/about", "/api/mails", "/api/arrivals"] {
        let answer = browser.get_as("evil.example", path).await;
        assert!(answer.starts_with("HTTP/1.1 421") && !answer.contains("secret"), "{path}: {answer}");
    }
}
