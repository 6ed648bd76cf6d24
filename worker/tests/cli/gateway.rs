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
    log.find(|line| line.contains("the gateway runs")).expect("it says that it runs");
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

#[test]
fn a_gateway_without_temporal_lives_and_ends_at_a_signal() {
    let folder = TempDir::new().unwrap();
    let (mut gateway, port) = gateway(&folder);
    let mut live = connect(port);
    live.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest(live).starts_with("HTTP/1.1 200 "));
    let mut ready = connect(port);
    ready.write_all(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let ready = rest(ready);
    assert!(
        ready.starts_with("HTTP/1.1 503 ") && ready.contains("{\"store\":\"ok\",\"temporal\":\"no_answer\"}"),
        "{ready}"
    );
    assert!(Command::new("kill").arg(gateway.id().to_string()).status().unwrap().success());
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
}
