//! Tokens of the api.

use super::{folder_with, run};

#[test]
fn a_token_is_shown_once_listed_without_its_secret_and_revoked() {
    let folder = folder_with("tidings.toml", "");
    run(folder.path(), &["migrate"], "");
    let create = ["tokens", "create", "--tenant", "acme", "--scope", "events:write", "--expires", "90d", "--by", "ann"];
    let (code, token, said) = run(folder.path(), &create, "");
    let token = token.trim();
    assert_eq!(code, 0, "{said}");
    assert!(token.starts_with("tdg_") && token.len() == 93 && said.contains("not shown again"), "{token} {said}");
    let id = &token[4..20];

    let (_, listed, _) = run(folder.path(), &["tokens", "list", "--tenant", "acme"], "");
    assert!(listed.starts_with(&format!("{id}  acme  events:write  by ann ")), "{listed}");
    assert!(listed.contains("UTC, expires ") && listed.contains("never used"), "{listed}");
    assert!(!listed.contains(&token[21..40]), "{listed}");

    let (code, said, _) = run(folder.path(), &["tokens", "revoke", id, "--by", "bo", "--why", "it leaked"], "");
    assert_eq!((code, said.trim()), (0, "revoked; gateways reject it within 10 seconds"));
    let (code, said, _) = run(folder.path(), &["tokens", "revoke", id], "");
    assert!(code == 0 && said.starts_with("already revoked at"), "{said}");
    let (code, said, _) = run(folder.path(), &["tokens", "revoke", "0000"], "");
    assert!(code == 1 && said.starts_with("there is no token 0000"), "{said}");

    let (_, audit, _) = run(folder.path(), &["audit", "--tenant", "acme", "--json"], "");
    assert!(audit.contains(&format!("token_create {id}")) && audit.contains(&format!("token_revoke {id}")), "{audit}");
    assert!(audit.contains("it leaked") && !audit.contains(&token[21..40]), "{audit}");
}

#[test]
fn a_token_without_a_known_scope_is_refused_with_the_known_ones() {
    let folder = folder_with("tidings.toml", "");
    let (code, _, said) = run(folder.path(), &["tokens", "create", "--tenant", "acme", "--scope", "events"], "");
    assert_eq!(code, 2);
    assert!(said.contains("events:write") && said.contains("stats:read"), "{said}");
}
