//! Items on lines, and lines in sections.

use super::*;

/// A line with 9 events; the latest four make three items.
fn several() -> DigestLine {
    let says = |count, title: &str| item(count, &json!({"title": title, "url": format!("https://a.example/{title}")}));
    DigestLine { latest: vec![says(1, "one"), says(2, "two"), says(1, "three")], ..group(9, &json!({})) }
}

#[test]
fn a_line_shows_its_items_folds_repeated_ones_and_counts_the_rest() {
    let mail = renderer().render("activity", &view(vec![several()], 0)).unwrap();
    let at = "Ann · Feb 3, 1:26\u{a0}PM";
    let lines = format!(
        "* one\n  docs · 9 changes (3 files)\n  {at}\n  https://a.example/one\n  - 2 × two\n    {at}\n    \
         https://a.example/two\n  - three\n    {at}\n    https://a.example/three\n  and 5 more\n"
    );
    assert!(mail.text.contains(&lines), "{}", mail.text);
    for said in ["\"https://a.example/three\"", ">three</a>", "2 × <a", ">and 5 more</div>"] {
        assert!(mail.html.contains(said), "{said}: {}", mail.html);
    }
}

#[test]
fn a_line_of_one_event_has_no_list() {
    let mail = renderer().render("activity", &view(vec![group(1, &json!({"title": "one"}))], 0)).unwrap();
    assert!(!mail.text.contains("  - ") && !mail.text.contains(" more") && !mail.text.contains('×'), "{}", mail.text);
}

#[test]
fn templates_see_the_latest_items_of_all_lines() {
    let at = |second: i64, title: &str| {
        let latest = item(1, &json!({"title": title}));
        LineItem { at: Timestamp::from_second(second).unwrap(), ..latest }
    };
    let first = DigestLine { latest: vec![at(9, "a"), at(5, "b")], ..group(2, &json!({})) };
    let second = DigestLine { latest: vec![at(7, "c"), at(5, "d")], ..group(2, &json!({})) };
    let titles = |view: &TemplateView| -> Vec<String> {
        let title = |item: &tera::Value| item.get_from_path("title").unwrap().to_string();
        view.digest.items.iter().map(title).collect()
    };
    assert_eq!(titles(&view(vec![first, second.clone()], 0)), ["a", "c", "b", "d"]);
    assert_eq!(titles(&view(vec![second; 9], 0)).len(), 10);
}

/// A typical payload.
fn usual(n: usize) -> Value {
    json!({
        "title": format!("Make step {n} of the migration safe to run twice"),
        "url": format!("https://git.example.com/acme/auth/commit/{n}a2ca33"),
        "excerpt": "A second run finds the rows of the first one and leaves them as they are.",
    })
}

#[test]
fn fifty_lines_of_three_items_stay_under_the_limit() {
    let line =
        |n: usize| DigestLine { latest: (n..n + 3).map(|n| item(1, &usual(n))).collect(), ..group(9, &json!({})) };
    for name in ["activity", "alerts", "default"] {
        let mail = renderer().render(name, &view((0..50).map(line).collect(), 7)).unwrap();
        assert!(mail.html.len() < HTML_BYTES, "{}", mail.html.len());
        assert_eq!(mail.text.matches("\n* ").count(), 50);
        assert_eq!(mail.text.matches("\n  - ").count(), 100, "{name}: {}", mail.html.len());
    }
}

/// Three comments on one document, all with its title.
#[test]
fn every_item_shows_its_words_and_its_link() {
    let words = ["The budget is wrong.", "It has to move to May.", "Who signs this?"];
    let comment = |(n, excerpt): (usize, &str)| {
        item(1, &json!({"title": "Plan", "excerpt": excerpt, "url": format!("https://a.example/plan#{n}")}))
    };
    let line = DigestLine { latest: words.into_iter().enumerate().map(comment).collect(), ..group(3, &json!({})) };
    for name in ["activity", "alerts", "default"] {
        let mail = renderer().render(name, &view(vec![line.clone()], 0)).unwrap();
        for (n, excerpt) in words.into_iter().enumerate() {
            assert!(
                mail.text.contains(&format!("  {excerpt}\n")) && mail.html.contains(excerpt),
                "{name}: {}",
                mail.text
            );
            let url = format!("https://a.example/plan#{n}");
            assert!(mail.text.contains(&url) && mail.html.contains(&format!("href=\"{url}\"")), "{name}: {url}");
        }
    }
}

#[test]
fn the_size_limit_leaves_items_out_before_lines() {
    let payload = json!({"title": "<".repeat(120), "url": "https://a.example/"});
    let line = DigestLine { latest: vec![item(1, &payload); 5], ..group(9, &json!({})) };
    let mail = renderer().render("activity", &view(vec![line; 50], 0)).unwrap();
    let (lines, items) = (mail.text.matches("\n* ").count(), mail.text.matches("\n  - ").count());
    assert!(mail.html.len() < HTML_BYTES);
    assert_eq!(lines, 50);
    assert!(items < 200 && items % 50 == 0, "{items}");
    assert!(mail.text.contains(&format!("  and {} more\n", 9 - 1 - items / 50)), "{}", mail.text);
}

#[test]
fn lines_stand_below_the_headings_of_their_sections() {
    let of = |section: Option<&str>, title: &str| DigestLine {
        section: section.map(|title| settings::SectionHeading::new(title, title)),
        ..group(1, &json!({"title": title}))
    };
    let lines = vec![of(Some("Code"), "a"), of(Some("Money"), "b"), of(Some("Code"), "c"), of(None, "d")];
    let shown = view(lines, 0);
    let mail = renderer().render("activity", &shown).unwrap();
    let begins = ["== ", "* "];
    let order: Vec<_> = mail.text.lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin))).collect();
    assert_eq!(order, ["== Code ==", "* a", "* c", "== Money ==", "* b", "== Other ==", "* d"]);
    assert_eq!(mail.html.matches("<h3").count(), 4);
    for heading in ["Code", "Money", "Other"] {
        assert_eq!(mail.html.matches(&format!(">{heading}</h2>")).count(), 1);
    }
    let titles =
        |view: TemplateView| -> Vec<_> { view.digest.sections.into_iter().map(|section| section.title).collect() };
    assert_eq!(titles(shown.with_lines(1)), [Some("Code".to_owned())]);
}

#[test]
fn a_message_without_sections_has_no_heading() {
    let mail = renderer().render("activity", &view(vec![group(1, &json!({"title": "a"})); 2], 0)).unwrap();
    assert!(!mail.html.contains("<h3") && !mail.text.contains("=="), "{}", mail.text);
}
