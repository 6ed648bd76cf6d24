//! One gateway holds a job, each key is ordered once, and its first result counts.

use std::collections::BTreeSet;

use futures::future::join_all;
use jiff::SignedDuration;
use serde_json::json;
use tidings_model::{
    Key, PersonId,
    command::CommandContext,
    job::{Job, JobFilter, JobState, JobTask, KeyResult, KeyState, LEASE, MOST_RUNNING, MOST_WAITING},
    records::PageRequest,
};
use uuid::Uuid;

use super::{Bench, at, entry, key};

const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);
const USERS: [&str; 3] = ["ann", "bo", "cy"];

fn job(number: u128, tenant: Option<&str>, task: JobTask, seconds: i64) -> Job {
    let order = CommandContext { by: "token:1".into(), why: "ticket 812".into() };
    let id = Uuid::from_u128(number);
    Job::new(id, task, "digest_type=activity".into(), tenant.map(str::to_owned), order, at(seconds))
}

async fn post(bench: &Bench, job: &Job) -> Job {
    bench.store.post_job(job).await.unwrap().unwrap()
}

async fn read(bench: &Bench, id: Uuid) -> Job {
    bench.store.job(None, id).await.unwrap().unwrap()
}

async fn lease(bench: &Bench, holder: Uuid, seconds: i64) -> Option<Uuid> {
    bench.store.lease_job(holder, at(seconds)).await.unwrap().map(|job| job.id)
}

/// A running job of `acme`, held by [`ONE`], with these users' keys.
async fn running(bench: &Bench, task: JobTask) -> Uuid {
    let id = post(bench, &job(1, Some("acme"), task, 0)).await.id;
    assert_eq!(lease(bench, ONE, 1).await, Some(id));
    assert!(bench.store.add_job_keys(id, ONE, &USERS.map(key), true, at(2)).await.unwrap());
    id
}

async fn send(bench: &Bench, id: Uuid, holder: Uuid, limit: u32, seconds: i64) -> Option<Vec<String>> {
    let keys = bench.store.send_job_keys(id, holder, limit, at(seconds)).await.unwrap()?;
    Some(keys.into_iter().map(|key| key.user).collect::<BTreeSet<_>>().into_iter().collect())
}

async fn end(bench: &Bench, id: Uuid, results: &[KeyResult], seconds: i64) {
    bench.store.end_job_keys(id, results, at(seconds)).await.unwrap();
}

async fn states(bench: &Bench, id: Uuid) -> Vec<(String, KeyState)> {
    let page = PageRequest { limit: 50, after: None };
    let rows = bench.store.job_results(id, &page).await.unwrap().rows;
    rows.into_iter().map(|row| (row.key.user, row.state)).collect()
}

fn counts(job: &Job) -> (Option<u64>, u64, u64) {
    (job.matched, job.done, job.failed)
}

pub async fn a_job_is_posted_once_under_its_id_and_audited(bench: &Bench) {
    let first = job(1, Some("acme"), JobTask::Hold { until: Some(at(900)) }, 0);
    assert_eq!(post(bench, &first).await, first);
    assert_eq!(post(bench, &job(1, Some("acme"), JobTask::Drop, 5)).await, first);
    assert_eq!(read(bench, first.id).await, first);
    assert_eq!(bench.store.job(None, TWO).await.unwrap(), None);
    post(bench, &Job { dry_run: true, ..job(2, None, JobTask::Flush, 1) }).await;
    let audited =
        bench.value("SELECT string_agg(tenant || ' ' || action || ' ' || actor || ' ' || why, '; ') FROM audit").await;
    assert_eq!(audited, format!("acme job hold token:1 ticket 812 (job {} where digest_type=activity)", first.id));
}

pub async fn an_idempotency_key_is_of_its_first_content_until_it_is_forgotten(bench: &Bench) {
    let used = async |id: Uuid, content: &str, seconds: i64| {
        bench.store.use_idempotency_key(id, content, at(seconds)).await.unwrap()
    };
    assert!(used(ONE, "a", 0).await && used(ONE, "a", 5).await && used(TWO, "b", 5).await);
    assert!(!used(ONE, "b", 6).await);
    let at_once = join_all((0..6).map(|n| used(Uuid::from_u128(9), ["x", "y"][n % 2], 6))).await;
    assert_eq!(at_once.iter().filter(|is_same| **is_same).count(), 3, "one content wins");
    bench.store.forget_job(at(6)).await.unwrap();
    assert!(!used(ONE, "b", 7).await, "it was used lately");
    assert!(used(TWO, "c", 7).await);
}

