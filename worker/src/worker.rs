//! Run loop for all workers: both streams, the purge and deliveries to subscriptions.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use futures::future::{try_join, try_join_all};
use temporalio_client::Client;
use temporalio_sdk::WorkerOptions;
use tidings_activities::{RetentionActivities, SubscriptionActivities};
use tidings_mail::{render::TemplateRenderer, smtp::SmtpTimeouts};
use tidings_model::{
    process::{ProcessProfile, ProcessRole},
    settings::UnknownRecipients,
    zone_data,
};
use tidings_operations::{subscriptions::NoticeWatch, sweep::RunSweep};
use tidings_services::{
    StepServices,
    installation::{ClaimRefusal, InstallationError, WorkerHeartbeat},
    processes::require_agreement,
    relays::RelaySet,
};
use tidings_store::Store;
use tokio_util::sync::CancellationToken;

use crate::{
    Config, client,
    config::TemporalConfig,
    installation,
    limits::{self, OWN_DESCRIPTORS},
    names, storage,
};

mod metrics;
mod producer_faults;
pub mod recycle;
pub mod registration;
pub mod retention_schedule;
pub mod sdk;
pub(crate) mod server_check;

use metrics::MetricsPoller;
pub(crate) use metrics::{BackgroundTask, CONNECTIONS as METRICS_CONNECTIONS, serve_metrics as listen_for_metrics};
use registration::PatchMode;
use retention_schedule::RetentionSchedule;

const RECONNECT: Duration = Duration::from_secs(5);

