//! `tidings send`: submits one email.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use tidings_mail::render::TemplateRenderer;
use tidings_model::{AddressError, EmailAddress, foreign_text::decode_file, settings::StreamName};
use tidings_operations::submit::{self, MessageSubmission, SubmissionContent, SubmissionRecipient, SubmitError};

use crate::{Config, error::UsageError, storage};

const EXAMPLES: &str = "\
Examples:
  tidings send --tenant acme --to ann --key invoice-812 --template invoice --var number=812 --var 'due=1 May'
  tidings send --tenant acme --to 'Ann <ann@example.net>' --key welcome-ann \\
               --subject 'Welcome' --text welcome.txt --html welcome.html

The command returns once the message is in the outbox, for a worker to send. The same --key again is the same message
while it is kept ([retention] messages, 90d): nothing is sent twice. Different content under the same key is an error.";

/// The message and its recipient.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SendOptions {
    /// The tenant of the message
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    /// A user of the directory, or an address, as in `Ann <ann@example.net>`
    #[arg(long, value_name = "USER|ADDRESS")]
    to: String,
    /// An idempotency key of your choice: the same key is the same message
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The template of the message
    #[arg(long, value_name = "NAME", required_unless_present = "subject", conflicts_with = "subject")]
    template: Option<String>,
    /// A template variable, `message.NAME` in the template; JSON, or else text
    #[arg(long = "var", value_name = "NAME=VALUE", requires = "template", value_parser = variable)]
    variables: Vec<(String, Value)>,
    /// Without a template: the subject
    #[arg(long, value_name = "TEXT", requires = "text")]
    subject: Option<String>,
    /// Without a template: the file with the plain text
    #[arg(long, value_name = "FILE", requires = "subject")]
    text: Option<PathBuf>,
    /// Without a template: the file with the HTML
    #[arg(long, value_name = "FILE", requires = "subject")]
    html: Option<PathBuf>,
    /// The address for replies [default: the stream's]
    #[arg(long, value_name = "ADDRESS")]
    reply_to: Option<EmailAddress>,
    /// `transactional` for a message that the recipient waits for; `bulk` for a newsletter
    #[arg(long, value_name = "STREAM", default_value = StreamName::Transactional.name())]
    stream: StreamName,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: SendOptions, config: &Config) -> anyhow::Result<bool> {
    let as_json = options.json;
    let submission = options.into_submission()?;
    let renderer = TemplateRenderer::new(config.templates.as_deref()).context("the templates cannot be read")?;
    let settings = config.settings(tidings_model::settings::UnknownRecipients::Wait)?;
    let signers = config.signers()?;
    let store = storage::open(&config.database_url).await?;
    let directory = config.team_directory()?;
    // First, because the namespace may belong to another installation.
    let temporal = crate::installation::connect(config).await?;
    let accepted = submit::accept(&*store, directory.as_deref(), &renderer, &signers, &settings, &submission).await;
    let accepted = accepted.map_err(submission_error)?;
    let message = &accepted.message;
    let starting = submit::start_message(&temporal, &config.task_queue, message).await;
    starting.context("the message is in the outbox, but Temporal did not accept it; run the same command again")?;
    let id = message.id;
    if as_json {
        anstream::println!("{}", json!({"id": id, "state": message.state, "again": accepted.again}));
    } else if accepted.again {
        anstream::println!("{id}: already accepted; it is {}", message.state.name());
    } else {
        anstream::println!("{id}: in the outbox; follow it with `tidings messages show {id}`");
    }
    Ok(true)
}

fn submission_error(refused: SubmitError) -> anyhow::Error {
    match refused {
        SubmitError::Store(error) => error.into(),
        SubmitError::Directory(error) => error.into(),
        refused => UsageError(refused.to_string()).into(),
    }
}

impl SendOptions {
    fn into_submission(self) -> anyhow::Result<MessageSubmission> {
        let read = |path: PathBuf| fs::read(&path).and_then(decode_file).with_context(|| path.display().to_string());
        let content = match (self.template, self.subject) {
            (Some(name), _) => SubmissionContent::Template { name, variables: Map::from_iter(self.variables) },
            (None, subject) => SubmissionContent::Parts {
                subject: subject.unwrap_or_default(),
                text: self.text.map(read).transpose()?.unwrap_or_default(),
                html: self.html.map(read).transpose()?,
            },
        };
        Ok(MessageSubmission {
            tenant: self.tenant,
            idempotency_key: self.key,
            stream: self.stream,
            to: parse_recipient(&self.to).map_err(|error| UsageError(format!("--to {:?} {error}", self.to)))?,
            content,
            reply_to: self.reply_to,
            attachments: Vec::new(),
        })
    }
}

/// Text with an `@` is an address, so a user with one in the id cannot be named here.
fn parse_recipient(text: &str) -> Result<SubmissionRecipient, AddressError> {
    let (name, address) = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => (name.trim(), address),
        None if text.contains('@') => ("", text),
        None => return Ok(SubmissionRecipient::User(text.to_owned())),
    };
    Ok(SubmissionRecipient::Address { address: address.parse()?, name: name.to_owned() })
}

fn variable(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("is not NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_is_a_user_or_an_address() {
        assert!(matches!(parse_recipient("ann"), Ok(SubmissionRecipient::User(user)) if user == "ann"));
        for (text, name) in [("ann@example.net", ""), ("Ann <ann@example.net>", "Ann"), ("<ann@example.net>", "")] {
            assert!(
                matches!(parse_recipient(text), Ok(SubmissionRecipient::Address { address, name: n }) if address.as_str() == "ann@example.net" && n == name),
                "{text}"
            );
        }
    }

    #[test]
    fn a_variable_is_json_or_else_text() {
        assert_eq!(variable("n=812").unwrap(), ("n".into(), json!(812)));
        assert_eq!(variable("due=1 May").unwrap(), ("due".into(), json!("1 May")));
        assert_eq!(variable("q=a=b").unwrap(), ("q".into(), json!("a=b")));
        assert!(variable("n").is_err());
    }
}
