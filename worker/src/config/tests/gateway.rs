//! The table `[gateway]`.

use tidings_model::settings::UnknownRecipients;

use super::{problems_of, read};

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[test]
fn a_public_address_is_https_except_on_this_machine() {
    for (written, means) in [
        ("https://mail.acme.example", "https://mail.acme.example"),
        ("https://Mail.acme.example:8443/tidings/", "https://mail.acme.example:8443/tidings"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ] {
        let config = read(&format!("[gateway]\npublic_url = \"{written}\""), &[]).unwrap();
        assert_eq!(config.gateway.pages.public_url.as_deref(), Some(means));
    }
    let long = format!("https://{}.example", "a".repeat(200));
    for (wrong, said) in [
        ("http://mail.acme.example", "is not https, so anyone on the network path could read the links"),
        ("ftp://mail.acme.example", "\"ftp\" is not https"),
        ("mail.acme.example", "is not a URL"),
        ("https://mail.acme.example/?tenant=a", "has a query or fragment"),
        ("https://ann:secret@mail.acme.example", "has a user or password"),
        (&long, "the limit is 200"),
    ] {
        let found = problems_of(&format!("[gateway]\npublic_url = \"{wrong}\""));
        assert!(found.starts_with("tidings.toml:2: gateway.public_url = "), "{found}");
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn a_public_address_without_keys_stops_sending_and_the_gateway() {
    let text = "[gateway]\npublic_url = \"https://mail.acme.example\"";
    let config = read(text, &[]).unwrap();
    let said = "tidings.toml:2: gateway.public_url = \"https://mail.acme.example\": needs a key that signs its links; \
                set TIDINGS_LINK_KEYS to what `tidings keys new` prints";
    assert_eq!(config.settings(UnknownRecipients::Wait).unwrap_err().to_string(), said);
    assert_eq!(config.check_gateway().unwrap_err().to_string(), said);
    let config = read(text, &[("TIDINGS_LINK_KEYS", KEY)]).unwrap();
    assert!(config.settings(UnknownRecipients::Wait).is_ok() && config.check_gateway().is_ok());
}

#[test]
fn a_gateway_without_a_public_address_says_what_is_missing() {
    for (text, place) in [("", "default"), ("\n[gateway]\nlisten = \"0.0.0.0:80\"", "tidings.toml:3")] {
        let said = read(text, &[("TIDINGS_LINK_KEYS", KEY)]).unwrap().check_gateway().unwrap_err().to_string();
        let expected =
            format!("{place}: gateway.public_url: is missing; write the address under which recipients reach");
        assert!(said.starts_with(&expected), "{said}");
    }
    // A worker does not need the address.
    assert!(read("[gateway]\nlisten = \"0.0.0.0:80\"", &[]).unwrap().settings(UnknownRecipients::Wait).is_ok());
}

#[test]
fn proxies_are_networks_or_addresses() {
    let of = |text: &str| format!("[gateway]\ntrusted_proxies = [{text}]");
    let config = read(&of("\"10.0.0.0/8\", \"192.0.2.7\", \"fd00::/8\""), &[]).unwrap();
    let written: Vec<_> = config.gateway.trusted_proxies.0.iter().map(ToString::to_string).collect();
    assert_eq!(written, ["10.0.0.0/8", "192.0.2.7/32", "fd00::/8"]);
    for wrong in ["10.0.0.0/33", "proxy.acme.example"] {
        let found = problems_of(&of(&format!("\"{wrong}\"")));
        assert!(
            found.starts_with("tidings.toml:2: gateway.trusted_proxies = ") && found.contains("is not a network"),
            "{found}"
        );
    }
}

#[test]
fn pages_of_ones_own_have_known_placeholders_and_a_token() {
    let of = |key: &str, url: &str| format!("[gateway]\n{key} = \"{url}\"");
    for url in ["https://app.acme.example/u?t={token}", "http://localhost/{tenant}/{digest_type}/{user}?t={token}"] {
        let config = read(&of("unsubscribe_url", url), &[("TIDINGS_LINK_KEYS", KEY)]).unwrap();
        assert!(config.settings(UnknownRecipients::Wait).is_ok() && config.gateway_problem().is_none());
        let unsigned = read(&of("unsubscribe_url", url), &[]).unwrap().settings(UnknownRecipients::Wait).unwrap_err();
        assert!(unsigned.to_string().starts_with("tidings.toml:2: gateway.unsubscribe_url = "), "{unsigned}");
    }
    assert!(read(&of("preferences_url", "https://app.acme.example/settings"), &[]).is_ok());
    for (key, wrong, said) in [
        ("unsubscribe_url", "https://app.acme.example/u?user={user}", "has no {token}"),
        ("unsubscribe_url", "http://app.acme.example/u?t={token}", "is not https"),
        ("unsubscribe_url", "https://{tenant}.acme.example/u?t={token}", "has a placeholder in its host"),
        ("preferences_url", "https://app.acme.example/{id}", "{id} is not a placeholder"),
        ("preferences_url", "https://app.acme.example/a b", "must be percent-encoded"),
        ("preferences_url", "app.acme.example", "is not a URL"),
    ] {
        let found = problems_of(&of(key, wrong));
        assert!(found.starts_with(&format!("tidings.toml:2: gateway.{key} = ")) && found.contains(said), "{found}");
    }
}

#[test]
fn the_memory_for_bodies_takes_the_longest_message() {
    let of = |mebibytes: &str| format!("[gateway]\nbody_mebibytes = {mebibytes}");
    assert_eq!(read(&of("40"), &[]).unwrap().gateway.body_bytes, Some(40 << 20));
    assert_eq!(read("", &[]).unwrap().gateway.body_bytes, None);
    for wrong in ["39", "-1"] {
        let found = problems_of(&of(wrong));
        let said = format!("tidings.toml:2: gateway.body_mebibytes = \"{wrong}\": write a whole number from 40");
        assert!(found.starts_with(&said), "{found}");
    }
}
