//! Cards dealt from a seed, for interventions and faults alike.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng, seq::SliceRandom};

/// The interval that deals the whole deck in nine tenths of the run, at most `slowest`.
pub(super) fn pace(length: Duration, cards: usize, slowest: Duration) -> Duration {
    let cards = u32::try_from(cards + 1).unwrap_or(u32::MAX);
    (length * 9 / 10 / cards).min(slowest)
}

/// Each multiple of `gap`, except in the last moments of the run.
pub(super) fn every(gap: Duration, length: Duration) -> impl Iterator<Item = Duration> {
    (1..).map(move |n| gap * n).take_while(move |at| *at <= length * 95 / 100)
}

/// A deck that is shuffled and dealt without end.
pub(super) fn dealt<T: Clone>(deck: Vec<T>, seed: u64) -> impl Iterator<Item = T> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    std::iter::repeat_with(move || {
        let mut deck = deck.clone();
        deck.shuffle(&mut random);
        deck
    })
    .flatten()
}

/// A random time up to half of `gap`.
pub(super) fn jitter(gap: Duration, random: &mut ChaCha8Rng) -> Duration {
    gap.mul_f64(random.random::<f64>() / 2.0)
}

/// Draws one item.
pub(super) fn one_of<T: Copy>(of: &[T], random: &mut ChaCha8Rng) -> T {
    of[index(random, of.len())]
}

/// Draws 32 bits, so that a seed means the same on every machine.
pub(super) fn index(random: &mut ChaCha8Rng, length: usize) -> usize {
    random.random_range(0..u32::try_from(length).unwrap_or(u32::MAX)) as usize
}
