//! Relays and streams: defaults, overrides and problems.

use std::time::Duration;

use tidings_model::{Provider, relay_url::TokenSource, settings::DeliveryGuarantee};

use super::*;

const TWO: &str = "\
[mail]
from = \"Acme <digest@acme.example>\"
[relay.ses]
url = \"smtps://u:hunter2@ses.example\"
provider = \"ses\"
rate = \"14/s\"
per_connection = 50
connections = 3
reply_timeout = \"20m\"
pool = \"marketing\"
[relay.own]
url_env = \"OWN_URL\"
[stream.bulk]
relays = [\"ses\", \"own\"]
retry_delays = [\"1m\", \"2h\"]
[stream.transactional]
relays = [\"own\"]
guarantee = \"at_most_once\"
from = \"Acme <hello@mail.acme.example>\"
";
const OWN: &[(&str, &str)] = &[("OWN_URL", "smtp://own.example:25")];

fn settings(text: &str, environment: &[(&str, &str)]) -> Settings {
    read(text, environment).unwrap().settings(UnknownRecipients::Wait).unwrap()
}

#[test]
fn each_stream_has_its_own_relays_retries_guarantee_and_sender() {
    let settings = settings(TWO, OWN);
    let ses = &settings.relays["ses"];
    assert_eq!((ses.provider, ses.per_connection, ses.pool.as_deref()), (Provider::Ses, 50, Some("marketing")));
    assert_eq!(
        (ses.rate.unwrap().to_string().as_str(), ses.relay.to_string().as_str()),
        ("14/s", "smtps://ses.example:465")
    );
    assert_eq!((settings.relays["own"].per_connection, settings.relays.len()), (100, 2));
    assert_eq!((ses.connections, settings.relays["own"].connections), (3, 10));
    let reply_timeouts = ["ses", "own"].map(|name| settings.relays[name].reply_timeout);
    assert_eq!(reply_timeouts, [Some(Duration::from_mins(20)), None]);

    let bulk = settings.streams.bulk;
    assert_eq!(
        (bulk.relays, bulk.guarantee),
        (vec!["ses".to_owned(), "own".to_owned()], DeliveryGuarantee::AtLeastOnce)
    );
    assert_eq!(bulk.retry_delays, [Duration::from_mins(1), Duration::from_hours(2)]);
    assert_eq!((bulk.sender.address.as_str(), bulk.sender.domain.as_str()), ("digest@acme.example", "acme.example"));
    let transactional = settings.streams.transactional;
    assert_eq!(
        (transactional.relays, transactional.guarantee),
        (vec!["own".to_owned()], DeliveryGuarantee::AtMostOnce)
    );
    assert_eq!(transactional.retry_delays.len(), 5);
    assert_eq!(transactional.sender.domain, "mail.acme.example");
}

#[test]
fn streams_default_to_smtp_url_and_the_general_sender() {
    let settings = settings("smtp_url = \"smtp://127.0.0.1:1\"\n[mail]\nreply_to = \"help@acme.example\"", &[]);
    for stream in [settings.streams.bulk, settings.streams.transactional] {
        assert_eq!((stream.relays, stream.guarantee), (vec!["default".to_owned()], DeliveryGuarantee::AtLeastOnce));
        assert_eq!(stream.sender.reply_to, "help@acme.example".parse().ok());
    }
    assert_eq!(settings.relays["default"].provider, Provider::Other);
}

#[test]
fn streams_that_share_a_relay_and_a_sender_domain_are_a_warning() {
    let acme = "[mail]\nfrom = \"digest@acme.example\"\n";
    let own_relay = "[relay.own]\nurl = \"smtp://127.0.0.1\"\n[stream.transactional]\nrelays = [\"own\"]\n";
    let own_sender = "[stream.transactional]\nfrom = \"hello@mail.acme.example\"\n";
    let warnings = |text: &str| read(text, &[]).unwrap().warnings();
    let [warning] = &warnings(acme)[..] else { panic!("not one warning") };
    let warning = warning.to_string();
    assert!(warning.starts_with("streams: digests and single messages share the relay \"default\" and"), "{warning}");
    for line in ["[relay.NAME]", "[stream.transactional]", "from = \"Acme <hello@mail.acme.example>\""] {
        assert!(warning.contains(line), "{line}: {warning}");
    }
    for separate in [format!("{acme}{own_relay}"), format!("{acme}{own_sender}"), String::new()] {
        assert_eq!(warnings(&separate), [], "{separate}");
    }
}

#[test]
fn an_access_token_stands_in_place_of_a_password() {
    let table =
        |lines: &str| format!("[relay.default]\nurl = \"smtp://ann%40acme.example@smtp.acme.example\"\n{lines}");
    for (lines, source) in [
        ("token_file = \"/run/token\"", TokenSource::File("/run/token".into())),
        (
            "token_command = [\"/bin/token\", \"--for\", \"ann\"]",
            TokenSource::Command(["/bin/token", "--for", "ann"].map(str::to_owned).into()),
        ),
    ] {
        let settings = read(&table(lines), &[]).unwrap().unchecked_settings();
        assert!(settings.relays["default"].relay.token_source() == Some(&source), "{lines}");
    }
    for (lines, said) in [
        ("", "password is missing, but there is a user"),
        ("token_file = \"\"", "relay.default.token_file"),
        ("token_command = []", "relay.default.token_command: is empty"),
        ("token_file = \"/run/token\"\ntoken_command = [\"a\"]", "is a second source next to token_file"),
    ] {
        let found = problems_of(&table(lines));
        assert!(found.contains(said), "{lines}: {found}");
    }
}

const LINK_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const RETURN_PATH: &str = "[stream.bulk]\nreturn_path = \"bounce@mail.acme.example\"\n";

#[test]
fn a_return_path_holds_the_signed_token_of_each_message() {
    let settings = settings(RETURN_PATH, &[("TIDINGS_LINK_KEYS", LINK_KEY)]);
    let token = settings.report_token("acme", uuid::Uuid::from_u128(7)).unwrap();
    let from = settings.streams.bulk.envelope_from(Some(&token));
    assert_eq!(from, format!("bounce+{token}@mail.acme.example"));
    assert_eq!(settings.streams.transactional.envelope_from(Some(&token)), "digest@localhost");
}

#[test]
fn a_return_path_without_keys_stops_only_sending_and_names_the_remedy() {
    let config = read(RETURN_PATH, &[]).unwrap();
    let error = config.settings(UnknownRecipients::Wait).unwrap_err().to_string();
    let said = "tidings.toml:2: stream.bulk.return_path = \"bounce@mail.acme.example\": needs a key that signs its tokens; \
                set TIDINGS_LINK_KEYS to what `tidings keys new` prints";
    assert_eq!(error, said);
    let wrong = read("", &[("TIDINGS_LINK_KEYS", "hunter2")]).unwrap_err().to_string();
    assert!(wrong.starts_with("environment: TIDINGS_LINK_KEYS = \"***\": expected space-separated keys"), "{wrong}");
    for address in ["bounce", "Bounce@acme.example", "b+c@acme.example", "bounces-of-acme-@acme.example", "b@x y"] {
        let found = problems_of(&RETURN_PATH.replace("bounce@mail.acme.example", address));
        assert!(found.starts_with("tidings.toml:2: stream.bulk.return_path = "), "{address}: {found}");
    }
}

#[test]
fn a_table_can_describe_the_relay_of_smtp_url() {
    let text = "[relay.default]\nprovider = \"postmark\"";
    let config = read(text, &[("TIDINGS_SMTP_URL", "smtp://127.0.0.1:2")]).unwrap();
    assert_eq!(urls(&config), ["default smtp://127.0.0.1:2"]);
    assert_eq!(config.unchecked_settings().relays["default"].provider, Provider::Postmark);
}

#[test]
fn a_relay_without_an_address_stops_only_sending() {
    let config = read(TWO, &[]).unwrap();
    assert_eq!(urls(&config), ["ses smtps://ses.example:465"]);
    let missing = "tidings.toml:12: relay.own.url_env = \"OWN_URL\": is not set; set it to the relay's address";
    for error in [config.settings(UnknownRecipients::Wait).unwrap_err(), config.ready_to_send().unwrap_err()] {
        assert!(error.to_string().starts_with(missing), "{error}");
    }
    let wrong = read(TWO, &[("OWN_URL", "smpt://u:hunter2@own.example")]).unwrap_err().to_string();
    assert!(wrong.starts_with("environment: OWN_URL = \"smpt://u:***@own.example\": relay: scheme"), "{wrong}");
}

#[test]
fn a_token_given_as_url_env_is_never_shown() {
    for token in ["hunter2", "SG.hunter2", "hunter2/+=", "HUNTER2"] {
        let text = format!("[relay.default]\nurl_env = \"{token}\"");
        let error = match read(&text, &[]) {
            Ok(config) => config.settings(UnknownRecipients::Wait).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with("tidings.toml:2: relay.default.url_env = \"***\": is not "), "{error}");
        assert!(!error.to_lowercase().contains("hunter2"), "{error}");
        let both = problems_of(&format!("{text}\nurl = \"smtp://127.0.0.1:25\""));
        assert!(!both.to_lowercase().contains("hunter2"), "{both}");
    }
}

#[test]
fn the_default_sender_cannot_send_to_another_machine() {
    let text = "[relay.own]\nurl = \"smtp://own.example\"\n[stream.transactional]\nrelays = [\"own\"]";
    let error = read(text, &[]).unwrap().ready_to_send().unwrap_err().to_string();
    assert!(error.contains("mail.from") && error.contains("smtp://own.example:587"), "{error}");
    let own = format!("{text}\nfrom = \"hello@acme.example\"");
    assert!(read(&own, &[]).unwrap().ready_to_send().is_ok());
}

#[test]
fn a_wrong_relay_or_stream_names_the_remedy() {
    let ses = "[stream.bulk]\nrelays = [\"ses\"]\n[relay.ses]\n";
    let with = |key: &str| format!("{ses}url = \"smtp://u:hunter2@h.example\"\n{key}");
    for (text, said) in [
        (ses.to_owned(), "tidings.toml:3: relay.ses.url: is missing; write for example \"smtp://user:password@"),
        (
            format!("{ses}url = \"http://u:hunter2@x\""),
            "tidings.toml:4: relay.ses.url = \"http://u:***@x/\": relay: scheme",
        ),
        (
            with("url_env = \"SES_URL\""),
            "tidings.toml:5: relay.ses.url_env = \"SES_URL\": is a second address next to url",
        ),
        (
            with("url_env = \"smtp://u:hunter2@h.example\""),
            "tidings.toml:5: relay.ses.url_env = \"***\": is not the name of a variable",
        ),
        (
            format!("{ses}url_env = \"smtps://u:hunter2@h.example\""),
            "tidings.toml:4: relay.ses.url_env = \"***\": is not the name of a variable; write for",
        ),
        (with("provider = \"aws\""), "relay.ses.provider = \"aws\": is not a supported provider; write one of ses,"),
        (with("rate = \"14\""), "tidings.toml:5: relay.ses.rate = \"14\": is not a rate; write for example \"14/s\""),
        (with("rate = \"0/s\""), "relay.ses.rate = \"0/s\": is not a rate"),
        (with("rate = \"1/w\""), "relay.ses.rate = \"1/w\": is not a rate"),
        (
            with("reply_timeout = \"31m\""),
            "tidings.toml:5: relay.ses.reply_timeout = \"31m\": is not between 5s and 30m; write for example \"10m\"",
        ),
        (with("reply_timeout = \"1s\""), "relay.ses.reply_timeout = \"1s\": is not between 5s and 30m"),
        (with("connections = 0"), "relay.ses.connections = \"0\": write a whole number from 1"),
        (with("per_connection = 0"), "relay.ses.per_connection = \"0\": write a whole number from 1"),
        (
            with("pool = \"m\""),
            "relay.ses.pool = \"m\": needs a provider with pools, and other has none; leave the key out, or set",
        ),
        (with("provider = \"ses\"\npool = \"a b\""), "relay.ses.pool = \"a b\": is not a name of up to 64 letters"),
        (with("pol = \"m\""), "pol: no such key; did you mean \"pool\"?"),
        (
            format!("{}[relay.spare]\nurl = \"smtp://127.0.0.1\"", with("")),
            "tidings.toml:5: relay.spare: no stream uses this relay; add \"spare\" to stream.bulk.relays",
        ),
        (
            format!("{}rate = \"1/s\"\n[stream.transactional]\nrelays = [\"ses\"]", with("")),
            "tidings.toml:5: relay.ses.rate = \"1/s\": limits one stream, but both streams use this relay",
        ),
        (
            format!("smtp_url = \"smtp://127.0.0.1:9\"\n{}[stream.transactional]\nrelays = [\"ses\"]", with("")),
            "tidings.toml:1: smtp_url = \"smtp://127.0.0.1:9\": no stream uses this relay",
        ),
        (
            "[stream.bulk]\nrelays = []".to_owned(),
            "tidings.toml:2: stream.bulk.relays: names no relay; leave the key out for",
        ),
        (
            with("[stream.transactional]\nrelays = [\"sess\"]"),
            "stream.transactional.relays = \"sess\": there is no [relay.sess]; did you mean \"ses\"?",
        ),
        (
            "[stream.bulk]\nretry_delays = [\"1m\", \"soon\"]".to_owned(),
            "tidings.toml:2: stream.bulk.retry_delays = \"soon\": \"soon\" is not a duration",
        ),
        (
            "[stream.bulk]\nguarantee = \"exactly_once\"".to_owned(),
            "stream.bulk.guarantee = \"exactly_once\": is not a guarantee; write",
        ),
        ("[stream.bulk]\nfrom = \"Acme\"".to_owned(), "stream.bulk.from = \"Acme\": is not a sender"),
        ("[stream.bluk]\n".to_owned(), "no such key; did you mean \"bulk\"?"),
        (
            "[relay.\"a b\"]\nurl = \"smtp://127.0.0.1\"\n[stream.bulk]\nrelays = [\"a b\"]".to_owned(),
            "relay.a b = \"a b\": is not a name of up to 64",
        ),
    ] {
        let found = problems_of(&text);
        assert!(found.contains(said), "{text:?}\n  says {found}\n  not  {said}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn a_stream_signs_for_its_own_sender() {
    let stream = "[stream.bulk]\nfrom = \"news@news.example\"\n";
    let names = |text: &str, environment: &[(&str, &str)]| {
        let StreamsConfig { bulk, transactional } = read(text, environment).unwrap().streams;
        [bulk, transactional].map(|stream| stream.dkim.map(|dkim| dkim.domain))
    };
    let environment = &[("TIDINGS_DKIM_KEY", KEY), ("TIDINGS_BULK_DKIM_KEY", KEY)];
    let [news, mail] = ["news.example", "mail.acme.example"].map(|domain| Some(domain.to_owned()));
    // The key of [mail.dkim] signs for both.
    assert_eq!(names(&format!("{}{stream}", dkim("")), &environment[..1]), [news.clone(), mail.clone()]);
    // A key of the stream's own signs, too, with or without the other.
    let own = format!("{stream}[stream.bulk.dkim]\nselector = \"b1\"\n");
    assert_eq!(names(&format!("{}{own}", dkim("")), environment), [news.clone(), mail]);
    assert_eq!(names(&own, &environment[1..]), [news, None]);
    // A domain that was named for one sender is not aligned with another.
    let error = problems_of(&format!("{}{stream}", dkim("key_file = \"k\"\ndomain = \"acme.example\"\n")));
    let said = "mail.dkim.domain = \"acme.example\": is not aligned with stream.bulk.from";
    assert!(error.contains(said), "{error}");
}
