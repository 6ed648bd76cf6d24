//! Two frontends of Temporal behind one name, and one is down or stands still: commands succeed, and digests are hardly late.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use temporalio_client::{Client, ClientOptions, ConnectionOptions, Url, WorkflowCountOptions};
use tidings::registration;
use tidings_client::{CredentialSource, connect_among};
use tidings_harness::{
    env::{Env, event, key, settings},
    proxy::{Network, Proxy},
    wait::eventually,
    worker::Running,
};
use tidings_model::names;
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);
/// Ten seconds are Temporal's time limit for a workflow task, after which the task of a worker that never got it is given to another. The
/// rest is for a busy machine: without a move to the other frontend the SDK needs at least 45 s.
const LATE: Duration = Duration::from_secs(25);

async fn frontends(env: &Env) -> Result<[Proxy; 2]> {
    let server = Url::parse(&format!("http://{}", env.server.target()))?;
    Ok([Proxy::start(&server).await?, Proxy::start(&server).await?])
}

async fn connect(addresses: &[SocketAddr]) -> Result<Client> {
    let options = ConnectionOptions::new(Url::parse("http://temporal.example:7233")?).build();
    let connection = connect_among(options, CredentialSource::Fixed, Some(addresses.to_vec())).await;
    Ok(Client::new(connection.context("no connection")?, ClientOptions::new("default").build())?)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_finds_the_frontend_that_answers() -> Result<()> {
    let env = Env::without_worker(settings("instant", "instant")).await?;
    let frontends = frontends(&env).await?;
    let addresses = frontends.each_ref().map(Proxy::address);
    for broken in [Network::Cut, Network::Frozen] {
        for (number, one) in frontends.iter().enumerate() {
            one.set(broken);
            for _ in 0..10 {
                let client = connect(&addresses).await.with_context(|| format!("frontend {number} is {broken:?}"))?;
                client.count_workflows("WorkflowType = 'digest'", WorkflowCountOptions::default()).await?;
            }
            one.set(Network::Whole);
        }
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_is_hardly_late_while_a_frontend_stands_still() -> Result<()> {
    let env = Env::without_worker(settings("instant", "instant")).await?;
    let frontends = frontends(&env).await?;
    let client = connect(&frontends.each_ref().map(Proxy::address)).await?;
    let worker = Running::start(client.clone(), registration::digest_worker(names::TASK_QUEUE, env.activities()?)?)?;
    let events = tidings_client::Client::new(client, tidings_client::Config::default());
    let mut mails = 0;
    let mut deliver = async |user: &str| {
        let emitted = Instant::now();
        mails += 1;
        events.emit(event(&key("activity", user), user)).await?;
        eventually("the digest is sent", MINUTE, async || Ok((env.relay.count() >= mails).then_some(()))).await?;
        anyhow::Ok(emitted.elapsed())
    };
    deliver("before").await?;
    // One of the two has the worker's calls.
    for (number, user) in ["ann", "bob"].into_iter().enumerate() {
        frontends[number].set(Network::Frozen);
        let late = deliver(user).await?;
        println!("frontend {number} stands still: {late:?}");
        assert!(late < LATE, "{late:?} while frontend {number} stands still");
        frontends[number].set(Network::Whole);
    }
    worker.stop()
}
