//! Runs our code will not finish, and the sweep that finds them.

use futures::future::join_all;
use jiff::Timestamp;
use tidings_model::{
    Key, PersonId,
    troubled_run::{FoundRun, RunId, RunResolution, RunTrouble, SweepProgress},
};
use uuid::Uuid;

use super::{Bench, at, entry};

const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);
const QUEUE: &str = "tidings";

fn run(tenant: &str, user: &str, run: &str, trouble: RunTrouble, seconds: i64) -> FoundRun {
    let key = Key::new(tenant.into(), "activity".into(), user.into()).unwrap();
    let id = RunId { workflow_id: key.workflow_id(), run_id: run.to_owned() };
    FoundRun { id, trouble, since: at(seconds) }
}

fn ann(run_id: &str, trouble: RunTrouble) -> FoundRun {
    run("acme", "ann", run_id, trouble, 10)
}

async fn ended(bench: &Bench, runs: &[FoundRun], seconds: i64) {
    bench.store.put_ended_runs(runs, QUEUE, at(seconds)).await.unwrap();
}

async fn open(bench: &Bench, runs: &[FoundRun], are_all: bool, seconds: i64) {
    bench.store.put_open_runs(runs, are_all, QUEUE, at(seconds)).await.unwrap();
}

/// The due runs, with their tries.
async fn due(bench: &Bench, seconds: i64) -> Vec<(String, u32)> {
    let due = bench.store.due_runs(10, at(seconds)).await.unwrap();
    due.into_iter().map(|due| (due.run.id.run_id, due.tries)).collect()
}

async fn resolve(bench: &Bench, run: &FoundRun, resolution: RunResolution, seconds: i64) {
    let entry = entry(seconds, "ann", resolution.name());
    bench.store.resolve_run(run, QUEUE, resolution, Some(&entry), at(seconds)).await.unwrap();
}

async fn listed(bench: &Bench, tenant: Option<&str>) -> Vec<String> {
    let listed = bench.store.troubled_runs(tenant, 10).await.unwrap();
    listed.into_iter().map(|listed| listed.run.id.run_id).collect()
}

pub async fn one_worker_looks_at_a_time_and_the_next_look_comes_later(bench: &Bench) {
    let lease = async |holder, seconds| bench.store.lease_sweep(holder, at(seconds)).await.unwrap();
    let first = lease(ONE, 0).await.unwrap();
    assert_eq!(first, SweepProgress { open_at: Timestamp::UNIX_EPOCH, ..SweepProgress::start_at(at(0)) });
    assert_eq!((lease(TWO, 0).await, lease(TWO, 59).await), (None, None));
    let swept = SweepProgress { until: at(3), far_at: at(2), open_at: at(1) };
    bench.store.end_sweep(ONE, swept, at(5)).await.unwrap();
    assert_eq!((lease(TWO, 9).await, lease(TWO, 10).await), (None, Some(swept)));
    // The worker is gone, and one that was away for longer than its lease changes nothing.
    assert_eq!(lease(ONE, 70).await, Some(swept));
    bench.store.end_sweep(TWO, first, at(70)).await.unwrap();
    assert_eq!((lease(TWO, 80).await, lease(TWO, 130).await), (None, Some(swept)));
}

pub async fn of_many_workers_at_once_one_has_the_sweep(bench: &Bench) {
    let leases = join_all((0..8).map(|n| bench.store.lease_sweep(Uuid::from_u128(n), at(0)))).await;
    assert_eq!(leases.into_iter().filter_map(Result::unwrap).count(), 1);
}

pub async fn an_ended_run_is_handled_once_however_often_it_is_found(bench: &Bench) {
    let runs = [ann("r1", RunTrouble::TimedOut), ann("r2", RunTrouble::Failed)];
    ended(bench, &runs, 20).await;
    ended(bench, &[runs[0].clone(), runs[0].clone()], 21).await;
    assert_eq!(due(bench, 21).await, [("r1".to_owned(), 1), ("r2".to_owned(), 1)]);
    assert_eq!(due(bench, 22).await, [], "both are leased");
    resolve(bench, &runs[0], RunResolution::Recovered, 22).await;
    resolve(bench, &runs[0], RunResolution::Dismissed, 23).await;
    ended(bench, &runs, 24).await;
    assert_eq!(due(bench, 9_000).await, [("r2".to_owned(), 2)], "its worker is gone");
    assert_eq!(listed(bench, None).await, ["r2"]);
    let audited = bench.value("SELECT string_agg(user_id || ' ' || action, ', ') FROM audit").await;
    assert_eq!(audited, "ann recovered");
}

pub async fn of_many_workers_at_once_one_recovers_a_run(bench: &Bench) {
    ended(bench, &[ann("r1", RunTrouble::TimedOut)], 20).await;
    let due = join_all((0..8).map(|_| bench.store.due_runs(10, at(20)))).await;
    assert_eq!(due.into_iter().flat_map(Result::unwrap).count(), 1);
}