pub async fn a_job_of_another_tenant_is_not_read(bench: &Bench) {
    post(bench, &job(1, Some("acme"), JobTask::Flush, 0)).await;
    post(bench, &job(2, None, JobTask::Flush, 0)).await;
    let read = async |tenant: Option<&str>, id: Uuid| bench.store.job(tenant, id).await.unwrap().is_some();
    assert!(read(Some("acme"), ONE).await && read(None, ONE).await && read(None, TWO).await);
    assert!(!read(Some("zeta"), ONE).await && !read(Some("acme"), TWO).await && !read(Some("a\0"), ONE).await);
}

pub async fn a_tenant_has_a_hundred_jobs_without_an_end(bench: &Bench) {
    for number in 1..=u128::from(MOST_WAITING) {
        post(bench, &job(number, Some("acme"), JobTask::Flush, 0)).await;
    }
    let more = job(900, Some("acme"), JobTask::Flush, 1);
    assert_eq!(bench.store.post_job(&more).await.unwrap(), None);
    post(bench, &job(901, Some("zeta"), JobTask::Flush, 1)).await;
    let first = post(bench, &job(1, Some("acme"), JobTask::Flush, 0)).await;
    assert_eq!(first.id, ONE, "a repeated request gets its job");
    bench.store.cancel_job(ONE, &entry(2, "bo", "job cancel")).await.unwrap();
    assert_eq!(post(bench, &more).await, more);
}

pub async fn jobs_are_listed_latest_first_in_pages_by_tenant(bench: &Bench) {
    for (number, tenant, seconds) in [(1, Some("acme"), 0), (2, Some("zeta"), 1), (3, None, 2), (4, Some("acme"), 2)] {
        post(bench, &job(number, tenant, JobTask::Flush, seconds)).await;
    }
    let mut filter = JobFilter { tenant: None, page: PageRequest { limit: 3, after: None } };
    let first = bench.store.jobs(&filter).await.unwrap();
    let numbers = |rows: &[Job]| rows.iter().map(|job| job.id.as_u128()).collect::<Vec<_>>();
    assert_eq!(numbers(&first.rows), [4, 3, 2]);
    filter.page.after = first.next;
    // A newer job moves no row of the pages that follow.
    post(bench, &job(5, None, JobTask::Flush, 9)).await;
    let rest = bench.store.jobs(&filter).await.unwrap();
    assert_eq!((numbers(&rest.rows), rest.next), (vec![1], None));
    let of_acme = JobFilter { tenant: Some("acme".into()), page: PageRequest { limit: 3, after: None } };
    assert_eq!(numbers(&bench.store.jobs(&of_acme).await.unwrap().rows), [4, 1]);
}

pub async fn a_tenant_has_one_running_job_and_all_tenants_four(bench: &Bench) {
    let tenants = ["acme", "acme", "b", "c", "d", "e"];
    for (number, tenant) in (1..).zip(tenants) {
        post(bench, &job(number, Some(tenant), JobTask::Flush, i64::try_from(number).unwrap())).await;
    }
    let mut leased = Vec::new();
    while let Some(id) = lease(bench, ONE, 10).await {
        leased.push(id.as_u128());
    }
    assert_eq!((leased, MOST_RUNNING), (vec![1, 3, 4, 5], 4));
    bench.store.end_job(Uuid::from_u128(4), ONE, JobState::Done, "", at(11)).await.unwrap();
    assert_eq!(lease(bench, TWO, 11).await, Some(Uuid::from_u128(6)), "the other job of acme waits for the first");
    bench.store.end_job(ONE, ONE, JobState::Failed, "too many keys", at(12)).await.unwrap();
    assert_eq!(lease(bench, TWO, 12).await, Some(TWO));
    let failed = read(bench, ONE).await;
    assert_eq!((failed.state, failed.problem.as_deref()), (JobState::Failed, Some("too many keys")));
    assert_eq!((failed.started_at, failed.ended_at), (Some(at(10)), Some(at(12))));
}

