//! API tokens.

use jiff::civil::date;
use tidings_model::api_token::{TokenRecord, TokenScope};

use super::{Bench, at, entry};
use crate::StoredToken;

fn token(id: &str, tenant: Option<&str>) -> StoredToken {
    let record = TokenRecord {
        id: id.into(),
        tenant: tenant.map(str::to_owned),
        scopes: vec![TokenScope::EventsWrite, TokenScope::DigestsRead],
        note: "the shop \0".into(),
        created_at: at(1),
        created_by: "ann".into(),
        expires_at: Some(at(900)),
        revoked_at: None,
        last_used_on: None,
    };
    StoredToken { record, hash: "ab".repeat(32) }
}

async fn put(bench: &Bench, token: &StoredToken) {
    bench.store.put_token(token, &entry(1, "ann", "token_create")).await.unwrap();
}

pub async fn a_token_comes_back_with_its_hash_and_is_listed_by_tenant(bench: &Bench) {
    let (acme, zeta, all) = (token("a1", Some("acme")), token("b2", Some("zeta")), token("c3", None));
    for token in [&acme, &zeta, &all] {
        put(bench, token).await;
    }
    let mut stored = acme.clone();
    stored.record.note = "the shop \u{fffd}".into();
    assert_eq!(bench.store.token("a1").await.unwrap(), Some(stored.clone()));
    assert_eq!(bench.store.token("nobody\0").await.unwrap(), None);
    assert_eq!(bench.store.token("c3").await.unwrap().unwrap().record.tenant, None);
    assert_eq!(bench.store.tokens(Some("acme")).await.unwrap(), [stored.record]);
    let all: Vec<_> = bench.store.tokens(None).await.unwrap().into_iter().map(|token| token.id).collect();
    assert_eq!(all, ["a1", "b2", "c3"]);
}

pub async fn a_token_is_made_and_revoked_once_and_both_are_audited(bench: &Bench) {
    let acme = token("a1", Some("acme"));
    put(bench, &acme).await;
    put(bench, &StoredToken { hash: "cd".repeat(32), ..acme.clone() }).await;
    assert_eq!(bench.store.token("a1").await.unwrap().unwrap().hash, acme.hash);
    assert_eq!(bench.store.revoke_token("b2", &entry(5, "bo", "token_revoke")).await.unwrap(), None);
    let before = bench.store.revoke_token("a1", &entry(5, "bo", "token_revoke")).await.unwrap().unwrap();
    assert_eq!(before.revoked_at, None);
    let again = bench.store.revoke_token("a1", &entry(9, "cy", "token_revoke")).await.unwrap().unwrap();
    assert_eq!(again.revoked_at, Some(at(5)));
    for (action, actor) in [("token_create", "ann"), ("token_revoke", "bo")] {
        let audited =
            "SELECT string_agg(action || ' ' || actor, ', ' ORDER BY acted_at) FROM audit WHERE tenant = 'acme'";
        assert!(bench.value(audited).await.contains(&format!("{action} {actor}")));
    }
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM audit").await, "2");
}

pub async fn the_last_use_of_a_token_is_a_day_and_never_goes_back(bench: &Bench) {
    put(bench, &token("a1", Some("acme"))).await;
    for (now, day) in [(at(0), date(2027, 1, 15)), (at(86_400), date(2027, 1, 16)), (at(10), date(2027, 1, 16))] {
        bench.store.token_used("a1", now).await.unwrap();
        assert_eq!(bench.store.token("a1").await.unwrap().unwrap().record.last_used_on, Some(day));
    }
}
