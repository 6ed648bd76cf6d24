//! The table `[gateway.oidc]`.

use tidings_gateway::api::{IssuerTrust, TokenType};

use super::{problems_of, read};

const KEYS: &str = "issuer = \"https://login.acme.example/\"\naudience = \"tidings\"\n";

fn of(keys: &str) -> String {
    format!("[gateway.oidc]\n{keys}")
}

#[test]
fn an_issuer_is_trusted_only_where_it_is_configured() {
    assert_eq!(read("", &[]).unwrap().gateway.oidc, None);
    let trust = IssuerTrust {
        issuer: "https://login.acme.example/".into(),
        audience: "tidings".into(),
        tenant_claim: "tenant".into(),
        all_tenants: false,
        token_type: TokenType::AccessToken,
    };
    assert_eq!(read(&of(KEYS), &[]).unwrap().gateway.oidc.as_ref(), Some(&trust));
    let more =
        of(&format!("{KEYS}tenant_claim = \"https://acme.example/team\"\nall_tenants = true\ntoken_type = \"JWT\""));
    let more = read(&more, &[]).unwrap();
    let tenant_claim = "https://acme.example/team".into();
    let trust = IssuerTrust { tenant_claim, all_tenants: true, token_type: TokenType::Jwt, ..trust };
    assert_eq!(more.gateway.oidc, Some(trust));
    assert!(more.gateway_problem().is_some(), "a gateway needs a public address");
    assert!(read(&of("issuer = \"http://127.0.0.1:9000\"\naudience = \"tidings\""), &[]).is_ok());
}

#[test]
fn a_wrong_issuer_says_what_to_write() {
    for (keys, said) in [
        ("", "tidings.toml:1: gateway.oidc.issuer: is missing; write the issuer's URL as the claim iss has it"),
        (
            "issuer = \"https://a.example\"",
            "tidings.toml:1: gateway.oidc.audience: is missing; write the name of this API",
        ),
        (
            "issuer = \"login.acme.example\"",
            "tidings.toml:2: gateway.oidc.issuer = \"login.acme.example\": is not a URL",
        ),
        (
            "issuer = \"http://login.acme.example\"",
            "is not https, so anyone on the network path could replace the keys",
        ),
        ("issuer = \"ftp://login.acme.example\"", "is not https"),
        ("issuer = \"https://login.acme.example?realm=a\"", "has a user, password, query or fragment"),
        ("issuer = \"https://ann:hunter2@login.acme.example\"", "has a user, password, query or fragment"),
        ("audience = \"\"", "tidings.toml:2: gateway.oidc.audience: is required; write the name of this API"),
        ("tenant_claim = \"\"", "tidings.toml:2: gateway.oidc.tenant_claim: is required; write the name of a claim"),
        (
            "token_type = \"jwt\"",
            "gateway.oidc.token_type = \"jwt\": is not a type of tokens; write \"at+jwt\" or \"JWT\"",
        ),
        ("secret = \"x\"", "secret"),
    ] {
        let found = problems_of(&of(keys));
        assert!(found.contains(said) && !found.contains("hunter2"), "{keys}: {found}");
    }
}
