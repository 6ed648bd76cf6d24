//! The team's own directory with recipients, `[directory]`: an HTTP service or a query in their PostgreSQL.
//!
//! Its secret or database address may be missing here. Only processes that look people up need it.

use serde::Deserialize;
use tidings_model::{settings::DirectoryUrl, webhook_secret::SigningSecret};
use tidings_services::team_directory::DirectorySource;
use tidings_store::{TeamQuery, WrongQuery};
use toml::Spanned;

use super::{
    checks::Checks,
    keys::{ConfigTable, RawText, ToConfigValue as _},
    problem::ConfigProblem,
    secret::{SecretUrl, database_url},
};

const SECRET: &str = "\"TIDINGS_DIRECTORY_SECRET\"";
const DATABASE: &str = "\"TIDINGS_DIRECTORY_DATABASE_URL\"";
const QUERY: &str = "\"SELECT email, name, zone, locale FROM users WHERE org = $1 AND id::text = $2\"";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDirectory {
    url: RawText,
    secret_env: RawText,
    database_url: RawText,
    database_url_env: RawText,
    query: RawText,
}

#[derive(Clone, Debug)]
pub enum DirectoryConfig {
    Service { url: Box<DirectoryUrl>, secret: Option<SigningSecret>, secret_env: String },
    Query { database_url: Option<SecretUrl>, database_url_env: Option<String>, query: String, place: String },
}

pub(super) fn check_directory(raw: &Spanned<RawDirectory>, checks: &mut Checks<'_>) -> Option<DirectoryConfig> {
    let RawDirectory { url, secret_env, database_url, database_url_env, query } = raw.as_ref();
    let mut wrong = |problem: String| {
        checks.report_at(raw, "directory", problem);
        None
    };
    let of_database = database_url.is_some() || database_url_env.is_some() || query.is_some();
    match (url, secret_env) {
        (None, None) if !of_database => {
            wrong(format!("needs url and secret_env, or database_url_env and query; write for example query = {QUERY}"))
        }
        (Some(_), _) | (_, Some(_)) if of_database => {
            wrong("is a url with secret_env, or a database with query; leave one out".to_owned())
        }
        (Some(url), Some(variable)) => {
            let url = checks.text("directory.url", Some(url), str::parse::<DirectoryUrl>);
            let (secret_env, secret) =
                checks.secret_of("directory.secret_env", variable, SECRET, SigningSecret::parse)?;
            Some(DirectoryConfig::Service { url: Box::new(url?), secret, secret_env })
        }
        (Some(_), None) => wrong(format!("needs secret_env = {SECRET}, too")),
        (None, Some(_)) => wrong("needs url = \"https://app.example.com/recipients/{tenant}/{user}\", too".to_owned()),
        (None, None) => {
            let Some(query) = query else { return wrong(format!("needs query = {QUERY}, too")) };
            let database = match (database_url, database_url_env) {
                (Some(url), None) => Some((checks.secret("directory.database_url", Some(url), postgres)?, None)),
                (None, Some(variable)) => database_variable(variable, checks),
                _ => {
                    let problem = format!("needs database_url_env = {DATABASE} or database_url, and not both");
                    checks.report_at(raw, "directory", problem);
                    None
                }
            };
            let place = checks.place_of(query);
            let query = checks.text("directory.query", Some(query), with_ids)?;
            let (database_url, database_url_env) = database?;
            Some(DirectoryConfig::Query { database_url, database_url_env, query, place })
        }
    }
}

fn database_variable(
    variable: &Spanned<String>,
    checks: &mut Checks<'_>,
) -> Option<(Option<SecretUrl>, Option<String>)> {
    let (name, url) = checks.named_variable("directory.database_url_env", variable, DATABASE)?;
    let url = match url {
        Some(url) => checks.secret_outside("environment", &name, &url, postgres)?,
        None => None,
    };
    Some((url, Some(name)))
}

fn postgres(text: &str) -> Result<Option<SecretUrl>, String> {
    let url = database_url(text)?;
    if url.reveal().starts_with("sqlite") {
        return Err("is not PostgreSQL; write for example \"postgres://tidings@db.example/app\"".to_owned());
    }
    Ok(Some(url))
}

fn with_ids(query: &str) -> Result<String, String> {
    if query.contains("$1") && query.contains("$2") {
        return Ok(query.to_owned());
    }
    Err(format!("needs $1, the tenant, and $2, the user, both text; write for example {QUERY}"))
}

impl DirectoryConfig {
    pub(super) fn unset_problem(&self) -> Option<ConfigProblem> {
        match self {
            Self::Service { secret: None, secret_env, .. } => Some(ConfigProblem::unset(
                secret_env,
                "what `echo whsec_$(openssl rand -base64 24)` prints, here and at the service of directory.url",
            )),
            Self::Query { database_url: None, database_url_env: Some(variable), .. } => Some(ConfigProblem::unset(
                variable,
                "the address of the team's database, postgres://user:password@host/database",
            )),
            Self::Service { .. } | Self::Query { .. } => None,
        }
    }

    #[must_use]
    pub fn wrong_query(&self, why: &WrongQuery) -> ConfigProblem {
        let place = match self {
            Self::Query { place, .. } => place.clone(),
            Self::Service { .. } => String::new(),
        };
        ConfigProblem::new(place, "directory.query", why.to_string())
    }

    #[must_use]
    pub fn show(&self) -> ConfigTable {
        match self {
            Self::Service { url, secret_env, .. } => {
                ConfigTable::of([("url", url.to_string().show()), ("secret_env", secret_env.show())])
            }
            Self::Query { database_url, database_url_env, query, .. } => {
                let own = database_url.as_ref().filter(|_| database_url_env.is_none()).map(ToString::to_string);
                let query = ("query", query.show());
                ConfigTable::of([("database_url", own.show()), ("database_url_env", database_url_env.show()), query])
            }
        }
    }

    pub(super) fn source(&self) -> Result<DirectorySource, ConfigProblem> {
        match self {
            Self::Service { url, secret: Some(secret), .. } => {
                Ok(DirectorySource::service(url.as_ref().clone(), secret.clone()))
            }
            Self::Query { database_url: Some(database), query, .. } => {
                let made = TeamQuery::new(database.reveal(), query).map_err(|problem| {
                    ConfigProblem::new("directory", "directory.database_url", problem).with_value(database.to_string())
                });
                Ok(DirectorySource::Query(made?, database.to_string()))
            }
            Self::Service { .. } | Self::Query { .. } => {
                Err(self.unset_problem().expect("a directory without a value has a problem"))
            }
        }
    }
}
