//! Preferences and consent of a recipient: versions, rejections and the audit trail.

use std::collections::BTreeMap;

use tidings_model::{
    offered_cadences::{OfferedCadence, OfferedCadences},
    records::{AuditFilter, PageRequest},
    settings::DigestSettings,
};

use super::*;

const BOTH: [TokenScope; 2] = [TokenScope::PreferencesWrite, TokenScope::PreferencesRead];
const PATH: &str = "/v1/recipients/ann/preferences/activity";
const CONSENT: &str = "/v1/recipients/ann/consent/activity";

/// The digest type `activity` with three cadences.
fn with_activity() -> Settings {
    let digest = DigestSettings::new("activity", "daily 08:00".parse().unwrap());
    let offered = ["daily 08:00", "weekly mon 08:00", "monthly 31 08:00"]
        .map(|cadence| cadence.parse::<OfferedCadence>().unwrap());
    let digest = DigestSettings { choices: OfferedCadences::new(offered.to_vec()), ..digest };
    Settings { digests: BTreeMap::from([("activity".to_owned(), digest)]), ..settings() }
}

async fn started() -> (Env, String) {
    let env = Env::start_with(InboxLimits::default(), with_activity(), None).await;
    let token = env.token(Some("acme"), &BOTH, None).await;
    (env, token)
}

