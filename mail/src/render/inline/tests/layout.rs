//! A copy of the shipped layout with rules of a team's own.

use std::collections::BTreeMap;

use css_inline::CSSInliner;
use tempfile::TempDir;

use super::*;

/// The shipped templates, with these rules at the end of the layout's head.
fn with_rules(rules: &str) -> (TempDir, Renderer) {
    let folder = tempfile::tempdir().unwrap();
    let shipped = Renderer::new(None).unwrap();
    let layout = with_style(&shipped.sources.get("layout.html").unwrap().text, rules);
    write(folder.path(), &[("layout.html", &layout)]);
    let renderer = Renderer::new(Some(folder.path())).unwrap();
    (folder, renderer)
}

fn with_style(html: &str, rules: &str) -> String {
    html.replacen("</head>", &format!("<style>{rules}</style>\n</head>"), 1)
}

#[test]
fn a_rule_for_a_name_stays_if_code_may_make_it() {
    let (_folder, renderer) = with_rules("p{letter-spacing:1px}td{letter-spacing:2px}h2{letter-spacing:3px}");
    let layout = renderer.sources.get("layout.html").unwrap().loaded();
    assert!(layout.contains("<p style=\"letter-spacing:1px;margin:0\">"), "{layout}");
    assert!(layout.contains("<style>h2{letter-spacing:3px}</style>"), "{layout}");
    let warnings: Vec<_> = renderer.warnings().into_iter().map(|warning| warning.problem).collect();
    let about = |rule: &str| warnings.iter().filter(|warning| warning.starts_with(rule)).collect::<Vec<_>>();
    assert_eq!((about("`p` "), about("`td` ")), (vec![], vec![]));
    let [reason] = about("`h2` ")[..] else { panic!("{warnings:#?}") };
    assert!(reason.starts_with("`h2` stays in <style>: it may match <{{ level }}> in layout.html:"), "{reason}");
}

/// The name of each element with its styles, as a program has them that reads `<style>`. States and conditions are left out.
fn shown(html: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let html = CSSInliner::options().load_remote_stylesheets(false).build().inline(html).unwrap();
    let element = |tag: &Tag<'_>| {
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
    tags(&html).iter().filter(|tag| !tag.is("style")).map(element).collect()
}

/// Compares each template after inlining with what it shows if nothing is inlined.
#[test]
fn a_program_that_reads_style_elements_shows_the_same() {
    let names = ["a", "b", "div", "h1", "h2", "h3", "p", "span", "table", "td"];
    let of_names =
        names.iter().enumerate().map(|(at, name)| format!("{name}{{letter-spacing:{at}px;color:#00000{at}}}"));
    let of_classes =
        ".ink{letter-spacing:11px}.faint{color:#123456 !important}.card h2,.card p{word-spacing:1px}td .soft{top:0}";
    let rules = of_names.collect::<String>() + of_classes;
    let ((_folder, own), shipped) = (with_rules(&rules), Renderer::new(None).unwrap());
    for name in shipped.names() {
        for language in ["en", "ar"] {
            let [inlined, plain] =
                [&own, &shipped].map(|renderer| renderer.preview(&name, Some(language)).unwrap().html);
            assert_ne!(inlined, with_style(&plain, &rules));
            assert_eq!(shown(&inlined), shown(&with_style(&plain, &rules)), "{name} in {language}");
        }
    }
}
