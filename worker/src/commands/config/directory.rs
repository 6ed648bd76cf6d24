//! The team's own directory of recipients in `tidings config check`.

use serde::Serialize;
use tidings_store::WrongQuery;

use crate::{
    Config,
    config::{self, Directory, Problem},
};

/// Checks the directory: adds to the problems what stops Tidings, and returns the warning if its database does not answer.
pub(super) async fn check(config: &Config, problems: &mut Vec<Problem>) -> Option<Problem> {
    let directory = config.directory.as_ref()?;
    let made = match config.team_directory() {
        Ok(made) => made?,
        Err(config::Error::Wrong(wrong)) => {
            problems.extend(wrong);
            return None;
        }
        Err(config::Error::Unreadable { .. }) => return None,
    };
    let wrong = made.check().await.err()?;
    let problem = directory.wrong_query(&wrong);
    match wrong {
        WrongQuery::Away(_) => Some(problem),
        WrongQuery::Wrong(_) => {
            problems.push(problem);
            None
        }
    }
}

/// The directory, without passwords.
#[derive(Serialize)]
pub(super) struct DirectoryView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_env: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    database_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    database_url_env: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
}

impl<'a> DirectoryView<'a> {
    pub fn new(directory: &'a Directory) -> Self {
        match directory {
            Directory::Service { url, secret_env, .. } => Self {
                url: Some(url.to_string()),
                secret_env: Some(secret_env),
                database_url: None,
                database_url_env: None,
                query: None,
            },
            Directory::Query { database_url, database_url_env, query, .. } => Self {
                url: None,
                secret_env: None,
                // The variable has the address.
                database_url: database_url.as_ref().filter(|_| database_url_env.is_none()).map(ToString::to_string),
                database_url_env: database_url_env.as_deref(),
                query: Some(query),
            },
        }
    }
}
