//! A team's own directory behind a query of their PostgreSQL: what the query may be, and what its answers mean (rule 33).

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tidings_activities::digest::claim;
use tidings_harness::{
    env::{activities, count, key, settings, sqlite},
    postgres,
    steps::{claim_of, recorded_event},
};
use tidings_model::{
    PersonId,
    settings::{Settings, UnknownRecipients},
    step::{ClaimAnswer, ClaimInput},
    window::Window,
};
use tidings_needs::needs;
use tidings_services::{StepError, StepServices, TeamDirectory, team_directory::DirectorySource};
use tidings_store::{TeamQuery, TeamQueryOutcome, prelude::*};

const TABLES: &str = "
CREATE DOMAIN address AS text;
CREATE TYPE language AS ENUM ('de', 'en');
CREATE SEQUENCE counter;
CREATE TABLE users (id bigint PRIMARY KEY, org text, mail address, name varchar(40), tz text, lang language, born date);
INSERT INTO users VALUES (1, 'acme', 'ann@acme.example', 'Ann', 'Asia/Tokyo', 'de', '1990-01-01'),
                         (2, 'acme', 'bo@acme.example', NULL, NULL, NULL, NULL), (3, 'zeta', 'cy@zeta.example', '', '', NULL, NULL)";
const RIGHT: &str = "SELECT mail AS email, name, tz AS zone, lang AS locale FROM users
    WHERE org = $1 AND id::text = $2; ";

struct Team {
    url: String,
    connection: PgConnection,
}

impl Team {
    async fn start() -> Result<Self> {
        let url = postgres::database().await?;
        let mut connection = PgConnection::connect(&url).await?;
        connection.execute(TABLES).await?;
        Ok(Self { url, connection })
    }

    fn query(&self, query: &str) -> Result<TeamQuery> {
        TeamQuery::new(&self.url, query).map_err(anyhow::Error::msg)
    }

    async fn said(&self, query: &str) -> Result<String> {
        Ok(self.query(query)?.check_query().await.err().map(|wrong| format!("{wrong:?}")).unwrap_or_default())
    }
}

