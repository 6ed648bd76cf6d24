//! Tenants with senders, signatures, relays and looks of their own.

use tidings_model::settings::{StreamName, TenantStream};

use super::*;

const RELAYS: &str = "[relay.ours]\nurl = \"smtp://127.0.0.1:1\"\n[relay.acme]\nurl = \"smtp://127.0.0.1:2\"\n";
const GENERAL: &str = "[mail]\nfrom = \"Tidings <digest@tidings.example>\"\nreply_to = \"help@tidings.example\"\n\
                       [stream.bulk]\nrelays = [\"ours\"]\nguarantee = \"at_most_once\"\n\
                       [stream.transactional]\nrelays = [\"ours\"]\nfrom = \"hello@mail.tidings.example\"\n";
const ACME: &str = "[tenant.acme.mail]\nfrom = \"Acme <news@acme.example>\"\n\
                    [tenant.acme.stream.bulk]\nrelays = [\"acme\", \"ours\"]\ndomain = \"id.acme.example\"\n";

fn with(text: &str) -> String {
    format!("{RELAYS}{GENERAL}{text}")
}

/// Sender, domain, reply-to and relays of a stream.
fn of(settings: &Settings, tenant: &str, name: StreamName) -> [String; 4] {
    let TenantStream { stream, .. } = settings.for_tenant(tenant, name);
    let sender = &stream.sender;
    let reply_to = sender.reply_to.as_ref().map(ToString::to_string).unwrap_or_default();
    [sender.address.to_string(), sender.domain.clone(), reply_to, stream.relays.join(" ")]
}

#[test]
fn the_first_table_that_names_a_key_of_a_stream_counts() {
    let config = read(&with(ACME), &[]).unwrap();
    let settings = config.settings(UnknownRecipients::Wait).unwrap();
    let (bulk, single) = (StreamName::Bulk, StreamName::Transactional);
    let help = "help@tidings.example";
    assert_eq!(of(&settings, "acme", bulk), ["news@acme.example", "id.acme.example", help, "acme ours"]);
    // The tenant's address replaces the one of the stream, with its domain.
    assert_eq!(of(&settings, "acme", single), ["news@acme.example", "acme.example", help, "ours"]);
    assert_eq!(of(&settings, "bolt", bulk), ["digest@tidings.example", "tidings.example", help, "ours"]);
    assert_eq!(of(&settings, "bolt", single)[..2], ["hello@mail.tidings.example", "mail.tidings.example"]);
    let guarantee = settings.for_tenant("acme", bulk).stream.guarantee;
    assert_eq!(guarantee, settings::DeliveryGuarantee::AtMostOnce, "inherited");
    assert_eq!(urls(&config), ["acme smtp://127.0.0.1:2", "ours smtp://127.0.0.1:1"]);
    let own = "[tenant.acme.mail]\nreply_to = \"help@acme.example\"\n";
    let settings = read(&with(own), &[]).unwrap_err().to_string();
    assert!(settings.contains("relay.acme: no stream uses this relay"), "{settings}");
}

#[test]
fn every_setting_of_a_tenant_knows_its_key() {
    let brand = "[digest.a]\ncadence = \"daily 08:00\"\nzone = \"UTC\"\ndelay.share = \"1m\"\n[tenant.acme]\n\
                 zone = \"Asia/Tokyo\"\nlogo_url = \"https://acme.example/logo.png\"\naddress_line = \"1 Main St\"\n\
                 [tenant.acme.digest.a]\ndelay.comment = \"2m\"\n";
    let config = read(&with(&format!("{ACME}{brand}")), &[]).unwrap();
    let tenant = &config.tenants["acme"];
    assert_eq!(tenant.brand.name.as_deref(), Some("Acme"), "the sender's name stands for the picture");
    let key = |origins: &SettingOrigins, name: &str| {
        origins.get(name).map(|SettingOrigin { key, place }| format!("{key} {place}")).unwrap_or_default()
    };
    for (origins, name, expected) in [
        (&tenant.streams.bulk.origins, "from", "tenant.acme.mail.from tidings.toml:15"),
        (&tenant.streams.bulk.origins, "domain", "tenant.acme.stream.bulk.domain tidings.toml:18"),
        (&tenant.streams.bulk.origins, "reply_to", "mail.reply_to tidings.toml:7"),
        (&tenant.streams.bulk.origins, "guarantee", "stream.bulk.guarantee tidings.toml:10"),
        (&tenant.streams.bulk.origins, "retry_delays", ""),
        (&tenant.streams.transactional.origins, "domain", "tenant.acme.mail.from tidings.toml:15"),
        (&tenant.brand_origins, "name", "tenant.acme.mail.from tidings.toml:15"),
        (&tenant.brand_origins, "address_line", "tenant.acme.address_line tidings.toml:26"),
        (&tenant.digest_origins["a"], "cadence", "digest.a.cadence tidings.toml:20"),
        (&tenant.digest_origins["a"], "zone", "tenant.acme.zone tidings.toml:24"),
        (&tenant.digest_origins["a"], "delay.share", "digest.a.delay.share tidings.toml:22"),
        (&tenant.digest_origins["a"], "delay.comment", "tenant.acme.digest.a.delay.comment tidings.toml:28"),
    ] {
        assert_eq!(key(origins, name), expected, "{name}");
    }
}

