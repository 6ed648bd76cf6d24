//! Names of digest types and categories in messages.

use super::*;

/// The text in this language for a digest type with this title, and a line under the heading "Changes".
fn text(renderer: &TemplateRenderer, language: &str, title: Option<&str>) -> String {
    let section = Some(settings::SectionHeading::new("change", "Changes"));
    let lines = vec![DigestLine { section, ..group(1, &json!({"title": "a"})) }];
    let view = shown(lines, 0, title, renderer.phrases([language]));
    renderer.render("activity", &view).unwrap().text
}

#[test]
fn a_language_says_the_names_of_digest_types_and_categories() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("words")).unwrap();
    fs::write(folder.path().join("words/de.ftl"), "category_change = Änderungen\ndigest_activity = Aktivität\n")
        .unwrap();
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    for (language, title, names) in [
        ("de", Some("News"), ["== Änderungen ==", "„Aktivität“"]),
        ("de-AT", None, ["== Änderungen ==", "„Aktivität“"]),
        ("fr", Some("News"), ["== Changes ==", "«\u{a0}News\u{a0}»"]),
        ("en", Some("News"), ["== Changes ==", "the News digest"]),
        ("en", None, ["== Changes ==", "the activity digest"]),
    ] {
        let text = text(&renderer, language, title).replace('\n', " ");
        assert!(names.iter().all(|name| text.contains(name)), "{language}, {title:?}: {text}");
    }
}
