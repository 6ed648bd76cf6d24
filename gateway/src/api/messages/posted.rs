//! Body of `POST /v1/messages`.

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value};
use tidings_mail::mime::Attachment;
use tidings_model::{AddressError, EmailAddress, limits, settings::StreamName};
use tidings_operations::submit::{MessageSubmission, SubmissionContent, SubmissionRecipient};
use utoipa::ToSchema;

use crate::api::{
    body, idempotency_key,
    refusal::{ApiRefusal, Fault},
};

/// Body limit in bytes: base64 attachments, text and variables.
pub(crate) const BODY_BYTES: usize = 8 << 20;

/// A message as a service writes it.
#[derive(Deserialize, ToSchema)]
#[schema(as = MessagePost)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageRequest {
    /// The key of the message. `Idempotency-Key` is another spelling; one of the two is required.
    #[serde(default)]
    key: String,
    #[serde(default)]
    #[schema(required)]
    to: PostedTo,
    /// Without it `transactional`.
    stream: Option<StreamName>,
    /// A template. It excludes `subject`, `text` and `html`.
    template: Option<String>,
    /// The values for the template.
    variables: Option<Map<String, Value>>,
    subject: Option<String>,
    text: Option<String>,
    html: Option<String>,
    /// The address for replies. Without it that of the stream.
    reply_to: Option<String>,
    /// At most 20 files and 5 MiB in all.
    #[serde(default)]
    attachments: Vec<PostedAttachment>,
}

/// The recipient: a user or an address.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = MessageTo)]
#[serde(deny_unknown_fields)]
struct PostedTo {
    /// A user of the directory.
    user: Option<String>,
    /// RFC 5321 addr-spec.
    address: Option<String>,
    /// The display name, with `address` only.
    #[serde(default)]
    name: String,
}

/// A file.
#[derive(Deserialize, ToSchema)]
#[schema(as = Attachment)]
#[serde(deny_unknown_fields)]
struct PostedAttachment {
    name: String,
    #[serde(rename = "type")]
    media_type: String,
    /// In base64 (RFC 4648).
    content: String,
}

/// The key should be in the body or in `Idempotency-Key`. It may be in both if they are equal.
pub(super) fn read_submission(
    headers: &HeaderMap,
    bytes: &[u8],
    tenant: String,
) -> Result<MessageSubmission, ApiRefusal> {
    let posted: MessageRequest = body::read_json(headers, bytes)?;
    let named =
        idempotency_key::read_header(headers).map_err(|fault| ApiRefusal::parameter(&fault.field, fault.problem))?;
    let idempotency_key = match named {
        Some(key) if posted.key.is_empty() => key.to_owned(),
        Some(key) if key != posted.key => {
            return Err(ApiRefusal::body(Fault::new("key", "is not the Idempotency-Key; send one of them")));
        }
        _ => posted.key.clone(),
    };
    submission(posted, tenant, idempotency_key).map_err(ApiRefusal::body)
}

fn submission(posted: MessageRequest, tenant: String, idempotency_key: String) -> Result<MessageSubmission, Fault> {
    limits::check_id("key", &idempotency_key)?;
    Ok(MessageSubmission {
        tenant,
        idempotency_key,
        stream: posted.stream.unwrap_or(StreamName::Transactional),
        to: parse_recipient(&posted.to)?,
        reply_to: posted.reply_to.as_deref().map(|text| address("reply_to", text)).transpose()?,
        attachments: attachments(&posted.attachments)?,
        content: content(posted)?,
    })
}

fn parse_recipient(to: &PostedTo) -> Result<SubmissionRecipient, Fault> {
    match to {
        PostedTo { user: Some(user), address: None, name } if name.is_empty() => {
            limits::check_id("to.user", user)?;
            Ok(SubmissionRecipient::User(user.clone()))
        }
        PostedTo { user: None, address: Some(address), name } => {
            Ok(SubmissionRecipient::Address { address: self::address("to.address", address)?, name: name.clone() })
        }
        _ => Err(Fault::new("to", "is {\"user\": ...}, or {\"address\": ..., \"name\": ...}")),
    }
}

fn address(field: &str, text: &str) -> Result<EmailAddress, Fault> {
    text.parse().map_err(|error: AddressError| Fault::new(field, error.to_string()))
}

