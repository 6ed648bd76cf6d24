//! `tidings digest preview`: the open window's email as it would go out now. Nothing is claimed, stored or
//! sent.

use std::{path::PathBuf, sync::Arc};

use serde_json::json;
use tidings_mail::render::{Rendered, Renderer};
use tidings_model::{Key, settings::UnknownRecipients};
use tidings_operations::{
    digest::{PreviewView, preview},
    preview::{Instead, Preview},
};
use tidings_services::Deps;

use crate::{Config, client, commands::template, phrases::counted, storage};

/// The key, and the part of its message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    tidings digest preview acme/activity/ann\n  \
    tidings digest preview acme/activity/ann --out preview\n  \
    tidings digest preview acme/activity/ann --part html > mail.html")]
pub struct Options {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Write subject.txt, body.html and body.txt to this folder instead of printing the text
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print nothing but this part
    #[arg(long, conflicts_with = "out")]
    part: Option<Part>,
    /// Answer in JSON; `null` when no window is open
    #[arg(long, conflicts_with_all = ["out", "part"])]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    Subject,
    Text,
    Html,
}

pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let (commands, deps) = (client::commands(config).await?, deps(config).await?);
    let key = commands.open_name(&config.names, &options.key).await?;
    let Some((due, preview)) = preview(&commands, &deps, &key, &Instead::default()).await? else {
        let nothing = if options.json { "null".to_owned() } else { format!("{key}: no window is open") };
        anstream::println!("{nothing}");
        return Ok(true);
    };
    if options.json {
        anstream::println!("{}", json!(PreviewView::new(&due, preview)));
        return Ok(true);
    }
    for note in notes(&preview, due.more) {
        anstream::eprintln!("{key}: {note}");
    }
    match (&preview.mail, options.part) {
        (None, _) => {}
        (Some(mail), Some(part)) => anstream::println!("{}", one(mail, part).trim_end()),
        (Some(mail), None) => template::show(mail, options.out.as_deref())?,
    }
    Ok(true)
}

async fn deps(config: &Config) -> anyhow::Result<Deps> {
    let settings = config.settings(UnknownRecipients::Wait)?;
    let store = storage::open(&config.database_url).await?;
    let renderer = Renderer::new(config.templates.as_deref())?;
    Ok(Deps::for_previews(store, config.team_directory()?, Arc::new(renderer), settings))
}

fn one(mail: &Rendered, part: Part) -> &str {
    match part {
        Part::Subject => &mail.subject,
        Part::Text => &mail.text,
        Part::Html => &mail.html,
    }
}

/// Returns facts that the message does not show, e.g. why it would not go out now.
pub(crate) fn notes(preview: &Preview, more: u64) -> Vec<String> {
    let Preview { mail, but, .. } = preview;
    let nothing = mail.is_none().then(|| "nothing would be left to send".to_owned());
    let but = but.as_ref().map(|why| format!("nothing would go out now: {why}"));
    let fallback = mail.as_ref().and_then(|mail| mail.fallback.as_ref());
    let fallback = fallback.map(|why| format!("another template stands in: {why}"));
    let more = (more > 0).then(|| format!("without {} on their way to the store", counted(more, "event")));
    [nothing, but, fallback, more].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_say_why_no_mail_would_go_out() {
        let preview = |but: Option<&str>| Preview { mail: None, events: 0, but: but.map(str::to_owned) };
        assert_eq!(notes(&preview(None), 0), ["nothing would be left to send"]);
        assert_eq!(
            notes(&preview(Some("paused until then")), 2),
            [
                "nothing would be left to send",
                "nothing would go out now: paused until then",
                "without 2 events on their way to the store"
            ]
        );
    }
}
