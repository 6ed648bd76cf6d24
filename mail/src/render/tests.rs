//! A snapshot per shipped template, and rules for any digest.

use std::{fs, path::Path, sync::LazyLock};

use jiff::{Timestamp, tz::TimeZone};
use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_model::{
    Key,
    records::{DigestContents, DigestLine, LineItem, Recipient},
    settings,
    window::Window,
};
use uuid::Uuid;

use super::{meter::escape, *};
use crate::words::Phrases;

mod bounds;
mod brand;
mod items;
mod message;
mod names;
mod window;

static RENDERER: LazyLock<TemplateRenderer> = LazyLock::new(|| TemplateRenderer::new(None).unwrap());

fn renderer() -> &'static TemplateRenderer {
    &RENDERER
}

fn languages() -> Vec<String> {
    renderer().words.catalogues().map(|catalogue| catalogue.tag.to_string()).collect()
}

fn item(count: u64, payload: &Value) -> LineItem {
    let at = "2025-02-03T07:41:10Z".parse().unwrap();
    LineItem { count, at, actor: "Ann".into(), payload: payload.as_object().unwrap().clone() }
}

fn group(count: u64, payload: &Value) -> DigestLine {
    let latest = item(1, payload);
    let at = latest.at;
    DigestLine {
        category: "change".into(),
        section: None,
        entity_type: "area".into(),
        entity_id: "docs".into(),
        count,
        counts: [("files".to_owned(), 3)].into(),
        first_at: at,
        last_at: at,
        actor_count: 1,
        actors: vec!["Ann".into()],
        latest: vec![latest],
    }
}

fn view(lines: Vec<DigestLine>, unseen_lines: u64) -> TemplateView {
    spoken(lines, unseen_lines, "en")
}

fn spoken(lines: Vec<DigestLine>, unseen_lines: u64, language: &str) -> TemplateView {
    shown(lines, unseen_lines, None, renderer().phrases([language]))
}

/// A digest of the type `activity` with this title.
fn shown(lines: Vec<DigestLine>, unseen_lines: u64, title: Option<&str>, phrases: Phrases<'_>) -> TemplateView {
    let items = lines.iter().map(|group| group.count).sum::<u64>() + unseen_lines;
    let groups = u64::try_from(lines.len()).unwrap() + unseen_lines;
    let contents =
        DigestContents { claimed_at: None, items, line_count: groups, counts: [("files".to_owned(), 9)].into(), lines };
    let recipient = Recipient {
        tenant: "acme".into(),
        user: "ann".into(),
        address: "ann@example.com".into(),
        name: "Ann\r\nBcc: eve".into(),
        zone: String::new(),
        locale: String::new(),
    };
    let window = Window {
        key: Key::new("acme".into(), "activity".into(), "ann".into()).unwrap(),
        digest_id: Uuid::nil(),
        opened_at: "2025-02-03T07:00:00Z".parse().unwrap(),
        due_at: "2025-02-03T08:00:00Z".parse().unwrap(),
    };
    TemplateView::new(&ViewInput {
        contents: &contents,
        window: &window,
        recipient: &recipient,
        zone: &TimeZone::get("Asia/Kathmandu").unwrap(),
        title,
        cadence: "hourly",
        links: &ViewLinks { more_url: Some("javascript:more".into()), ..ViewLinks::default() },
        brand: &settings::TenantBrand::default(),
        phrases,
    })
}

pub(super) fn to_ann(
    renderer: &TemplateRenderer,
    template: &str,
    variables: &Value,
    links: &ViewLinks,
    tag: &str,
) -> Result<RenderedEmail, TemplateError> {
    let ann = Recipient {
        tenant: "acme".into(),
        user: "ann".into(),
        address: "ann@example.net".into(),
        name: "Ann".into(),
        zone: String::new(),
        locale: String::new(),
    };
    let variables = variables.as_object().unwrap();
    renderer.render_message(template, variables, &ann, links, BrandView::default(), renderer.phrases([tag]))
}

