//! `/v1/messages` without Temporal: rejections, the outbox, and who sees addresses.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tidings_model::{
    MessageKey,
    records::{Recipient, Suppression, SuppressionReason},
};
use tidings_operations::submit::ATTACHMENTS_BYTES;

use super::*;

const READS: [TokenScope; 2] = [TokenScope::MessagesWrite, TokenScope::MessagesRead];

fn message(key: &str) -> Value {
    let to = json!({"address": "bo@example.net", "name": "Bo"});
    json!({"key": key, "to": to, "subject": "Your code", "text": "The code is 4711"})
}

impl Env {
    async fn post_message(&self, token: &str, body: &Value) -> Answer {
        self.send("POST", "/v1/messages", token, body.to_string()).await
    }

    /// Puts a message into the outbox, without Temporal.
    async fn accepted(&self, token: &str, body: &Value) {
        let answer = self.post_message(token, body).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, "no-answer"), "{answer:?}");
    }

    async fn outbox(&self, tenant: &str, key: &str) -> Option<tidings_model::records::MessageRecord> {
        let key = MessageKey::new(tenant.into(), key.into()).unwrap();
        self.store.message(key.message_id()).await.unwrap()
    }
}

fn suppression(reason: SuppressionReason) -> Suppression {
    let (tenant, address) = ("acme".into(), "gone@example.net".into());
    Suppression { tenant, address, reason, detail: String::new(), at: Timestamp::now() }
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_is_refused_with_field_and_reason() {
    let env = Env::start(InboxLimits::default()).await;
    env.store.suppress(&suppression(SuppressionReason::HardBounce)).await.unwrap();
    let token = env.token(Some("acme"), &READS, None).await;
    let with = |name: &str, value: Value| {
        let mut body = message("k");
        body[name] = value;
        body
    };
    let without_parts = |template: &str| json!({"key": "k", "to": {"address": "bo@example.net"}, "template": template});
    let file = |bytes: usize| json!([{"name": "a.bin", "type": "a/b", "content": STANDARD.encode(vec![7; bytes])}]);
    for (body, status, problem, field, says) in [
        (with("key", json!("")), 400, "wrong-body", "key", "is required"),
        (with("key", json!("ü".repeat(120))), 400, "wrong-body", "tenant and key as a workflow id", "255"),
        (with("to", json!({"address": "bo"})), 400, "wrong-body", "to.address", "is not an address"),
        (with("to", json!({"user": "ann"})), 422, "unknown-recipient", "to.user", "not in the directory"),
        (with("to", json!({"address": "Gone@example.net"})), 422, "suppressed", "to", "hard_bounce"),
        (with("reply_to", json!("x")), 400, "wrong-body", "reply_to", "is not an address"),
        (with("text", json!("x".repeat(1_100_000))), 400, "wrong-body", "text and html", "1048576"),
        (with("attachments", file(ATTACHMENTS_BYTES + 1)), 400, "wrong-body", "attachments", "5242880"),
        (
            with("attachments", json!([{"name": "/", "type": "a/b", "content": ""}])),
            400,
            "wrong-body",
            "attachments",
            "name",
        ),
        (without_parts("nothing"), 422, "template", "template", "unknown template"),
    ] {
        let answer = env.post_message(&token, &body).await;
        let fault = answer.json()["errors"][0].clone();
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem), "{answer:?}");
        assert_eq!(fault["field"], field, "{answer:?}");
        assert!(fault["problem"].as_str().unwrap().contains(says), "{answer:?}");
    }
    let unreadable = env.send("POST", "/v1/messages", &token, "{").await;
    assert_eq!((unreadable.status.as_u16(), unreadable.problem().as_str()), (400, "unreadable"));
    let large = env.send("POST", "/v1/messages", &token, vec![b' '; (8 << 20) + 1]).await;
    assert_eq!((large.status.as_u16(), large.problem().as_str()), (413, "too-large"));
    assert_eq!(env.outbox("acme", "k").await.map(|message| message.id), None);
    env.accepted(&token, &with("attachments", file(ATTACHMENTS_BYTES))).await;
    assert!(env.outbox("acme", "k").await.is_some(), "the largest attachments are accepted");
}

#[tokio::test]
async fn a_key_with_another_content_is_refused() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &READS, None).await;
    let file = |content: &str| json!([{"name": "a.txt", "type": "text/plain", "content": content}]);
    let mut body = message("k");
    body["attachments"] = file("SGk=");
    env.accepted(&token, &body).await;
    env.accepted(&token, &body).await;
    body["attachments"] = file("SG8=");
    let other = env.post_message(&token, &body).await;
    assert_eq!((other.status.as_u16(), other.problem().as_str()), (409, "other-content"));
    let found = env.outbox("acme", "k").await.unwrap();
    assert_eq!((found.subject.as_str(), found.envelope_to.as_str()), ("Your code", "bo@example.net"));
}

