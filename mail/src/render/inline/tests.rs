//! Styles in messages, and what `template check` reports about them.

use std::{collections::BTreeMap, fs, path::Path};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::render::{TemplateRenderer, ViewLinks, source::PARTS, tests::to_ann};

/// The HTML of a message with only the team's own styles.
fn one(html: &str) -> String {
    inline_styles(mark_styles(html).unwrap_or_else(|| html.to_owned()))
}

/// The findings of `template check` for a message's only file, with lines.
fn check(source: &str) -> Vec<String> {
    let remarks = style_warnings(source, &overridden_rules(&mark_styles(source).unwrap())).into_iter();
    let line = |at: usize| 1 + source[..at].matches('\n').count();
    remarks.map(|TemplateWarning { at, text }| format!("a/body.html:{} {text}", line(at))).collect()
}

#[test]
fn a_rule_goes_into_the_elements_that_it_matches() {
    for (source, expected) in [
        ("<style>p{color:red}</style><p>a</p>", "<p style=\"color:red\">a</p>"),
        ("<style>.a{top:0}</style><p CLASS='b a'><br></p>", "<p style=\"top:0\" CLASS='b a'><br></p>"),
        (
            "<style>#x > b{top:0}</style><p id=x><b></b><i><b></b></i></p>",
            "<p id=x><b style=\"top:0\"></b><i><b></b></i></p>",
        ),
        (
            "<style>.a b, i{top:0}</style><p class=a><u><b></b></u></p><i></i>",
            "<p class=a><u><b style=\"top:0\"></b></u></p><i style=\"top:0\"></i>",
        ),
        (
            "<style>td{font-family:\"A B\"}</style><table><tr><td style='x:y'></td></table>",
            "<table><tr><td style='font-family:\"A B\";x:y'></td></table>",
        ),
        (
            "<style>td{font-family:\"A B\"}</style><table><tr><td></td></table>",
            "<table><tr><td style=\"font-family:'A B'\"></td></table>",
        ),
        (
            "<style>td{top:0}</style><table><tr><td style=left:0><td style=\"\"><td style></table>",
            "<table><tr><td style=\"top:0;left:0\"><td style=\"top:0\"><td style=\"top:0\"></table>",
        ),
    ] {
        assert_eq!(one(source), expected);
    }
}

#[test]
fn the_stronger_declaration_wins_as_css_says() {
    for (css, expected) in [
        (".a{color:red} p{color:blue}", "color:red"),
        ("p{color:red} p{color:blue}", "color:blue"),
        ("p{color:red !important} #x.a{color:blue}", "color:red !important"),
        ("p{color:red!important} .a{color:blue ! IMPORTANT}", "color:blue !important"),
        (".a{padding:1px} .b{padding-left:5px} .c{padding:2px}", "padding-left:5px;padding:2px"),
        ("p{width:10px;width:calc(1px + 2px)}", "width:10px;width:calc(1px + 2px)"),
        ("p, .a{top:0} p{top:1px}", "top:0"),
    ] {
        let source = format!("<style>{css}</style><p class=\"a b c\" id=x>");
        assert_eq!(one(&source), format!("<p style=\"{expected}\" class=\"a b c\" id=x>"), "{css}");
    }
    let explicit = one("<style>p{color:red;top:0 !important}</style><p style=\"color:{{ c }}\">");
    assert_eq!(explicit, "<p style=\"color:red;top:0 !important;color:{{ c }}\">");
}

#[test]
fn conditions_states_and_fonts_stay_in_the_style_element() {
    let source = "<style>\n/* Mine */\na{color:red}\na:hover{color:blue;top:0}\n@font-face{src:url(x)}\n\
                  @media (max-width:480px){ a{color:green} b{color:green} }\n@media print { a{color:#000 !important} }\n\
                  td::before{color:red}\n</style><a></a><b></b><td></td>";
    let expected = source.replacen("a{color:red}\n", "\n", 1).replace("<a>", "<a style=\"color:red\">");
    assert_eq!(one(source), expected);
    let weak = |line: usize, rule: &str| {
        format!("a/body.html:{line} `{rule}` needs `!important` for `color`: the inlined styles are stronger")
    };
    assert_eq!(check(source), [weak(4, "a:hover"), weak(6, "a")]);
    let mixed = "<style>p,a:hover{top:0}</style><p></p><a></a>";
    assert_eq!((one(mixed).contains("<p style"), check(mixed).len()), (true, 0));
}