#[test]
fn every_shipped_template_matches_its_snapshot() {
    let renderer = renderer();
    assert_eq!(renderer.names(), ["activity", "alerts", "default", "review", "summary"]);
    for name in renderer.names() {
        let mail = renderer.preview(&name, None).unwrap();
        insta::assert_snapshot!(format!("{name}_subject"), mail.subject);
        insta::assert_snapshot!(format!("{name}_html"), mail.html);
        insta::assert_snapshot!(format!("{name}_text"), mail.text);
    }
}

#[test]
fn every_shipped_template_matches_its_snapshot_in_each_language() {
    assert_eq!(languages(), ["ar", "de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt-BR", "sv", "zh-Hans"]);
    for language in languages() {
        for name in renderer().names() {
            let RenderedEmail { subject, html, text, .. } = renderer().preview(&name, Some(&language)).unwrap();
            let head: Vec<_> =
                html.lines().filter(|line| line.starts_with("<html ") || line.starts_with("<title>")).collect();
            insta::assert_snapshot!(format!("{name}_{language}"), format!("{subject}\n{}\n{text}", head.join("\n")));
        }
    }
    insta::assert_snapshot!("alerts_ar_html", renderer().preview("alerts", Some("ar")).unwrap().html);
}

#[test]
fn fifty_groups_fit_in_each_language() {
    let payload = json!({
        "title": "Make the connection owned in the locked database struct",
        "url": "https://git.example.com/acme/auth/commit/e46cd724",
        "excerpt": "Every step of the migration now has a span of its own, so that a slow table is told from a slow link.",
    });
    for language in languages() {
        let view = spoken(vec![group(1_204, &payload); 50], 0, &language);
        let mail = renderer().render("activity", &view).unwrap();
        assert!(mail.html.len() < HTML_BYTES, "{language}: {}", mail.html.len());
        let shown = mail.text.lines().filter(|line| line.starts_with("* ")).count();
        assert_eq!((shown, mail.fallback), (50, None), "{language}");
    }
}

#[test]
fn subject_and_headline_say_the_same() {
    for (name, language) in renderer().names().into_iter().zip(["en", "ar", "de", "ar", "pl"]) {
        let mail = renderer().preview(&name, Some(language)).unwrap();
        let mut escaped = Vec::new();
        escape(&mail.subject, &mut escaped).unwrap();
        let headline = format!(">{}</h1>", String::from_utf8(escaped).unwrap());
        assert!(mail.html.contains(&headline) && mail.text.starts_with(&wrap::wrap_text(&mail.subject)), "{name}");
    }
}

#[test]
fn a_value_of_the_other_direction_is_isolated() {
    let payload = json!({"title": "عنوان (1)"});
    let mail = renderer().render("activity", &spoken(vec![group(1, &payload)], 0, "ar")).unwrap();
    assert_eq!(mail.subject, "\u{200f}\u{2068}docs\u{2069}: \u{2068}\u{2068}عنوان (1)\u{2069}\u{2069}");
    assert!(mail.html.contains("<html lang=\"ar\" dir=\"rtl\">"), "{}", mail.html);
}

#[test]
fn every_shipped_template_works_without_optional_values() {
    assert_eq!(renderer().check_all(), []);
}

