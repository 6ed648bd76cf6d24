//! `POST /v1/digests/{key}/reopen` and `DELETE /v1/digests/{key}`. The key is one part of the path: `TENANT/TYPE/USER` as the command
//! line takes it, with its slashes as `%2F`.

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, Uri, header::ALLOW},
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use tidings_client::commands::Deed;
use tidings_model::Key;

use super::{Answer, Call, reopen};
use crate::{
    api::{Api, caller::Caller, params::Params, path::Named, refusal::Refusal},
    problem::Problem,
};

/// Reopens a digest of the key. The router knows the route as that of a key's status, whose user may be called `reopen`.
pub(crate) async fn reopen_digest(
    State(api): State<Api>,
    caller: Caller,
    Named((key, command)): Named<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    if command != "reopen" {
        return Ok(([(ALLOW, "GET,HEAD")], Problem::WrongMethod).into_response());
    }
    let key = covered(&api, &caller, &key, &mut Params::read(&uri, &["tenant"])?)?;
    Ok(reopen::reopen(Call::new(api, caller, key, headers, body)?).await?.into_response())
}

/// Drops the pending events of the key and its digest in delivery. The parameter `why` has the reason.
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Named(key): Named<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let mut params = Params::read(&uri, &["tenant", "why"])?;
    let key = covered(&api, &caller, &key, &mut params)?;
    let why = params.text("why").ok_or_else(|| Refusal::parameter("why", "is required"))?;
    // The parameter is what a body would say.
    let content = json!({"why": why}).to_string().into();
    let call = Call::new(api, caller, key, headers, content)?;
    call.carry_out(Deed::Drop(call.caller.order(why)?)).await
}

fn covered(api: &Api, caller: &Caller, key: &str, params: &mut Params) -> Result<Key, Problem> {
    let tenant = caller.tenant(params.text("tenant"))?;
    let key: Key = key.parse().map_err(|_| Problem::NotFound)?;
    let names = &api.state.settings.names;
    if tenant.is_none_or(|tenant| names.tenant(&tenant) == names.tenant(&key.tenant)) {
        Ok(key)
    } else {
        Err(Problem::NotFound)
    }
}