fn person(user: &str) -> PersonId {
    PersonId { tenant: "acme".into(), user: user.into() }
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_checked_before_anybody_is_asked_for() -> Result<()> {
    let team = Team::start().await?;
    assert_eq!(team.said(RIGHT).await?, "");
    assert_eq!(team.said(&format!("{} -- the people", RIGHT.trim_end_matches("; "))).await?, "");
    for (query, problem) in [
        ("SELECT name FROM users WHERE org = $1 AND id::text = $2", "has no column"),
        ("SELECT mail AS email, tz FROM users WHERE org = $1 AND id::text = $2", "has a column"),
        (
            "SELECT mail AS email, born AS name FROM users WHERE org = $1 AND id::text = $2",
            "of type date; write name::text",
        ),
        ("SELECT emial AS email FROM users WHERE org = $1 AND id::text = $2", "\\\"emial\\\" does not exist (42703)"),
        ("SELECT mail AS email FROM people WHERE org = $1 AND id::text = $2", "\\\"people\\\" does not exist (42P01)"),
        ("SELECT mail AS email FROM users WHERE org = $1 AND id = $2", "(42883)"),
        ("SELECT mail AS email FROM users WHERE org = $1 AND id::text = $2; DELETE FROM users", "(42601)"),
        ("DELETE FROM users WHERE org = $1 AND id::text = $2 RETURNING mail AS email", "(42601)"),
        ("SELECT mail AS email FROM", "(42601)"),
    ] {
        let said = team.said(query).await?;
        assert!(said.starts_with("Wrong(") && said.contains(problem), "{query}: {said}");
    }
    let nowhere = TeamQuery::new("postgres://ann:hunter2@127.0.0.1:1/none", RIGHT).map_err(anyhow::Error::msg)?;
    let said = nowhere.check_query().await.err().context("there is no server")?;
    assert!(format!("{said:?}").starts_with("Away(") && !said.to_string().contains("hunter2"), "{said:?}");
    Ok(())
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_query_answers_for_one_person_and_changes_nothing() -> Result<()> {
    let mut team = Team::start().await?;
    let row = |text: &str| TeamQueryOutcome::Row(text.to_owned());
    let query = team.query(RIGHT)?;
    let ann = r#"{"name": "Ann", "zone": "Asia/Tokyo", "email": "ann@acme.example", "locale": "de"}"#;
    let bo = r#"{"name": null, "zone": null, "email": "bo@acme.example", "locale": null}"#;
    for (user, expected) in
        [("1", row(ann)), ("2", row(bo)), ("3", TeamQueryOutcome::NoRow), ("' OR true --", TeamQueryOutcome::NoRow)]
    {
        assert_eq!(query.look_up(&person(user)).await, expected, "{user}");
    }
    // The questions of a process share few connections.
    let mine = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidings directory'";
    let first = person("1");
    futures::future::join_all((0..32).map(|_| query.look_up(&first))).await;
    let connections: i64 = sqlx::query_scalar(mine).fetch_one(&mut team.connection).await?;
    assert!((1..=4).contains(&connections), "{connections}");
    for (query, user, expected) in [
        ("SELECT mail AS email FROM users WHERE org = $1 AND $2 <> ''", "1", "Wrong(\"the query has more than one row"),
        (
            "SELECT mail AS email FROM users WHERE org = $1 AND id = $2::bigint",
            "ann",
            "Wrong(\"the query fails for the person (22P02)",
        ),
        (
            "SELECT nextval('counter')::text AS email WHERE $1 <> $2",
            "1",
            "Away(\"the database refuses the query (25006)",
        ),
        ("SELECT pg_sleep(9)::text AS email WHERE $1 <> $2", "1", "Away(\"the database refuses the query (57014)"),
    ] {
        let (query, began) = (team.query(query)?, Timestamp::now());
        let said = format!("{:?}", query.look_up(&person(user)).await);
        assert!(said.starts_with(expected) && !said.contains('@'), "{said}");
        assert!(Timestamp::now().duration_since(began).as_millis() < 2_900, "{said}: a local activity has 3 s");
    }
    Ok(())
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_follows_the_query_and_outlives_its_database() -> Result<()> {
    let mut team = Team::start().await?;
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let directory =
        Arc::new(TeamDirectory::new(DirectorySource::Query(team.query(RIGHT)?, "the team's database".to_owned())));
    let settings = Settings { unknown_recipients: UnknownRecipients::Wait, ..settings("after 1s", "after 1s") };
    let deps =
        StepServices { directory: Some(directory), ..activities(store.clone(), "smtp://127.0.0.1:1", settings)? };
    let sent_to = async |run: u64, user: &str| {
        let (key, now) = (key("activity", user), Timestamp::now());
        let window = Window { digest_id: key.digest_id("run", run), key, opened_at: now, due_at: now };
        let events = vec![recorded_event(&format!("e{run}"), now)];
        let answer = claim::run(&deps, &ClaimInput { flushed: true, ..claim_of(&window, events) }).await?;
        ensure!(matches!(answer, ClaimAnswer::Claimed { .. }), "{answer:?}");
        anyhow::Ok(store.message(window.digest_id).await?.context("no message")?.envelope_to)
    };
    let aged = "UPDATE recipients SET answered_at = answered_at - 61000 RETURNING 1";
    assert_eq!(sent_to(1, "1").await?, "ann@acme.example");
    team.connection.execute("UPDATE users SET mail = 'ann@new.example' WHERE id = 1").await?;
    count(folder.path(), aged).await?;
    assert_eq!(sent_to(2, "1").await?, "ann@new.example");
    let name = url::Url::parse(&team.url)?.path().trim_start_matches('/').to_owned();
    let mut server = PgConnection::connect(&std::env::var("TIDINGS_TEST_DATABASE_URL")?).await?;
    server.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await?;
    count(folder.path(), aged).await?;
    assert_eq!(sent_to(3, "1").await?, "ann@new.example", "the last answer serves for a day");
    let error = sent_to(4, "2").await.err().context("nothing is known of bo")?;
    assert!(matches!(error.downcast_ref::<StepError>(), Some(StepError::Directory(_))), "{error}");
    Ok(())
}
