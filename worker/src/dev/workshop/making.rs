//! Makes the message that a page shows: of the template's sample, of a JSON of one's own, or of a key's open window.

use std::{path::PathBuf, sync::Arc};

use tidings_activities::{Deps, digest::preview::Instead, operations::preview::preview};
use tidings_mail::render::{Error, Rendered, Renderer, Trial};
use tidings_model::{Key, settings::UnknownRecipients};
use tokio::task::spawn_blocking;

use super::{
    bench::Bench,
    fault::Fault,
    wanted::{Wanted, given},
};
use crate::{client, commands::digest::preview::notes, storage};

/// A message, and what it does not show itself.
pub(super) struct Made {
    pub mail: Rendered,
    /// For example the reason why it would not go out now.
    pub notes: Vec<String>,
}

/// Makes the message.
///
/// # Errors
/// The template or its data has a fault, no window is open, or Temporal, a worker or the store do not answer.
pub(super) async fn make(bench: &Bench, renderer: &Arc<Renderer>, wanted: &Wanted) -> Result<Made, Fault> {
    if let Some(key) = given(&wanted.key) {
        return of_key(bench, renderer.clone(), wanted, key).await;
    }
    let data = own_data(bench, wanted)?;
    let (renderer, wanted, folder) = (renderer.clone(), wanted.clone(), bench.folder().map(PathBuf::from));
    let rendered = spawn_blocking(move || {
        let trial = Trial { data: data.as_deref(), locale: given(&wanted.lang), zone: given(&wanted.zone) };
        renderer.try_out(&wanted.name, &trial).map_err(|error| Fault::of_templates(&error, folder.as_deref()))
    });
    let mail = rendered.await.map_err(|error| Fault::new("Tidings", error, "Please report that."))??;
    Ok(Made { mail, notes: Vec::new() })
}

/// The JSON of one's own, if the page has one.
fn own_data(bench: &Bench, wanted: &Wanted) -> Result<Option<Arc<str>>, Fault> {
    let Some(id) = given(&wanted.data) else { return Ok(None) };
    let gone = || {
        let problem = "it is no longer kept: tidings dev keeps the latest 50 until it ends";
        Fault::new("your JSON", problem, "Paste it again below.")
    };
    bench.kept.get(id).map(Some).ok_or_else(gone)
}

/// Makes the message of a key's open window as it would go out now.
async fn of_key(bench: &Bench, renderer: Arc<Renderer>, wanted: &Wanted, key: &str) -> Result<Made, Fault> {
    let wrong = |error| Fault::new(key, error, "Write TENANT/TYPE/USER, for example acme/activity/ann.");
    let parsed: Key = key.parse().map_err(wrong)?;
    let failed = |error: anyhow::Error| Fault::new(key, format!("{error:#}"), "Load the page again when that is done.");
    let deps = deps(bench, renderer.clone()).await.map_err(failed)?;
    let commands = client::commands(&bench.config).await.map_err(failed)?;
    let (locale, zone) = (given(&wanted.lang), given(&wanted.zone));
    let instead = Instead { template: Some(&wanted.name), locale, zone };
    let shown = preview(&commands, &deps, &parsed, &instead).await.map_err(|error| failed(error.into()))?;
    let nothing =
        |problem: &str| Fault::new(key, problem, "Emit an event for this key, for example with tidings emit.");
    let Some((due, preview)) = shown else { return Err(nothing("no window is open")) };
    let mut notes = notes(&preview, due.more);
    let Some(mail) = preview.mail else { return Err(nothing(&notes.join("; "))) };
    if let Some(other) = deps.settings.digest(&parsed).map(|digest| &digest.template).filter(|own| **own != wanted.name)
    {
        notes.push(format!("its messages go out in the template {other}"));
    }
    match &mail.fallback {
        None => Ok(Made { mail, notes }),
        Some(problem) => Err(broken(&renderer, &wanted.name, problem, bench)),
    }
}

/// The fault of a template for which `default` stands in. Its text begins with its place.
fn broken(renderer: &Renderer, name: &str, problem: &str, bench: &Bench) -> Fault {
    let error = if renderer.names().iter().any(|known| known == name) {
        let (place, problem) = problem.split_once(": ").unwrap_or((name, problem));
        Error::Template { place: place.to_owned(), problem: problem.to_owned() }
    } else {
        Error::Unknown { name: name.to_owned(), names: renderer.names() }
    };
    Fault::of_templates(&error, bench.folder())
}

async fn deps(bench: &Bench, renderer: Arc<Renderer>) -> anyhow::Result<Deps> {
    let config = &bench.config;
    let settings = config.settings(UnknownRecipients::Invent)?;
    let store = storage::open(&config.database_url).await?;
    Ok(Deps::for_previews(store, config.team_directory()?, renderer, settings))
}
