//! The state of a page of the workshop: the template, its data and its looks. All of it is in the query of the page's address.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::form_urlencoded::Serializer;

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
}
