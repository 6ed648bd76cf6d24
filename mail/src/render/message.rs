//! Single messages from a template. The template receives `message`, the variables of the sender, `recipient` and `links`. Their
//! values are as clean as those of a digest (rule 22).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tera::Context;
use tidings_model::records::Recipient;

use super::{
    brand::Brand,
    clean, html, meter,
    renderer::{HTML_BYTES, Rendered, Renderer, SUBJECT_CHARS, broken},
    source::{Error, PARTS},
    view::{Links, Reader},
};
use crate::words::Phrases;

#[derive(Serialize)]
struct View<'a> {
    lang: &'a str,
    dir: &'static str,
    tenant: &'a str,
    brand: Brand,
    message: clean::Payload<'a>,
    recipient: Reader,
    links: Links,
}

/// The content of a `sample.json` of a single message's template.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    message: Map<String, Value>,
    recipient: Name,
    #[serde(default)]
    links: Links,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    user: String,
    name: String,
}

impl Sample {
    fn recipient(&self, tenant: &str) -> Recipient {
        Recipient {
            tenant: tenant.to_owned(),
            user: self.recipient.user.clone(),
            address: String::new(),
            name: self.recipient.name.clone(),
            zone: String::new(),
            locale: String::new(),
        }
    }
}

impl Renderer {
    /// Renders a single message in the language of `phrases`. The sender receives the error instead of a fallback.
    ///
    /// # Errors
    /// The template does not exist, it fails, or it renders an empty subject or [`HTML_BYTES`] of HTML.
    pub fn message(
        &self,
        template: &str,
        variables: &Map<String, Value>,
        recipient: &Recipient,
        links: &Links,
        brand: Brand,
        phrases: Phrases<'_>,
    ) -> Result<Rendered, Error> {
        if !self.sources.has(template) {
            return Err(Error::Unknown { name: template.to_owned(), names: self.names() });
        }
        let context = self.context(template, variables, recipient, links, brand, phrases)?;
        let wrong = |part: &str, problem: String| Error::Template { place: format!("{template}/{part}"), problem };
        meter::timed(|| {
            let subject = clean::subject(&self.part(template, PARTS[0], &context)?, SUBJECT_CHARS);
            if subject.is_empty() {
                return Err(wrong(PARTS[0], "it is empty".into()));
            }
            let html = self.html(template, &context)?;
            if html.len() >= HTML_BYTES {
                return Err(wrong(PARTS[1], format!("{} bytes; the limit is {HTML_BYTES}", html.len())));
            }
            let html = html::without_unsafe_links(html);
            let text = self.text(template, &context)?;
            Ok(Rendered { subject, html, text, template: template.to_owned(), fallback: None })
        })
    }

    /// What a template sees of a single message.
    fn context(
        &self,
        template: &str,
        variables: &Map<String, Value>,
        recipient: &Recipient,
        links: &Links,
        brand: Brand,
        phrases: Phrases<'_>,
    ) -> Result<Context, Error> {
        let text = |value: &str| clean::text(value, clean::NAME_CHARS).into_owned();
        let tenant = recipient.tenant.as_str();
        let recipient = Reader {
            user: text(&recipient.user),
            name: text(&recipient.name),
            locale: text(&recipient.locale),
            zone: text(&recipient.zone),
        };
        let (lang, dir) = (phrases.tag(), phrases.direction());
        let (message, links) = (clean::Payload(variables), links.safe());
        let seen = View { lang, dir, tenant, brand, message, recipient, links };
        Context::from_serialize(&seen).map_err(|error| broken(&error, None, &self.sources, template))
    }

    /// Renders `template` with this sample, for a tenant with these looks and words.
    pub(super) fn sample_message(
        &self,
        template: &str,
        sample: &Sample,
        tenant: &str,
        brand: Brand,
        phrases: Phrases<'_>,
    ) -> Result<Rendered, Error> {
        let recipient = sample.recipient(tenant);
        self.message(template, &sample.message, &recipient, &sample.links, brand, phrases)
    }

