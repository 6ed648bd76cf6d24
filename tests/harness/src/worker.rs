//! A worker in this process.

use std::thread;

use anyhow::{Context, Result};
use temporalio_client::Client;
use temporalio_sdk::WorkerOptions;
use tidings::sdk;

/// A worker on a thread of its own: [`temporalio_sdk::Worker::run`] is not `Send`.
pub struct Running {
    stop: Box<dyn Fn() + Send>,
    thread: Option<thread::JoinHandle<Result<()>>>,
}

impl Running {
    /// Starts a worker and returns when it can be stopped.
    ///
    /// # Errors
    /// When the worker cannot be made.
    pub fn start(client: Client, options: WorkerOptions) -> Result<Self> {
        let (ready, started) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || -> Result<()> {
            let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            tokio.block_on(async {
                let runtime = sdk::runtime()?;
                let mut worker = sdk::create_worker(&runtime, &client, options)?;
                ready.send(worker.shutdown_handle()).ok();
                Ok(worker.run().await?)
            })
        });
        let stop = started.recv().context("the worker did not start")?;
        Ok(Self { stop: Box::new(stop), thread: Some(thread) })
    }

    /// Stops the worker and waits for it.
    ///
    /// # Errors
    /// When it failed.
    pub fn stop(mut self) -> Result<()> {
        (self.stop)();
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(|_| anyhow::anyhow!("the worker panicked"))?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        (self.stop)();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
