//! What goes in clear needs words for it (rule 53).

use super::*;

const BEYOND: &str = "serves other machines in clear";

#[test]
fn a_listener_beyond_this_machine_needs_words() {
    for (listen, tls, is_refused) in [
        ("gateway.api_listen", "gateway.api_tls", true),
        ("gateway.metrics_listen", "gateway.metrics_tls", true),
        ("metrics_listen", "metrics_tls", true),
        ("gateway.listen", "gateway.tls", false),
    ] {
        let at = |address: &str| format!("{listen} = \"{address}\"\n");
        let said = match read(&at("0.0.0.0:9000"), &[]) {
            Err(error) => error.to_string(),
            Ok(config) => config.door_warnings()[0].to_string(),
        };
        assert_eq!(read(&at("0.0.0.0:9000"), &[]).is_err(), is_refused, "{listen}");
        assert!(said.starts_with(&format!("tidings.toml:1: {listen} = \"0.0.0.0:9000\": {BEYOND}")), "{said}");
        assert!(said.contains(&format!("add {tls} = \"none\"")), "{said}");
        for (text, shown) in [
            (format!("{}{tls} = \"none\"", at("[::]:9000")), format!("[::]:9000, in clear by {tls} = \"none\"")),
            (at("127.0.0.1:9000"), "127.0.0.1:9000, this machine".to_owned()),
            (at("[::1]:9000"), "[::1]:9000, this machine".to_owned()),
        ] {
            let config = read(&text, &[]).unwrap();
            assert_eq!((config.door_warnings(), config.doors_in_words().get(listen)), (Vec::new(), Some(&shown)));
        }
        let wrong = problems_of(&format!("{}{tls} = \"off\"", at("127.0.0.1:9000")));
        assert!(wrong.contains(&format!("{tls} = \"off\": must be \"none\"")), "{wrong}");
    }
}

#[test]
fn a_database_elsewhere_has_tls_unless_words_say_otherwise() {
    for (url, shown, warned) in [
        ("postgres://u@192.0.2.7/t", "no TLS setting", true),
        ("postgres://u@192.0.2.7/t?sslmode=prefer", "no TLS setting", true),
        ("postgres://u@192.0.2.7/t?sslmode=verify-full", "TLS", false),
        ("postgres://u@192.0.2.7/t?sslmode=disable", "in clear by sslmode=disable", false),
        ("postgres://u@127.0.0.1/t", "this machine", false),
        ("postgres://u@localhost/t?sslmode=disable", "this machine", false),
        ("postgres:///t?host=/run/postgresql", "this machine", false),
    ] {
        let directory = "[directory]\nquery = \"SELECT email FROM users WHERE org = $1 AND id = $2\"\n";
        let text = format!("database_url = \"{url}\"\n{directory}database_url = \"{url}\"");
        let config = read(&text, &[]).unwrap();
        let doors = config.doors_in_words();
        for key in ["database_url", "directory.database_url"] {
            assert!(doors[key].ends_with(shown), "{url}: {doors:?}");
            let is_warned = config.door_warnings().iter().any(|warning| warning.key == key);
            assert_eq!(is_warned, warned, "{key}: {url}");
        }
    }
}

#[test]
fn each_connection_is_a_door() {
    let text = "smtp_url = \"smtps://relay.acme.example\"\n[mail]\nfrom = \"a@acme.example\"\n\
        [directory]\nurl = \"https://app.acme.example/{tenant}/{user}\"\nsecret_env = \"A_SECRET\"\n\
        [digest.activity]\ncadence = \"hourly\"\nseen_url = \"http://127.0.0.1:3000/seen\"\nseen_secret_env = \"A_SECRET\"\n\
        [gateway.oidc]\nissuer = \"https://login.acme.example\"\naudience = \"tidings\"\n\
        [[subscribe]]\nname = \"crm\"\nurl = \"https://crm.acme.example/in\"\nevents = [\"digest.failed\"]\nsecret_env = \"A_SECRET\"";
    let doors = read(text, &[]).unwrap().doors_in_words();
    for (key, shown) in [
        ("relay.default", "smtps://relay.acme.example:465, TLS"),
        ("directory.url", "https://app.acme.example, TLS"),
        ("digest.activity.seen_url", "http://127.0.0.1:3000, this machine"),
        ("gateway.oidc.issuer", "https://login.acme.example, TLS"),
        ("subscribe.crm.url", "https://crm.acme.example, TLS"),
    ] {
        assert_eq!(doors.get(key).map(String::as_str), Some(shown), "{doors:?}");
    }
    assert!(doors.contains_key("temporal"), "{doors:?}");
}

#[test]
fn a_password_in_a_file_that_everybody_can_read_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidings.toml");
    for (text, mode, warned) in [
        ("smtp_url = \"smtps://u:hunter2@relay.example\"", 0o644, true),
        ("smtp_url = \"smtps://u:hunter2@relay.example\"", 0o640, false),
        ("smtp_url = \"smtps://relay.example\"", 0o644, false),
    ] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let warnings = Config::load(Some(&path)).unwrap().warnings();
        let of_password = warnings.iter().find(|warning| warning.key == "smtp_url").map(ToString::to_string);
        assert_eq!(of_password.is_some(), warned, "{mode:o} {text}: {warnings:?}");
        assert!(!of_password.unwrap_or_default().contains("hunter2"));
    }
}

#[test]
fn digests_without_a_way_to_unsubscribe_and_a_proxy_without_trust_are_warnings() {
    let digest = "[digest.activity]\ncadence = \"hourly\"\n[gateway]\n";
    for (line, expected) in [
        ("", &["gateway.public_url"][..]),
        ("unsubscribe_url = \"https://app.acme.example/u?token={token}\"", &[]),
        ("public_url = \"https://mail.acme.example\"", &["gateway.trusted_proxies"]),
        ("public_url = \"https://mail.acme.example\"\ntrusted_proxies = [\"127.0.0.1\"]", &[]),
        ("public_url = \"http://localhost:8080\"", &[]),
    ] {
        let warnings = read(&format!("{digest}{line}"), &[]).unwrap().warnings();
        let of_gateway = warnings.iter().map(|warning| warning.key.as_str()).filter(|key| key.starts_with("gateway."));
        assert_eq!(of_gateway.collect::<Vec<_>>(), expected, "{line}");
    }
}
