//! Operators' pauses.

use futures::future::join_all;
use tidings_model::{
    Key,
    pause::{Pause, PauseDetails, PauseScope},
};

use super::{Bench, at, entry, key};

fn scope(tenant: &str, digest_type: &str) -> PauseScope {
    let part = |part: &str| Some(part.to_owned()).filter(|part| !part.is_empty());
    PauseScope { tenant: part(tenant), digest_type: part(digest_type) }
}

fn paused(why: &str, since: i64, until: Option<i64>) -> PauseDetails {
    PauseDetails { by: "ann".into(), why: why.into(), since: at(since), until: until.map(at) }
}

async fn pause(bench: &Bench, scope: &PauseScope, paused: &PauseDetails) -> Pause {
    bench.store.pause(scope, false, paused).await.unwrap()
}

async fn of_key(bench: &Bench, key: &Key) -> Option<PauseDetails> {
    bench.store.facts(key).await.unwrap().pause
}

pub async fn a_key_learns_of_the_pause_that_covers_it_and_lasts_longest(bench: &Bench) {
    let ann = key("ann");
    let other_tenant = Key { tenant: "zeta".into(), ..ann.clone() };
    let other_type = Key { digest_type: "other".into(), ..ann.clone() };
    assert_eq!(of_key(bench, &ann).await, None);

    let by_type = paused("the type", 1, Some(90));
    pause(bench, &scope("", &ann.digest_type), &by_type).await;
    pause(bench, &scope("acme", &ann.digest_type), &paused("both, and shorter", 2, Some(50))).await;
    assert_eq!(of_key(bench, &ann).await, Some(by_type.clone()));
    assert_eq!(of_key(bench, &other_tenant).await, Some(by_type));
    assert_eq!(of_key(bench, &other_type).await, None);

    let by_tenant = paused("the tenant, without an end", 3, None);
    pause(bench, &scope("acme", ""), &by_tenant).await;
    assert_eq!(of_key(bench, &ann).await, Some(by_tenant.clone()));
    assert_eq!(of_key(bench, &other_type).await, Some(by_tenant.clone()));

    let everything = paused("everything", 4, None);
    pause(bench, &scope("", ""), &everything).await;
    assert_eq!(of_key(bench, &ann).await, Some(by_tenant), "of two without an end the earlier");
    assert_eq!(of_key(bench, &Key { digest_type: "other".into(), ..other_tenant }).await, Some(everything));
}

pub async fn a_scope_has_one_pause_and_the_latest_command_holds(bench: &Bench) {
    let acme = scope("acme", "");
    let first = pause(bench, &acme, &paused("wrong prices \0", 1, None)).await;
    assert_eq!((first.scope.clone(), first.messages, first.ended.clone()), (acme.clone(), false, None));
    assert_eq!(pause(bench, &acme, &paused("wrong prices \0", 5, None)).await, first, "repeated: since the first");

    let until = paused("wrong prices, until noon", 9, Some(60));
    let changed = bench.store.pause(&acme, true, &until).await.unwrap();
    assert_eq!(changed, Pause { messages: true, paused: until, ..first });
    assert_eq!(bench.store.pauses(false, at(10)).await.unwrap(), [changed]);
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit
                   WHERE tenant = 'acme' AND digest_type = '' AND user_id = '' AND action = 'pause' AND actor = 'ann'";
    assert_eq!(bench.value(audited).await, "2");
    let told = "SELECT why FROM audit WHERE why LIKE '%until noon%'";
    assert!(bench.value(told).await.ends_with(" (with single messages)"), "{}", bench.value(told).await);
}

pub async fn a_resume_ends_the_pause_of_its_scope_only_and_both_are_audited(bench: &Bench) {
    let (wide, narrow) = (scope("acme", ""), scope("acme", &key("ann").digest_type));
    let wide_pause = pause(bench, &wide, &paused("the tenant", 1, None)).await;
    pause(bench, &narrow, &paused("the type", 2, None)).await;
    let entry = entry(9, "carol", "resume");
    let ended = bench.store.resume(&narrow, &entry).await.unwrap().unwrap();
    let end = ended.ended.clone().unwrap();
    assert_eq!((end.at, end.by.as_str(), end.why.as_str()), (at(9), "carol", entry.why.as_str()));
    assert_eq!(bench.store.resume(&narrow, &entry).await.unwrap(), None);
    assert_eq!(of_key(bench, &key("ann")).await, Some(wide_pause.paused.clone()));
    let open = bench.store.pauses(false, at(10)).await.unwrap();
    assert_eq!(open, std::slice::from_ref(&wide_pause));
    assert_eq!(bench.store.pauses(true, at(10)).await.unwrap(), [ended, wide_pause]);
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit
                   WHERE tenant = 'acme' AND digest_type <> '' AND action = 'resume' AND actor = 'carol'";
    assert_eq!(bench.value(audited).await, "1");
}

pub async fn a_pause_whose_time_is_over_is_history_and_a_new_one_begins(bench: &Bench) {
    let acme = scope("acme", "");
    let lapsed = pause(bench, &acme, &paused("an hour", 1, Some(60))).await;
    assert_eq!(bench.store.pauses(false, at(59)).await.unwrap().len(), 1);
    assert!(bench.store.pauses(false, at(60)).await.unwrap().is_empty());
    assert_eq!(bench.store.resume(&acme, &entry(61, "ann", "resume")).await.unwrap(), None);

    let again = pause(bench, &acme, &paused("another", 62, None)).await;
    assert_ne!(again.id, lapsed.id);
    let all = bench.store.pauses(true, at(63)).await.unwrap();
    assert_eq!(all[0], again);
    let end = all[1].ended.clone().unwrap();
    assert_eq!((all[1].id, end.at, end.by.as_str()), (lapsed.id, at(60), "tidings"));
    assert_eq!(of_key(bench, &key("ann")).await, Some(again.paused));
}

pub async fn messages_wait_only_for_a_pause_with_messages(bench: &Bench) {
    let of = async |tenant: &str| bench.store.pause_of_messages(tenant).await.unwrap();
    pause(bench, &scope("acme", ""), &paused("digests only", 1, None)).await;
    assert_eq!(of("acme").await, None);
    let with = paused("messages, too", 2, None);
    bench.store.pause(&scope("acme", "alerts"), true, &with).await.unwrap();
    assert_eq!((of("acme").await, of("zeta").await), (Some(with), None));
    let all = paused("everything", 3, None);
    bench.store.pause(&scope("", ""), true, &all).await.unwrap();
    assert_eq!(of("zeta").await, Some(all));
}

pub async fn of_many_pauses_of_a_scope_at_once_one_stays(bench: &Bench) {
    let acme = scope("acme", "");
    let (acme, terms): (_, Vec<_>) = (&acme, (0..12).map(|n| paused(&format!("reason {n}"), n, None)).collect());
    let ids = join_all(terms.iter().map(|paused| async { pause(bench, acme, paused).await.id })).await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(bench.store.pauses(true, at(99)).await.unwrap().len(), 1);
}
