//! Single messages: template variables and checks.

use std::{fs, path::Path};

use serde_json::json;

use super::*;

fn templates(folder: &Path, html: &str) -> TemplateRenderer {
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
    TemplateRenderer::new(Some(folder)).unwrap()
}

#[test]
fn values_of_a_message_are_cleaned_and_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let renderer = templates(folder.path(), "<p><a href=\"{{ message.url }}\">{{ message.title }}</a></p>");
    let variables = json!({"title": "<b>\u{202e}x</b>\r\nBcc: y", "url": "javascript:alert(1)"});
    let mail = to_ann(&renderer, "welcome", &variables, &ViewLinks::default(), "en").unwrap();
    assert_eq!((mail.subject.as_str(), mail.fallback), ("Welcome, Ann", None));
    assert!(mail.html.contains("&lt;b&gt;x&lt;/b&gt; Bcc: y") && !mail.html.contains("javascript"), "{}", mail.html);
}

#[test]
fn a_message_shows_its_links_where_there_are_some() {
    let folder = tempfile::tempdir().unwrap();
    let html =
        "<p>Hi{% if links.unsubscribe_url %} <a href=\"{{ links.unsubscribe_url }}\">Unsubscribe</a>{% endif %}</p>";
    let renderer = templates(folder.path(), html);
    let variables = json!({"title": "x", "url": "https://a.example"});
    let shown = |url: Option<&str>| {
        let links = ViewLinks { unsubscribe_url: url.map(str::to_owned), ..ViewLinks::default() };
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
    let shown = |tag: &str| to_ann(&renderer, "welcome", &variables, &ViewLinks::default(), tag).unwrap().html;
    assert_eq!(shown("de-AT").replace('\u{a0}', " "), "<p lang=\"de-AT\" dir=\"ltr\">Abmelden: 1 204</p>");
    assert_eq!(shown("xx"), "<p lang=\"en\" dir=\"ltr\">Unsubscribe: 1,204</p>");
}

#[test]
fn a_variable_that_is_missing_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let renderer = templates(folder.path(), "<p>{{ message.title }}</p>");
    let fails = |name: &str| to_ann(&renderer, name, &json!({}), &ViewLinks::default(), "en").err().unwrap();
    let error = fails("welcome");
    assert!(error.to_string().contains("welcome/body.html:1"), "{error}");
    let unknown = fails("nothing");
    assert!(unknown.to_string().contains("available: activity"), "{unknown}");
}

#[test]
fn a_template_of_single_messages_is_checked_with_its_own_sample() {
    let folder = tempfile::tempdir().unwrap();
    let renderer = templates(folder.path(), "<p>{{ message.title }}</p>");
    assert_eq!(renderer.check_all(), []);
    assert_eq!(renderer.preview("welcome", None).unwrap().text, "Hi\nhttps://a.example/\n");
    let renderer = templates(folder.path(), "<p>{{ message.titel }}</p>");
    assert_eq!(renderer.check_all().len(), 1);
}