#[test]
fn a_style_element_for_print_stays() {
    let source = "<style media=\"print\">p{top:0}</style><style media=all></style><p>";
    assert_eq!(one(source), source);
}

#[test]
fn a_rule_without_elements_stays_for_a_client_that_adds_one() {
    let source = "<style>.ExternalClass{width:100%}\n#outlook a{padding:0}</style><p>";
    assert_eq!((one(source).as_str(), check(source).len()), (source, 0));
}

#[test]
fn a_rule_with_rules_inside_and_a_rule_for_the_root_stay_with_a_remark() {
    for (css, html, reason) in [
        ("p{color:red;&:hover{top:0}}", "<p>", "it has rules inside"),
        (":root{--x:red}", "<p>", "its selector asks for more than elements, classes and ids"),
    ] {
        let source = format!("<style>{css}</style>{html}");
        let rule = css.split_once(['{', ';']).unwrap().0;
        assert_eq!(check(&source), [format!("a/body.html:1 `{rule}` stays in <style>: {reason}")], "{source}");
        assert_eq!(one(&source), source);
    }
}

#[test]
fn a_message_decides_what_its_template_does_not() {
    for (css, html, expected) in [
        (".a{top:0}", "<p class=\"{% if true %}a{% endif %}\">", "<p style=\"top:0\" class=\"a\">"),
        (".a-b{top:0}", "<p class=\"a-{{ 'b' }}\">", "<p style=\"top:0\" class=\"a-b\">"),
        ("h3{top:0}", "{% set level = \"h3\" %}<{{ level }}>x</{{ level }}>", "<h3 style=\"top:0\">x</h3>"),
        ("p{top:{{ 1 }}px}", "<p>", "<p style=\"top:1px\">"),
        (".{{ 'a' }}{top:0}", "<p class=a>", "<p style=\"top:0\" class=a>"),
        ("p:first-child{top:0}", "<p>", "<p style=\"top:0\">"),
        ("p[title]{top:0}", "<p title=x>", "<p style=\"top:0\" title=x>"),
        ("i b{top:0}", "{% if true %}<i>{% endif %}<b></b></i>", "<i><b style=\"top:0\"></b></i>"),
        ("b:empty{top:0}", "<b><!-- --></b><b>x</b>", "<b style=\"top:0\"><!-- --></b><b>x</b>"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let html = format!("{{% if true %}}<style>{css}</style>{{% endif %}}{html}");
        write(
            folder.path(),
            &[("welcome/subject.txt", "Hi"), ("welcome/body.html", &html), ("welcome/body.txt", "Hi")],
        );
        let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
        let sent = to_ann(&renderer, "welcome", &json!({}), &ViewLinks::default(), "en").unwrap().html;
        assert_eq!(sent, expected, "{html}");
    }
}

#[test]
fn only_styles_change() {
    let html = "<!doctype html><html><body><![if !mso]><p title='&lt;b&gt;'>a&nbsp;b</p><![endif]>\
                <!--[if mso]><style>p{top:0}</style><table><tr><td><![endif]--><div style=\"display:none;mso-hide:all\">&#847;</div>\
                <TABLE><tr><td>x</td></tr></TABLE><a href=\"?a=1&b=2\" style=\"x\">l</a></body></html>";
    let css = "@import url(x);div{max-height:0}td{top:0}a{font-family:\"A's\"}\n@media(prefers-color-scheme:dark){td{top:1px!important}}";
    let expected = html
        .replace("\"display:", "\"max-height:0;display:")
        .replace("<tr><td>x", "<tr><td style=\"top:0\">x")
        .replace("style=\"x\"", "style=\"font-family:&quot;A's&quot;;x\"");
    let kept = "<style>@import url(x);\n@media(prefers-color-scheme:dark){td{top:1px!important}}</style>";
    assert_eq!(one(&format!("<style>{css}</style>{html}")), format!("{kept}{expected}"));
    let shipped =
        format!("<style>td{{left:0}}</style>{}{html}", mark_styles(&format!("<style>{css}</style>")).unwrap());
    assert_eq!(inline_styles(shipped), format!("<style>td{{left:0}}</style>{kept}{expected}"));
}

#[test]
fn elements_that_a_parser_would_repair_keep_their_style_element() {
    let deep = format!("<style>b{{top:0}}</style>{}{}", "<b>".repeat(30_000), "</b>".repeat(30_000));
    let copied = format!("<style>b{{top:0}}</style>{}", "<p><b class=x></p>".repeat(1_000));
    for html in [deep.as_str(), copied.as_str(), "<style>b{top:0}</style><b>", "<style>b{top:0}</style></i><b></b>"] {
        assert_eq!(one(html), html);
    }
}

#[test]
fn a_style_overrides_what_is_weaker_in_each_message() {
    let source =
        "<style>td{color:black;padding:8px}.bad{color:red}</style><table><tr><td class=\"bad\"></td><td></td></table>";
    let expected = "<table><tr><td style=\"padding:8px;color:red\" class=\"bad\"></td><td style=\"color:black;padding:8px\"></td></table>";
    assert_eq!(one(source), expected);
    let boiler = "<style>a{color:red}a[x-apple-data-detectors]{color:inherit !important}</style><a></a>";
    assert!(one(boiler).ends_with("<a style=\"color:red\"></a>"), "{}", one(boiler));
}

#[test]
fn the_styles_of_a_layout_and_its_children_apply_to_both() {
    let folder = tempfile::tempdir().unwrap();
    let layout = "<style>td{top:0}.lead{color:red}</style><table><tr><td>{% block a %}{% endblock %}</td></tr></table>";
    let child = "{% extends \"page.html\" %}{% block a %}<style>.lead{color:blue}td i{left:0}</style><p class=\"lead\"><i></i></p>{% endblock %}";
    let other =
        "{% extends \"page.html\" %}{% block a %}<p class=\"lead\"></p>{% include \"foot.html\" %}{% endblock %}";
    write(folder.path(), &[("foot.html", "<b></b>"), ("page.html", layout)]);
    for (name, html) in [("a", child), ("b", other)] {
        let [subject, body, text] = PARTS.map(|part| format!("{name}/{part}"));
        write(folder.path(), &[(&subject, "Hi"), (&body, html), (&text, "Hi")]);
    }
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    let message = |name: &str| to_ann(&renderer, name, &json!({}), &ViewLinks::default(), "en").unwrap().html;
    let table = |inside: &str| format!("<table><tr><td style=\"top:0\">{inside}</td></tr></table>");
    assert_eq!(message("a"), table("<p style=\"color:blue\" class=\"lead\"><i style=\"left:0\"></i></p>"));
    assert_eq!(message("b"), table("<p style=\"color:red\" class=\"lead\"></p><b></b>"));
    assert!(!renderer.warnings().iter().any(|warning| warning.problem.contains("<style>")));
}

/// A table with conditions between its rows; an HTML parser would move these before the table.
const TABLE: &str = r#"<!doctype html>
<html lang="{{ lang }}">
<head>
<title>{{ subject }}</title>
<style>
  body { margin: 0; font-family: "Segoe UI", sans-serif }
  table.items td { padding: 8px; border-top: 1px solid #ddd }
  .late { color: #b00 !important }
  @media (max-width: 480px) {
    .items td { padding: 4px !important }
  }
</style>
<!--[if mso]><style>td { font-family: Arial }</style><![endif]-->
</head>
<body>
<table class="items">
{%- for line in digest.lines %}
<tr>
{%- if line.count > 1 %}
<td style="width:{{ 10 * 2 }}px">{{ line.count }}</td>
{%- else %}
<td class="late">1</td>
{%- endif %}
<td>{% if line.url %}<a href="{{ line.url }}" title="a > b">{{ line.title }}</a>{% else %}{{ line.title }}{% endif %}</td></tr>
{# </table> #}
{%- endfor %}
</table>
</body>
</html>
"#;

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn a_message_has_the_styles_of_its_template_inline() {
    let folder = tempfile::tempdir().unwrap();
    let html = "<style>.sum{color:#123456}\n.sum:hover{color:red !important}</style>\n<p class=\"sum\">{{ message.title }}</p>{{ message.nothing }}";
    let files = [
        ("welcome/subject.txt", "Hi"),
        ("welcome/body.html", html),
        ("welcome/body.txt", "Hi"),
        ("activity/body.html", TABLE),
    ];
    write(folder.path(), &files);
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    let digest = renderer.preview("activity", None).unwrap().html;
    let rows = digest.matches("<td style=\"padding:8px;border-top:1px solid #ddd;width:20px\">").count();
    assert!(
        rows > 0
            && digest
                .contains("<td style=\"color:#b00 !important;padding:8px;border-top:1px solid #ddd\" class=\"late\">"),
        "{digest}"
    );
    let message = |variables: &Value| to_ann(&renderer, "welcome", variables, &ViewLinks::default(), "en");
    let sent = message(&json!({"title": "Hi", "nothing": ""})).unwrap().html;
    assert_eq!(
        sent,
        "<style>\n.sum:hover{color:red !important}</style>\n<p style=\"color:#123456\" class=\"sum\">Hi</p>"
    );
    // A fault is at the line of the file, although styles have moved.
    let error = message(&json!({"title": "Hi"})).err().unwrap().to_string();
    assert!(error.contains("welcome/body.html:3: ") && error.contains("nothing"), "{error}");
}

#[test]
fn a_layout_of_ones_own_styles_the_templates_that_are_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let layout = "{% set start = \"left\" %}{% set end = \"right\" %}{% block accent %}{% endblock %}{% block kind %}{% endblock %}<style>.faint{margin:0}.odd{left:0}.odd:hover{left:1px}</style><table>{% block lines %}{% endblock lines %}</table><i class=odd></i>";
    write(folder.path(), &[("layout.html", layout)]);
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    let html = renderer.preview("summary", None).unwrap().html;
    assert!(
        !html.contains(".faint{margin") && html.contains("<td class=\"faint\" style=\"margin:0;font-size:"),
        "{html}"
    );
    assert!(html.contains("<i style=\"left:0\" class=odd>"), "{html}");
    let shipped = TemplateRenderer::new(None).unwrap();
    assert!(shipped.names().iter().all(|name| {
        let name = format!("{name}/body.html");
        shipped.sources.get(&name).is_some_and(|source| source.source_text() == source.text)
    }));
    let warnings: Vec<_> = renderer.warnings().iter().map(ToString::to_string).collect();
    let place = folder.path().join("layout.html").display().to_string();
    let expected = format!("{place}:1: `.odd:hover` needs `!important` for `left`: the inlined styles are stronger");
    assert!(warnings.contains(&expected), "{warnings:#?}");
}

/// The shipped templates with these rules at the end of the layout's head.
fn with_rules(rules: &str) -> (TempDir, TemplateRenderer) {
    let folder = tempfile::tempdir().unwrap();
    let shipped = TemplateRenderer::new(None).unwrap();
    let layout = with_style(&shipped.sources.get("layout.html").unwrap().text, rules);
    write(folder.path(), &[("layout.html", &layout)]);
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    (folder, renderer)
}

fn with_style(html: &str, rules: &str) -> String {
    html.replacen("</head>", &format!("<style>{rules}</style>\n</head>"), 1)
}

/// Each element with its styles, as seen by a client that reads `<style>`, without states and conditions.
fn shown(html: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let html = CSSInliner::options().load_remote_stylesheets(false).build().inline(html).unwrap();
    let element = |tag: &HtmlTag<'_>| {
        let style = tag.attribute("style").map_or("", |style| &html[style.value.clone()]);
        let mut shown: BTreeMap<String, (String, bool)> = BTreeMap::new();
        for declaration in style.replace("&quot;", "'").split(';') {
            let Some((name, value)) = declaration.split_once(':') else { continue };
            let value = value.trim();
            let plain = value.strip_suffix("!important");
            let (name, value) = (name.trim().to_owned(), plain.unwrap_or(value).replace(' ', ""));
            if plain.is_some() || !shown.get(&name).is_some_and(|(_, important)| *important) {
                shown.insert(name, (value, plain.is_some()));
            }
        }
        (tag.name.to_owned(), shown.into_iter().map(|(name, (value, _))| (name, value)).collect())
    };
    tags(&html).iter().filter(|tag| !tag.has_name("style")).map(element).collect()
}

/// Compares each template with and without inlining.
#[test]
fn a_program_that_reads_style_elements_shows_the_same() {
    let names = ["a", "b", "div", "h1", "h2", "h3", "p", "span", "table", "td"];
    let of_names =
        names.iter().enumerate().map(|(at, name)| format!("{name}{{letter-spacing:{at}px;color:#00000{at}}}"));
    let of_classes =
        ".ink{letter-spacing:11px}.faint{color:#123456 !important}.card h2,.card p{word-spacing:1px}td .soft{top:0}";
    let rules = of_names.collect::<String>() + of_classes;
    let ((_folder, own), shipped) = (with_rules(&rules), TemplateRenderer::new(None).unwrap());
    for name in shipped.names() {
        for language in ["en", "ar"] {
            let [inlined, plain] =
                [&own, &shipped].map(|renderer| renderer.preview(&name, Some(language)).unwrap().html);
            assert_ne!(inlined, with_style(&plain, &rules));
            assert_eq!(shown(&inlined), shown(&with_style(&plain, &rules)), "{name} in {language}");
        }
    }
}
/// Fragments of random messages, mostly unclosed.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "<style>p{color:red}.a b{top:0!important}\n</style>",
        "<style media=all>\n.b{left:1px} td{color:#111} .c{top:0}</style>",
        "<style>td > p, .a:hover{color:red}@media (x){.a{top:0}}",
        "<table>",
        "<tr>",
        "<td class=\"a x\">",
        "<td class=b >",
        "</td>",
        "</tr>",
        "</table>",
        "<p class=\"b\" style=\"color:'}}'\">",
        "<p style=x>",
        "<b class='a'>",
        "</b>",
        "</p>",
        "<br/>",
        "<p\nid=a>",
        "<!-- <td> -->",
        "text\n",
        "<",
        "</style>",
    ];
    prop_oneof![4 => prop::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => "[<>a-z \n\"'=#]{0,6}"]
}

proptest! {
    #[test]
    fn everything_but_styles_is_as_before(pieces in prop::collection::vec(piece(), 0..24)) {
        let before = pieces.concat();
        let after = one(&before);
        prop_assert!(!after.contains(OWN) && after == one(&before));
        let plain = |html: &str| {
            let attributes = |tag: &HtmlTag<'_>| {
                let kept = tag.attributes.iter().filter(|one| !one.name.eq_ignore_ascii_case("style"));
                kept.map(|one| html[one.place.clone()].to_owned()).collect::<Vec<_>>()
            };
            let tags = tags(html).into_iter().filter(|tag| !tag.has_name("style"));
            tags.map(|tag| (tag.name.to_owned(), attributes(&tag))).collect::<Vec<_>>()
        };
        prop_assert_eq!(plain(&before), plain(&after));
    }
}