pub async fn of_many_gateways_at_once_one_has_the_job(bench: &Bench) {
    post(bench, &job(1, Some("acme"), JobTask::Flush, 0)).await;
    post(bench, &job(2, Some("acme"), JobTask::Flush, 0)).await;
    let leased = join_all((1..20).map(|holder| bench.store.lease_job(Uuid::from_u128(holder), at(1)))).await;
    let leased: Vec<_> = leased.into_iter().filter_map(|leased| leased.unwrap()).collect();
    assert_eq!(leased.len(), 1, "{leased:?}");
    assert_eq!((leased[0].id, leased[0].state), (ONE, JobState::Running));
}

pub async fn a_gateway_that_lost_its_job_changes_nothing(bench: &Bench) {
    let id = running(bench, JobTask::Release).await;
    let late = LEASE.as_secs() + 3;
    assert_eq!(lease(bench, TWO, late - 2).await, None, "adding keys extended the lease");
    assert_eq!(lease(bench, TWO, late).await, Some(id));
    assert!(!bench.store.add_job_keys(id, ONE, &[key("di")], true, at(late)).await.unwrap());
    assert_eq!(send(bench, id, ONE, 9, late).await, None);
    bench.store.end_job(id, ONE, JobState::Done, "", at(late)).await.unwrap();
    bench.store.give_job_back(id, ONE).await.unwrap();
    assert_eq!(lease(bench, ONE, late).await, None);
    let job = read(bench, id).await;
    assert_eq!((job.state, counts(&job)), (JobState::Running, (Some(3), 0, 0)));
    bench.store.give_job_back(id, TWO).await.unwrap();
    assert_eq!(lease(bench, ONE, late).await, Some(id));
}

pub async fn keys_are_sent_once_and_their_first_result_counts(bench: &Bench) {
    let id = running(bench, JobTask::Flush).await;
    assert!(bench.store.add_job_keys(id, ONE, &[key("ann")], true, at(2)).await.unwrap());
    assert_eq!(send(bench, id, ONE, 2, 3).await.unwrap(), ["ann", "bo"]);
    let done = KeyResult::done(key("ann"), json!({"events": 1, "why": "a \0"}));
    let refused = KeyResult { problem: Some("no \0".into()), ..KeyResult::failed(key("bo"), "") };
    end(bench, id, &[done.clone(), refused.clone(), KeyResult::failed(key("cy"), "was not sent")], 4).await;
    end(bench, id, &[KeyResult::failed(key("ann"), "again"), KeyResult::done(key("bo"), json!(1))], 5).await;
    assert_eq!(counts(&read(bench, id).await), (Some(3), 1, 1));
    assert_eq!(send(bench, id, ONE, 2, 6).await.unwrap(), ["cy"]);
    assert_eq!(send(bench, id, ONE, 2, 7).await.unwrap(), [""; 0]);
    let first = bench.store.job_results(id, &PageRequest { limit: 2, after: None }).await.unwrap();
    let done = KeyResult { ended_at: Some(at(4)), ..done };
    let refused = KeyResult { problem: Some("no \u{fffd}".into()), ended_at: Some(at(4)), ..refused };
    assert_eq!(first.rows, [done, refused]);
    let rest = bench.store.job_results(id, &PageRequest { limit: 2, after: first.next }).await.unwrap();
    assert_eq!((rest.rows.len(), rest.rows[0].state, rest.next), (1, KeyState::Sent, None));
}

