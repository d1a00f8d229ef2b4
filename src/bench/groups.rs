//! Every task that a run starts, so that none lives on while what it works on is
//! removed: a consumer would declare its queue again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::tasks::Tasks;

/// How long a group may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The groups of tasks of one run, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(Arc<Mutex<Vec<Tasks>>>);

impl Groups {
    /// A new group.
    pub(super) fn group(&self) -> Tasks {
        let tasks = Tasks::new();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(tasks.clone());
        tasks
    }

    /// Stops them all, the youngest first: consumers began after their lanes.
    pub(super) async fn stop(&self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for tasks in all.iter().rev() {
            // What does not end in time ends with the process.
            tasks.stop(STOP_MAX).await;
        }
    }
}
