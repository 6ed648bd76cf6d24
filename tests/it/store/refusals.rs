//! A ledger that refuses to record what became of an attempt. The relay has the email, nothing is sent again, and the workflow has the
//! outcome recorded when the ledger takes it. The codes are those of `tidings_store::REFUSALS`.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::{BoxFuture, try_join_all};
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tidings_activities::{
    CancellableResult,
    digest::{claim, send},
};
use tidings_harness::{
    env::{activities, event, key, ledger, settings, sqlite, sqlite_url},
    message_env::{ANN, MessageEnv, of, submission},
    postgres::database,
    relay::{Act, At, Fault, Relay},
    steps::{claim_of, recorded_event, send_of},
    wait::eventually,
};
use tidings_model::{
    attempt::AttemptClass,
    records::MessageState,
    step::{ClaimAnswer, SendAnswer, SendDigestInput, UnrecordedEnd},
    window::{DigestOutcome, Window},
};
use tidings_needs::needs;
use tidings_services::StepServices;
use tidings_store::{PostgresStore, Store};

const MINUTE: Duration = Duration::from_mins(1);
/// The relay answers that late, so that the ledger can begin to refuse while the attempt is past the dot.
const ANSWER: Duration = Duration::from_secs(2);

/// Lets the ledger refuse, and lets it take records again.
type Statements = Box<dyn Fn(bool) -> BoxFuture<'static, Result<()>> + Send + Sync>;

fn on_sqlite(url: String, refuse: &'static str, heal: &'static str) -> Statements {
    Box::new(move |refuses| {
        let (url, statement) = (url.clone(), if refuses { refuse } else { heal });
        Box::pin(async move {
            let mut connection = sqlx::SqliteConnection::connect(&url).await?;
            connection.execute(sqlx::raw_sql(statement)).await?;
            Ok(connection.close().await?)
        })
    })
}

fn on_postgres(url: &str, database: &str, role: &str, refuse: &str, heal: &str) -> Statements {
    let filled = |text: &str| text.replace("{database}", database).replace("{role}", role);
    let (url, refuse, heal) = (url.to_owned(), filled(refuse), filled(heal));
    Box::new(move |refuses| {
        let (url, statement) = (url.clone(), if refuses { refuse.clone() } else { heal.clone() });
        Box::pin(async move {
            let mut connection = PgConnection::connect(&url).await?;
            for statement in statement.split(";;") {
                connection.execute(sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))).await?;
            }
            Ok(connection.close().await?)
        })
    })
}

/// A due window of one event with its email.
async fn claimed(deps: &StepServices, user: &str) -> Result<Window> {
    let (key, now) = (key("activity", user), Timestamp::now());
    let window = Window { digest_id: key.digest_id("run", 1), key, opened_at: now, due_at: now };
    let claimed = claim::run(deps, &claim_of(&window, vec![recorded_event(user, now)])).await?;
    ensure!(matches!(claimed, ClaimAnswer::Claimed { rendered: true, .. }), "{claimed:?}");
    Ok(window)
}

async fn attempt(deps: &StepServices, window: &Window, unrecorded: Option<UnrecordedEnd>) -> Result<SendAnswer> {
    let input = SendDigestInput { unrecorded, ..send_of(window, Timestamp::now()) };
    match send::run(deps, &input, std::future::pending()).await? {
        CancellableResult::Done(sent) => Ok(sent),
        CancellableResult::Cancelled => anyhow::bail!("nobody cancelled it"),
    }
}

