//! When the issuer's keys are fetched.

use super::*;

#[tokio::test]
async fn an_unknown_key_is_asked_for_once_a_minute() {
    let env = Env::start(Pair::ed25519()).await;
    assert!(env.verify(&env.right()).await.is_ok());
    let next = Pair::p256();
    env.desk.rotate(&[next.jwk("k2")]);
    let rotated = next.sign(&json!({"typ": "at+jwt", "alg": "ES256", "kid": "k2"}), &env.claims());
    for _ in 0..10 {
        assert_eq!(env.verify(&rotated).await, Err(TokenError::Unread));
    }
    let (status, said) = env.post(&rotated, "acme").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(said.contains("/problems/no-issuer"), "{said}");
    assert_eq!(env.desk.asked(), 1);
    env.pass(Duration::from_mins(1));
    assert!(env.verify(&rotated).await.is_ok());
    assert_eq!(env.verify(&env.right()).await, Err(TokenError::Unread), "the issuer took the key back");
    assert_eq!(env.desk.asked(), 2);
    env.pass(Duration::from_mins(1));
    assert_eq!(env.verify(&env.right()).await, Err(TokenError::Key));
    assert_eq!(env.desk.asked(), 3);
    // Each algorithm has keys of its own.
    for alg in ["RS256", "PS256", "ES384"] {
        env.pass(Duration::from_mins(1));
        let token = env.token(&json!({"kid": "k2", "alg": alg}), &json!({}));
        assert_eq!(env.verify(&token).await, Err(TokenError::Key), "{alg}");
    }
}

#[tokio::test]
async fn requests_that_come_together_ask_for_the_keys_once() {
    let env = Env::start(Pair::ed25519()).await;
    let token = env.right();
    let all = futures::future::join_all((0..20).map(|_| env.verify(&token))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(env.desk.asked(), 1);
}

#[tokio::test]
async fn keys_are_read_again_beside_the_requests_and_a_removed_one_ends() {
    let env = Env::start(Pair::ed25519()).await;
    assert!(env.verify(&env.right()).await.is_ok());
    env.desk.rotate(&[Pair::p256().jwk("k2")]);
    env.pass(Duration::from_mins(10));
    assert!(env.verify(&env.right()).await.is_ok(), "the request does not wait for the issuer");
    let until = Instant::now() + Duration::from_secs(20);
    while env.verify(&env.right()).await.is_ok() {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn known_keys_count_while_the_issuer_is_away() {
    let mut env = Env::start(Pair::rsa()).await;
    assert!(env.verify(&env.right()).await.is_ok());
    env.desk.close().await;
    env.pass(Duration::from_hours(1));
    assert!(env.verify(&env.right()).await.is_ok());
    assert_eq!(env.verify(&env.token(&json!({"kid": "k2"}), &json!({}))).await, Err(TokenError::Unread));
    assert_eq!(env.post(&env.right(), "acme").await.0, StatusCode::ACCEPTED);
}

/// Makes a response without keys, from the issuer and its URL of a path.
type Fault = fn(&Desk, &dyn Fn(&Desk, &str) -> String) -> axum::response::Response;

#[tokio::test]
async fn an_issuer_that_gives_no_keys_is_503_until_it_does() {
    let url = |desk: &Desk, of: &str| format!("{}/{of}", desk.url);
    let faults: [Fault; 6] = [
        |_, _| StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        |desk, url| (StatusCode::FOUND, [(header::LOCATION, url(desk, "keys"))]).into_response(),
        |desk, url| described(&json!({"issuer": "https://other.example", "jwks_uri": url(desk, "keys")})),
        |desk, _| described(&json!({"issuer": desk.url, "jwks_uri": "http://127.0.0.2:1/keys"})),
        |desk, url| described(&json!({"issuer": desk.url, "jwks_uri": url(desk, ".well-known/none")})),
        |_, _| "x".repeat(256 * 1024 + 1).into_response(),
    ];
    for (fault, answer) in faults.into_iter().enumerate() {
        let env = Env::start(Pair::ed25519()).await;
        env.desk.describe(answer(&env.desk, &url));
        let (status, said) = env.post(&env.right(), "acme").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{fault}");
        assert!(said.contains("/problems/no-issuer"), "{said}");
        assert_eq!(env.desk.asked(), 0, "{fault}");
        // Not again at once.
        assert_eq!(env.verify(&env.right()).await, Err(TokenError::Away));
        env.pass(Duration::from_secs(5));
        assert!(env.verify(&env.right()).await.is_ok(), "{fault}");
    }
}
