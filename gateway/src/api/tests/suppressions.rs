//! `/v1/suppressions`: addresses are suppressed, shown, listed and lifted.

use super::*;

const BOTH: [TokenScope; 2] = [TokenScope::SuppressionsWrite, TokenScope::SuppressionsRead];
const ANN: &str = "/v1/suppressions/ann@example.net";

#[tokio::test]
async fn an_address_is_suppressed_shown_and_lifted() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    let foreign = env.token(Some("zeta"), &BOTH, None).await;
    let missing = env.send("GET", ANN, &token, "").await;
    assert_eq!((missing.status.as_u16(), missing.problem().as_str()), (404, "not-found"));
    let complaint = json!({"reason": "complaint"}).to_string();
    let put = env.send("PUT", &format!("{ANN}?why=ticket+812"), &token, complaint.clone()).await;
    let row = &put.json()["suppressions"][0];
    assert_eq!(
        (put.status.as_u16(), &row["reason"], &row["address"]),
        (201, &json!("complaint"), &json!("ann@example.net"))
    );
    assert_eq!(env.send("PUT", ANN, &token, complaint).await.status, 200);
    let bounce = json!({"reason": "hard_bounce"}).to_string();
    assert_eq!(env.send("PUT", "/v1/suppressions/ANN@example.net", &token, bounce).await.status, 201);
    let shown = env.send("GET", ANN, &token, "").await.json();
    assert_eq!(shown["suppressions"].as_array().unwrap().len(), 2);
    assert_eq!(env.send("GET", ANN, &foreign, "").await.status, 404);
    assert_eq!(env.send("DELETE", ANN, &foreign, "").await.status, 404);

    let one = env.send("DELETE", &format!("{ANN}?reason=complaint"), &token, "").await;
    assert_eq!((one.status.as_u16(), one.json()), (200, json!({"lifted": ["complaint"]})));
    assert_eq!(env.send("DELETE", ANN, &token, "").await.json(), json!({"lifted": ["hard_bounce"]}));
    assert_eq!(env.send("DELETE", ANN, &token, "").await.status, 404);
    assert!(env.store.suppression_reasons("acme", "ann@example.net").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wrong_suppression_is_refused_without_its_address() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    for (path, body, problem, field) in [
        ("/v1/suppressions/ann@@example.net", "{\"reason\": \"complaint\"}", "wrong-parameter", "address"),
        (ANN, "{\"reason\": \"dislike\"}", "wrong-body", "reason"),
        (ANN, "{}", "wrong-body", "reason"),
    ] {
        let wrong = env.send("PUT", path, &token, body).await;
        assert_eq!((wrong.status.as_u16(), wrong.problem().as_str()), (400, problem), "{wrong:?}");
        assert_eq!(wrong.json()["errors"][0]["field"], field, "{wrong:?}");
        assert!(!wrong.text.contains("example.net"), "{wrong:?}");
    }
    let wrong = env.send("DELETE", &format!("{ANN}?reason=dislike"), &token, "").await;
    assert_eq!((wrong.status.as_u16(), wrong.problem().as_str()), (400, "wrong-parameter"));
}

#[tokio::test]
async fn suppressions_are_listed_in_pages_of_the_tokens_tenant() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    let all = env.token(None, &BOTH, None).await;
    let complaint = json!({"reason": "complaint"}).to_string();
    for path in ["/a@b.example?tenant=acme", "/c@b.example?tenant=acme", "/z@b.example?tenant=zeta"] {
        env.send("PUT", &format!("/v1/suppressions{path}"), &all, complaint.clone()).await;
    }
    let list = async |token: &str, query: &str| {
        let json = env.send("GET", &format!("/v1/suppressions{query}"), token, "").await.json();
        let rows = json["suppressions"].as_array().unwrap().iter();
        let mut names: Vec<_> = rows.map(|row| row["address"].as_str().unwrap()[..1].to_owned()).collect();
        names.sort();
        (names.concat(), json["next"].as_str().map(str::to_owned))
    };
    let (first, next) = list(&token, "?limit=1").await;
    let (second, end) = list(&token, &format!("?limit=1&after={}", next.unwrap())).await;
    let mut both = [first, second];
    both.sort();
    assert_eq!((both.concat().as_str(), end), ("ac", None));
    assert_eq!(list(&all, "").await.0, "acz");
    assert_eq!(list(&all, "?address=Z@b.example").await.0, "z");
}
