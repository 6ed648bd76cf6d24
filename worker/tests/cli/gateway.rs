//! `tidings gateway` as a process.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::Duration,
};

use tempfile::TempDir;

use super::{folder_with, run, start};

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_start_without_what_the_gateway_needs_says_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let (code, _, said) = run(folder.path(), &["gateway"], "");
    assert_eq!(code, 2);
    assert!(said.contains("default: gateway.public_url: is missing; write the address"), "{said}");
    let folder = folder_with("tidings.toml", "[gateway]\npublic_url = \"https://mail.acme.example\"\n");
    for arguments in [&["gateway"][..], &["config", "check"]] {
        let (code, _, said) = run(folder.path(), arguments, "");
        assert_eq!(code, 2);
        assert!(
            said.contains("tidings.toml:2: gateway.public_url") && said.contains("set TIDINGS_LINK_KEYS"),
            "{said}"
        );
    }
}

/// Starts a gateway on a free port, and returns the port once the gateway answers.
fn gateway(folder: &TempDir) -> (Child, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "link_keys_file = \"keys\"\n[gateway]\nlisten = \"127.0.0.1:{port}\"\npublic_url = \"http://localhost:{port}\"\n"
    );
    fs::write(folder.path().join("tidings.toml"), text).unwrap();
    fs::write(folder.path().join("keys"), KEY).unwrap();
    // Temporal does not answer, and the database is ready before that is known.
    run(folder.path(), &["migrate"], "");
    let mut gateway = start(folder.path(), &["gateway"]);
    let mut log = BufReader::new(gateway.stderr.take().unwrap()).lines().map(Result::unwrap);
    log.find(|line| line.contains("gateway started")).expect("it says that it runs");
    (gateway, port)
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The link of acme/activity/ann that `KEY` signed.
const TOKEN: &str = "AWZ1ASNFZ4mrXe-BI0VniavN72FjbWUAYWN0aXZpdHkAYW5upA2-PMHof7wlTdNx2M2PeA";

#[test]
fn a_click_in_progress_at_a_signal_is_carried_out_and_answered() {
    let folder = TempDir::new().unwrap();
    let (mut gateway, port) = gateway(&folder);
    let mut click = connect(port);
    let head = format!(
        "POST /u/{TOKEN} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 26\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    click.write_all(head.as_bytes()).unwrap();
    // The gateway asks for the body when it has begun with the request.
    let mut continues = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    click.read_exact(&mut continues).unwrap();
    assert!(continues.starts_with(b"HTTP/1.1 100 "));
    click.write_all(b"List-Unsub").unwrap();
    assert!(Command::new("kill").arg(gateway.id().to_string()).status().unwrap().success());
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    click.write_all(b"scribe=One-Click").unwrap();
    let answer = rest(click);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("You are unsubscribed"), "{answer}");
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
    let (_, said, _) = run(folder.path(), &["consent", "get", "acme/activity/ann"], "");
    assert!(said.contains("not wanted"), "{said}");
}

#[test]
fn a_page_of_ones_own_carries_out_the_click_with_its_token() {
    let folder = folder_with("keys", KEY);
    fs::write(folder.path().join("tidings.toml"), "link_keys_file = \"keys\"\n").unwrap();
    run(folder.path(), &["migrate"], "");
    for _ in 0..2 {
        let (code, said, error) = run(folder.path(), &["consent", "withdraw", "--token", TOKEN], "");
        assert_eq!((code, said.trim()), (0, "acme/activity/ann: not wanted; no email is sent"), "{error}");
    }
    let single = "AWZz4ZxQ-wVb12VGQCD_pO9Q_rBuxK4nB7CAfyAwqb_NH2YzozoDNmhcqheDJ-gpjWsMIYR25DnDxFJ7R1JnHrsOUQ";
    let (code, said, _) = run(folder.path(), &["consent", "withdraw", "--token", single, "--json"], "");
    assert_eq!((code, said.trim()), (0, "{\"suppressed\":\"unsubscribed\",\"tenant\":\"acme\"}"));
    let (_, said, _) = run(folder.path(), &["suppressions", "list", "--tenant", "acme", "--json"], "");
    assert!(said.contains("ann@example.net") && said.contains("by one click from message"), "{said}");
    let (code, _, error) = run(folder.path(), &["consent", "withdraw", "--token", &TOKEN[1..]], "");
    assert_eq!(code, 2);
    assert!(error.contains("--token: is not an unsubscribe token"), "{error}");
}

#[test]
fn a_gateway_without_temporal_lives_and_ends_at_a_signal() {
    let folder = TempDir::new().unwrap();
    let (mut gateway, port) = gateway(&folder);
    let mut live = connect(port);
    live.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest(live).starts_with("HTTP/1.1 200 "));
    assert!(Command::new("kill").args(["-s", "HUP", &gateway.id().to_string()]).status().unwrap().success());
    let mut ready = connect(port);
    ready.write_all(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let ready = rest(ready);
    assert!(
        ready.starts_with("HTTP/1.1 503 ")
            && ready.contains("{\"store\":\"ok\",\"temporal\":\"no_answer\",\"zone_data\":{\"release\":\"20"),
        "{ready}"
    );
    assert!(Command::new("kill").arg(gateway.id().to_string()).status().unwrap().success());
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
}
