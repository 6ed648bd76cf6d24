//! Work whose time grows with the length of a body: a few at a time, on threads that serve nobody.

use std::{
    panic::resume_unwind,
    sync::{Arc, LazyLock},
    thread::available_parallelism,
};

use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::problem::Problem;

/// The longest body whose work takes less time than the way to another thread and back.
const SHORT: usize = 16 * 1024;
/// Bodies that are worked on at a time, however many cores there are.
const MOST: usize = 8;

/// Values of a JSON text that is read into a tree. Each costs hundreds of bytes at worst, though it may have two in the text.
pub(crate) const VALUES: usize = 100_000;

static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(cores.min(MOST)))
});

/// Runs the work on a body of this length. A long one waits for a place.
pub(crate) async fn run<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    if length <= SHORT {
        return Ok(work());
    }
    // The semaphore is never closed. The place belongs to the thread: a request that ends earlier cannot stop the work.
    let place = PLACES.clone().acquire_owned().await.map_err(|_| Problem::Failed)?;
    let done = spawn_blocking(move || {
        let _place = place;
        work()
    });
    done.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Problem::Failed,
    })
}

/// Refuses a JSON text, or lines of JSON, with more values than these, because each needs memory of its own.
pub(crate) fn bound_values(json: &[u8], most: usize) -> Result<(), String> {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    if values <= most { Ok(()) } else { Err(format!("has {values} values, the limit is {most}")) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_long_body_is_worked_on_by_another_thread() {
        let here = thread::current().id();
        assert_eq!(run(SHORT, || thread::current().id()).await, Ok(here));
        assert_ne!(run(SHORT + 1, || thread::current().id()).await, Ok(here));
    }

    #[tokio::test]
    async fn a_panic_ends_the_request_and_frees_its_place() {
        for _ in 0..=MOST {
            let request = tokio::spawn(run(SHORT + 1, || panic!("a fault")));
            let result: Result<Result<(), Problem>, _> = request.await;
            assert!(result.unwrap_err().is_panic());
        }
        assert_eq!(run(SHORT + 1, || 7).await, Ok(7));
    }

    #[test]
    fn a_tree_of_too_many_values_is_refused_and_text_is_not() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert_eq!(bound_values(list(VALUES).as_bytes(), VALUES), Ok(()));
        let refused = bound_values(list(VALUES + 1).as_bytes(), VALUES).unwrap_err();
        assert_eq!(refused, "has 100001 values, the limit is 100000");
        let text = format!("{{\"html\": \"\\\"{}\"}}", ",[{".repeat(VALUES));
        assert_eq!(bound_values(text.as_bytes(), VALUES), Ok(()));
    }
}