#[test]
fn hostile_values_are_escaped_and_their_links_removed() {
    let hostile = json!({
        "title": "<script>alert(1)</script>\r\n* Forged line\u{202e}gpj.exe",
        "url": "javascript:alert(1)",
        "excerpt": "' onclick='x\" onload=\"y` שלום 👩🏽‍💻",
    });
    let huge = json!({"title": "🦀".repeat(4_000), "url": "data:text/html,x"});
    let right_to_left = json!({"title": "عنوان (1)", "url": "https://example.com/\"><script>"});
    let view = view(vec![group(2, &hostile), group(1, &huge), group(1, &right_to_left)], 4);
    let mail = renderer().render("activity", &view).unwrap();
    assert_eq!(mail.fallback, None);
    insta::assert_snapshot!("hostile_subject", mail.subject);
    insta::assert_snapshot!("hostile_html", mail.html);
    insta::assert_snapshot!("hostile_text", mail.text);
    for forbidden in ["<script", "javascript:", "data:", "\u{202e}", "ann@example.com"] {
        assert!(!mail.html.contains(forbidden), "{forbidden}");
    }
    assert!(!mail.text.lines().any(|line| line.starts_with("* Forged")));
    assert_eq!(html::find_unbalanced(&mail.html), None);
}

#[test]
fn a_right_to_left_title_keeps_its_own_direction() {
    let mail = renderer().render("activity", &view(vec![group(1, &json!({"title": "عنوان (1)"}))], 0)).unwrap();
    assert_eq!(mail.subject, "docs: \u{2068}عنوان (1)\u{2069}");
    assert!(mail.html.contains("<span dir=\"auto\">عنوان (1)</span>"));
}

#[test]
fn the_subject_of_an_activity_says_what_happened_and_where() {
    let at = |entity_type: &str, entity_id: &str, count| DigestLine {
        entity_type: entity_type.into(),
        entity_id: entity_id.into(),
        ..group(count, &json!({"title": "Better tracing"}))
    };
    let cli = || at("area", "crates/cli", 12);
    let fixes = DigestLine { category: "fix".into(), ..at("area", "crates/cli", 2) };
    let table = [
        (vec![at("area", "docs", 1)], 0, "docs: Better tracing"),
        (vec![at("", "", 1)], 0, "Better tracing"),
        (vec![cli()], 0, "12 changes in crates/cli"),
        (vec![cli(), at("area", "docs", 1)], 0, "12 changes in crates/cli, 2 areas in all"),
        (vec![cli(), at("area", "docs", 3), at("area", "frontend", 1)], 0, "12 changes in crates/cli, 3 areas in all"),
        (vec![cli(), fixes], 0, "12 changes in crates/cli and 2 more updates"),
        (vec![cli(), at("build", "812", 1)], 0, "12 changes in crates/cli and 1 more update"),
        (vec![cli()], 1_200, "12 changes in crates/cli and 1,200 more updates"),
        (vec![], 3, "3 updates"),
    ];
    for (lines, unseen, subject) in table {
        assert_eq!(renderer().render("activity", &view(lines, unseen)).unwrap().subject, subject);
    }
}

#[test]
fn a_subject_from_a_long_title_is_one_line_of_limited_length() {
    let lines = vec![group(1, &json!({"title": "ä\n".repeat(8_000)}))];
    let mail = renderer().render("activity", &view(lines, 0)).unwrap();
    assert_eq!(mail.subject.lines().count(), 1);
    assert!(mail.subject.chars().count() <= SUBJECT_CHARS && mail.subject.ends_with('…'), "{}", mail.subject);
}

#[test]
fn the_size_limit_cuts_lines_and_never_the_footer() {
    let payload = json!({"title": "<".repeat(200), "excerpt": "\"".repeat(300), "url": "https://a.example/"});
    let view = view(vec![group(3, &payload); 50], 7);
    let mail = renderer().render("activity", &view).unwrap();
    assert_eq!(mail.fallback, None);
    assert!(mail.html.len() < HTML_BYTES && mail.html.len() > HTML_BYTES - 5_000, "{}", mail.html.len());
    let shown = mail.text.lines().filter(|line| line.starts_with("* ")).count();
    assert!(shown < 50);
    let more = format!("and {} more", 157 - 3 * shown);
    assert!(mail.html.contains(&more) && mail.text.contains(&more), "{more}");
    assert!(mail.html.contains("you get this email because") && mail.html.ends_with("</html>\n"));
}

