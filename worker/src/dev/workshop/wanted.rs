//! The state of a page of the workshop: the template, its data and its looks. All of it is in the query of the page's address, but for pasted
//! JSON, which is kept here under an id, so that the page can be loaded again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::form_urlencoded::Serializer;
use uuid::Uuid;

/// The template and how to show it. An empty text stands for the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    /// The template.
    pub name: String,
    /// Language (BCP 47). Default: English, or the recipient's.
    pub lang: String,
    /// IANA name of a time zone. Default: that of the data, or the recipient's.
    pub zone: String,
    /// `TENANT/TYPE/USER`: the events of its open window are the data.
    pub key: String,
    /// The id of a JSON of one's own, which is the data.
    pub data: String,
    pub scheme: Scheme,
    pub width: Width,
    pub images: Images,
    pub part: Part,
    pub spam: Spam,
}

/// The answer to `prefers-color-scheme`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scheme {
    #[default]
    Light,
    Dark,
}

/// The width of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Width {
    #[default]
    Wide,
    /// 320 px.
    Narrow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Images {
    #[default]
    On,
    Off,
}

/// The part of the message that the page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    #[default]
    Html,
    Text,
    Source,
}

/// SpamAssassin runs only when asked for: it takes seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Spam {
    #[default]
    Off,
    On,
}

impl Wanted {
    /// The query of an address with this state. Defaults are left out.
    pub fn query(&self) -> String {
        let usual = fields(&Self::default());
        let fields = fields(self).into_iter().filter(|(name, value)| usual.get(name) != Some(value));
        let pairs = fields.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
        Serializer::new(String::new()).extend_pairs(pairs).finish()
    }
}

/// The text, unless it is empty.
pub(super) fn given(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

fn fields(wanted: &Wanted) -> Map<String, Value> {
    match json!(wanted) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The limit of one JSON in bytes.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// JSON that is kept; older ones are dropped.
const MOST: usize = 50;

/// The latest JSON of all pages, in memory.
#[derive(Default)]
pub(super) struct Kept(Mutex<VecDeque<(Uuid, Arc<str>)>>);

impl Kept {
    /// Keeps a JSON. The same text has the same id.
    pub fn put(&self, json: &str) -> Uuid {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, json.as_bytes());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != id);
        kept.push_front((id, json.into()));
        kept.truncate(MOST);
        id
    }

    /// The JSON with this id, if it is kept.
    pub fn get(&self, id: &str) -> Option<Arc<str>> {
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
        let wanted = Wanted {
            name: "müll & co".into(),
            lang: "pt-BR".into(),
            zone: "Europe/Berlin".into(),
            key: "acme/a%2Fb/ann+x".into(),
            data: "17".into(),
            scheme: Scheme::Dark,
            width: Width::Narrow,
            images: Images::Off,
            part: Part::Source,
            spam: Spam::On,
        };
        for wanted in [wanted, Wanted::default()] {
            let uri: Uri = format!("/template?{}", wanted.query()).parse().unwrap();
            assert_eq!(Query::<Wanted>::try_from_uri(&uri).unwrap().0, wanted);
        }
        assert_eq!(Wanted { name: "activity".into(), ..Wanted::default() }.query(), "name=activity");
    }

    #[test]
    fn the_latest_json_is_kept_under_its_id() {
        let kept = Kept::default();
        let first = kept.put("{}");
        assert_eq!(kept.get(&first.to_string()).as_deref(), Some("{}"));
        for n in 0..MOST - 1 {
            kept.put(&n.to_string());
        }
        assert_eq!(kept.put("{}"), first);
        kept.put("new");
        assert!(kept.get(&first.to_string()).is_some(), "it was put again");
        for n in 0..MOST {
            kept.put(&format!("x{n}"));
        }
        assert_eq!(kept.get(&first.to_string()), None);
        assert_eq!(kept.get("nonsense"), None);
    }
}