fn content(posted: MessageRequest) -> Result<SubmissionContent, Fault> {
    let MessageRequest { template, variables, subject, text, html, .. } = posted;
    match template {
        Some(_) if subject.is_some() || text.is_some() || html.is_some() => {
            Err(Fault::new("template", "excludes subject, text and html"))
        }
        Some(name) => Ok(SubmissionContent::Template { name, variables: variables.unwrap_or_default() }),
        None if variables.is_some() => Err(Fault::new("variables", "needs a template")),
        None if subject.is_none() && text.is_none() && html.is_none() => {
            Err(Fault::new("template", "is required, or subject and text"))
        }
        None => {
            Ok(SubmissionContent::Parts { subject: subject.unwrap_or_default(), text: text.unwrap_or_default(), html })
        }
    }
}

fn attachments(posted: &[PostedAttachment]) -> Result<Vec<Attachment>, Fault> {
    let read = |(index, PostedAttachment { name, media_type, content }): (usize, &PostedAttachment)| {
        let wrong = |error| Fault::new(&format!("attachments[{index}].content"), format!("is not base64: {error}"));
        let bytes = STANDARD.decode(content).map_err(wrong)?;
        Ok(Attachment { name: name.clone(), media_type: media_type.clone(), bytes })
    };
    posted.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;
    use crate::problem::Problem;

    fn posted(body: &Value, key: Option<&'static str>) -> Result<MessageSubmission, ApiRefusal> {
        let key = key.map(|key| ("idempotency-key".parse().unwrap(), HeaderValue::from_static(key)));
        read_submission(&HeaderMap::from_iter(key), body.to_string().as_bytes(), "acme".into())
    }

    fn body(changes: &Value) -> Value {
        let mut body = json!({"key": "k", "to": {"user": "ann"}, "subject": "Hi", "text": "Hello"});
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(body.as_object_mut().unwrap().remove(name)),
                value => body[name] = value.clone(),
            }
        }
        body
    }

    #[test]
    fn a_wrong_part_is_refused_with_its_field() {
        for (changes, field) in [
            (json!({"key": null}), "key"),
            (json!({"to": null}), "to"),
            (json!({"to": {"user": "ann", "address": "ann@example.net"}}), "to"),
            (json!({"to": {"user": ""}}), "to.user"),
            (json!({"to": "ann"}), "to"),
            (json!({"to": {"address": "ann"}}), "to.address"),
            (json!({"to": {"address": "v@[127.0.0.1]"}}), "to.address"),
            (json!({"reply_to": "ann@example.net, bo@example.net"}), "reply_to"),
            (json!({"too": {}}), "too"),
            (json!({"stream": "slow"}), "stream"),
            (json!({"template": "invoice"}), "template"),
            (json!({"subject": null, "text": null}), "template"),
            (json!({"variables": {}}), "variables"),
            (json!({"attachments": [{"name": "a", "type": "b/c"}]}), "attachments"),
            (json!({"attachments": [{"name": "a", "type": "b/c", "content": "%"}]}), "attachments[0].content"),
        ] {
            let refusal = posted(&body(&changes), None).err().unwrap();
            assert_eq!((refusal.problem(), refusal.fields()), (Problem::WrongBody, vec![field]), "{changes}");
        }
    }

    #[test]
    fn an_idempotency_key_is_the_key_and_a_different_one_is_refused() {
        let key = |changes: &Value, header| posted(&body(changes), header).map(|read| read.idempotency_key);
        assert_eq!(key(&json!({"key": null}), Some("\"h\"")), Ok("h".into()));
        assert_eq!(key(&json!({}), Some("k")), Ok("k".into()));
        assert_eq!(key(&json!({}), Some("h")).unwrap_err().fields(), ["key"]);
        assert_eq!(key(&json!({}), Some("\"\"")).unwrap_err().problem(), Problem::WrongParameter);
    }

    #[test]
    fn attachments_are_decoded() {
        let file = json!({"name": "a.txt", "type": "text/plain", "content": "SGk="});
        let read = posted(&body(&json!({"attachments": [file]})), None).ok().unwrap();
        assert!(
            read.attachments
                == [Attachment { name: "a.txt".into(), media_type: "text/plain".into(), bytes: b"Hi".into() }]
        );
    }
}
