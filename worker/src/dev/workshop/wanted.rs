//! State of a workshop page: the template, its data and its looks. The URL contains all this except for
//! pasted JSON, which is stored here under an id.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::form_urlencoded::Serializer;
use uuid::Uuid;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TemplateQuery {
    pub name: String,
    /// BCP 47 tag. Default: English, or the recipient's language.
    pub lang: String,
    /// IANA time zone. Default: from the data, or the recipient's.
    pub zone: String,
    /// `TENANT/TYPE/USER`. If set, its open window provides the data.
    pub key: String,
    /// Id of pasted JSON. If set, this provides the data.
    pub data: String,
    pub scheme: ColourScheme,
    pub width: FrameWidth,
    pub images: ImageLoading,
    pub part: MessageTab,
    pub spam: SpamCheck,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ColourScheme {
    #[default]
    Light,
    Dark,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FrameWidth {
    #[default]
    Wide,
    Narrow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ImageLoading {
    #[default]
    On,
    Off,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MessageTab {
    #[default]
    Html,
    Text,
    Source,
}

/// SpamAssassin takes seconds, so it only runs on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SpamCheck {
    #[default]
    Off,
    On,
}

impl TemplateQuery {
    pub fn query(&self) -> String {
        let usual = fields(&Self::default());
        let fields = fields(self).into_iter().filter(|(name, value)| usual.get(name) != Some(value));
        let pairs = fields.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
        Serializer::new(String::new()).extend_pairs(pairs).finish()
    }
}

pub(super) fn non_empty(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

fn fields(wanted: &TemplateQuery) -> Map<String, Value> {
    match json!(wanted) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(super) const MAX_BYTES: usize = 1024 * 1024;
const MOST: usize = 50;

#[derive(Default)]
pub(super) struct PastedJson(Mutex<VecDeque<(Uuid, Arc<str>)>>);

impl PastedJson {
    pub fn store_json(&self, json: &str) -> Uuid {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, json.as_bytes());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != id);
        kept.push_front((id, json.into()));
        kept.truncate(MOST);
        id
    }

    pub fn find_json(&self, id: &str) -> Option<Arc<str>> {
        let id: Uuid = id.parse().ok()?;
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(other, _)| *other == id).map(|(_, json)| Arc::clone(json))
    }
}

#[cfg(test)]
mod tests {
    use axum::{extract::Query, http::Uri};

    use super::*;

    #[test]
    fn the_query_of_a_state_makes_the_same_state() {
        let wanted = TemplateQuery {
            name: "müll & co".into(),
            lang: "pt-BR".into(),
            zone: "Europe/Berlin".into(),
            key: "acme/a%2Fb/ann+x".into(),
            data: "17".into(),
            scheme: ColourScheme::Dark,
            width: FrameWidth::Narrow,
            images: ImageLoading::Off,
            part: MessageTab::Source,
            spam: SpamCheck::On,
        };
        for wanted in [wanted, TemplateQuery::default()] {
            let uri: Uri = format!("/template?{}", wanted.query()).parse().unwrap();
            assert_eq!(Query::<TemplateQuery>::try_from_uri(&uri).unwrap().0, wanted);
        }
        assert_eq!(TemplateQuery { name: "activity".into(), ..TemplateQuery::default() }.query(), "name=activity");
    }

    #[test]
    fn the_latest_json_is_kept_under_its_id() {
        let kept = PastedJson::default();
        let first = kept.store_json("{}");
        assert_eq!(kept.find_json(&first.to_string()).as_deref(), Some("{}"));
        for n in 0..MOST - 1 {
            kept.store_json(&n.to_string());
        }
        assert_eq!(kept.store_json("{}"), first);
        kept.store_json("new");
        assert!(kept.find_json(&first.to_string()).is_some(), "it was put again");
        for n in 0..MOST {
            kept.store_json(&format!("x{n}"));
        }
        assert_eq!(kept.find_json(&first.to_string()), None);
        assert_eq!(kept.find_json("nonsense"), None);
    }
}
