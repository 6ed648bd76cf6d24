//! The names that tables had before.

use tidings_model::Key;

use super::*;

const RENAMED: &str = "[digest.news]\nwas = [\"activity\", \"digest\"]\ncadence = \"hourly\"\ntitle = \"News\"\n\
                       delay.reply = \"1m\"\n[digest.news.category.reply]\nwas = [\"comment\"]\npriority = 7\n\
                       [tenant.initech]\nwas = [\"acme\"]\nname = \"Initech\"\n\
                       [tenant.initech.digest.news.category.reply]\npriority = 9\n";

#[test]
fn a_former_name_has_the_settings_of_todays() {
    let settings = read(RENAMED, &[]).unwrap().unchecked_settings();
    let key = |tenant: &str, digest_type: &str| Key::new(tenant.into(), digest_type.into(), "ann".into()).unwrap();
    for (tenant, priority) in [("acme", 9), ("initech", 9), ("bolt", 7)] {
        for name in ["news", "activity", "digest"] {
            let key = key(tenant, name);
            let digest = settings.digest(&key).unwrap();
            assert_eq!(digest.title.as_deref(), Some("News"), "{key}");
            assert_eq!(
                (settings.check_digest(&key), settings.digest_types(tenant)),
                (Ok(()), ["news".to_owned()].into())
            );
            for category in ["reply", "comment"] {
                assert_eq!(
                    (digest.category.get(category).priority, digest.category_today(category)),
                    (priority, "reply")
                );
                assert_eq!(digest.delay[category].as_secs(), 60, "{key}");
            }
        }
    }
    assert!(settings.digest(&key("acme", "alerts")).is_none());
    assert_eq!((settings.with_table("acme"), settings.with_table("bolt")), (Some("initech"), None));
    let brand = settings.for_tenant("acme", settings::StreamName::Bulk).brand;
    assert_eq!(brand.name.as_deref(), Some("Initech"));
}

#[test]
fn a_former_name_means_one_thing() {
    let digest = |name: &str, was: &str| format!("[digest.{name}]\ncadence = \"hourly\"\nwas = [{was}]\n");
    for (text, says) in [
        (digest("news", "\"\""), "digest.news.was: is empty"),
        (digest("news", "\"news\""), "is the name that the table has"),
        (digest("news", "\"alerts\"") + &digest("alerts", ""), "is the name of another table, [digest.alerts]"),
        (
            digest("a", "\"old\"") + &digest("b", "\"old\""),
            "tidings.toml:6: digest.b.was = \"old\": was the name of [digest.a] already",
        ),
        (
            digest("a", "") + "[tenant.acme.digest.a]\nwas = [\"b\"]\n",
            "tenant.acme.digest.a.was: is the same for every tenant; write it in [digest.a]",
        ),
    ] {
        let problems = problems_of(&text);
        assert!(problems.contains(says), "{problems}");
    }
}