#[test]
fn a_missing_template_falls_back_to_default_and_says_why() {
    let mail = renderer().render("invoices", &view(vec![group(1, &json!({}))], 0)).unwrap();
    assert_eq!(mail.template, "default");
    assert_eq!(
        mail.fallback.unwrap(),
        r#"unknown template "invoices"; available: activity, alerts, default, review, summary"#
    );
}

/// A folder with the digest type `custom`, with `html` as its HTML.
fn folder(html: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let custom = folder.path().join("custom");
    fs::create_dir(&custom).unwrap();
    fs::write(custom.join("subject.txt"), "{{ digest.item_count }}").unwrap();
    fs::write(custom.join("body.txt"), "{{ digest.item_count }}").unwrap();
    fs::write(custom.join("body.html"), html).unwrap();
    folder
}

#[test]
fn a_template_that_fails_at_run_time_falls_back_with_its_line() {
    let folder = folder("<p>\n{{ digest.lines[0].payload.price }}</p>");
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    let mail = renderer.render("custom", &view(vec![group(1, &json!({"price": 3}))], 0)).unwrap();
    assert_eq!((mail.html.as_str(), mail.fallback), ("<p>\n3</p>", None));
    let mail = renderer.render("custom", &view(vec![group(1, &json!({}))], 0)).unwrap();
    let why = mail.fallback.unwrap();
    assert_eq!(mail.template, "default");
    assert!(why.contains("custom/body.html:2: ") && why.contains("price"), "{why}");
}

#[test]
fn a_template_with_a_former_variable_is_refused_with_todays() {
    for (html, problem) in [
        ("<p>\n{% if not digest.groups %}nothing{% endif %}</p>", ":2: digest.groups is called digest.lines now"),
        ("{{ digest.group_count }}", ":1: digest.group_count is called digest.line_count now"),
        ("{{ digest.more.groups }}", ":1: digest.more.groups is called digest.more.lines now"),
    ] {
        let error = TemplateRenderer::new(Some(folder(html).path())).err().unwrap().to_string();
        assert!(error.contains("custom/body.html") && error.contains(problem), "{error}");
    }
    assert!(TemplateRenderer::new(Some(folder("{{ digest.groups_of_people }}").path())).is_ok());
}

#[test]
fn a_broken_template_is_refused_with_file_line_and_problem() {
    let folder = folder("<p>\n\n{% if digest.lines %}</p>");
    let error = TemplateRenderer::new(Some(folder.path())).err().unwrap().to_string();
    assert!(error.contains("custom/body.html:3: "), "{error}");
    fs::remove_file(folder.path().join("custom/body.html")).unwrap();
    let error = TemplateRenderer::new(Some(folder.path())).err().unwrap().to_string();
    assert!(error.contains("custom/body.html"), "{error}");
}

#[test]
fn a_folder_overrides_a_part_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("activity")).unwrap();
    fs::write(folder.path().join("activity/body.txt"), "News\n").unwrap();
    let mail = TemplateRenderer::new(Some(folder.path())).unwrap().preview("activity", None).unwrap();
    assert_eq!(mail.text, "News\n");
    assert_eq!(mail.html, renderer().preview("activity", None).unwrap().html);
}

#[test]
fn a_template_of_the_folder_cannot_let_a_value_out_unescaped() {
    let line = group(1, &json!({"site": "javascript:x", "note": "' onclick='x"}));
    let view = view(vec![line], 0);
    let made = |html: &str| TemplateRenderer::new(Some(folder(html).path())).unwrap().render("custom", &view).unwrap();
    let mail = made("{% set p = digest.lines[0].payload %}<a href='{{ p.site }}' title='{{ p.note }}'>x</a>");
    assert_eq!(mail.html, "<a href='#' title='&#39; onclick=&#39;x'>x</a>");
    let mail = made("{{ digest.lines[0].payload.note | safe }}");
    assert!(mail.fallback.unwrap().contains("`safe` is not available"));
    let mail = made("{% if digest.lines[0].payload.site | safe_url %}link{% else %}none{% endif %}");
    assert_eq!(mail.html, "none");
}

