use std::{borrow::Cow, collections::BTreeSet};

use tidings_model::CadenceKind;

use super::{language::language_of, *};

fn words() -> LocalizedWords {
    LocalizedWords::new(None).unwrap()
}

/// For any variable.
const VALUE: i32 = 2;

#[test]
fn every_language_has_the_messages_and_variables_of_english() {
    let words = words();
    let english = words.general.catalogues[ENGLISH].messages(CatalogueFiles::All);
    assert!(english.len() > 110);
    assert_eq!(words.general.catalogues.len(), 12);
    for (name, catalogue) in &words.general.catalogues {
        assert_eq!(catalogue.messages(CatalogueFiles::All), english, "{name}");
        let language = language_of(&words.general.catalogues, name, catalogue.tag.clone()).unwrap();
        for (id, variables) in &english {
            for count in [0, 1, 2, 5, 11, 100, 1_204] {
                let value = |name: &str| if name == "count" { count } else { VALUE };
                let arguments = variables.iter().map(|name| (*name, value(name))).collect();
                let said = language.format_message(id, &arguments);
                if variables.iter().eq(&["count"]) {
                    let twice = [(); 2].map(|()| language.format_counted(id, count.into()));
                    assert_eq!(
                        twice.map(|counted| counted.map(Cow::into_owned)),
                        [said.clone(), said.clone()],
                        "{name}: {id}"
                    );
                }
                assert!(said.is_some_and(|said| !said.contains("  ") && !said.contains('$')), "{name}: {id}");
            }
        }
    }
}

#[test]
fn every_message_is_said_somewhere() {
    fn read(folder: &Path, all: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, all);
            } else if path.extension().is_some_and(|end| ["rs", "html", "txt"].iter().any(|read| end == *read)) {
                all.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut sources = String::new();
    for folder in ["../gateway/src", "src", "../templates"] {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut sources);
    }
    let words = words();
    let ids: BTreeSet<_> = words.general.catalogues[ENGLISH].messages(CatalogueFiles::All).into_keys().collect();
    // The page makes the ids of the kinds of a cadence from their names.
    let of_cadence = |id: &str| id.strip_prefix("often_").and_then(CadenceKind::named).is_some();
    let named = |id: &&&str| id.starts_with("noun_") || id.starts_with("count_") || of_cadence(id);
    let unused: Vec<_> = ids.iter().filter(|id| !named(id) && !sources.contains(&format!("\"{id}\""))).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn a_language_is_chosen_from_the_most_to_the_least_exact_tag() {
    let words = words();
    for (wanted, tag) in [
        (vec!["de-AT"], "de-AT"),
        (vec!["de_CH"], "de-CH"),
        (vec!["DE-Latn-DE-x-private"], "de-DE"),
        (vec!["", "de"], "de"),
        (vec!["tr", "de"], "de"),
        (vec!["en-GB", "de"], "en-GB"),
        (vec!["zh-CN"], "zh-Hans-CN"),
        (vec!["zh"], "zh-Hans"),
        (vec!["zh-TW"], "en"),
        (vec!["pt-PT"], "pt-BR"),
        (vec!["pt"], "pt-BR"),
        (vec!["tr"], "en"),
        (vec!["x"], "en"),
        (vec![], "en"),
    ] {
        assert_eq!(words.choose(wanted.iter().copied()).tag(), tag, "{wanted:?}");
        assert_eq!(words.choose([tag]).tag(), tag, "a tag means itself");
    }
}

#[test]
fn a_plural_has_the_forms_of_its_language() {
    let words = words();
    let said = |tag: &str, n: i32| words.choose([tag]).message_with("noun_comment", [("count", n.into())]);
    for (tag, n, expected) in [
        ("en", 1, "1 comment"),
        ("en", 0, "0 comments"),
        ("fr", 0, "0 commentaire"),
        ("fr", 2, "2 commentaires"),
        ("pl", 1, "1 komentarz"),
        ("pl", 3, "3 komentarze"),
        ("pl", 5, "5 komentarzy"),
        ("pl", 12, "12 komentarzy"),
        ("pl", 22, "22 komentarze"),
        ("ja", 1, "コメント 1 件"),
    ] {
        assert_eq!(said(tag, n), expected);
    }
    assert_eq!(said("ar", 1), "تعليق واحد");
    assert_eq!(said("ar", 2), "تعليقان");
    let forms = |n: i32| said("ar", n).rsplit_once(' ').unwrap().1.to_owned();
    assert_eq!([3, 11, 100].map(forms), ["تعليقات", "تعليقًا", "تعليق"]);
}

