//! The answers of commands where recipients come from a team's own directory.

use std::{fs, process::Output};

use anyhow::{Context, Result};
use serde_json::json;
use tidings_harness::{
    cli_env,
    env::{count, sqlite, sqlite_url},
    postgres,
    team_service::{SECRET, Says, TeamService},
};
use tidings_needs::needs;

/// A folder with a migrated database, and a `[directory]` in `tidings.toml`.
async fn configured(directory: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    sqlite(folder.path()).await?;
    let config = format!(
        "database_url = \"{}\"\n[mail]\nfrom = \"Tidings <digest@tidings.example>\"\n\
         [digest.activity]\ncadence = \"instant\"\n[directory]\n{directory}\n",
        sqlite_url(folder.path())
    );
    fs::write(folder.path().join("tidings.toml"), config)?;
    fs::write(folder.path().join("people.csv"), "tenant,user,address\nacme,ann,ann@example.test\n")?;
    Ok(folder)
}

/// Exit code, standard output and errors.
async fn tidings(folder: &tempfile::TempDir, arguments: &[&str]) -> Result<(i32, String, String)> {
    let mut command = cli_env::command(&cli_env::binary()?, folder.path(), "127.0.0.1:1");
    let Output { status, stdout, stderr } = command.env("A_SECRET", SECRET).args(arguments).output().await?;
    Ok((status.code().context("ended by a signal")?, String::from_utf8(stdout)?, String::from_utf8(stderr)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_read_from_the_directory_and_written_there_only() -> Result<()> {
    let answer = json!({"email": "ann@acme.example", "name": "Ann", "zone": "Asia/Tokyo"});
    let service = TeamService::start(Says::Json(answer)).await?;
    let at = service.url().replace("/seen?of=acme", "/recipients/{tenant}/{user}");
    let folder = configured(&format!("url = \"{at}\"\nsecret_env = \"A_SECRET\"")).await?;
    let (code, _, said) = tidings(&folder, &["recipients", "import", "people.csv"]).await?;
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains(&format!("recipients come from the team's own directory, {at}: change the person there")),
        "{said}"
    );
    assert_eq!(count(folder.path(), "SELECT COUNT(*) FROM recipients").await?, 0);

    let (code, shown, said) = tidings(&folder, &["recipients", "show", "acme/ann", "--addresses"]).await?;
    assert_eq!(code, 0, "{said}");
    assert!(shown.contains("ann@acme.example") && shown.contains("Asia/Tokyo"), "{shown}");
    assert_eq!(said.trim(), format!("recipients come from {at}"));
    service.says(Says::Closes);
    count(folder.path(), "UPDATE recipients SET answered_at = answered_at - 86400000 RETURNING 1").await?;
    let (code, shown, said) = tidings(&folder, &["recipients", "show", "acme/ann", "--addresses"]).await?;
    assert!(code == 0 && shown.contains("ann@acme.example") && said.contains("does not answer"), "{shown}{said}");

    let (code, erasable, said) =
        tidings(&folder, &["recipients", "erase", "acme/ann", "--why", "request", "--by", "carol", "--dry-run"])
            .await?;
    assert!(code == 0 && erasable.contains("recipients: 1"), "{erasable}{said}");
    assert!(said.contains(&format!("recipients come from {at}: erase acme/ann there first")), "{said}");

    let (code, shown, said) = tidings(&folder, &["config", "check"]).await?;
    assert!(
        code == 0 && shown.contains(&format!("[directory]\nurl = \"{at}\"\nsecret_env = \"A_SECRET\"")),
        "{shown}{said}"
    );
    assert!(!format!("{shown}{said}").contains(SECRET));
    Ok(())
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_query_stops_a_start_and_says_what_where_and_how() -> Result<()> {
    let database = postgres::database().await?;
    let wrong = "query = \"SELECT $1 || $2 AS name\"";
    let folder = configured(&format!("database_url = \"{database}\"\n{wrong}")).await?;
    for command in [&["config", "check"][..], &["worker"]] {
        let (code, _, said) = tidings(&folder, command).await?;
        assert_eq!(code, 2, "{command:?}: {said}");
        let problem = "tidings.toml:8: directory.query: has no column \"email\"; it takes email, name, zone, locale";
        assert!(said.contains(problem), "{command:?}: {said}");
    }
    let right = "query = \"SELECT $1 || '@' || $2 AS email\"";
    let folder = configured(&format!("database_url = \"{database}\"\n{right}")).await?;
    let (code, shown, said) = tidings(&folder, &["config", "check"]).await?;
    assert!(code == 0 && shown.contains("query = \"SELECT $1 || '@' || $2 AS email\""), "{shown}{said}");
    let folder = configured(&format!("database_url_env = \"A_DATABASE\"\n{right}")).await?;
    let (code, _, said) = tidings(&folder, &["config", "check"]).await?;
    assert!(code == 2 && said.contains("environment: A_DATABASE: is not set; set it to the address of"), "{said}");
    // A database that does not answer may come back.
    let away = "database_url = \"postgres://ann:hunter2@127.0.0.1:1/app\"";
    let folder = configured(&format!("{away}\n{right}")).await?;
    let (code, shown, said) = tidings(&folder, &["config", "check"]).await?;
    assert!(code == 0 && said.contains("warning: ") && said.contains("directory.query"), "{said}");
    assert!(!format!("{shown}{said}").contains("hunter2"), "{shown}{said}");
    Ok(())
}