#[test]
fn a_tenants_signature_covers_its_sender() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.pem");
    fs::write(&file, KEY).unwrap();
    let dkim = |selector: &str| format!("dkim = {{ selector = \"{selector}\", key_file = \"{}\" }}\n", file.display());
    let general = format!("[mail]\nfrom = \"digest@tidings.example\"\n{}", dkim("s1"));
    let names = |text: &str| {
        let signers = read(&format!("{general}{text}"), &[]).unwrap().signers().unwrap();
        let name = |signers: &StreamSigners| signers.bulk.as_ref().map(DkimSigner::record_name).unwrap_or_default();
        let tenants: Vec<_> = signers.tenants.iter().map(|(tenant, own)| format!("{tenant}: {}", name(own))).collect();
        (name(&signers.general), tenants.join(", "))
    };
    let ours = "s1._domainkey.tidings.example".to_owned();
    assert_eq!(names("[tenant.acme]\nname = \"Acme\""), (ours.clone(), String::new()), "no key is read twice");
    // The general key signs in the name of the tenant's domain.
    let acme = "[tenant.acme.mail]\nfrom = \"news@acme.example\"\n";
    assert_eq!(names(acme), (ours.clone(), "acme: s1._domainkey.acme.example".to_owned()));
    let own = format!("{acme}{}", dkim("a1"));
    assert_eq!(names(&own), (ours, "acme: a1._domainkey.acme.example".to_owned()));
}

#[test]
fn a_wrong_tenant_names_the_remedy() {
    let named = "[mail]\nfrom = \"digest@tidings.example\"\n[mail.dkim]\nselector = \"s1\"\nkey_file = \"k\"\n";
    for (text, said) in [
        (
            format!("{named}domain = \"tidings.example\"\n[tenant.acme.mail]\nfrom = \"news@acme.example\""),
            "tidings.toml:6: mail.dkim.domain = \"tidings.example\": is not aligned with tenant.acme.mail.from, so DMARC \
             would not count the signature; write \"acme.example\", or add [tenant.acme.mail.dkim]",
        ),
        (
            "[tenant.acme.mail]\nfrom = \"news@acme.example\"\ndkim = { selector = \"a1\", key_file = \"k\", domain = \
             \"tidings.example\" }"
                .to_owned(),
            "tidings.toml:3: tenant.acme.mail.dkim.domain = \"tidings.example\": is not aligned with tenant.acme.mail.from, \
             so DMARC would not count the signature; write \"acme.example\"",
        ),
        (
            "[tenant.acme.mail]\nfrom = \"news@acme.example\"\ndkim = { selector = \"a1\" }".to_owned(),
            "tidings.toml:3: tenant.acme.mail.dkim.key_file: is missing; name a file with a private key in PEM",
        ),
        (
            format!("{RELAYS}[tenant.acme.stream.bulk]\nrelays = [\"acne\"]"),
            "tidings.toml:6: tenant.acme.stream.bulk.relays = \"acne\": there is no [relay.acne]; did you mean \"acme\"?",
        ),
        ("[tenant.acme.mail]\nfrom = \"Acme\"".to_owned(), "tidings.toml:2: tenant.acme.mail.from = \"Acme\": is not a"),
        ("[tenant.acme.mail]\nform = \"x\"".to_owned(), "form: no such key; did you mean \"from\"?"),
        ("[tenant.acme.stream.bluk]\n".to_owned(), "no such key; did you mean \"bulk\"?"),
        ("[tenant.acme]\nlogo_url = \"http://acme.example/l.png\"".to_owned(), "\"http\" is not https"),
        (
            "[tenant.acme]\nlogo_url = \"https://acme.example/l.png\"\n[tenant.acme.mail]\nfrom = \"news@acme.example\""
                .to_owned(),
            "tidings.toml:2: tenant.acme.name: is missing, and programs that show no pictures show the name",
        ),
        ("[tenant.acme]\naddress_line = \"a\\nb\"".to_owned(), "tidings.toml:2: tenant.acme.address_line"),
        ("[tenant.\"\"]\nname = \"Acme\"".to_owned(), "tidings.toml:1: tenant.: is not a valid tenant: is required"),
        ("[tenant.\"a\\u0007b\"]\nname = \"Acme\"".to_owned(), "has the control character '\\u{7}'"),
        (
            format!("{RELAYS}[relay.x]\nurl = \"smtp://127.0.0.1:3\"\nrate = \"1/s\"\n[stream.bulk]\nrelays = [\"ours\", \
                     \"acme\"]\n[tenant.acme.stream.bulk]\nrelays = [\"x\"]\n[tenant.bolt.stream.transactional]\n\
                     relays = [\"x\"]"),
            "tidings.toml:7: relay.x.rate = \"1/s\": limits one stream, but both streams use this relay",
        ),
    ] {
        let found = problems_of(&text);
        assert!(found.contains(said), "{text:?}\n  says {found}\n  not  {said}");
    }
}

#[test]
fn an_inherited_return_path_without_keys_is_one_problem() {
    let text = "[stream.bulk]\nreturn_path = \"bounce@mail.tidings.example\"\n[tenant.a]\nname = \"A\"\n[tenant.b]\nname = \"B\"";
    let config = read(text, &[]).unwrap();
    assert_eq!(config.key_problems().len(), 1);
}

#[test]
fn mail_that_stays_on_this_machine_does_so_for_every_tenant() {
    let mut config = read(&with(ACME), &[]).unwrap();
    config.send_by(RelayConfig::with_address("smtp://127.0.0.1:9".parse().unwrap()));
    assert_eq!(urls(&config), ["default smtp://127.0.0.1:9"]);
}
