//! Futures that are killed or stopped at one of their awaits, as SIGKILL and SIGSTOP do to a worker.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// The end of a [`run`].
pub enum Ended<'a, T> {
    /// The future completed.
    With(T),
    /// The future stopped after that many polls. Dropping it is a kill; awaiting it resumes it (SIGCONT).
    Stopped(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

/// Runs `future` and stops it after `polls` polls.
pub async fn run<'a, T>(future: impl Future<Output = T> + Send + 'a, polls: u32) -> Ended<'a, T> {
    Budgeted { future: Some(Box::pin(future)), polls }.await
}

struct Budgeted<'a, T> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
    polls: u32,
}

impl<'a, T> Future for Budgeted<'a, T> {
    type Output = Ended<'a, T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended<'a, T>> {
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        if self.polls == 0 {
            return Poll::Ready(Ended::Stopped(future));
        }
        self.polls -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Ended::With(value)),
            Poll::Pending => {
                self.future = Some(future);
                Poll::Pending
            }
        }
    }
}
