//! A future that is killed or stopped at one of its awaits: what SIGKILL and SIGSTOP do to a worker, at every point
//! where they can make a difference, without a process.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// How a [`run`] ended.
pub enum Ended<'a, T> {
    /// By itself.
    With(T),
    /// Stopped after that many polls. Drop it, and it was killed; await it, and it goes on (SIGCONT).
    Stopped(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

/// Runs `future`, but stops it after `polls` polls.
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
