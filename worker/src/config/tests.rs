//! Configurations and the problems they report.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tempfile::TempDir;
use tidings_model::settings::OverLimit;

use super::*;

mod category;
mod directory;
mod doors;
mod former;
mod gateway;
mod inbox;
mod link_keys;
mod oidc;
mod retention;
mod seen;
mod streams;
mod subscribe;
mod tenants;
mod webhooks;

fn read(text: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variable = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Config::parse_text(Path::new("tidings.toml"), text, &variable)
}

/// Returns the name and address of each relay in use.
fn urls(config: &Config) -> Vec<String> {
    let relays = config.unchecked_settings().relays;
    relays.into_iter().map(|(name, relay)| format!("{name} {}", relay.relay)).collect()
}

fn problems_of(text: &str) -> String {
    read(text, &[]).unwrap_err().to_string()
}

#[test]
fn defaults_serve_one_machine() {
    let config = read("", &[]).unwrap();
    assert_eq!(config.database_url.to_string(), "sqlite://.tidings/tidings.db");
    assert_eq!(urls(&config), ["default smtp://127.0.0.1:1025"]);
    assert_eq!(config.task_queue, "tidings");
    assert!(config.digests.is_empty());
}

#[test]
fn the_example_file_is_valid() {
    let text = include_str!("../../../tidings.toml");
    let config = read(text, &[]).unwrap();
    assert!(config.digests.contains_key("activity"));
    // Every line of an example that is commented out is right, too.
    let is_key = |line: &&str| line.starts_with("# ") && line.contains(" = ") || line.starts_with("# [");
    let all: Vec<_> = text.lines().map(|line| if is_key(&line) { &line[2..] } else { line }).collect();
    read(&all.join("\n").replace("templates = ", "# "), &[]).unwrap();
}

#[test]
fn environment_variables_override_the_file() {
    let text = "database_url = \"sqlite://a.db\"\nsmtp_url = \"smtp://127.0.0.1:1\"";
    let config = read(text, &[("TIDINGS_DATABASE_URL", "postgres://u:p@db.example/t")]).unwrap();
    assert_eq!(config.database_url.reveal(), "postgres://u:p@db.example/t");
    assert_eq!(urls(&config), ["default smtp://127.0.0.1:1"]);
}

#[test]
fn what_nobody_sees_around_a_value_is_no_part_of_it() {
    let text = "smtp_url = \"\u{feff}smtp://127.0.0.1:1\u{a0}\"\ntask_queue = \"mail\u{200b}\"";
    let keys = ("TIDINGS_LINK_KEYS", "\u{feff}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n");
    let config = read(text, &[("TIDINGS_DATABASE_URL", "postgres://u:p@db.example/t\r\n\0"), keys]).unwrap();
    assert_eq!(config.database_url.reveal(), "postgres://u:p@db.example/t");
    assert_eq!((urls(&config), config.task_queue.as_str()), (vec!["default smtp://127.0.0.1:1".to_owned()], "mail"));
    assert!(config.link_keys.keys().is_some());
    let config = read("", &[("TIDINGS_DATABASE_URL", "\n")]).unwrap();
    assert_eq!(config.database_url.to_string(), "sqlite://.tidings/tidings.db");
}

