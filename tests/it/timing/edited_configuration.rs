//! An edited `tidings.toml` and a restarted worker: open windows keep their deadline (rule 16).

use std::time::Duration;

use anyhow::Result;
use temporalio_client::WorkflowQueryOptions;
use tidings_client::{Client, Config};
use tidings_harness::{
    cli_env::CliEnv,
    env::{event, eventually, key},
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_workflows::{Digest, Stage, Status};

async fn collecting(cli: &CliEnv, key: &Key, events: u64) -> Result<Status> {
    let temporal = cli.server.client().await?;
    let workflow = temporal.get_workflow_handle::<Digest>(key.workflow_id());
    eventually("the key collects", Duration::from_mins(1), async || {
        // The query fails while no worker runs.
        let status = workflow.query(Digest::status, (), WorkflowQueryOptions::default()).await.ok();
        Ok(status
            .filter(|status| status.state == Stage::Collecting && status.pending == events && status.due_at.is_some()))
    })
    .await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_configuration_leaves_open_windows_alone() -> Result<()> {
    let mut cli = CliEnv::start("daily 08:00").await?;
    cli.start_worker()?;
    let events = Client::new(cli.server.client().await?, Config::default());
    let (old, new) = (key("activity", "ann"), key("activity", "bo"));
    events.emit(event(&old, "e1")).await?;
    let before = collecting(&cli, &old, 1).await?;
    assert!(before.why.starts_with("daily 08:00 UTC -> "), "{}", before.why);

    cli.kill_worker()?;
    cli.configure("after 20s")?;
    cli.start_worker()?;
    events.emit(event(&old, "e2")).await?;
    let after = collecting(&cli, &old, 2).await?;
    assert_eq!((after.due_at, after.why), (before.due_at, before.why));

    events.emit(event(&new, "e1")).await?;
    let fresh = collecting(&cli, &new, 1).await?;
    assert!(fresh.why.starts_with("after 20s -> "), "a window that opens later follows the edit: {}", fresh.why);
    Ok(())
}
