//! An installation that outgrew its file moves to PostgreSQL with all that is open (`tidings copy`).

use std::{fs, time::Duration};

use anyhow::{Result, ensure};
use tidings_harness::{
    cli_env::CliEnv,
    env::{key, name_without_spread, sqlite_url},
    postgres::database,
    wait::eventually,
};
use tidings_model::MessageKey;
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

/// The exit code of `tidings`, and all that it printed.
async fn said(cli: &CliEnv, words: &str) -> Result<(Option<i32>, String)> {
    let output = cli.tidings().args(words.split(' ')).output().await?;
    let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok((output.status.code(), printed.concat()))
}

async fn emit(cli: &CliEnv, user: &str) -> Result<()> {
    let words = ["emit", "--tenant", "acme", "--user", user, "--digest", "activity", "--category", "comment"];
    cli.run(&words).await.map(drop)
}

/// The number of mails to `USER@example.test`.
fn mails(cli: &CliEnv, user: &str) -> usize {
    let address = format!("{user}@example.test");
    cli.relay.mails().iter().filter(|mail| mail.to.iter().any(|to| to.contains(&address))).count()
}

#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_survives_the_move_from_sqlite_to_postgresql() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(|user| key("activity", user));
    cli.import(&[ann.clone(), bob.clone(), eve.clone()].into()).await?;
    cli.start_worker()?;
    emit(&cli, "bob").await?;
    cli.flush(&bob).await?;
    cli.settled(&[bob.clone()].into(), MINUTE).await?;
    ensure!(mails(&cli, "bob") == 1, "a digest from the file");

    emit(&cli, "ann").await?;
    cli.run(&["consent", "withdraw", "acme/activity/eve"]).await?;
    cli.run(&["pause", "--filter", "tenant=zeta", "--messages", "--why", "wrong prices"]).await?;
    let name = name_without_spread(|name| {
        MessageKey::new("zeta".to_owned(), name.to_owned()).map_or_else(|_| String::new(), |key| key.workflow_id())
    });
    fs::write(cli.folder.path().join("hello.txt"), "Hello.\n")?;
    let send = ["send", "--tenant", "zeta", "--to", "dan@example.test", "--key", &name, "--subject", "Hello"];
    cli.run(&[&send[..], &["--text", "hello.txt"]].concat()).await?;

    let url = database().await?;
    let copy = format!("copy --to {url}");
    let (code, printed) = said(&cli, &copy).await?;
    ensure!(code == Some(1) && printed.contains("stop every worker, gateway and command"), "{code:?} {printed}");
    let (code, printed) = said(&cli, &format!("{copy} --dry-run")).await?;
    ensure!(code == Some(0) && printed.contains("would be copied"), "while the worker runs: {code:?} {printed}");
    cli.kill_worker()?;
    let copied: serde_json::Value = serde_json::from_str(&cli.run(&["copy", "--to", &url, "--json"]).await?)?;
    let tables = copied["tables"].as_array().cloned().unwrap_or_default();
    let recipients = tables.iter().find(|table| table["table"] == "recipients");
    ensure!(recipients.is_some_and(|table| table["rows"] == 3 && table["sum"].is_string()), "{copied}");

    for words in ["worker", "migrate", "recipients list --tenant acme"] {
        let (code, printed) = said(&cli, words).await?;
        ensure!(
            code == Some(1) && printed.contains("this database was copied into postgres"),
            "{words}: {code:?} {printed}"
        );
    }
    let file = cli.folder.path().join("tidings.toml");
    let moved = fs::read_to_string(&file)?.replace(&sqlite_url(cli.folder.path()), &url);
    fs::write(&file, moved)?;
    cli.start_worker()?;
    cli.flush(&ann).await?;
    emit(&cli, "eve").await?;
    // Nothing goes out, whatever the flush finds.
    cli.ask(&["flush", "acme/activity/eve"]).await?;
    cli.settled(&[ann, eve].into(), MINUTE).await?;
    ensure!(mails(&cli, "dan") == 0, "its tenant is paused");
    cli.run(&["resume", "--filter", "tenant=zeta", "--why", "fixed"]).await?;
    eventually("the message goes out", MINUTE, async || Ok((mails(&cli, "dan") == 1).then_some(()))).await?;
    let all = ["ann", "bob", "eve", "dan"].map(|user| mails(&cli, user));
    ensure!(all == [1, 1, 0, 1], "{all:?}");
    Ok(())
}
