//! Signals to the running workflows that a pause covers, at a limited rate.

use std::fmt;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use temporalio_client::Client;
use tidings_activities::{
    choices,
    operations::{at_rate::at_rate, pauses::running},
};
use tidings_model::{pause::Scope, settings::FormerNames};

use crate::phrases::counted;

/// The number of signals.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Woken {
    pub signalled: u64,
    pub failed: u64,
}

impl fmt::Display for Woken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} signalled, {} failed", counted(self.signalled, "running workflow"), self.failed)
    }
}

/// Signals the keys of the scope whose workflow runs, and with `messages` the single messages of its tenant. A workflow that
/// has ended meanwhile needs no signal.
///
/// # Errors
/// Temporal does not answer at all.
pub(super) async fn wake(
    temporal: anyhow::Result<Client>,
    names: &FormerNames,
    scope: &Scope,
    messages: bool,
    rate: u32,
) -> anyhow::Result<Woken> {
    let temporal = &temporal?;
    let ids =
        running(temporal, names, scope, messages).await.context("Temporal does not list the running workflows")?;
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} signals, {eta} left")?;
    let bar = ProgressBar::new(ids.len() as u64).with_style(style);
    let mut woken = Woken::default();
    let send = |id: String| async move { (choices::signal(temporal, id.clone()).await, id) };
    at_rate(ids, rate, send, |(answer, id)| {
        match answer {
            Ok(()) => woken.signalled += 1,
            Err(error) => {
                woken.failed += 1;
                bar.suspend(|| anstream::eprintln!("{id} was not signalled: {error:#}"));
            }
        }
        bar.inc(1);
    })
    .await;
    bar.finish_and_clear();
    Ok(woken)
}