    /// What `template` sees of this sample.
    pub(super) fn sample_context(
        &self,
        template: &str,
        sample: &Sample,
        phrases: Phrases<'_>,
    ) -> Result<Context, Error> {
        self.context(template, &sample.message, &sample.recipient(""), &sample.links, Brand::default(), phrases)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::json;

    use super::{super::tests::to_ann, *};

    fn templates(folder: &Path, html: &str) -> Renderer {
        let own = folder.join("welcome");
        fs::create_dir_all(&own).unwrap();
        for (name, text) in [
            ("subject.txt", "Welcome, {{ recipient.name }}"),
            ("body.html", html),
            ("body.txt", "{{ message.title }}\n{{ message.url }}\n"),
            (
                "sample.json",
                r#"{"message": {"title": "Hi", "url": "https://a.example"}, "recipient": {"user": "ann", "name": "Ann"}}"#,
            ),
        ] {
            fs::write(own.join(name), text).unwrap();
        }
        Renderer::new(Some(folder)).unwrap()
    }

    #[test]
    fn values_of_a_message_are_cleaned_and_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let renderer = templates(folder.path(), "<p><a href=\"{{ message.url }}\">{{ message.title }}</a></p>");
        let variables = json!({"title": "<b>\u{202e}x</b>\r\nBcc: y", "url": "javascript:alert(1)"});
        let mail = to_ann(&renderer, "welcome", &variables, &Links::default(), "en").unwrap();
        assert_eq!((mail.subject.as_str(), mail.fallback), ("Welcome, Ann", None));
        assert!(
            mail.html.contains("&lt;b&gt;x&lt;/b&gt; Bcc: y") && !mail.html.contains("javascript"),
            "{}",
            mail.html
        );
    }

    #[test]
    fn a_message_shows_its_links_where_there_are_some() {
        let folder = tempfile::tempdir().unwrap();
        let html = "<p>Hi{% if links.unsubscribe_url %} <a href=\"{{ links.unsubscribe_url }}\">Unsubscribe</a>{% endif %}</p>";
        let renderer = templates(folder.path(), html);
        let variables = json!({"title": "x", "url": "https://a.example"});
        let shown = |url: Option<&str>| {
            let links = Links { unsubscribe_url: url.map(str::to_owned), ..Links::default() };
            to_ann(&renderer, "welcome", &variables, &links, "en").unwrap().html
        };
        assert_eq!(shown(None), "<p>Hi</p>");
        assert!(shown(Some("https://b.example/u/t")).contains("<a href=\"https://b.example/u/t\">"));
        assert_eq!(shown(Some("javascript:alert(1)")), "<p>Hi</p>");
    }

    #[test]
    fn a_message_speaks_the_language_of_its_reader() {
        let folder = tempfile::tempdir().unwrap();
        let html = "<p lang=\"{{ lang }}\" dir=\"{{ dir }}\">{{ t(id=\"unsubscribe\") }}: {{ 1204 | number }}</p>";
        let renderer = templates(folder.path(), html);
        let variables = json!({"title": "x", "url": "https://a.example"});
        let shown = |tag: &str| to_ann(&renderer, "welcome", &variables, &Links::default(), tag).unwrap().html;
        assert_eq!(shown("de-AT").replace('\u{a0}', " "), "<p lang=\"de-AT\" dir=\"ltr\">Abmelden: 1 204</p>");
        assert_eq!(shown("xx"), "<p lang=\"en\" dir=\"ltr\">Unsubscribe: 1,204</p>");
    }

    #[test]
    fn a_variable_that_is_missing_is_an_error_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let renderer = templates(folder.path(), "<p>{{ message.title }}</p>");
        let fails = |name: &str| to_ann(&renderer, name, &json!({}), &Links::default(), "en").err().unwrap();
        let error = fails("welcome");
        assert!(error.to_string().contains("welcome/body.html:1"), "{error}");
        let unknown = fails("nothing");
        assert!(unknown.to_string().contains("there are: activity"), "{unknown}");
    }

    #[test]
    fn a_template_of_single_messages_is_checked_with_its_own_sample() {
        let folder = tempfile::tempdir().unwrap();
        let renderer = templates(folder.path(), "<p>{{ message.title }}</p>");
        assert_eq!(renderer.check(), []);
        assert_eq!(renderer.preview("welcome", None).unwrap().text, "Hi\nhttps://a.example/\n");
        let renderer = templates(folder.path(), "<p>{{ message.titel }}</p>");
        assert_eq!(renderer.check().len(), 1);
    }
}