/// Delivers one email while the ledger begins to refuse past the dot, and records it after the ledger is well again.
async fn kept_and_recorded(store: Arc<dyn Store>, name: &str, ledger: Statements) -> Result<()> {
    let relay = Relay::start().await?;
    let deps = activities(store.clone(), &relay.url(), settings("after 1s", "after 1s"))?;
    let window = claimed(&deps, "ann").await?;
    relay.fault(Fault::new(At::Dot, Act::Slow(ANSWER)));
    let refusing = async {
        eventually("the attempt is past the dot", MINUTE, async || {
            let attempts = store.attempts(window.digest_id).await?;
            Ok(attempts.iter().any(|attempt| attempt.past_the_dot_at.is_some()).then_some(()))
        })
        .await?;
        ledger(true).await
    };
    let (sent, ()) = futures::try_join!(attempt(&deps, &window, None), refusing)?;
    let SendAnswer::Unrecorded(end) = sent else { anyhow::bail!("the ledger took it: {sent:?}") };
    ensure!((end.number, end.class) == (1, AttemptClass::Sent), "{end:?}");
    let json = serde_json::to_string(&end)?;
    ensure!(!json.contains("queued") && !json.contains('@'), "words of the relay: {json}");

    let refused = attempt(&deps, &window, Some(end.clone())).await;
    ensure!(refused.is_err(), "the ledger refuses no more: {refused:?}");
    ledger(false).await?;
    // Temporal repeats the activity: a connection that the server has closed meanwhile fails once more.
    let recorded = eventually("the ledger takes the record", MINUTE, async || {
        Ok(attempt(&deps, &window, Some(end.clone())).await.ok())
    })
    .await?;
    ensure!(
        matches!(&recorded, SendAnswer::Closed { closed, .. } if closed.outcome == DigestOutcome::Sent),
        "{recorded:?}"
    );
    // Its answer was lost.
    attempt(&deps, &window, Some(end)).await?;
    ensure!(relay.mails().len() == 1, "{} copies", relay.mails().len());
    let attempts = store.attempts(window.digest_id).await?;
    let [only] = &attempts[..] else { anyhow::bail!("{attempts:?}") };
    ensure!(only.class == Some(AttemptClass::Sent) && only.reply.as_deref() == Some("250 2.0.0"), "{only:?}");
    println!("{name}: kept and recorded, one copy");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sqlite_refuses_past_the_dot_is_kept_and_recorded() -> Result<()> {
    const REFUSALS: [(&str, &str, &str); 3] = [
        (
            "a trigger (1811)",
            "CREATE TRIGGER refuses BEFORE UPDATE ON attempts BEGIN SELECT RAISE(ABORT, 'refused'); END",
            "DROP TRIGGER refuses",
        ),
        (
            "a unique index (2067)",
            "INSERT INTO attempts (tenant, message, number, relay, begun_at, class, phase)
             SELECT tenant, message, 99, relay, begun_at, 'fenced', 'done' FROM attempts LIMIT 1;
             CREATE UNIQUE INDEX once ON attempts (phase)",
            "DROP INDEX once; DELETE FROM attempts WHERE number = 99",
        ),
        ("no table", "ALTER TABLE digests RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO digests"),
    ];
    let cases = REFUSALS.map(async |(name, refuse, heal)| -> Result<()> {
        let folder = tempfile::tempdir()?;
        let store = sqlite(folder.path()).await?;
        kept_and_recorded(store, name, on_sqlite(sqlite_url(folder.path()), refuse, heal)).await.context(name)
    });
    try_join_all(cases).await?;
    Ok(())
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn what_postgresql_refuses_past_the_dot_is_kept_and_recorded() -> Result<()> {
    const CLOSE: &str = ";;SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'";
    let cases = [
        ("a grant (42501)", "REVOKE UPDATE ON attempts FROM {role}".to_owned(), "GRANT UPDATE ON attempts TO {role}"),
        ("a role (28000)", ["ALTER ROLE {role} NOLOGIN", CLOSE].concat(), "ALTER ROLE {role} LOGIN"),
        (
            "a closed database (55000)",
            ["ALTER DATABASE {database} ALLOW_CONNECTIONS false", CLOSE].concat(),
            "ALTER DATABASE {database} ALLOW_CONNECTIONS true",
        ),
        (
            "a read-only database (25006)",
            ["ALTER ROLE {role} SET default_transaction_read_only = on", CLOSE].concat(),
            "ALTER ROLE {role} RESET default_transaction_read_only;;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'",
        ),
        (
            "a trigger (P0001)",
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;;
             CREATE TRIGGER refuses BEFORE UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION refuse()"
                .to_owned(),
            "DROP TRIGGER refuses ON attempts",
        ),
        (
            "a unique index (23505)",
            "INSERT INTO attempts (tenant, message, number, relay, begun_at, class, phase)
             SELECT tenant, message, 99, relay, begun_at, 'fenced', 'done' FROM attempts LIMIT 1;;
             CREATE UNIQUE INDEX once ON attempts (phase)"
                .to_owned(),
            "DROP INDEX once;;DELETE FROM attempts WHERE number = 99",
        ),
        // Raised by the server, as for a full disk: the class decides.
        (
            "a full disk (53100)",
            "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$;;
             CREATE TRIGGER fills BEFORE UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION fill()"
                .to_owned(),
            "DROP TRIGGER fills ON attempts",
        ),
    ];
    let cases = cases.into_iter().enumerate().map(async |(n, (name, refuse, heal))| -> Result<()> {
        let url = database().await?;
        PostgresStore::connect(&url).await?.migrate().await?;
        let mut parsed: url::Url = url.parse()?;
        let database = parsed.path().trim_start_matches('/').to_owned();
        // A superuser has every right.
        let role = format!("{database}_{n}");
        let mut owner = PgConnection::connect(&url).await?;
        for statement in [
            format!("CREATE ROLE {role} LOGIN PASSWORD 'x'"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"),
            format!("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"),
        ] {
            owner.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await?;
        }
        owner.close().await?;
        // Statements about the whole database come from another one, which stays open.
        let mut elsewhere = parsed.clone();
        if refuse.contains("ALLOW_CONNECTIONS") {
            elsewhere.set_path("/postgres");
        }
        let _ = parsed.set_username(&role);
        let _ = parsed.set_password(Some("x"));
        let store = Arc::new(PostgresStore::connect(parsed.as_str()).await?);
        let statements = on_postgres(elsewhere.as_str(), &database, &role, &refuse, heal);
        kept_and_recorded(store, name, statements).await.context(name)
    });
    try_join_all(cases).await?;
    Ok(())
}

/// With the worker, for a digest and for a single message.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_refuses_sends_nothing_twice() -> Result<()> {
    let mut messages = MessageEnv::start(settings("after 1s", "after 1h")).await?;
    messages.env.start_worker()?;
    let env = &messages.env;
    for to in ["ann@dev.invalid", ANN] {
        env.relay.fault(Fault::new(At::Dot, Act::Slow(ANSWER)).to(to));
    }
    let ann = key("activity", "ann");
    env.events.emit(event(&ann, "e1")).await?;
    messages.send(&submission("k")).await?;
    eventually("both attempts are past the dot", MINUTE, async || {
        let past = "SELECT COUNT(*) FROM attempts WHERE past_the_dot_at IS NOT NULL";
        Ok((env.count(past).await? == 2).then_some(()))
    })
    .await?;
    let mut ledger = ledger(env.folder.path()).await?;
    let refuse = "CREATE TRIGGER refuses BEFORE UPDATE ON attempts BEGIN SELECT RAISE(ABORT, 'refused'); END";
    ledger.execute(sqlx::raw_sql(refuse)).await?;

    let kept = async || {
        let why = env.status(&ann).await?.delivering.map(|delivery| delivery.why).unwrap_or_default();
        Ok(why.contains("the ledger refuses to record it").then_some(()))
    };
    eventually("the status says that the ledger refuses", MINUTE, kept).await?;
    ledger.execute(sqlx::raw_sql("DROP TRIGGER refuses")).await?;
    env.completed(&ann).await?;
    assert_eq!(messages.ended(&of("k")).await?, MessageState::Sent);
    assert_eq!(env.count("SELECT COUNT(*) FROM attempts WHERE class = 'sent'").await?, 2);
    assert_eq!(env.count("SELECT COUNT(*) FROM attempts").await?, 2);
    assert_eq!(env.relay.mails().len(), 2);
    Ok(())
}