impl Env {
    async fn put(&self, path: &str, token: &str, if_match: Option<&str>, body: &Value) -> Answer {
        let request = Request::put(path).header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = match if_match {
            Some(tag) => request.header(header::IF_MATCH, tag),
            None => request,
        };
        self.answer(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Entries of callers, without Tidings' own entry about the token.
    async fn audited(&self) -> Vec<String> {
        let filter = AuditFilter {
            tenant: Some("acme".into()),
            digest_type: None,
            user: None,
            action: None,
            actor: None,
            since: None,
            until: None,
            page: PageRequest { limit: 9, after: None },
        };
        let rows = self.store.audit_entries(&filter).await.unwrap().rows;
        let by_callers = rows.into_iter().filter(|row| row.actor != AuditActor::Tidings);
        by_callers.map(|row| format!("{} {} {}", row.actor, row.action, row.why)).collect()
    }
}

#[tokio::test]
async fn preferences_change_only_in_the_version_that_was_seen() {
    let (env, token) = started().await;
    let shown = env.send("GET", PATH, &token, "").await;
    assert_eq!((shown.status.as_u16(), shown.headers[header::ETAG].to_str().unwrap()), (200, "\"0\""), "{shown:?}");
    assert_eq!((&shown.json()["chosen"], &shown.json()["in_force"]["cadence"]), (&json!({}), &json!("daily 08:00")));
    let weekly = json!({"cadence": "weekly mon 08:00", "off": ["share"]});
    let without = env.put(PATH, &token, None, &weekly).await;
    assert_eq!((without.status.as_u16(), without.problem().as_str()), (428, "no-version"));
    let put = env.put(&format!("{PATH}?why=ticket+812"), &token, Some("\"0\""), &weekly).await;
    assert_eq!((put.status.as_u16(), put.headers[header::ETAG].to_str().unwrap()), (200, "\"1\""), "{put:?}");
    assert_eq!((&put.json()["chosen"], &put.json()["revision"]), (&weekly, &json!(1)));
    let repeated = env.put(PATH, &token, Some("\"0\""), &weekly).await;
    assert_eq!(repeated.status, 200, "a lost answer is asked for again");
    for tag in ["\"0\"", "\"x\""] {
        let old = env.put(PATH, &token, Some(tag), &json!({})).await;
        assert_eq!((old.status.as_u16(), old.problem().as_str()), (412, "changed"), "{tag}");
    }
    let weak = env.put(PATH, &token, Some("W/\"1\""), &json!({})).await;
    assert_eq!((weak.status.as_u16(), weak.problem().as_str()), (400, "wrong-parameter"));
    let any = env.put(PATH, &token, Some("*"), &json!({})).await;
    assert_eq!((any.status.as_u16(), &any.json()["chosen"]), (200, &json!({})));
    let by = format!("token:{} preferences", &token[4..20]);
    assert_eq!(
        env.audited().await,
        [format!("{by} PUT /v1/recipients/{{user}}/preferences/{{digest_type}}"), format!("{by} ticket 812")]
    );
}

#[tokio::test]
async fn a_day_of_the_month_is_a_choice_like_any_other() {
    let (env, token) = started().await;
    let monthly = json!({"cadence": "monthly 31 08:00"});
    let put = env.put(PATH, &token, Some("*"), &monthly).await;
    assert_eq!((put.status.as_u16(), &put.json()["in_force"]["cadence"]), (200, &json!("monthly 31 08:00")), "{put:?}");
    for (cadence, problem) in [
        ("monthly 32 08:00", "is not a day of the month; write 1 to 31"),
        ("monthly 2 08:00", "is not offered; choose among"),
    ] {
        let wrong = env.put(PATH, &token, Some("*"), &json!({ "cadence": cadence })).await;
        assert_eq!((wrong.status.as_u16(), wrong.problem().as_str()), (400, "wrong-body"), "{wrong:?}");
        assert!(wrong.json()["errors"][0].to_string().contains(problem), "{wrong:?}");
    }
}

#[tokio::test]
async fn preferences_that_are_not_offered_or_unknown_are_refused_with_their_field() {
    let (env, token) = started().await;
    for (body, field) in [
        (json!({"cadence": "hourly"}), "cadence"),
        (json!({"zone": "Europe/Berln"}), "zone"),
        (json!({"paused_until": "2001-01-01T00:00:00Z"}), "paused_until"),
        (json!({"cadance": "daily 08:00"}), "cadance"),
        (json!({"off": "share"}), "off"),
    ] {
        let wrong = env.put(PATH, &token, Some("*"), &body).await;
        assert_eq!((wrong.status.as_u16(), wrong.problem().as_str()), (400, "wrong-body"), "{wrong:?}");
        assert_eq!(wrong.json()["errors"][0]["field"], field, "{wrong:?}");
    }
    let unknown = env.send("GET", "/v1/recipients/ann/preferences/alerts", &token, "").await;
    assert_eq!((unknown.status.as_u16(), unknown.problem().as_str()), (404, "not-found"));
    assert_eq!(unknown.json()["errors"][0]["field"], "digest_type");
    assert!(env.audited().await.is_empty());
}

#[tokio::test]
async fn consent_is_withdrawn_and_given_again() {
    let (env, token) = started().await;
    let shown = env.send("GET", CONSENT, &token, "").await;
    assert_eq!((shown.headers[header::ETAG].to_str().unwrap(), &shown.json()["consent"]), ("\"given\"", &json!(true)));
    let withdrawn = env.put(CONSENT, &token, Some("\"given\""), &json!({"consent": false})).await;
    assert_eq!((withdrawn.status.as_u16(), &withdrawn.json()["consent"]), (200, &json!(false)));
    assert_eq!(withdrawn.headers[header::ETAG], "\"withdrawn\"");
    let repeated = env.put(CONSENT, &token, Some("\"given\""), &json!({"consent": false})).await;
    assert_eq!(repeated.status, 200);
    let old = env.put(CONSENT, &token, Some("\"given\""), &json!({"consent": true})).await;
    assert_eq!((old.status.as_u16(), old.problem().as_str()), (412, "changed"));
    assert_eq!(env.put(CONSENT, &token, None, &json!({"consent": true})).await.json()["consent"], json!(true));
    assert_eq!(env.put(CONSENT, &token, None, &json!({})).await.problem(), "wrong-body");
    let by = format!("token:{}", &token[4..20]);
    assert_eq!(env.audited().await.iter().filter(|entry| entry.starts_with(&by)).count(), 2);
}
