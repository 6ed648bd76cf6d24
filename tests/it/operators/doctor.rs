//! `tidings doctor` names who is at fault.

use anyhow::Result;
use serde_json::Value;
use tidings_harness::{
    cli_env::CliEnv,
    relay::{Act, At, Fault},
    wait::eventually,
};
use tidings_needs::needs;

use super::MINUTE;

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_tells_a_relay_from_everything_else() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let healthy = async || {
        let (code, text) = cli.ask(&["doctor", "--json"]).await?;
        Ok((code == 0).then(|| serde_json::from_str::<Value>(&text)).transpose()?)
    };
    let report = eventually("nothing fails", MINUTE, healthy).await?;
    let ok: Vec<_> = report["findings"].as_array().into_iter().flatten().filter(|of| of["verdict"] == "ok").collect();
    for check in ["query", "server", "search attributes", "installation", "default", "backlog"] {
        assert!(ok.iter().any(|of| of["check"] == check), "{check}: {report}");
    }

    cli.relay.fault(Fault::new(At::Greeting, Act::Reply("554 5.7.1 not from this network".into())));
    let (code, text) = cli.ask(&["doctor"]).await?;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("554 5.7.1 not from this network") && text.contains("tidings relays test default"), "{text}");
    assert!(text.contains("Failed: relays. Working: configuration, database, Temporal, work, machine"), "{text}");
    Ok(())
}