pub async fn a_run_of_an_operator_stays_in_the_list_until_it_is_resolved(bench: &Bench) {
    let (one, other) = (ann("r1", RunTrouble::Terminated), run("zeta", "bo", "r9", RunTrouble::Terminated, 30));
    ended(bench, &[one.clone(), other], 40).await;
    due(bench, 40).await;
    bench.store.list_run(&one.id, Some("cy\0@desk"), "by mistake", None).await.unwrap();
    ended(bench, std::slice::from_ref(&one), 41).await;
    assert_eq!(due(bench, 299).await, [], "the other one is leased");
    assert_eq!(due(bench, 9_000).await, [("r9".to_owned(), 2)]);
    assert_eq!(listed(bench, None).await, ["r9", "r1"]);
    assert_eq!(listed(bench, Some("acme")).await, ["r1"]);
    let listed = bench.store.troubled_runs(Some("acme"), 10).await.unwrap().remove(0);
    assert_eq!((listed.by.as_deref(), listed.why.as_deref()), (Some("cy\u{fffd}@desk"), Some("by mistake")));
    let counts = bench.store.count_troubled_runs(None).await.unwrap();
    assert_eq!(counts, [(RunTrouble::Terminated, 2, at(10))]);
    // A refused recovery keeps who ended the run.
    bench.store.list_run(&one.id, None, "digest 1 is past the dot", Some(at(500))).await.unwrap();
    let listed = bench.store.troubled_runs(Some("acme"), 10).await.unwrap().remove(0);
    assert_eq!((listed.by.is_some(), listed.why.as_deref()), (true, Some("digest 1 is past the dot")));
    resolve(bench, &one, RunResolution::ByHand, 600).await;
    assert_eq!(bench.store.count_troubled_runs(Some("acme")).await.unwrap(), []);
    assert_eq!(bench.store.resolved_runs(&one.id.workflow_id).await.unwrap(), ["r1".to_owned()].into());
    assert!(!due(bench, 99_000).await.iter().any(|(run, _)| run == "r1"));
}

pub async fn an_open_run_leaves_the_list_with_its_trouble_and_comes_back(bench: &Bench) {
    let (paused, wrong) = (ann("r1", RunTrouble::Paused), run("acme", "bo", "r2", RunTrouble::WrongType, 20));
    open(bench, &[paused.clone(), wrong.clone()], true, 30).await;
    assert_eq!(due(bench, 99_000).await, [], "no worker can do anything about them");
    assert_eq!(listed(bench, None).await, ["r2", "r1"]);
    let counts = bench.store.count_troubled_runs(None).await.unwrap();
    assert_eq!(counts, [(RunTrouble::Paused, 1, at(30)), (RunTrouble::WrongType, 1, at(30))]);
    open(bench, &[], false, 31).await;
    assert_eq!(listed(bench, None).await, ["r2", "r1"]);
    open(bench, std::slice::from_ref(&wrong), true, 32).await;
    assert_eq!(listed(bench, None).await, ["r2"]);
    open(bench, &[paused, wrong.clone()], true, 33).await;
    assert_eq!(listed(bench, None).await, ["r2", "r1"]);
    resolve(bench, &wrong, RunResolution::Dismissed, 34).await;
    open(bench, std::slice::from_ref(&wrong), true, 35).await;
    assert_eq!(listed(bench, None).await, [] as [&str; 0], "what was dismissed stays so");
}

pub async fn an_open_run_that_is_ended_is_due(bench: &Bench) {
    let wrong = ann("r1", RunTrouble::WrongType);
    open(bench, std::slice::from_ref(&wrong), true, 30).await;
    open(bench, &[], true, 31).await;
    ended(bench, &[FoundRun { trouble: RunTrouble::Terminated, since: at(31), ..wrong }], 32).await;
    assert_eq!(due(bench, 32).await, [("r1".to_owned(), 1)]);
    let counts = bench.store.count_troubled_runs(None).await.unwrap();
    assert_eq!(counts, [(RunTrouble::Terminated, 1, at(31))]);
    open(bench, &[], true, 33).await;
    assert_eq!(listed(bench, None).await, ["r1"]);
}

pub async fn recoveries_of_a_workflow_id_are_counted(bench: &Bench) {
    for (id, seconds) in [("r1", 100), ("r2", 200), ("r3", 300)] {
        resolve(bench, &ann(id, RunTrouble::TimedOut), RunResolution::Recovered, seconds).await;
    }
    resolve(bench, &ann("r4", RunTrouble::TimedOut), RunResolution::ByHand, 300).await;
    resolve(bench, &run("acme", "bo", "r5", RunTrouble::TimedOut, 10), RunResolution::Recovered, 300).await;
    let workflow = ann("", RunTrouble::TimedOut).id.workflow_id;
    assert_eq!(bench.store.count_recoveries(&workflow, at(200)).await.unwrap(), 2);
}

pub async fn an_erased_person_has_no_run_in_the_list_and_none_is_recovered(bench: &Bench) {
    let (hers, his) = (ann("r1", RunTrouble::Terminated), run("acme", "bo", "r2", RunTrouble::Terminated, 20));
    ended(bench, &[hers.clone(), his], 30).await;
    bench.store.list_run(&hers.id, Some("cy"), "ann@example.net asked", Some(at(40))).await.unwrap();
    let person = PersonId { tenant: "acme".into(), user: "ann".into() };
    bench.store.erase_choices(&person, &["activity".to_owned()].into()).await.unwrap();
    ended(bench, std::slice::from_ref(&hers), 41).await;
    assert_eq!(listed(bench, None).await, ["r2"]);
    assert_eq!(due(bench, 42).await, [("r2".to_owned(), 1)]);
    assert!(!bench.dump().await.contains("ann@example.net"));
}

pub async fn resolved_runs_are_forgotten_by_age_and_listed_ones_are_not(bench: &Bench) {
    ended(bench, &[ann("listed", RunTrouble::Terminated)], 10).await;
    for (id, seconds) in [("old", 100), ("older", 50), ("new", 200)] {
        resolve(bench, &ann(id, RunTrouble::TimedOut), RunResolution::Recovered, seconds).await;
    }
    let rows = "SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM troubled_runs";
    bench.store.forget_runs(at(150), 1).await.unwrap();
    assert_eq!(bench.value(rows).await, "listed new old");
    bench.store.forget_runs(at(150), 10).await.unwrap();
    assert_eq!(bench.value(rows).await, "listed new");
}
