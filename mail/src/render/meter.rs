//! What one rendering may take: work, memory and time, on the thread that renders.
//!
//! Tera has no hook in its interpreter. So [`metered`](super::metered::metered) puts calls of the function [`FUNCTION`] into a team's own
//! templates when they are loaded, and each call adds to the thread's meter.

use std::{
    cell::Cell,
    io,
    time::{Duration, Instant},
};

use tera::{Kwargs, State, TeraResult, Value};

/// The function that the inserted calls name.
pub(super) const FUNCTION: &str = "tidings_meter";
/// Limit of the work for one part of a message, in bytes: the source of a loop, a block, a component or an included file counts each time
/// that it runs, and so does each value that is written.
const WORK_BYTES: u64 = 64 * 1024 * 1024;
/// What each run of such a source counts besides.
const ROUND_BYTES: u64 = 256;
/// Limit of a variable in bytes, beyond the bytes of the data.
const VARIABLE_BYTES: u64 = 1024 * 1024;
/// Limit of lists and maps inside of each other. Those of a payload have 32 levels.
const VARIABLE_DEPTH: u32 = 64;
/// What an element of a list or a map counts besides its text.
const ELEMENT_BYTES: u64 = 16;
/// Limit of the time for one message, with all attempts to make it shorter.
const TIME: Duration = Duration::from_secs(5);

/// A limit that a template exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Limit {
    #[error(
        "takes more work than the limit of {} MiB: look for loops in loops, and for components that show themselves",
        WORK_BYTES / 1024 / 1024
    )]
    Work,
    #[error("makes a variable of more than {} KiB beyond the data, the limit: look at what a loop adds to it", VARIABLE_BYTES / 1024)]
    Variable,
    #[error("takes longer than the limit of {} seconds: look for loops over long lists", TIME.as_secs())]
    Time,
}

impl From<Limit> for tera::Error {
    fn from(limit: Limit) -> Self {
        Self::message(limit.to_string())
    }
}

#[derive(Clone, Copy)]
struct Meter {
    /// `None`: nothing is rendered.
    until: Option<Instant>,
    worked: u64,
    /// The largest text that needs no escaping any more. Tera writes it without asking.
    largest: u64,
    /// Limit of a variable.
    variable: u64,
    /// The part is plain text.
    plain: bool,
    over: Option<Limit>,
}

impl Meter {
    const IDLE: Self = Self { until: None, worked: 0, largest: 0, variable: 0, plain: false, over: None };

    fn work(&mut self, bytes: u64) -> Result<(), Limit> {
        self.worked = self.worked.saturating_add(bytes);
        if self.worked > WORK_BYTES { self.exceeds(Limit::Work) } else { Ok(()) }
    }

    fn exceeds(&mut self, limit: Limit) -> Result<(), Limit> {
        self.over = Some(limit);
        Err(limit)
    }
}

thread_local! {
    static METER: Cell<Meter> = const { Cell::new(Meter::IDLE) };
}

/// Puts the thread's meter back, also if rendering panics.
struct Before(Meter);

impl Drop for Before {
    fn drop(&mut self) {
        METER.set(self.0);
    }
}

fn update<T>(change: impl FnOnce(&mut Meter) -> T) -> T {
    let mut meter = METER.get();
    let done = change(&mut meter);
    METER.set(meter);
    done
}

/// Renders one message. Its parts share the time.
pub(super) fn timed<T>(render: impl FnOnce() -> T) -> T {
    let before = Before(METER.get());
    let until = before.0.until.unwrap_or_else(|| Instant::now() + TIME);
    METER.set(Meter { until: Some(until), ..Meter::IDLE });
    render()
}

/// Renders one part of a message of `data` bytes, and returns the limit that it exceeded, if it did.
pub(super) fn part<T>(plain: bool, data: u64, render: impl FnOnce() -> T) -> (T, Option<Limit>) {
    timed(|| {
        update(|meter| (meter.variable, meter.plain) = (VARIABLE_BYTES.saturating_add(data), plain));
        (render(), METER.get().over)
    })
}

/// Counts a value that is written. Returns whether it is written as it is, because the part is plain text.
pub(super) fn written(value: &str) -> io::Result<bool> {
    update(|meter| {
        if meter.until.is_some() {
            meter.work(bytes(value)).map_err(io::Error::other)?;
        }
        Ok(meter.plain)
    })
}

/// The function of the inserted calls. `n` is the source that runs now, in bytes, `w` the number of values that it writes, and `v`
/// has the names of variables that are new.
pub(super) fn call(kwargs: &Kwargs, state: &State) -> TeraResult<&'static str> {
    let (n, w) = (kwargs.get::<u64>("n")?.unwrap_or_default(), kwargs.get::<u64>("w")?.unwrap_or_default());
    let names = kwargs.get::<&str>("v")?.unwrap_or_default();
    update(|meter| {
        let copies = w.saturating_mul(meter.largest);
        meter.work(ROUND_BYTES.saturating_add(n).saturating_add(copies))?;
        if meter.until.is_some_and(|until| until < Instant::now()) {
            meter.exceeds(Limit::Time)?;
        }
        for name in names.split(' ').filter(|name| !name.is_empty()) {
            let Some(value) = state.get::<Value>(name)? else { continue };
            let mut room = meter.variable;
            if !fits(&value, VARIABLE_DEPTH, &mut room) {
                meter.exceeds(Limit::Variable)?;
            }
            let taken = meter.variable - room;
            if value.is_safe() {
                meter.largest = meter.largest.max(taken);
            }
            meter.work(taken)?;
        }
        Ok("")
    })
}

/// Checks a text that a filter makes before it makes it.
pub(super) fn check_text(bytes: u64) -> Result<(), Limit> {
    update(
        |meter| if bytes > meter.variable && meter.until.is_some() { meter.exceeds(Limit::Variable) } else { Ok(()) },
    )
}

/// Returns the bytes of a value, as they count for the limit of a variable.
pub(super) fn size(value: &Value) -> u64 {
    let mut room = u64::MAX;
    fits(value, VARIABLE_DEPTH, &mut room);
    u64::MAX - room
}

/// Takes the bytes of a value from `room`. `false`: there is not enough. A list that is in itself many times counts each time, because it
/// would be written each time.
fn fits(value: &Value, depth: u32, room: &mut u64) -> bool {
    let own = ELEMENT_BYTES.saturating_add(value.as_str().map_or(0, bytes));
    let Some(left) = room.checked_sub(own).filter(|_| depth > 0) else { return false };
    *room = left;
    let name = |key: &tera::value::Key<'_>| key.as_str().map_or(0, bytes);
    match (value.as_array(), value.as_map()) {
        (Some(items), _) => items.iter().all(|item| fits(item, depth - 1, room)),
        (_, Some(map)) => map.iter().all(|(key, item)| {
            *room = room.saturating_sub(name(key));
            fits(item, depth - 1, room)
        }),
        _ => true,
    }
}

fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