pub async fn an_order_without_an_answer_is_given_again_only_if_it_is_idempotent(bench: &Bench) {
    let late = LEASE.as_secs() + 10;
    for (number, task) in (1..).zip([
        JobTask::Flush,
        JobTask::Hold { until: None },
        JobTask::Release,
        JobTask::Drop,
        JobTask::Retime { at: None },
        JobTask::Reopen { digest_id: None, may_duplicate: false },
    ]) {
        let (id, tenant) = (Uuid::from_u128(number), number.to_string());
        let job = post(bench, &job(number, Some(&tenant), task, 0)).await;
        assert_eq!(lease(bench, ONE, 1).await, Some(id));
        bench.store.add_job_keys(id, ONE, &USERS.map(key), true, at(2)).await.unwrap();
        send(bench, id, ONE, 2, 3).await;
        end(bench, id, &[KeyResult::done(key("ann"), json!({}))], 4).await;
        assert_eq!(lease(bench, TWO, late).await, Some(id));
        let (then, failed) = if job.task.is_idempotent() { (KeyState::Left, 0) } else { (KeyState::Failed, 1) };
        let expected = [("ann", KeyState::Done), ("bo", then), ("cy", KeyState::Left)];
        assert_eq!(states(bench, id).await, expected.map(|(user, state)| (user.to_owned(), state)), "{job:?}");
        assert_eq!(counts(&read(bench, id).await), (Some(3), 1, failed), "{job:?}");
        bench.store.end_job(id, TWO, JobState::Done, "", at(late)).await.unwrap();
    }
}

pub async fn a_cancelled_job_sends_no_more_and_takes_the_answers_under_way(bench: &Bench) {
    let id = running(bench, JobTask::Flush).await;
    send(bench, id, ONE, 1, 3).await;
    let cancelled = bench.store.cancel_job(id, &entry(4, "bo", "job cancel")).await.unwrap().unwrap();
    assert_eq!((cancelled.state, cancelled.ended_at), (JobState::Cancelled, Some(at(4))));
    assert_eq!(send(bench, id, ONE, 9, 5).await, None);
    end(bench, id, &[KeyResult::done(key("ann"), json!({}))], 5).await;
    bench.store.end_job(id, ONE, JobState::Done, "", at(6)).await.unwrap();
    let again = bench.store.cancel_job(id, &entry(7, "cy", "job cancel")).await.unwrap().unwrap();
    assert_eq!((again.state, again.ended_at, counts(&again)), (JobState::Cancelled, Some(at(4)), (Some(3), 1, 0)));
    assert_eq!(lease(bench, TWO, 900).await, None);
    assert_eq!(bench.store.cancel_job(TWO, &entry(7, "cy", "job cancel")).await.unwrap(), None);
    let audited = "SELECT string_agg(actor, ', ') FROM audit WHERE action = 'job cancel'";
    assert_eq!(bench.value(audited).await, "bo");
}

pub async fn a_job_is_forgotten_by_the_age_of_its_end_with_its_keys(bench: &Bench) {
    let id = running(bench, JobTask::Flush).await;
    let day = SignedDuration::from_hours(24);
    assert!(!bench.store.forget_job(at(900) + day).await.unwrap(), "it has no end");
    bench.store.end_job(id, ONE, JobState::Done, "", at(900)).await.unwrap();
    assert!(!bench.store.forget_job(at(900)).await.unwrap());
    assert!(bench.store.forget_job(at(901)).await.unwrap());
    assert!(!bench.store.forget_job(at(901)).await.unwrap());
    assert_eq!(bench.store.job(None, id).await.unwrap(), None);
    assert_eq!(states(bench, id).await, []);
}

pub async fn an_erasure_takes_the_results_of_the_person_only(bench: &Bench) {
    let id = running(bench, JobTask::Flush).await;
    let ann = PersonId { tenant: "acme".into(), user: "ann".into() };
    let types = ["activity".to_owned()].into();
    bench.store.erase_choices(&ann, &types).await.unwrap();
    let left: Vec<Key> = bench.store.send_job_keys(id, ONE, 9, at(3)).await.unwrap().unwrap();
    assert_eq!(left.into_iter().collect::<BTreeSet<_>>(), [key("bo"), key("cy")].into());
    // Bo's order is under way, and cy's has its result.
    end(bench, id, &[KeyResult::done(key("cy"), json!({}))], 4).await;
    for user in ["bo", "cy"] {
        let person = PersonId { tenant: "acme".into(), user: user.into() };
        bench.store.erase_choices(&person, &types).await.unwrap();
    }
    assert_eq!(counts(&read(bench, id).await), (Some(1), 1, 0), "the counts add up");
}
