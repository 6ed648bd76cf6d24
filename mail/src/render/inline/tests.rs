//! The styles of templates: the source after inlining, the remarks, and the message.

use std::{fs, path::Path};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::render::{
    Links, Renderer,
    code::code,
    tag::{Tag, tags},
    tests::to_ann,
};

mod layout;

/// The source of a file after inlining.
fn source_of(files: &[(&str, &str)], name: &str) -> String {
    let files: Vec<_> = files.iter().map(|(name, source)| File::new(name, source, true)).collect();
    let changed = inlined(&files).unwrap().sources.into_iter().find(|(changed, _)| changed == name);
    changed.map_or_else(|| files.iter().find(|file| file.name == name).unwrap().source.to_owned(), |(_, source)| source)
}

fn one(source: &str) -> String {
    source_of(&[("a/body.html", source)], "a/body.html")
}

/// The remarks on one file, each with its line.
fn remarks(files: &[(&str, &str)]) -> Vec<String> {
    let read: Vec<_> = files.iter().map(|(name, source)| File::new(name, source, true)).collect();
    let line = |name: &str, at: usize| {
        let source = files.iter().find(|file| file.0 == name).unwrap().1;
        1 + source[..at].matches('\n').count()
    };
    let remarks = inlined(&read).unwrap().remarks.into_iter();
    remarks.map(|(name, Remark { at, text })| format!("{name}:{} {text}", line(&name, at))).collect()
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
        ("<style>td{font-family:\"A B\"}</style><td style='x:y'></td>", "<td style='font-family:\"A B\";x:y'></td>"),
        ("<style>td{font-family:\"A B\"}</style><td></td>", "<td style=\"font-family:'A B'\"></td>"),
        (
            "<style>td{top:0}</style><td style=left:0><td style=\"\"><td style>",
            "<td style=\"top:0;left:0\"><td style=\"top:0\"><td style=\"top:0\">",
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
    assert_eq!(remarks(&[("a/body.html", source)]), [weak(4, "a:hover"), weak(6, "a")]);
}

#[test]
fn a_style_element_for_print_stays() {
    let source = "<style media=\"print\">p{top:0}</style><style media=all></style><p>";
    assert_eq!(one(source), source);
}

#[test]
fn a_rule_without_elements_stays_for_a_client_that_adds_one() {
    let source = "<style>.ExternalClass{width:100%}\n#outlook a{padding:0}</style><p>";
    assert_eq!((one(source).as_str(), remarks(&[("a/body.html", source)]).len()), (source, 0));
}

#[test]
fn a_rule_that_the_source_does_not_decide_stays_with_a_remark() {
    for (css, html, reason) in [
        (
            ".bad{color:red}",
            "<b class=\"bad {{ x }}\"></b><p class=\"{{ y }}\"></p>",
            "it may match <p> in a/body.html:1, of which code makes a part",
        ),
        (
            ".bad{color:red}",
            "<p class=\"{% if x %}bad{% endif %}\">",
            "it may match <p> in a/body.html:1, of which code makes a part",
        ),
        (
            ".chip-bad{color:red}",
            "<p class=\"chip-{{ x }}\">",
            "it may match <p> in a/body.html:1, of which code makes a part",
        ),
        (
            "h3{color:red}",
            "<{{ level }}>x</{{ level }}>",
            "it may match <{{ level }}> in a/body.html:1, of which code makes a part",
        ),
        (
            "h3{color:red}",
            "{% set level = \"h3\" if x else \"h2\" %}<{{ level }}>x</{{ level }}>",
            "it may match <{{ level }}> in a/body.html:1, of which code makes a part",
        ),
        (
            "h3{color:red}",
            "<h{{ level }}>x</h{{ level }}>",
            "it may match <h{{ level }}> in a/body.html:1, of which code makes a part",
        ),
        (
            "h3{color:red}",
            "<h3></h3><{% if x %}h2{% else %}h3{% endif %}>x</{% if x %}h2{% else %}h3{% endif %}>",
            "it may match <{% if x %}h2> in a/body.html:1, of which code makes a part",
        ),
        ("p{color:red}", "<p {{ x }}>", "it matches <p> in a/body.html:1, whose attributes are made by code"),
        ("p{color:{{ x }}}", "<p>", "it has code of Tera"),
        (".{{ x }}{color:red}", "<p>", "it has code of Tera"),
        ("p:first-child{color:red}", "<p>", "its selector asks for more than elements, classes and ids"),
        ("p[title]{color:red}", "<p>", "its selector asks for more than elements, classes and ids"),
        ("p{color:red;&:hover{top:0}}", "<p>", "it has rules inside"),
        (
            "i b{color:red}",
            "{% if x %}<i>{% endif %}<b></b>{% if x %}</i>{% endif %}",
            "a condition in a/body.html opens an element without closing it",
        ),
    ] {
        let source = format!("<style>{css}</style>{html}");
        let rule = css.split_once(['{', ';']).unwrap().0;
        let rule = if css.starts_with(".{{") { ".{{ x }}" } else { rule };
        let remark = format!("a/body.html:1 `{rule}` stays in <style>: {reason}");
        assert_eq!(remarks(&[("a/body.html", &source)]), [remark], "{source}");
        let kept = one(&source);
        assert!(kept.starts_with(&format!("<style>{css}</style>")), "{kept}");
    }
}

#[test]
fn a_style_that_a_staying_rule_overrides_stays_with_it() {
    let source = "<style>td{color:black;padding:8px}.bad{color:red}</style><td class=\"{{ tone }}\"></td><td></td>";
    let expected = source
        .replace("<td class", "<td style=\"padding:8px\" class")
        .replace("<td></td>", "<td style=\"color:black;padding:8px\"></td>");
    assert_eq!(one(source), expected);
    let boiler = "<style>a{color:red}a[x-apple-data-detectors]{color:inherit !important}</style><a>";
    assert!(one(boiler).ends_with("<a style=\"color:red\">"), "{}", one(boiler));
}

#[test]
fn the_styles_of_a_layout_and_its_children_apply_to_both() {
    let layout = "<style>td{top:0}.lead{color:red}</style><table><tr><td>{% block a %}{% endblock %}</td></tr></table>";
    let child = "{% extends \"layout.html\" %}{% block a %}<style>.lead{color:blue}</style><p class=\"lead\"></p>{% endblock %}";
    let other =
        "{% extends \"layout.html\" %}{% block a %}<p class=\"lead\"></p>{% include \"foot.html\" %}{% endblock %}";
    let files = [("a/body.html", child), ("b/body.html", other), ("foot.html", "<td></td>"), ("layout.html", layout)];
    assert!(source_of(&files, "layout.html").starts_with("<table><tr><td style=\"top:0\">"));
    assert!(source_of(&files, "a/body.html").contains("{% block a %}<p style=\"color:blue\" class=\"lead\">"));
    assert!(source_of(&files, "b/body.html").contains("<p style=\"color:red\" class=\"lead\">"));
    assert_eq!(source_of(&files, "foot.html"), "<td style=\"top:0\"></td>");
    assert_eq!(remarks(&files), [] as [&str; 0]);
}

#[test]
fn a_rule_for_elements_of_other_messages_or_files_stays() {
    let layout = "<table class=card><tr><td>{% block a %}{% endblock %}{% block b %}<style>i{top:0}</style>{% endblock %}</td></tr></table>";
    let child = "{% extends \"layout.html\" %}{% block a %}<style>td{top:0}</style><p><td></td></p>{% endblock %}";
    let other = "{% extends \"layout.html\" %}{% block a %}<style>.card p{top:0}</style><p></p>{% endblock %}{% block b %}<i></i>{% endblock %}";
    let files = [("a/body.html", child), ("b/body.html", other), ("layout.html", layout)];
    assert_eq!(
        remarks(&files),
        [
            "layout.html:1 `i` stays in <style>: it is not in every message",
            "a/body.html:1 `td` stays in <style>: it also matches <td> in layout.html:1, which other messages have, too",
            "b/body.html:1 `.card p` stays in <style>: it may match <p> in b/body.html:1 by elements of other files",
        ]
    );
    assert_eq!(source_of(&files, "layout.html"), layout);
    assert_eq!(source_of(&files, "b/body.html"), other);
    assert!(source_of(&files, "a/body.html").contains("</style><p><td style=\"top:0\"></td></p>"));
}

/// A table with conditions between its rows, which a parser of HTML would move before the table.
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
{%- for line in digest.groups %}
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

#[test]
fn conditions_in_a_table_stay_where_they_are() {
    insta::assert_snapshot!("table", one(TABLE));
    assert_eq!(remarks(&[("a/body.html", TABLE)]), [] as [&str; 0]);
}

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
    let renderer = Renderer::new(Some(folder.path())).unwrap();
    let digest = renderer.preview("activity", None).unwrap().html;
    let rows = digest.matches("<td style=\"padding:8px;border-top:1px solid #ddd;width:20px\">").count();
    assert!(
        rows > 0
            && digest
                .contains("<td style=\"color:#b00 !important;padding:8px;border-top:1px solid #ddd\" class=\"late\">"),
        "{digest}"
    );
    let message = |variables: &Value| to_ann(&renderer, "welcome", variables, &Links::default(), "en");
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
    let layout = "{% set start = \"left\" %}{% set end = \"right\" %}{% block accent %}{% endblock %}{% block kind %}{% endblock %}<style>.faint{margin:0}.odd:nth-child(2){top:0}.odd{left:0}</style><table>{% block lines %}{% endblock lines %}</table><i class=odd></i>";
    write(folder.path(), &[("layout.html", layout)]);
    let renderer = Renderer::new(Some(folder.path())).unwrap();
    let html = renderer.preview("summary", None).unwrap().html;
    assert!(
        !html.contains(".faint{margin") && html.contains("<td class=\"faint\" style=\"margin:0;font-size:"),
        "{html}"
    );
    assert!(html.contains("<i style=\"left:0\" class=odd>"), "{html}");
    let shipped = Renderer::new(None).unwrap();
    assert!(shipped.names().iter().all(|name| {
        let name = format!("{name}/body.html");
        shipped.sources.get(&name).is_some_and(|source| source.loaded() == source.text)
    }));
    let warnings: Vec<_> = renderer.warnings().iter().map(ToString::to_string).collect();
    let place = folder.path().join("layout.html").display().to_string();
    let expected = format!(
        "{place}:1: `.odd:nth-child(2)` stays in <style>: its selector asks for more than elements, classes and ids"
    );
    assert!(warnings.contains(&expected), "{warnings:#?}");
}

