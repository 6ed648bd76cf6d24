//! The team's own directory: a service or a query, and the secrets in the environment.

use super::read;

const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";
const URL: &str = "url = \"https://app.acme.example/{tenant}/{user}\"";
const QUERY: &str = "query = \"SELECT email FROM users WHERE org = $1 AND id = $2\"";

/// The problem of these lines of `[directory]`.
fn said(lines: &[&str], environment: &[(&str, &str)]) -> String {
    let text = format!("[directory]\n{}", lines.join("\n"));
    read(&text, environment).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn a_directory_is_a_service_or_a_query() {
    let secret = "secret_env = \"A_SECRET\"";
    let database = "database_url = \"postgres://ann:hunter2@db.example/app\"";
    let of_env = "database_url_env = \"A_DATABASE\"";
    for (lines, problem) in [
        (&[URL, secret][..], ""),
        (&[database, QUERY], ""),
        (&[of_env, QUERY], ""),
        (&[], "tidings.toml:1: directory: needs url and secret_env, or database_url_env and query; write"),
        (&[URL], "tidings.toml:1: directory: needs secret_env = \"TIDINGS_DIRECTORY_SECRET\", too"),
        (
            &[secret],
            "tidings.toml:1: directory: needs url = \"https://app.example.com/recipients/{tenant}/{user}\", too",
        ),
        (&[URL, secret, QUERY], "tidings.toml:1: directory: is a url with secret_env, or a database with query"),
        (&[database], "tidings.toml:1: directory: needs query = \"SELECT email, name, zone, locale FROM"),
        (
            &[QUERY],
            "tidings.toml:1: directory: needs database_url_env = \"TIDINGS_DIRECTORY_DATABASE_URL\" or database_url",
        ),
        (&[database, of_env, QUERY], "tidings.toml:1: directory: needs database_url_env ="),
        (
            &[database, "query = \"SELECT 1\""],
            "tidings.toml:3: directory.query = \"SELECT 1\": needs $1, the tenant, and $2",
        ),
        (
            &["database_url = \"sqlite://a.db\"", QUERY],
            "tidings.toml:2: directory.database_url = \"sqlite://a.db\": is not PostgreSQL",
        ),
        (
            &["database_url_env = \"postgres://ann:hunter2@db\"", QUERY],
            "tidings.toml:2: directory.database_url_env = \"***\": is not the name of a variable",
        ),
        (
            &["url = \"https://app.acme.example/{user}\"", secret],
            "tidings.toml:2: directory.url = \"https://app.acme.example/{user}\": needs {tenant} and {user}",
        ),
    ] {
        let said = said(lines, &[]);
        assert!(said.starts_with(problem) && said.is_empty() == problem.is_empty(), "{lines:?}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let wrong = said(&[URL, secret], &[("A_SECRET", "hunter2")]);
    assert!(wrong.starts_with("environment: A_SECRET = \"***\": is not a secret"), "{wrong}");
    let wrong = said(&[of_env, QUERY], &[("A_DATABASE", "postgres://ann:hunter2@db.example")]);
    assert!(wrong.starts_with("environment: A_DATABASE = ") && !wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn a_worker_does_not_start_without_the_values_of_the_directory() {
    let lines = |rest: &[&str]| format!("[directory]\n{}", rest.join("\n"));
    let service = lines(&[URL, "secret_env = \"A_VALUE\""]);
    let query = lines(&[QUERY, "database_url_env = \"A_VALUE\""]);
    for (text, value, remedy) in [
        (service, SECRET, "what `echo whsec_$(openssl rand -base64 24)` prints"),
        (query, "postgres://ann:hunter2@db.example/app", "the address of the team's database"),
    ] {
        let unset = read(&text, &[]).unwrap();
        let problem = unset.directory_problem().unwrap().to_string();
        assert!(problem.starts_with(&format!("environment: A_VALUE: is not set; set it to {remedy}")), "{problem}");
        assert!(unset.team_directory().is_err() && unset.settings(super::UnknownRecipients::Wait).is_err());
        let set = read(&text, &[("A_VALUE", value)]).unwrap();
        assert!(set.directory_problem().is_none() && !format!("{set:?}").contains("hunter2"));
        let directory = set.team_directory().unwrap().unwrap();
        assert!(!directory.refusal_text().contains("hunter2"), "{}", directory.refusal_text());
    }
}
