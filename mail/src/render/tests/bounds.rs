//! A team's own template has limits on work, memory and time; beyond them `default` is used (rule 23).

use std::fmt::Write as _;

use super::*;

/// Why `default` is used for a digest with this HTML.
fn fallback(html: &str) -> Option<String> {
    fallback_in(folder(html).path())
}

fn fallback_in(folder: &Path) -> Option<String> {
    let lines = (0..50).map(|n| group(3, &json!({"title": format!("Line {n}")}))).collect();
    TemplateRenderer::new(Some(folder)).unwrap().render("custom", &view(lines, 0)).unwrap().fallback
}

#[test]
fn a_text_or_a_list_that_doubles_is_over_the_limit_of_a_variable() {
    let often = |code: &str| code.repeat(40);
    for html in [
        r#"{% set_global s = "x" %}{% for i in range(end=40) %}{% set_global s = s ~ s %}{% endfor %}{{ s }}"#,
        &format!(r#"{{% set s = "x" %}}{}"#, often("{% set s = s ~ s %}")),
        &format!(r#"{{% set s = "x" %}}{}"#, often("{% set s %}{{ s }}{{ s }}{% endset %}")),
        &format!(r#"{{% set s = "x" %}}{}"#, often(r#"{% set s = s | replace(from="x", to="xx") %}"#)),
        &format!(r#"{{% set s = "x" %}}{{% set s = s{} %}}"#, often(r#" | replace(from="x", to="xx")"#)),
        &format!(r#"{{% set s = '"' %}}{{% set s = s{} %}}"#, r#" | split(pat="z") | str"#.repeat(30)),
        &format!("{{% set l = [1] %}}{}", often("{% set l = [...l, ...l] %}")),
        &format!("{{% set l = [1] %}}{}", often("{% set l = [l, l] %}")),
        "{% set_global l = [] %}{% for i in range(end=1000) %}{% set_global l = [l] %}{% endfor %}",
        &format!(
            "{{% component C(s) %}}{{{{ <C s={{s ~ s}} /> }}}}{{% endcomponent C %}}{{{{ <C s={{\"{}\"}} /> }}}}",
            "x".repeat(1000)
        ),
    ] {
        let why = fallback(html).unwrap_or_else(|| panic!("{html} is bounded by nothing"));
        assert!(
            why.contains("custom/body.html:1") && why.contains("a variable over the limit of data plus 1024 KiB"),
            "{html}: {why}"
        );
    }
}

#[test]
fn what_repeats_in_what_repeats_is_over_the_limit_of_work() {
    let thrice = |code: &str| code.repeat(3);
    let mut components = String::new();
    for n in 0..18 {
        let next = thrice(&format!("{{{{ <C{} /> }}}}", n + 1));
        write!(components, "{{% component C{n}() %}}{next}{{% endcomponent C{n} %}}").unwrap();
    }
    let in_loops = |code: &str| format!("{}{code}{}", thrice("{% for i in range(end=9999) %}"), thrice("{% endfor %}"));
    for html in [
        in_loops(""),
        format!("{{% set s %}}{}{{% endset %}}", in_loops("text")),
        format!("{{% set s %}}{}{{% endset %}}", in_loops("{{ digest }}")),
        format!("{components}{{% component C18() %}}x{{% endcomponent C18 %}}{{{{ <C0 /> }}}}"),
    ] {
        let why = fallback(&html).unwrap_or_else(|| panic!("{html} is bounded by nothing"));
        assert!(why.contains("custom/body.html") && why.contains("limit"), "{html}: {why}");
    }
    let folder = folder(r#"{% include "p0.html" %}"#);
    for n in 0..18 {
        let next = thrice(&format!("{{% include \"p{}.html\" %}}", n + 1));
        fs::write(folder.path().join(format!("p{n}.html")), next).unwrap();
    }
    fs::write(folder.path().join("p18.html"), "x").unwrap();
    let why = fallback_in(folder.path()).unwrap();
    assert!(why.contains(".html") && why.contains("limit"), "{why}");
}

#[test]
fn a_component_that_shows_itself_is_over_the_limit() {
    let why = fallback("{% component C() %}{{ <C /> }}{% endcomponent C %}{{ <C /> }}").unwrap();
    assert!(why.contains("custom/body.html") && why.contains("recursion"), "{why}");
}

#[test]
fn a_text_part_is_bounded() {
    let folder = folder("<p>short</p>");
    fs::write(folder.path().join("custom/body.txt"), "{% for i in range(end=40000) %}1234567\n{% endfor %}").unwrap();
    let why = fallback_in(folder.path()).unwrap();
    assert!(why.contains("custom/body.txt") && why.contains("the limit is 262144"), "{why}");
}

#[test]
fn a_usual_template_is_far_from_each_limit() {
    let html = "{% component Row(title, n=1) -%}\n  <li>{{ n }} {{ title }}</li>\n{%- endcomponent Row %}\
                {% set lines = digest.lines %}{% set said %}<b>{{ digest.item_count }}</b>{% endset %}\
                {% for line in lines -%}\n  {% set title = line.title ~ \", \" ~ line.quantity %}\
                {% for item in line.items %}{{ <Row title={title} n={item.count} /> }}{% endfor %}\
                {%- endfor %}{{ said }}{{ lines | length }}";
    let folder = folder(html);
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    let view = view(vec![group(3, &json!({"title": "A & B"}))], 0);
    let mail = renderer.render("custom", &view).unwrap();
    assert_eq!((mail.html.as_str(), mail.fallback), ("<li>1 A &amp; B, 3 changes</li><b>3</b>1", None));
    assert_eq!(fallback(html), None);
}

#[test]
fn a_template_with_a_list_comprehension_is_refused_with_its_line() {
    let folder = folder("<p>\n{{ [line.title for line in digest.lines] | list }}</p>");
    let why = TemplateRenderer::new(Some(folder.path())).err().unwrap().to_string();
    assert!(why.contains("custom/body.html:2: a list comprehension is not available"), "{why}");
}

#[test]
fn a_link_of_eight_thousand_characters_is_whole_in_html_and_text() {
    let link = format!("https://grafana.example/explore?left={}", "%7B%22a%22:x".repeat(670));
    let mail = renderer().render("default", &view(vec![group(1, &json!({"title": "Panel", "url": link}))], 0)).unwrap();
    assert!(mail.html.contains(&format!("href=\"{link}\"")) && mail.text.contains(&link), "{}", mail.text);
}
