//! `tidings digest preview`: the open window's email as it would go out now. Nothing is claimed, stored or
//! sent.

use std::{path::PathBuf, sync::Arc};

use serde_json::json;
use tidings_mail::render::{RenderedEmail, TemplateRenderer};
use tidings_model::{Key, settings::UnknownRecipients};
use tidings_operations::{
    digest::{PreviewView, preview_window},
    preview::{EmailPreview, PreviewOverrides},
};
use tidings_services::StepServices;

use crate::{Config, client, commands::template, phrases::format_count, storage};

/// The key, and the part of its message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    tidings digest preview acme/activity/ann\n  \
    tidings digest preview acme/activity/ann --out preview\n  \
    tidings digest preview acme/activity/ann --part html > mail.html")]
pub struct PreviewOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Write subject.txt, body.html and body.txt to this folder instead of printing the text
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print only this part
    #[arg(long, conflicts_with = "out")]
    part: Option<PreviewPart>,
    /// Print JSON; `null` when no window is open
    #[arg(long, conflicts_with_all = ["out", "part"])]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PreviewPart {
    Subject,
    Text,
    Html,
}

pub(super) async fn run(options: PreviewOptions, config: &Config) -> anyhow::Result<bool> {
    let (commands, deps) = (client::connect_commands(config).await?, preview_deps(config).await?);
    let key = commands.open_name(&config.names, &options.key).await?;
    let Some((due, preview)) = preview_window(&commands, &deps, &key, &PreviewOverrides::default()).await? else {
        let nothing = if options.json { "null".to_owned() } else { format!("{key}: no window is open") };
        anstream::println!("{nothing}");
        return Ok(true);
    };
    if options.json {
        anstream::println!("{}", json!(PreviewView::new(&due, preview)));
        return Ok(true);
    }
    for note in preview_notes(&preview, due.more) {
        anstream::eprintln!("{key}: {note}");
    }
    match (&preview.mail, options.part) {
        (None, _) => {}
        (Some(mail), Some(part)) => anstream::println!("{}", part_text(mail, part).trim_end()),
        (Some(mail), None) => template::show_rendered(mail, options.out.as_deref())?,
    }
    Ok(true)
}

async fn preview_deps(config: &Config) -> anyhow::Result<StepServices> {
    let settings = config.settings(UnknownRecipients::Wait)?;
    let store = storage::open(&config.database_url).await?;
    let renderer = TemplateRenderer::new(config.templates.as_deref())?;
    Ok(StepServices::for_previews(store, config.team_directory()?, Arc::new(renderer), settings))
}

fn part_text(mail: &RenderedEmail, part: PreviewPart) -> &str {
    match part {
        PreviewPart::Subject => &mail.subject,
        PreviewPart::Text => &mail.text,
        PreviewPart::Html => &mail.html,
    }
}

/// Returns facts that the message does not show, e.g. why it would not go out now.
pub(crate) fn preview_notes(preview: &EmailPreview, more: u64) -> Vec<String> {
    let EmailPreview { mail, not_sent_because, .. } = preview;
    let nothing = mail.is_none().then(|| "no events would be left to send".to_owned());
    let note = not_sent_because.as_ref().map(|why| format!("would not be sent now: {why}"));
    let fallback = mail.as_ref().and_then(|mail| mail.fallback.as_ref());
    let fallback = fallback.map(|why| format!("using another template: {why}"));
    let more = (more > 0).then(|| format!("without {} on their way to the store", format_count(more, "event")));
    [nothing, note, fallback, more].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_say_why_no_mail_would_go_out() {
        let preview =
            |why: Option<&str>| EmailPreview { mail: None, events: 0, not_sent_because: why.map(str::to_owned) };
        assert_eq!(preview_notes(&preview(None), 0), ["no events would be left to send"]);
        assert_eq!(
            preview_notes(&preview(Some("paused until then")), 2),
            [
                "no events would be left to send",
                "would not be sent now: paused until then",
                "without 2 events on their way to the store"
            ]
        );
    }
}
