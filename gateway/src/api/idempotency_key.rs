//! The `Idempotency-Key` header, quoted or not. This is an alternative to an id in the body (rule 41).

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;
use tidings_model::{hex_sha256, limits};
use uuid::Uuid;

use super::{
    ApiState,
    caller::ApiCaller,
    refusal::{ApiRefusal, Fault},
};
use crate::problem::Problem;

const HEADER: &str = "idempotency-key";
/// UUIDv5 namespace (RFC 9562) for ids of commands with an idempotency key.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f0d_51c2_93be_5a17_8e44_2c9b_70d1_3fa8);

pub(super) fn read_header(headers: &HeaderMap) -> Result<Option<&str>, Fault> {
    let Some(key) = headers.get(HEADER) else { return Ok(None) };
    let key = key.to_str().map_err(|_| Fault::new(HEADER, "is not ASCII text"))?.trim();
    let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    limits::check_id(HEADER, key)?;
    Ok(Some(key))
}

/// Derives the id of a command from its key. Rejects a key already used with another body. `order` names the
/// command and its target; different commands may share a key.
pub(super) async fn order_id(
    api: &ApiState,
    caller: &ApiCaller,
    tenant: Option<&str>,
    order: &str,
    key: &str,
    body: &[u8],
) -> Result<Uuid, ApiRefusal> {
    let id = id(caller, tenant, order, key);
    let is_same = api.state.store.use_idempotency_key(id, &content_sha256(body), Timestamp::now()).await?;
    if is_same { Ok(id) } else { Err(Problem::OtherContent.into()) }
}

/// Uses a JSON list, because concatenated fields could be ambiguous.
fn id(caller: &ApiCaller, tenant: Option<&str>, order: &str, key: &str) -> Uuid {
    let parts = serde_json::json!([tenant, caller.issuer, caller.by, order, key]);
    Uuid::new_v5(&NAMESPACE, parts.to_string().as_bytes())
}

/// Field order and whitespace do not matter.
fn content_sha256(body: &[u8]) -> String {
    let fields = serde_json::from_slice::<BTreeMap<String, Value>>(body);
    let content = fields.and_then(|fields| serde_json::to_vec(&fields)).unwrap_or_else(|_| body.to_vec());
    hex_sha256(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(by: &str, issuer: Option<&str>) -> ApiCaller {
        ApiCaller {
            by: by.into(),
            issuer: issuer.map(str::to_owned),
            own_tenant: None,
            former_tenants: Vec::new(),
            scopes: Vec::new(),
        }
    }

    #[test]
    fn an_id_is_of_tenant_issuer_caller_order_and_key() {
        let ann = caller("oidc:ann", Some("https://a"));
        let first = id(&ann, Some("acme"), "job", "k");
        assert_eq!(first, id(&ann, Some("acme"), "job", "k"));
        for other in [
            id(&ann, Some("zeta"), "job", "k"),
            id(&ann, None, "job", "k"),
            id(&caller("oidc:ann", Some("https://b")), Some("acme"), "job", "k"),
            id(&caller("oidc:bo", Some("https://a")), Some("acme"), "job", "k"),
            id(&ann, Some("acme"), "hold acme/activity/ann", "k"),
            id(&ann, Some("acme"), "job", "l"),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn content_is_the_same_in_any_order_of_its_fields() {
        let of = |body: &str| content_sha256(body.as_bytes());
        assert_eq!(of(r#"{"why": "x", "until": "2h"}"#), of(r#"{"until":"2h","why":"x"}"#));
        assert_ne!(of(r#"{"why": "x", "until": "2h"}"#), of(r#"{"why": "x", "until": "3h"}"#));
    }
}