#[tokio::test]
async fn the_template_sees_the_recipient_of_the_directory() {
    let env = Env::start(InboxLimits::default()).await;
    let (tenant, user, address) = ("acme".into(), "ann".into(), "ann@example.net".into());
    let ann = Recipient { tenant, user, address, name: "Ann".into(), zone: String::new(), locale: String::new() };
    env.store.put_recipients(&[ann], Timestamp::now()).await.unwrap();
    let token = env.token(Some("acme"), &READS, None).await;
    let mut body = message("k");
    body["to"] = json!({"user": "ann"});
    env.accepted(&token, &body).await;
    assert_eq!(env.outbox("acme", "k").await.unwrap().envelope_to, "ann@example.net");
}

#[tokio::test]
async fn only_a_token_that_reads_recipients_sees_addresses() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &READS, None).await;
    let scopes = [TokenScope::MessagesRead, TokenScope::RecipientsRead];
    let sees = env.token(Some("acme"), &scopes, None).await;
    env.accepted(&token, &message("a/b")).await;
    let path = "/v1/messages/a%2Fb";
    for (token, address) in [(&token, None), (&sees, Some("bo@example.net"))] {
        let shown = env.send("GET", path, token, "").await.json();
        assert_eq!(shown["message"]["envelope_to"].as_str(), address);
        assert_eq!((&shown["message"]["state"], &shown["message"]["url"]), (&json!("queued"), &json!(path)));
        assert_eq!((&shown["attempts"], &shown["delivery_events"]), (&json!([]), &json!([])));
        let listed = env.send("GET", "/v1/messages", token, "").await.json();
        assert_eq!(listed["messages"], json!([shown["message"]]));
    }
    let all = env.token(None, &READS, None).await;
    let shown = env.send("GET", &format!("{path}?tenant=acme"), &all, "").await.json();
    assert_eq!(shown["message"]["url"], "/v1/messages/a%2Fb?tenant=acme");
}

#[tokio::test]
async fn a_list_has_pages_and_only_the_tokens_tenant() {
    let env = Env::start(InboxLimits::default()).await;
    let acme = env.token(Some("acme"), &READS, None).await;
    let zeta = env.token(Some("zeta"), &READS, None).await;
    let all = env.token(None, &READS, None).await;
    for (token, key) in [(&acme, "a"), (&zeta, "z"), (&acme, "b"), (&acme, "c")] {
        env.accepted(token, &message(key)).await;
    }
    let keys = |answer: &Answer| {
        let json = answer.json();
        let rows = json["messages"].as_array().unwrap().iter();
        let mut keys: Vec<_> = rows.map(|row| row["single"]["key"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        (keys.concat(), json["next"].as_str().map(str::to_owned))
    };
    let list = async |token: &str, query: &str| env.send("GET", &format!("/v1/messages{query}"), token, "").await;
    let (first, next) = keys(&list(&acme, "?limit=2").await);
    let (second, end) = keys(&list(&acme, &format!("?limit=2&after={}", next.unwrap())).await);
    let mut both: Vec<char> = first.chars().chain(second.chars()).collect();
    both.sort_unstable();
    assert_eq!((both, end), (vec!['a', 'b', 'c'], None));
    assert_eq!(keys(&list(&all, "").await).0, "abcz");
    assert_eq!(keys(&list(&all, "?tenant=zeta&state=queued").await).0, "z");
    assert_eq!(keys(&list(&acme, "?state=failed").await).0, "");
    for query in ["?limit=0", "?limit=x", "?after=x", "?state=lost", "?teant=acme"] {
        let wrong = list(&acme, query).await;
        assert_eq!((wrong.status.as_u16(), wrong.problem().as_str()), (400, "wrong-parameter"), "{query}");
    }
    for (key, status) in [("a", 200), ("z", 404), ("%FF", 404), ("a%0A", 404)] {
        assert_eq!(list(&acme, &format!("/{key}")).await.status, status, "{key}");
    }
    let unnamed = list(&all, "/a").await;
    assert_eq!((unnamed.status.as_u16(), unnamed.problem().as_str()), (400, "wrong-parameter"));
}

#[tokio::test]
async fn a_gateway_without_templates_takes_no_message_and_shows_the_others() {
    let env = Env::start_with(InboxLimits::default(), settings(), None).await;
    let token = env.token(Some("acme"), &READS, None).await;
    let refused = env.post_message(&token, &message("k")).await;
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (503, "cannot-make"));
    assert_eq!(env.send("GET", "/v1/messages", &token, "").await.status, 200);
}
