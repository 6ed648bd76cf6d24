//! Runs CPU-bound work which can take seconds, without blocking other tasks.

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

/// If the work `may_take_long`, another thread takes over this one's tasks meanwhile.
pub fn run_blocking<T>(may_take_long: bool, work: impl FnOnce() -> T) -> T {
    let has_threads = || Handle::try_current().is_ok_and(|now| now.runtime_flavor() == RuntimeFlavor::MultiThread);
    if may_take_long && has_threads() { block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_only_thread_serves_others_meanwhile() {
        let (sender, receiver) = mpsc::channel();
        let other = async move { sender.send(()).unwrap() };
        let served = tokio::spawn(async move {
            let other = tokio::spawn(other);
            run_blocking(true, || receiver.recv().unwrap());
            other.await.unwrap();
        });
        served.await.unwrap();
    }
}
