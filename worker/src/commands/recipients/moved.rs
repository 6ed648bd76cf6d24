//! After an import: signals to the keys of people whose zone is another one, so that open windows follow at once (rule 15).
//!
//! A crash before a signal is harmless: admission finds the changed revision when the window is due. Keys are made of the configured
//! digest types, and not asked for in visibility, which is a moment behind. A signal starts no workflow.

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde_json::json;
use tidings_activities::{choices, operations::at_rate::at_rate, recipients::keys_of};
use tidings_model::{Key, PersonId};

use crate::{Config, phrases::counted};

/// Signals every key of these people, at `rate` keys a second, and prints the number of keys. Failures are warnings only.
///
/// # Errors
/// The progress cannot be shown.
pub(super) async fn tell(people: &[PersonId], rate: u32, as_json: bool, config: &Config) -> anyhow::Result<()> {
    let keys = keys_of(people, &config.unsigned());
    if keys.is_empty() {
        return Ok(());
    }
    let untold = signal(&keys, rate, config).await?;
    let told = keys.len().saturating_sub(untold) as u64;
    if as_json {
        anstream::println!("{}", json!({ "moved": people.len(), "signalled": told, "not_signalled": untold }));
    } else {
        let people = counted(people.len() as u64, "person");
        anstream::println!("another zone: {people}, {} told", counted(told, "key"));
    }
    Ok(())
}

/// Returns the number of keys that could not be signalled.
async fn signal(keys: &[Key], rate: u32, config: &Config) -> anyhow::Result<usize> {
    let temporal = match crate::installation::connect(config).await {
        Ok(temporal) => temporal,
        Err(error) => {
            warn(&error.to_string());
            return Ok(keys.len());
        }
    };
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} keys told of another zone, {eta} left")?;
    let bar = ProgressBar::new(keys.len() as u64).with_style(style);
    let (mut untold, mut first) = (0, None);
    at_rate(
        keys,
        rate,
        |key| choices::tell(&temporal, key),
        |answer| {
            bar.inc(1);
            if let Err(error) = answer {
                untold += 1;
                first.get_or_insert(error.to_string());
            }
        },
    )
    .await;
    bar.finish_and_clear();
    if let Some(error) = first {
        warn(&format!("{} keys were not told ({error})", HumanCount(untold as u64)));
    }
    Ok(untold)
}

fn warn(problem: &str) {
    anstream::eprintln!("warning: {problem}; the zones are stored, and open windows follow them when they are due");
}