#[test]
fn an_error_names_line_key_value_and_remedy() {
    for (text, said) in [
        (
            "\n[digest.activity]\ncadence = \"dayly 08:00\"",
            "tidings.toml:3: digest.activity.cadence = \"dayly 08:00\": ",
        ),
        ("[digest.a]\ncadence = \"dayly 08:00\"", "\"dayly\" is not a cadence; write \"instant\""),
        ("[digest.a]\ncadence = \"instant\"\nzone = \"Europe/Berln\"", "did you mean \"Europe/Berlin\"?"),
        (
            "[digest.a]\ncadence = \"instant\"\nzone = \"xyz\"",
            "tidings.toml:3: digest.a.zone = \"xyz\": is not an IANA time zone",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nlines_per_message = 0",
            "digest.a.lines_per_message = \"0\": write a whole number from 1",
        ),
        ("[digest.a]\ncadence = \"instant\"\nmore_url = \"ftp://x\"", "\"ftp\" is neither http nor https"),
        ("[digest.a]\ncadence = \"monthly 32 08:00\"", "08:00\": \"32\" is not a day of the month; write 1 to 31"),
        (
            "[digest.a]\ncadence = \"cron 0 25 * * *\"",
            "digest.a.cadence = \"cron 0 25 * * *\": \"25\" is no hour; write 0",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\ndelay.share = \"2\"",
            "tidings.toml:3: digest.a.delay.share = \"2\": \"2\" is not a duration",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nsend_first = \"6\"",
            "digest.a.send_first = \"6\": \"6\" is not a duration",
        ),
        ("[digest.a]\ncadence = \"instant\"\nthrottle = \"99d\"", "digest.a.throttle = \"99d\": "),
        ("[digest.a]\ncadence = \"instant\"\nkeep_open = \"x\"", "digest.a.keep_open = \"x\": \"x\" is not a duration"),
        (
            "[digest.a]\ncadence = \"instant\"\non_throttle = \"drop\"",
            "tidings.toml:3: digest.a.on_throttle = \"drop\": is not an effect of a limit; write \"defer\"",
        ),
        (
            "[recipients]\non_cap = \"drop\"",
            "tidings.toml:2: recipients.on_cap = \"drop\": is not an effect of a limit; write \"defer\"",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nchoices = [\"daily\",\n\"weekly moon 08:00\"]",
            "tidings.toml:4: digest.a.choices = \"weekly moon 08:00\": \"moon\" is not a day",
        ),
        (
            "[recipients]\ncap = \"5 per day\"",
            "tidings.toml:2: recipients.cap = \"5 per day\": is not a cap; write for",
        ),
        ("[recipients]\ncap = \"0 in 1d\"", "is not a cap; write for example \"5 in 1d\""),
        ("[recipients]\nsoft_bounces = 0", "tidings.toml:2: recipients.soft_bounces = \"0\""),
        ("[recipients]\ncap = \"5 in 1w\"", "recipients.cap = \"5 in 1w\": \"1w\" is not a duration"),
        ("[tenant.x]\nzone = \"Europe/Berln\"", "tidings.toml:2: tenant.x.zone = \"Europe/Berln\": is not an IANA"),
        ("[tenant.x]\nquiet = [\"22\"]", "tidings.toml:2: tenant.x.quiet = \"22\": "),
        ("[tenant.x]\nzoen = \"UTC\"", "zoen: no such key; did you mean \"zone\"?"),
        (
            "[digest.a]\ncadence = \"instant\"\n[tenant.x.digest.a]\ncadence = \"dayly\"",
            "tidings.toml:4: tenant.x.digest.a.cadence = \"dayly\": \"dayly\" is not a cadence",
        ),
        (
            "[digest.activity]\ncadence = \"instant\"\n[tenant.x.digest.activty]\nthrottle = \"1h\"",
            "tidings.toml:3: tenant.x.digest.activty: there is no [digest.activty] to override; did you mean \"activity\"?",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nspread = \"15\"",
            "tidings.toml:3: digest.a.spread = \"15\": \"15\" is not a duration; write for example \"60s\"",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nspread = \"1d\"",
            "digest.a.spread = \"1d\": is longer than 12h; write for example \"15m\"",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nquiet = [\n\"22:00-07:00\",\n\"sat-sum 08:00-09:00\"]",
            "tidings.toml:5: digest.a.quiet = \"sat-sum 08:00-09:00\": \"sum\" is not a day; write mon, tue",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nquiet = [\"22:00-07:00\", \"07:00-22:00\"]",
            "tidings.toml:3: digest.a.quiet = \"22:00-07:00, 07:00-22:00\": covers the whole week",
        ),
    ] {
        let found = problems_of(text);
        assert!(found.contains(said), "{text:?}\n  says {found}\n  not  {said}");
    }
}

#[test]
fn an_error_about_a_type_or_an_address_names_its_remedy() {
    for (text, said) in [
        ("[digest.a]\nquiet = \"22:00-07:00\"", "tidings.toml:2: quiet: invalid type: string, expected"),
        ("relay.a = \"smtp://u:p@b\"", "tidings.toml:1: relay.a: invalid type: string, expected struct"),
        ("[digest.a]\n", "tidings.toml:1: digest.a.cadence: is missing; write for example \"daily 08:00\""),
        ("[digest.a]\ncadense = \"instant\"", "tidings.toml:2: cadense: no such key; did you mean \"cadence\"?"),
        ("databse_url = \"x\"", "did you mean \"database_url\"?"),
        ("task_queue = 7", "tidings.toml:1: task_queue: invalid type: integer `7`, expected a string"),
        ("task_queue = \"\"", "write for example \"tidings\""),
        ("metrics_listen = \"localhost\"", "write for example \"127.0.0.1:9464\""),
        ("templates = \"nowhere\"", "tidings.toml:1: templates = \"nowhere\": there is no such folder"),
        ("database_url = \"mysql://u:hunter2@x/y\"", "database_url = \"mysql://u:***@x/y\": \"mysql\" is neither"),
        ("database_url = \"sqlite://\"", "names no file"),
        ("database_url = \"postgres://db.example\"", "names no database"),
        (
            "smtp_url = \"http://x\"",
            "tidings.toml:1: smtp_url = \"http://x\": relay: scheme \"http\" is neither smtp nor smtps",
        ),
        (
            "[mail]\nfrom = \"Acme\"",
            "tidings.toml:2: mail.from = \"Acme\": is not a sender; write for example \"Acme <",
        ),
        ("[mail]\nreply_to = \"a b\"", "mail.reply_to = \"a b\": is not an address"),
        ("[mail]\ndomain = \"https://a\"", "is not a host name"),
        ("smtp_url = \"smtp://u:hunter2\"x\"", "tidings.toml:1: smtp_url: "),
        ("= 1", "tidings.toml:1: "),
    ] {
        let found = problems_of(text);
        assert!(found.contains(said), "{text:?}\n  says {found}\n  not  {said}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn a_former_key_is_an_error_that_names_todays() {
    for (former, current) in [("max_lines = 3", "items_per_line"), ("throttled = \"skip\"", "on_throttle")] {
        let found = problems_of(&format!("[digest.a]\ncadence = \"instant\"\n{former}"));
        assert!(found.contains(&format!("no such key; it is called {current:?} now")), "{found}");
    }
    let found = problems_of("[recipients]\ncapped = \"skip\"");
    assert!(found.contains("no such key; it is called \"on_cap\" now"), "{found}");
}

#[test]
fn an_error_about_pages_and_counting_names_its_remedy() {
    for (text, said) in [
        ("[digest.a]\ncadence = \"instant\"\nundo = \"61m\"", "digest.a.undo = \"61m\": is longer than 1h; write for"),
        ("[digest.a]\ncadence = \"instant\"\nadapt = true", "digest.a.adapt = \"true\": needs counted opens to detect"),
        (
            "[digest.a]\ncadence = \"instant\"\nadapt = true\ntrack = [\"clicks\"]",
            "digest.a.adapt = \"true\": needs counted opens to detect",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\nadapt = true\ntrack = [\"opens\"]\n[retention]\nmessages = \"30d\"",
            "retention.messages = \"30d\": is too short for a digest type with `adapt`; write \"60d\" or more",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\ntrack = [\"reads\"]",
            "tidings.toml:3: digest.a.track = \"reads\": cannot be counted; write \"opens\"",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\ntrack = [\"opens\"]",
            "tidings.toml:3: digest.a.track: needs a gateway that counts; set `public_url`",
        ),
        (
            "[digest.a]\ncadence = \"instant\"\n[tenant.acme.digest.a]\ntrack = [\"clicks\"]",
            "tidings.toml:4: tenant.acme.digest.a.track: needs a gateway that counts",
        ),
        ("[digest.a]\ncadence = \"instant\"\ntitle = \" \"", "digest.a.title = \" \": is empty; leave the key out"),
        (
            "[tenant.acme]\ncolour = \"#ffee00\"",
            "tidings.toml:2: tenant.acme.colour = \"#ffee00\": has a contrast of 1.2 to its white text",
        ),
        ("[tenant.acme]\ncolour = \"blue\"", "tidings.toml:2: tenant.acme.colour = \"blue\": "),
        ("[tenant.acme]\nlogo_url = \"http://a.example/x.png\"", "\"http\" is not https, which pages need"),
        ("[tenant.acme]\nlocale = \"german\"", "is not a language tag (BCP 47); write for example \"de\""),
    ] {
        let found = problems_of(text);
        assert!(found.contains(said), "{text:?}\n  says {found}\n  not  {said}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems_of("smtp_url = \"x\"\n[digest.a]\ncadence = \"x\"\n[digest.b]\ncadence = \"y\"\nzone = \"z\"");
    assert_eq!(found.lines().count(), 4, "{found}");
}

#[test]
fn an_inherited_problem_is_reported_once_at_its_origin() {
    let tenants = "[tenant.x]\nzone = \"w\"\n[tenant.x.digest.a]\nspread = \"y\"\n[tenant.y]\nzone = \"UTC\"";
    let found = problems_of(&format!("[digest.a]\ncadence = \"x\"\n[digest.b]\nlines_per_message = 0\n{tenants}"));
    let said: Vec<_> = found.lines().filter_map(|line| line.split(" = ").next()).collect();
    let missing = "tidings.toml:3: digest.b.cadence: is missing; write for example \"daily 08:00\"";
    assert_eq!(
        said,
        [
            "tidings.toml:2: digest.a.cadence",
            missing,
            "tidings.toml:4: digest.b.lines_per_message",
            "tidings.toml:6: tenant.x.zone",
            "tidings.toml:8: tenant.x.digest.a.spread",
        ],
        "{found}"
    );
}

#[test]
fn a_tenant_overrides_single_keys_and_inherits_the_rest() {
    let config = read(
        "[recipients]\ncap = \"5 in 1d\"\non_cap = \"skip\"\nsoft_bounces = 3\n[digest.a]\ncadence = \"instant\"\nzone = \"Asia/Tokyo\"\ndelay.share = \"1m\"\n\
         [digest.b]\ncadence = \"hourly\"\n[tenant.x]\nzone = \"Europe/Berlin\"\n\
         [tenant.x.digest.a]\ndelay.comment = \"2m\"\nzone = \"UTC\"\n[tenant.y.digest.b]\ncadence = \"daily 08:00\"",
        &[],
    );
    let settings = config.unwrap().settings(UnknownRecipients::Wait).unwrap();
    let of = |key: &str| {
        settings.digest(&key.parse().unwrap()).map(|digest| (digest.cadence.to_string(), digest.zone.clone()))
    };
    for (key, cadence, zone) in [
        ("x/a/ann", "instant", Some("UTC")),
        ("x/b/ann", "hourly", Some("Europe/Berlin")),
        ("y/a/ann", "instant", Some("Asia/Tokyo")),
        ("y/b/ann", "daily 08:00", None),
        ("z/a/ann", "instant", Some("Asia/Tokyo")),
    ] {
        assert_eq!(of(key), Some((cadence.to_owned(), zone.map(str::to_owned))), "{key}");
    }
    assert_eq!(of("x/c/ann"), None);
    let delays: Vec<_> = settings.digest(&"x/a/ann".parse().unwrap()).unwrap().delay.keys().cloned().collect();
    assert_eq!(delays, ["comment", "share"]);
    assert_eq!((settings.cap.unwrap().to_string().as_str(), settings.soft_bounces), ("5 in 1d", 3));
    assert_eq!(settings.on_cap, OverLimit::Skip);
}

#[test]
fn a_wrong_variable_is_named_without_its_password() {
    let error = read("", &[("TIDINGS_SMTP_URL", "smpt://u:hunter2@relay.example")]).unwrap_err().to_string();
    assert!(error.starts_with("environment: TIDINGS_SMTP_URL = \"smpt://u:***@relay.example\": "), "{error}");
}

const KEY: &str = include_str!("../../../tests/data/dkim/rsa.pem");
const MAIL: &str = "[mail]\nfrom = \"Acme <digest@mail.acme.example>\"\n[mail.dkim]\n";

fn dkim(rest: &str) -> String {
    format!("{MAIL}selector = \"s1\"\n{rest}")
}

#[test]
fn a_signature_defaults_to_the_senders_domain_and_hides_its_key() {
    let config = read(&dkim(""), &[("TIDINGS_DKIM_KEY", KEY)]).unwrap();
    let signer = config.signers().unwrap().general.bulk.unwrap();
    assert_eq!((signer.record_name().as_str(), signer.algorithm()), ("s1._domainkey.mail.acme.example", "rsa-sha256"));
    let shown = format!("{config:?} {signer:?}");
    assert!(KEY.lines().skip(1).all(|line| !shown.contains(line)), "{shown}");
}

#[test]
fn a_second_key_signs_too_and_ed25519_alone_is_warned_of() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        fs::write(&path, pem).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        path.display().to_string()
    };
    let (rsa, ed25519) = (file("rsa", KEY), file("ed25519", include_str!("../../../tests/data/dkim/ed25519.pem")));
    let both = format!("key_file = \"{rsa}\"\nsecond_selector = \"e1\"\nsecond_key_file = \"{ed25519}\"");
    let config = read(&dkim(&both), &[]).unwrap();
    let signer = config.signers().unwrap().general.bulk.unwrap();
    assert_eq!(signer.second_signer().unwrap().record_name(), "e1._domainkey.mail.acme.example");
    let warned = |config: &Config| config.warnings().iter().any(|warning| warning.to_string().contains("Ed25519"));
    assert!(!warned(&config));
    assert!(warned(&read(&dkim(&format!("key_file = \"{ed25519}\"")), &[]).unwrap()));
    for (rest, problem) in [
        ("second_selector = \"e1\"", "mail.dkim.second_key_file: is missing; a second key has both"),
        ("second_key_file = \"k\"", "mail.dkim.second_selector: is missing; a second key has both"),
        ("second_selector = \"s1\"\nsecond_key_file = \"k\"", "is the selector of the first key; name another"),
    ] {
        let error = read(&dkim(&format!("key_file = \"k\"\n{rest}")), &[]).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn an_internationalised_sender_domain_becomes_ascii() {
    let settings =
        read("[mail]\nfrom = \"Acme <digest@Bücher.example>\"", &[]).unwrap().settings(UnknownRecipients::Wait);
    let sender = settings.unwrap().streams.bulk.sender;
    assert_eq!(
        (sender.address.as_str(), sender.domain.as_str()),
        ("digest@xn--bcher-kva.example", "xn--bcher-kva.example")
    );
}

#[test]
fn a_domain_above_or_below_the_senders_is_aligned() {
    for domain in ["acme.example", "mail.acme.example", "MAIL.acme.example", "x.mail.acme.example"] {
        let text = dkim(&format!("domain = \"{domain}\"\nkey_file = \"k\""));
        assert_eq!(read(&text, &[]).unwrap().dkim.unwrap().domain, domain.to_lowercase());
    }
}

#[test]
fn the_environments_key_overrides_key_file() {
    let text = dkim("key_file = \"nowhere.pem\"");
    read(&text, &[("TIDINGS_DKIM_KEY", KEY)]).unwrap().signers().unwrap();
    // Commands that sign nothing do without the file.
    let config = read(&text, &[]).unwrap();
    config.settings(UnknownRecipients::Wait).unwrap();
    let error = config.signers().unwrap_err().to_string();
    assert!(
        error.starts_with("tidings.toml:5: mail.dkim.key_file = \"nowhere.pem\": cannot be read (No such file"),
        "{error}"
    );
}

#[test]
fn an_unusable_key_is_reported_but_never_shown() {
    let small = include_str!("../../../tests/data/dkim/rsa-1024.pem");
    for (pem, said) in [("hunter2", "there is no private key in PEM"), (small, "the key is refused (TooSmall)")] {
        let config = read(&dkim(""), &[("TIDINGS_DKIM_KEY", pem)]).unwrap();
        let error = config.signers().unwrap_err().to_string();
        assert!(error.starts_with("environment: TIDINGS_DKIM_KEY = \"***\": DKIM: "), "{error}");
        assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_key_given_as_key_file_is_never_shown() {
    let joined = KEY.replace('\n', "");
    let line = KEY.lines().nth(1).unwrap();
    let bare = KEY.lines().skip(1).filter(|line| !line.contains("-----")).collect::<String>();
    let early = "\"\"\"\nhunter2\"\"\"".to_owned();
    for value in [
        format!("\"\"\"{KEY}\"\"\""),
        format!("\"{joined}\""),
        "\"\"\"k\nhunter2\"\"\"".to_owned(),
        early,
        format!("\"{line}\""),
        format!("\"{bare}\""),
    ] {
        let found = problems_of(&dkim(&format!("key_file = {value}")));
        assert_eq!(
            found,
            "tidings.toml:5: mail.dkim.key_file = \"***\": is not the name of a file; write the name on one line, or set \
             TIDINGS_DKIM_KEY to the key itself"
        );
    }
}

#[test]
fn a_value_over_several_lines_is_never_shown() {
    for value in ["\"\"\"\nhunter2\"\"\"", "'''\r\nhunter2'''", "\"\"\"daily\nhunter2\"\"\"", "\"daily\\nhunter2\""] {
        assert_eq!(
            problems_of(&format!("[digest.a]\ncadence = {value}")),
            "tidings.toml:2: digest.a.cadence: has quotes that continue on the next line: write the value on one line, between \" and \"",
            "{value:?}"
        );
    }
    let on_one_line = problems_of("[digest.a]\ncadence = \"\"\"dayly\"\"\" # \"\"\"");
    assert!(on_one_line.starts_with("tidings.toml:2: digest.a.cadence = \"dayly\": "), "{on_one_line}");
}

#[test]
fn a_wrong_signature_names_the_remedy() {
    for (text, said) in [
        (format!("{MAIL}key_file = \"k\""), "tidings.toml:3: [mail.dkim]: missing field `selector`"),
        (
            format!("{MAIL}selector = \"s_1\"\nkey_file = \"k\""),
            "tidings.toml:4: mail.dkim.selector = \"s_1\": is not a DNS",
        ),
        (format!("{MAIL}selector = \"\"\nkey_file = \"k\""), "write for example \"s1\""),
        (dkim(""), "tidings.toml:4: mail.dkim.key_file: is missing; name a file"),
        (dkim("keyfile = \"k\""), "keyfile: no such key; did you mean \"key_file\"?"),
        (dkim("key_file = \"k\"\ndomain = \"example\""), "is not a domain in ASCII"),
        (dkim("key_file = \"k\"\ndomain = \"acme.example.\""), "is not a domain in ASCII"),
        (
            dkim("key_file = \"k\"\ndomain = \"other.example\""),
            "tidings.toml:6: mail.dkim.domain = \"other.example\": is not aligned with mail.from, so DMARC would not \
             count the signature; write \"mail.acme.example\"",
        ),
        (dkim("key_file = \"k\"\ndomain = \"gmail.acme.example\""), "is not aligned"),
        (
            "[mail.dkim]\nselector = \"s1\"\nkey_file = \"k\"".to_owned(),
            "tidings.toml:2: mail.dkim.domain = \"localhost\": is the domain of mail.from, but not a domain in DNS",
        ),
    ] {
        let found = problems_of(&text);
        assert!(found.contains(said), "{text:?}\n  says {found}\n  not  {said}");
    }
}

#[test]
fn a_key_without_a_selector_is_refused() {
    let error = read("", &[("TIDINGS_DKIM_KEY", KEY)]).unwrap_err().to_string();
    assert_eq!(
        error,
        "environment: TIDINGS_DKIM_KEY: signs nothing without [mail.dkim]; add the table with selector = \"s1\""
    );
}
