//! `/v1/recipients`: stored rows, rejections, and who sees addresses.

use tidings_model::{PersonId, records::Recipient, webhook_secret::SigningSecret};
use tidings_services::{TeamDirectory, team_directory::DirectorySource};

use super::*;

const BOTH: [TokenScope; 2] = [TokenScope::RecipientsWrite, TokenScope::RecipientsRead];

fn ann() -> Value {
    json!({"address": "ann@example.net", "name": "Ann", "zone": "Europe/Berlin", "locale": "de"})
}

impl Env {
    async fn recipients(&self, method: &str, path: &str, token: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, &format!("/v1/recipients{path}"), token, body).await
    }

    async fn bulk(&self, kind: &str, token: &str, body: impl Into<Body>) -> Answer {
        let request = Request::post("/v1/recipients").header(header::CONTENT_TYPE, kind);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        self.answer(request.body(body.into()).unwrap()).await
    }
}

#[tokio::test]
async fn a_recipient_is_put_patched_and_shown() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    let writes = env.token(Some("acme"), &[TokenScope::RecipientsWrite], None).await;
    let missing = env.recipients("PATCH", "/ann", &token, &json!({"name": "A"})).await;
    assert_eq!((missing.status.as_u16(), missing.problem().as_str()), (404, "not-found"));
    assert_eq!(env.recipients("PUT", "/ann", &token, &ann()).await.status, 201);
    let again = env.recipients("PUT", "/ann?why=sync", &writes, &ann()).await;
    assert_eq!((again.status.as_u16(), again.json()["address"].as_str()), (200, None), "the token reads no addresses");
    let patched = env.recipients("PATCH", "/ann", &token, &json!({"zone": null, "name": "Ann B."})).await.json();
    let shown = env.recipients("GET", "/ann", &token, &Value::Null).await.json();
    assert_eq!(patched, shown);
    let whole = json!({"tenant": "acme", "user": "ann", "address": "ann@example.net", "name": "Ann B.", "zone": "",
                       "locale": "de", "suppressed": null});
    assert_eq!(shown, whole);
    let listed = env.recipients("GET", "?zone=&address=ANN@example.net", &token, &Value::Null).await.json();
    assert_eq!(listed, json!({"recipients": [whole]}));
    let of_others = env.token(Some("zeta"), &BOTH, None).await;
    assert_eq!(env.recipients("GET", "/ann", &of_others, &Value::Null).await.status, 404);
    assert_eq!(env.recipients("GET", "", &of_others, &Value::Null).await.json()["recipients"], json!([]));
}

#[tokio::test]
async fn a_change_is_audited_with_the_token_and_without_an_address() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    env.recipients("PUT", "/ann?why=ticket+812", &token, &ann()).await;
    env.recipients("PUT", "/ann?why=again", &token, &ann()).await;
    env.recipients("PATCH", "/ann", &token, &json!({"name": "A"})).await;
    let rows = "{\"user\":\"bo\",\"address\":\"bo@example.net\"}";
    assert_eq!(env.bulk("application/x-ndjson", &token, rows).await.status, 200);
    let page = tidings_model::records::PageRequest { limit: 9, after: None };
    let person = tidings_model::PersonId { tenant: "acme".into(), user: "ann".into() };
    let rows = env
        .store
        .person_rows(
            &person.key(""),
            &std::collections::BTreeSet::new(),
            tidings_model::records::PersonRowKind::Audit,
            &page,
        )
        .await
        .unwrap()
        .rows;
    let said: Vec<_> = rows.iter().map(|row| format!("{} {} {}", row["actor"], row["action"], row["why"])).collect();
    let by = format!("\"token:{}\" \"recipient_put\"", &token[4..20]);
    assert_eq!(said, [format!("{by} \"ticket 812\""), format!("{by} \"PATCH /v1/recipients/{{user}}\"")]);
}

#[tokio::test]
async fn a_wrong_row_is_refused_with_its_field_and_without_its_address() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    let with = |name: &str, value: Value| {
        let mut body = ann();
        body[name] = value;
        body
    };
    for (body, field) in [
        (json!({}), "address"),
        (with("address", json!("ann.b@@example.net")), "address"),
        (with("zone", json!("Europe/Berln")), "zone"),
        (with("name", json!("A\0n")), "name"),
        (with("nickname", json!("A")), "nickname"),
    ] {
        let wrong = env.recipients("PUT", "/ann", &token, &body).await;
        assert_eq!((wrong.status.as_u16(), wrong.problem().as_str()), (400, "wrong-body"), "{wrong:?}");
        assert_eq!(wrong.json()["errors"][0]["field"], field, "{wrong:?}");
        assert!(!wrong.text.contains("@@example.net"), "{wrong:?}");
    }
    let long = env.recipients("PUT", &format!("/{}", "x".repeat(256)), &token, &ann()).await;
    assert_eq!((long.status.as_u16(), &long.json()["errors"][0]["field"]), (400, &json!("user")));
    assert_eq!(env.recipients("GET", "?suppressed=yes", &token, &Value::Null).await.problem(), "wrong-parameter");
    assert_eq!(env.recipients("GET", "", &token, &Value::Null).await.json()["recipients"], json!([]));
}