/// Runs until `shutdown` is cancelled. Activities in progress finish first.
///
/// # Errors
/// The DKIM key or the directory's query is wrong, Temporal or the database does not respond, a template is
/// broken, or the namespace belongs to another installation.
pub async fn run(
    config: Config,
    unknown_recipients: UnknownRecipients,
    patches: PatchMode,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let settings = config.settings(unknown_recipients)?;
    let signers = config.signers()?;
    let directory = config.checked_directory().await?;
    config.log_warnings();
    let connections: usize = settings.relays.values().map(|relay| relay.connections).sum();
    let needed = OWN_DESCRIPTORS + METRICS_CONNECTIONS + connections;
    limits::check_descriptors(limits::raise_descriptors(), needed, "some connections to relays may fail");
    let _listening = match config.metrics_listen {
        Some(address) => {
            tidings_services::metrics::create_series(&settings);
            Some(metrics::serve_metrics(address, tidings_services::metrics::encode_text).await?)
        }
        None => None,
    };
    let Some(client) = connect_with_retry(&config.temporal, "worker", &shutdown).await else { return Ok(()) };
    server_check::check_server(&client).await?;
    let store = storage::open(&config.database_url).await?;
    let own = installation::profile(&config, ProcessRole::Worker, &signers);
    let mut beats = WorkerHeartbeat::new(store.clone(), client.clone(), own.clone());
    let process = beats.process();
    match shutdown.run_until_cancelled(installation::wait_until_admitted(&*store, &client)).await {
        Some(admitted) => admitted?,
        None => return Ok(()),
    }
    send_first_beat(&mut beats, &*store).await?;
    names::store_names(&*store, &config).await?;
    names::log_unknown(&*store, &config).await;
    store.keep_zone_release(&zone_data().release).await?;
    compare_zone_data(&*store).await?;
    let mut beating = beats.run();
    let poller = || MetricsPoller::new(store.clone(), client.clone(), settings.clone(), &config);
    let _polling = config.metrics_listen.map(|_| poller().start());
    let relays = Arc::new(RelaySet::new(&settings.relays, SmtpTimeouts::default())?.for_settings(&settings));
    // Removes old subscriptions only if all processes agree, because another worker may have a newer file.
    // The watch does this later.
    let forgets = require_agreement(&*store, Some(&own)).await.is_ok();
    store.subscribe(&config.subscriptions, forgets).await?;
    let _looking = spawn_polls(&config, &store, &client, &own);
    let retention = RetentionActivities {
        store: store.clone(),
        retention: config.retention.settings.clone(),
        task_queue: config.task_queue.clone(),
        names: config.names.clone(),
        own,
    };
    retention.remember_archive().await?;
    let renderer = Arc::new(TemplateRenderer::new(config.templates.as_deref())?);
    let (relays_of_steps, task_queue) = (relays.clone(), config.task_queue.clone());
    let deps = StepServices {
        store: store.clone(),
        directory,
        renderer,
        signers,
        relays: relays_of_steps,
        settings,
        task_queue,
    };
    let runtime = sdk::runtime()?;
    let workers = build_workers(&config, deps, retention, patches)?;
    tracing::info!(
        temporal = config.temporal.address(),
        namespace = config.temporal.namespace(),
        task_queue = config.task_queue,
        bulk = config.streams.bulk.settings.relays.join(", "),
        transactional = config.streams.transactional.settings.relays.join(", "),
        zone_data = %zone_data(),
        "worker started"
    );
    let schedule = RetentionSchedule { task_queue: &config.task_queue, at: config.retention.at };
    let workers =
        workers.iter().map(|options| recycle::run(&runtime, &client, options, recycle::ACTIVITIES, &shutdown));
    let scheduled = async {
        shutdown.run_until_cancelled(schedule.maintain_schedule(&client)).await;
        Ok(())
    };
    let mut running = pin!(try_join(try_join_all(workers), scheduled));
    let mut refused = None;
    tokio::select! {
        ended = &mut running => ended.map(drop)?,
        refusal = &mut beating => {
            tracing::error!(%refusal, "stopping worker");
            shutdown.cancel();
            refused = Some(refusal);
            running.await?;
        }
        () = shutdown.cancelled() => {
            tracing::info!("stopping worker");
            running.await?;
        }
    }
    relays.close().await;
    if let Err(error) = store.remove_process(process).await {
        tracing::warn!(%error, "cannot deregister this worker: it counts as alive for another minute");
    }
    refused.map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// Fails if this machine's clock is wrong. After another failure, the next heartbeat should do.
async fn send_first_beat(beats: &mut WorkerHeartbeat, store: &dyn Store) -> anyhow::Result<()> {
    match beats.beat().await {
        Ok(()) => Ok(()),
        Err(InstallationError::Refused(refusal @ ClaimRefusal::Clock { .. })) => {
            store.remove_process(beats.process()).await?;
            Err(refusal.into())
        }
        Err(error) => {
            tracing::warn!(%error, "cannot record this worker's heartbeat; retrying");
            Ok(())
        }
    }
}

/// Needed even without subscriptions, because notices may wait for a removed one.
fn spawn_polls(config: &Config, store: &Arc<dyn Store>, client: &Client, own: &ProcessProfile) -> [BackgroundTask; 2] {
    let task_queue = || config.task_queue.clone();
    let watch = NoticeWatch::new(store.clone(), client.clone(), task_queue());
    let watch = watch.of_file(config.subscriptions.clone(), own.clone());
    let events = tidings_client::Config {
        task_queue: task_queue(),
        deadline: client::DEADLINE,
        ..tidings_client::Config::default()
    };
    let events = tidings_client::Client::new(client.clone(), events);
    let sweep = RunSweep::new(store.clone(), client.clone(), events, task_queue());
    [BackgroundTask::new(&tokio::spawn(watch.run())), BackgroundTask::new(&tokio::spawn(sweep.run()))]
}

fn build_workers(
    config: &Config,
    deps: StepServices,
    retention: RetentionActivities,
    patches: PatchMode,
) -> anyhow::Result<Vec<WorkerOptions>> {
    let task_queue = &config.task_queue;
    let subscriptions: BTreeMap<_, _> =
        config.subscriptions.iter().map(|one| (one.name.clone(), one.clone())).collect();
    let is_subscribed = !subscriptions.is_empty();
    let subscriptions = SubscriptionActivities { store: deps.store.clone(), subscriptions };
    let mut workers = vec![
        registration::digest_worker(task_queue, deps.clone())?,
        registration::transactional_worker(task_queue, deps.clone())?,
        registration::bulk_worker(task_queue, deps)?,
        registration::retention_worker(task_queue, retention)?,
    ];
    if is_subscribed {
        workers.push(registration::subscription_worker(task_queue, subscriptions)?);
    }
    let cached = config.cached_workflows.unwrap_or_else(|| registration::cached_workflows(limits::memory()));
    for worker in &mut workers {
        patches.apply(worker);
        worker.max_cached_workflows = cached.min(worker.max_cached_workflows);
    }
    Ok(workers)
}

/// Warns if another worker has newer zone data: their local times may differ.
pub(crate) async fn compare_zone_data(store: &dyn Store) -> tidings_store::Result<()> {
    let release = &zone_data().release;
    let newest = store.zone_release().await?;
    if newest > *release {
        tracing::warn!(
            release,
            newest,
            "zone data is older than another worker's: update the package tzdata, or the program"
        );
    }
    Ok(())
}

/// Connects to Temporal, and retries until it responds. Returns `None` if `shutdown` is cancelled meanwhile.
pub(crate) async fn connect_with_retry(
    temporal: &TemporalConfig,
    who: &str,
    shutdown: &CancellationToken,
) -> Option<Client> {
    let connecting = async {
        loop {
            match temporal.connect().await {
                Ok(client) => break client,
                Err(error) => tracing::warn!(%error, "cannot connect the {who} to Temporal; retrying in 5 s"),
            }
            tokio::time::sleep(RECONNECT).await;
        }
    };
    shutdown.run_until_cancelled(connecting).await
}