/// Pieces of random templates, most of them without their ends.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "<style>p{color:red}.a b{top:0!important}\n</style>",
        "<style>\n.b{left:{{ x }}} td{color:#111}{% if y %}.c{top:0}{% endif %}</style>",
        "<style>td > p, .a:hover{color:red}@media (x){.a{top:0}}",
        "<table>",
        "<tr>",
        "<td class=\"a {{ x }}\">",
        "<td {% if y %}class=b{% endif %}>",
        "</td>",
        "</tr>",
        "</table>",
        "<p class=\"b\" style=\"color:{{ \"a}}b\" }}\">",
        "<p style=x>",
        "<b class='a'>",
        "</b>",
        "</p>",
        "<br/>",
        "<p\nid=a>",
        "{% if x %}",
        "{% else %}",
        "{% endif %}",
        "{%- for a in b -%}",
        "{% endfor %}",
        "{# <p> #}",
        "{{ x | f(a=\"<p>\") }}",
        "{% block a %}",
        "{% endblock %}",
        "{% extends \"layout.html\" %}",
        "<!-- <td> -->",
        "text\n",
        "<",
        "{{",
        "</style>",
    ];
    prop_oneof![4 => prop::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => "[<>a-z{}% \n\"'=#]{0,6}"]
}

proptest! {
    #[test]
    fn code_of_tera_comes_back_byte_for_byte(pieces in prop::collection::vec(piece(), 0..24), rest in prop::collection::vec(piece(), 0..12)) {
        let (source, layout) = (pieces.concat(), rest.concat());
        let files = [("a/body.html", source.as_str()), ("layout.html", layout.as_str())];
        for (name, before) in files {
            let after = source_of(&files, name);
            prop_assert_eq!(&after, &source_of(&files, name));
            let pieces = |text: &str| code(text).into_iter().map(|code| text[code.place].to_owned()).collect::<Vec<_>>();
            prop_assert_eq!(pieces(before), pieces(&after));
            prop_assert_eq!(before.matches('\n').count(), after.matches('\n').count());
            // Everything but styles is as before.
            let plain = |text: &str| {
                let file = File::new(name, text, true);
                let tags = tags(&file.blank).into_iter().filter(|tag| !tag.is("style"));
                tags.map(|tag| (tag.name.to_owned(), tag.attributes.iter().filter(|one| !one.name.eq_ignore_ascii_case("style")).map(|one| file.source[one.place.clone()].to_owned()).collect::<Vec<_>>())).collect::<Vec<_>>()
            };
            prop_assert_eq!(plain(before), plain(&after));
        }
    }
}
