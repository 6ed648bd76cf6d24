//! Pauses (rule 35): `GET /v1/pauses`, `POST /v1/pauses` and `POST /v1/pauses/{id}/resume`.

use axum::{Extension, Json, extract::State, http::Uri};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Api, caller::Caller, params::Params, refusal::Refusal};

/// Lists the pauses that cover a tenant, those of all tenants included; without a tenant every pause. Only with `all` those that have
/// ended are there, too.
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<Value>, Refusal> {
    let mut params = Params::read(&uri, &["tenant", "all"])?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let mut pauses = api.state.store.pauses(params.flag("all")?, Timestamp::now()).await?;
    pauses.retain(|pause| tenant.as_ref().is_none_or(|tenant| pause.scope.covers_tenant(tenant)));
    Ok(Json(json!({"rows": pauses})))
}
