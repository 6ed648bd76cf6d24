//! What a digest type's choices let a recipient have.

use super::*;

/// One of each kind.
const CADENCES: [&str; 8] = [
    "instant",
    "after 60s",
    "hourly at :30",
    "daily 08:00",
    "weekdays 08:00",
    "weekly mon 08:00",
    "never",
    "cron 0 9 * * *",
];

fn choices(words: &[&str]) -> Choices {
    Choices::new(words.iter().map(|words| words.parse().unwrap()).collect())
}

#[test]
fn every_kind_but_cron_is_a_choice_unless_somebody_says_otherwise() {
    for words in CADENCES {
        assert_eq!(Choices::default().allows(&words.parse().unwrap()), !words.starts_with("cron"), "{words}");
    }
}

#[test]
fn a_first_word_is_every_cadence_of_its_kind_and_a_whole_one_is_itself() {
    let choices = choices(&["instant", "daily", "weekly mon 08:00", "cron"]);
    for (words, allowed) in [
        ("instant", true),
        ("daily 23:59", true),
        ("weekly mon 08:00", true),
        ("weekly mon 08:01", false),
        ("weekly tue 08:00", false),
        ("weekdays 08:00", false),
        ("cron 0 9 * * *", true),
        ("never", false),
    ] {
        assert_eq!(choices.allows(&words.parse().unwrap()), allowed, "{words}");
    }
    assert_eq!(choices.to_string(), r#""instant", "daily", "weekly mon 08:00", "cron""#);
    assert!(!Choices::new(Vec::new()).allows(&Cadence::Instant));
}

#[test]
fn what_is_neither_a_kind_nor_a_cadence_is_no_choice() {
    for words in ["", "dayly", "daily 25:00", "weekly mon"] {
        assert!(words.parse::<Choice>().is_err(), "{words:?}");
    }
}
