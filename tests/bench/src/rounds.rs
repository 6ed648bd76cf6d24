//! The rounds of a bench.

use indicatif::ProgressBar;

/// The number of rounds, and the place for progress messages.
pub struct Rounds {
    pub count: usize,
    pub progress: ProgressBar,
}

impl Rounds {
    /// Shows the part of this round that runs now.
    pub fn say(&self, round: usize, what: &str) {
        self.progress.set_message(format!("round {} of {}: {what}", round + 1, self.count));
        self.progress.tick();
    }
}