#[tokio::test]
async fn each_row_of_many_has_a_result() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    let rows = "{\"user\":\"ann\",\"address\":\"ann@example.net\"}\n{\"user\":\"bo\"}\n\
                {\"user\":\"cy\",\"tenant\":\"zeta\",\"address\":\"cy@example.net\"}\n";
    let some = env.bulk("application/x-ndjson", &token, rows).await;
    assert_eq!(some.status, 200);
    assert_eq!(
        some.json(),
        json!({"accepted": 1, "refused": 2, "results": [
            {"status": "accepted", "user": "ann"},
            {"status": "refused", "line": 2, "field": "address", "problem": "is required"},
            {"status": "refused", "line": 3, "field": "tenant", "problem": "is not the token's tenant"},
        ]})
    );
    let all = env.token(None, &BOTH, None).await;
    let csv = "tenant,user,address,zone\nacme,bo,bo@example.net,Asia/Tokyo\nzeta,cy,cy@example.net,\n";
    let table = env.bulk("text/csv", &all, csv).await;
    assert_eq!((table.status.as_u16(), &table.json()["accepted"]), (200, &json!(2)));
    let users = |answer: Answer| {
        let json = answer.json();
        let rows = json["recipients"].as_array().unwrap().iter();
        rows.map(|row| row["user"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(users(env.recipients("GET", "", &token, &Value::Null).await), "ann bo");
    assert_eq!(users(env.recipients("GET", "?limit=2", &all, &Value::Null).await), "ann bo");
    assert_eq!(users(env.recipients("GET", "?tenant=zeta", &all, &Value::Null).await), "cy");
    let none = env.bulk("application/x-ndjson", &token, "{\"user\":\"bo\"}").await;
    assert_eq!((none.status.as_u16(), none.problem().as_str()), (400, "nothing-accepted"));
    assert_eq!(none.json()["errors"][0]["line"], 1);
    let media = env.bulk("application/json", &token, "[]").await;
    assert_eq!((media.status.as_u16(), media.problem().as_str()), (415, "unsupported-media"));
}

#[tokio::test]
async fn an_erasure_needs_temporal_where_windows_are_that_no_table_has() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    let unknown = env.recipients("DELETE", "/ann", &token, &Value::Null).await;
    assert_eq!((unknown.status.as_u16(), unknown.problem().as_str()), (503, "no-answer"));
    env.recipients("PUT", "/ann", &token, &ann()).await;
    let away = env.recipients("DELETE", "/ann", &token, &Value::Null).await;
    assert_eq!((away.status.as_u16(), away.problem().as_str()), (503, "no-answer"));
    assert_eq!(env.recipients("GET", "/ann", &token, &Value::Null).await.status, 200);
}

#[tokio::test]
async fn people_of_a_directory_elsewhere_are_not_written_here() {
    let url = "http://127.0.0.1:1/{tenant}/{user}";
    let secret = SigningSecret::parse("dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==").unwrap();
    let source = DirectorySource::service(url.parse().unwrap(), secret);
    let directory = Some(Arc::new(TeamDirectory::new(source)));
    let state = |store| crate::GatewayState { directory, ..over(store, settings()) };
    let making =
        RenderContext { renderer: Arc::new(TemplateRenderer::new(None).unwrap()), signers: TenantSigners::default() };
    let env = Env::over(state, InboxLimits::default(), Some(making)).await;
    let scopes = [TokenScope::RecipientsWrite, TokenScope::RecipientsRead, TokenScope::MessagesWrite];
    let token = env.token(Some("acme"), &scopes, None).await;
    for (method, path, body) in [("PUT", "/ann", ann()), ("PATCH", "/ann", json!({"name": "A"})), ("POST", "", ann())] {
        let refused = env.recipients(method, path, &token, &body).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (409, "conflict"), "{refused:?}");
        let why = "recipients come from the team's own directory, http://127.0.0.1:1/{tenant}/{user}: change the person there";
        assert_eq!(refused.json()["errors"][0]["problem"], why);
    }
    // Nothing answers there, and nothing is kept yet.
    assert_eq!(env.recipients("GET", "/ann", &token, &Value::Null).await.status, 404);
    let message = json!({"key": "k", "to": {"user": "ann"}, "subject": "Hi", "text": "Hello"});
    let away = env.send("POST", "/v1/messages", &token, message.to_string()).await;
    assert_eq!((away.status.as_u16(), away.problem().as_str()), (503, "no-directory"), "{away:?}");
    // The last answer is shown while the directory is away.
    let known = Recipient {
        tenant: "acme".into(),
        user: "ann".into(),
        address: "ann@example.net".into(),
        name: String::new(),
        zone: String::new(),
        locale: String::new(),
    };
    let person = PersonId { tenant: "acme".into(), user: "ann".into() };
    let long_ago = Timestamp::now() - SignedDuration::from_hours(100);
    env.store.keep_answer(&person, Some(&known), long_ago).await.unwrap();
    let shown = env.recipients("GET", "/ann", &token, &Value::Null).await.json();
    assert_eq!(shown["address"], "ann@example.net");
    let away = env.send("POST", "/v1/messages", &token, message.to_string()).await;
    assert_eq!(away.problem(), "no-directory", "the answer is too old for a message");
    env.store.keep_answer(&person, Some(&known), Timestamp::now()).await.unwrap();
    let accepted = env.send("POST", "/v1/messages", &token, message.to_string()).await;
    assert_eq!(accepted.problem(), "no-answer", "it is in the outbox, and Temporal is away");
}