#[test]
fn check_names_what_is_wrong_with_a_template() {
    let folder = folder("<table><p>{{ digest.lines[0].url }}</table>");
    let problems = |folder: &Path| TemplateRenderer::new(Some(folder)).unwrap().check_all();
    assert_eq!(problems(folder.path())[0].to_string(), "custom: custom/sample.json: there is no sample");
    fs::write(folder.path().join("custom/sample.json"), include_str!("../../../templates/activity/sample.json"))
        .unwrap();
    let found: Vec<_> = problems(folder.path()).into_iter().map(|problem| problem.to_string()).collect();
    assert!(found[0].contains("</table> closes nothing"), "{found:?}");
    // The barest digest has no groups.
    assert!(found[1].contains("custom/body.html:1: "), "{found:?}");
}

fn any_group() -> impl Strategy<Value = DigestLine> {
    let payload = ("\\PC{0,400}|<script>x</script>", "\\PC{0,500}", "https://[a-z]{1,9}/.{0,99}|javascript:[a-z]{1,9}");
    let items = prop::collection::vec((1_u64..4, payload), 1..4);
    // The test counts the items by their asterisks, so no entity has one.
    (1_u64..2_000, items, "[^*\n]{0,60}", -5_i64..5).prop_map(|(count, items, entity, sum)| {
        let payload =
            |(title, excerpt, url)| json!({"title": format!("({count}) {title}"), "excerpt": excerpt, "url": url});
        let latest: Vec<_> = items.into_iter().map(|(times, said)| item(times, &payload(said))).collect();
        let count = count + latest.iter().map(|item| item.count).sum::<u64>();
        DigestLine {
            entity_id: entity,
            counts: [("failed".to_owned(), sum)].into(),
            latest,
            ..group(count, &json!({}))
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_digest_fits_is_escaped_and_renders_the_same_twice(
        lines in prop::collection::vec(any_group(), 1..60), unseen in 0_u64..9, alerts in any::<bool>(),
        language in prop::sample::select(languages()),
    ) {
        let view = spoken(lines, unseen, &language);
        let name = if alerts { "alerts" } else { "activity" };
        let renderer = renderer();
        let mail = renderer.render(name, &view).unwrap();
        prop_assert_eq!(&mail.fallback, &None);
        prop_assert!(mail.html.len() < HTML_BYTES);
        prop_assert!(!mail.html.contains("<script") && !mail.html.contains("javascript:"));
        prop_assert_eq!(html::find_unbalanced(&mail.html), None);
        prop_assert_eq!(mail.subject.lines().count(), 1);

        let shown = mail.text.lines().filter(|line| line.starts_with("* ")).count();
        let shown = &view.digest.lines[..shown];
        let field = |line: &tera::Value, name: &str| line.get_from_path(name).cloned().unwrap();
        for line in shown {
            let latest = &view::items_of(line)[0];
            let (title, times) = (field(latest, "title").to_string(), field(latest, "count").as_u64().unwrap());
            let times = if times > 1 { format!("{times} × ") } else { String::new() };
            prop_assert!(mail.text.contains(&wrap::wrap_text(&format!("\n* {times}{title}\n"))), "{title}");
            let mut escaped = Vec::new();
            escape(&title, &mut escaped).unwrap();
            prop_assert!(mail.html.contains(std::str::from_utf8(&escaped).unwrap()));
        }
        let hidden = view.digest.item_count - shown.iter().map(|line| field(line, "count").as_u64().unwrap()).sum::<u64>();
        let more = renderer.phrases([&*language]).message_with("and_more", [("count", hidden.into())]);
        prop_assert!(hidden == 0 || mail.html.contains(&more));
        prop_assert!(hidden == 0 || mail.text.contains(&more));
        let again = renderer.render(name, &view).unwrap();
        prop_assert!(mail == again);
    }
}
