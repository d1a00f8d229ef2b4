//! The one home of background tasks: each is named, told when to stop, and
//! waited for.

use std::{future::Future, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks of one running service.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A group that stops with this one, or before it.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stop: self.stop.child_token(),
        }
    }

    /// What a task watches to know that it should stop.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task. If it panics, everything stops: a service of which a part
    /// died must not look alive.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        let inner = self.tracker.spawn(task);
        self.tracker.spawn(async move {
            if let Err(error) = inner.await
                && error.is_panic()
            {
                tracing::error!(task = name, %error, "a task panicked; stopping the service");
                stop.cancel();
            }
        });
    }

    /// Tells every task to stop and waits for them, at most so long. Answers
    /// whether all of them ended in time.
    pub async fn stop(&self, at_most: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(at_most, self.tracker.wait())
            .await
            .is_ok()
    }
}