#[test]
fn dates_and_numbers_are_those_of_the_region() {
    let words = words();
    let at = jiff::civil::date(2025, 2, 3).at(14, 5, 0, 0);
    for (tag, this_year, short, number) in [
        ("en", 2025, "Feb 3, 2:05 PM", "1,204,000"),
        ("en", 2026, "Feb 3, 2025, 2:05 PM", "1,204,000"),
        ("en-GB", 2025, "3 Feb, 14:05", "1,204,000"),
        ("en-IN", 2025, "3 Feb, 2:05 PM", "12,04,000"),
        ("de", 2025, "3. Feb., 14:05", "1.204.000"),
        ("de-CH", 2025, "3. Feb., 14:05", "1'204'000"),
        ("ja", 2025, "2月3日 14:05", "1,204,000"),
    ] {
        let phrases = words.choose([tag]);
        let said =
            [phrases.short_time(at, this_year), phrases.number(1_204_000)].map(|said| said.replace('\u{a0}', " "));
        assert_eq!(said, [short, number], "{tag}");
    }
    let phrases = words.choose(["pl"]);
    assert_eq!(phrases.weekday(jiff::civil::Weekday::Wednesday), "środa");
    assert_eq!(phrases.list(&["Ann", "Ben"]), "Ann i Ben");
    assert_eq!((phrases.zone("Asia/Tokyo"), phrases.zone("UTC")), ("Tokio".into(), "UTC".into()));
}

#[test]
fn a_folder_adds_a_language_and_what_it_lacks_is_english() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(FOLDER).join(name), text).unwrap();
    fs::create_dir(folder.path().join(FOLDER)).unwrap();
    file("he.ftl", "undo = ביטול\n");
    file("de.ftl", "save = Sichern\n");
    file("de-AT.ftl", "day = Wochentag\n");
    let words = LocalizedWords::new(Some(folder.path())).unwrap();
    let hebrew = words.choose(["he-IL"]);
    assert_eq!((hebrew.tag(), hebrew.direction(), hebrew.message_text("save")), ("he-IL", "rtl", "Save".into()));
    let german = words.choose(["de"]);
    assert_eq!(
        (german.message_text("save"), german.message_text("on")),
        ("Sichern".into(), "Diese Zusammenfassung bekommen".into())
    );
    let austrian = words.choose(["de-AT"]);
    assert_eq!((austrian.message_text("save"), austrian.message_text("day")), ("Sichern".into(), "Wochentag".into()));
    for (name, text, problem) in [("d e.ftl", "", "is not a language tag"), ("fr.ftl", "save = { $", "fr.ftl: ")] {
        file(name, text);
        let error = LocalizedWords::new(Some(folder.path())).err().unwrap().to_string();
        assert!(error.contains(problem), "{error}");
        fs::remove_file(folder.path().join(FOLDER).join(name)).unwrap();
    }
}

#[test]
fn a_tenants_message_overrides_that_of_the_team_and_ours() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(FOLDER).join(name), text).unwrap();
    fs::create_dir_all(folder.path().join(FOLDER).join("acme")).unwrap();
    file("de.ftl", "save = Sichern\nundo = Zurücknehmen\n");
    file("acme/de.ftl", "save = Merken\n");
    file("acme/he.ftl", "undo = ביטול\n");
    let words = LocalizedWords::new(Some(folder.path())).unwrap();
    let said = |tenant: &str, tag: &str, id: &str| words.choose_for(tenant, [tag]).message_text(id);
    for (tenant, tag, id, expected) in [
        ("acme", "de", "save", "Merken"),
        ("acme", "de-CH", "undo", "Zurücknehmen"),
        ("acme", "en", "save", "Save"),
        ("acme", "he", "undo", "ביטול"),
        ("bolt", "de", "save", "Sichern"),
        ("bolt", "he", "save", "Save"),
        ("", "de", "save", "Sichern"),
    ] {
        assert_eq!(said(tenant, tag, id), expected, "{tenant} {tag} {id}");
    }
    assert_eq!(words.choose_for("acme", ["fr", "he"]).tag(), "fr");
    assert_eq!(words.choose_for("bolt", ["he", "de"]).tag(), "de", "only the tenant has that language");
    file("acme/fr.ftl", "save = { $");
    let error = LocalizedWords::new(Some(folder.path())).err().unwrap().to_string();
    assert!(error.starts_with("acme/fr.ftl: "), "{error}");
}
