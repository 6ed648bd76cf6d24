//! Days and weeks in seconds, on the time-skipping server.

use std::{
    env,
    net::TcpListener,
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, Url, WorkflowGetResultOptions, tonic::IntoRequest,
};
use temporalio_common::protos::temporal::api::testservice::v1::{
    LockTimeSkippingRequest, SleepRequest, UnlockTimeSkippingRequest,
};
use tidings::registration;
use tidings_activities::store::{Sqlite, Store};
use tidings_tests::{
    relay::Relay,
    stage::{Running, activities, eventually, key, settings, signal, sqlite},
};
use tidings_workflows::{Digest, Inbound, Key, Summary, contract::Outcome, names};

/// The server whose clock jumps while nothing but timers is left.
struct Skipping {
    client: Client,
    process: Child,
}

impl Skipping {
    async fn start() -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let binary = env::var_os("TEMPORAL_TEST_SERVER").unwrap_or_else(|| "temporal-test-server".into());
        let process = Command::new(&binary).arg(port.to_string()).spawn().context("set TEMPORAL_TEST_SERVER")?;
        let client = eventually("the test server is ready", Duration::from_secs(60), async || {
            let url = Url::parse(&format!("http://127.0.0.1:{port}"))?;
            let connection = Connection::connect(ConnectionOptions::new(url).build()).await;
            Ok(connection.ok().map(|connection| Client::new(connection, ClientOptions::new("default").build())))
        })
        .await??;
        Ok(Self { client, process })
    }

    /// Lets `length` pass, whatever the wall clock says.
    async fn sleep(&self, length: Duration) -> Result<()> {
        let request = SleepRequest { duration: Some(length.try_into()?) };
        self.client.connection().test_service().unlock_time_skipping_with_sleep(request.into_request()).await?;
        Ok(())
    }
}

impl Drop for Skipping {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A worker on a time-skipping server.
struct Days {
    server: Skipping,
    store: Arc<Sqlite>,
    relay: Relay,
    _worker: Running,
    _folder: tempfile::TempDir,
}

impl Days {
    async fn start(cadence: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = sqlite(folder.path()).await?;
        let relay = Relay::start().await?;
        let server = Skipping::start().await?;
        let activities = activities(store.clone(), &relay.url(), settings(cadence, cadence))?;
        let options = registration::digests(names::TASK_QUEUE, activities)?;
        let worker = Running::start(server.client.clone(), options)?;
        Ok(Self { server, store, relay, _worker: worker, _folder: folder })
    }

    async fn emit(&self, key: &Key, event_id: &str) -> Result<()> {
        let json = format!(r#"{{"event_id":"{event_id}","category":"comment","occurred_at":1767225600}}"#);
        signal(&self.server.client, key, Inbound::from_json_events([json.as_str()])).await
    }

    async fn completed(&self, key: &Key) -> Result<Summary> {
        let unlock = UnlockTimeSkippingRequest {}.into_request();
        self.server.client.connection().test_service().unlock_time_skipping(unlock).await?;
        let handle = self.server.client.get_workflow_handle::<Digest>(key.workflow_id());
        let result = handle.get_result(WorkflowGetResultOptions::default());
        let summary = tokio::time::timeout(Duration::from_secs(60), result).await.context("it did not complete")??;
        let lock = LockTimeSkippingRequest {}.into_request();
        self.server.client.connection().test_service().lock_time_skipping(lock).await?;
        Ok(summary)
    }
}

fn hours_between(earlier: Timestamp, later: Timestamp) -> i64 {
    later.duration_since(earlier).as_hours()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_s_window_then_a_week_of_silence_then_another() -> Result<()> {
    let days = Days::start("after 1d").await?;
    let key = key("activity", "ann");
    let mut sent = Vec::new();
    for event_id in ["monday", "a week later"] {
        days.emit(&key, event_id).await?;
        let summary = days.completed(&key).await?;
        let last = summary.last.context("no digest")?;
        assert_eq!(last.closed.outcome, Outcome::Sent);
        sent.push(days.store.digest(last.digest_id).await?.context("not in the ledger")?);
        days.server.sleep(Duration::from_secs(7 * 24 * 3600)).await?;
    }
    for digest in &sent {
        assert_eq!(digest.items, 1);
        assert_eq!(hours_between(digest.opened_at, digest.due_at), 24);
    }
    assert!(hours_between(sent[0].due_at, sent[1].opened_at) >= 7 * 24);
    assert_eq!(days.relay.mails().len(), 2);
    Ok(())
}
