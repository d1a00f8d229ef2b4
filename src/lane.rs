//! Who waits for whom: everything that writes an account goes through the one
//! lane of that account, so a process never conflicts with itself.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{
        mpsc::{
            self,
            error::{SendError, TrySendError},
        },
        oneshot,
    },
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{Answer, Work},
    ledger::{Failure, Ledger},
    tasks::Tasks,
};

/// What is called with the ask and its answer, once, whatever it is.
pub type Reply = Box<dyn FnOnce(Work, Result<Answer, Failure>) + Send>;

/// Told of each ask on its way to a lane, and may put itself before the reply.
pub type Tap = Arc<dyn Fn(Reply) -> Reply + Send + Sync>;

/// The way to the lanes; cheap to clone.
#[derive(Clone)]
pub struct Lanes {
    senders: Arc<[mpsc::Sender<Job>]>,
    tap: Option<Tap>,
}

/// How a lane gathers its batches.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    /// Most asks in one batch.
    pub batch_max: usize,
    /// How long a batch that is not full waits for more; zero: not at all.
    pub linger: Duration,
}

struct Job {
    work: Work,
    reply: Reply,
}

impl Lanes {
    /// Starts a lane for each ledger.
    #[must_use]
    pub fn start(ledgers: Vec<Ledger>, gathering: Gathering, tasks: &Tasks) -> Self {
        let senders = ledgers
            .into_iter()
            .map(|ledger| {
                let (sender, receiver) = mpsc::channel(gathering.batch_max * 2);
                tasks.spawn("lane", run(ledger, receiver, gathering, tasks.stopping()));
                sender
            })
            .collect();
        Self { senders, tap: None }
    }

    /// A way to the same lanes past somebody who measures.
    #[must_use]
    pub fn tapped(&self, tap: Tap) -> Self {
        Self {
            senders: self.senders.clone(),
            tap: Some(tap),
        }
    }

    /// Brings an ask to the lane of its account, waiting while that lane is full.
    /// Asks on one account are settled in the order in which they were sent.
    pub async fn send(&self, work: Work, reply: Reply) {
        if let Some(sending) = self.offer(work, reply) {
            sending.await;
        }
    }

    /// The same for somebody who can't wait right now: where the lane is full, this
    /// answers what is left to be awaited.
    pub fn offer(
        &self,
        work: Work,
        reply: Reply,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let reply = match &self.tap {
            Some(tap) => tap(reply),
            None => reply,
        };
        let lane = &self.senders[work.account.share(self.senders.len())];
        let job = match lane.try_send(Job { work, reply }) {
            Ok(()) => return None,
            Err(TrySendError::Closed(job)) => {
                stopping(job);
                return None;
            }
            Err(TrySendError::Full(job)) => job,
        };
        let lane = lane.clone();
        Some(async move {
            if let Err(SendError(job)) = lane.send(job).await {
                stopping(job);
            }
        })
    }

    /// Asks and waits for the answer. The work is done whole even where nobody
    /// waits any more.
    ///
    /// # Errors
    /// [`Failure`], where there is no answer.
    pub async fn ask(&self, work: Work) -> Result<Answer, Failure> {
        let (reply, answer) = oneshot::channel();
        let reply: Reply = Box::new(move |_, result| {
            // The caller may have gone away; the work is done all the same.
            let _ = reply.send(result);
        });
        self.send(work, reply).await;
        answer.await.unwrap_or(Err(Failure::Stopping))
    }
}

fn stopping(job: Job) {
    (job.reply)(job.work, Err(Failure::Stopping));
}

/// One lane: gather what has arrived, settle it, answer.
async fn run(
    mut ledger: Ledger,
    mut arrivals: mpsc::Receiver<Job>,
    gathering: Gathering,
    stop: CancellationToken,
) {
    let mut jobs = Vec::with_capacity(gathering.batch_max);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled(), if !arrivals.is_closed() => arrivals.close(),
            count = arrivals.recv_many(&mut jobs, gathering.batch_max) => {
                if count == 0 {
                    return;
                }
                linger(&mut arrivals, &mut jobs, gathering).await;
                settle(&mut ledger, &mut jobs).await;
            }
        }
    }
}

async fn linger(arrivals: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>, gathering: Gathering) {
    if gathering.linger.is_zero() {
        return;
    }
    let end = Instant::now() + gathering.linger;
    while jobs.len() < gathering.batch_max {
        let room = gathering.batch_max - jobs.len();
        match tokio::time::timeout_at(end, arrivals.recv_many(jobs, room)).await {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
}

async fn settle(ledger: &mut Ledger, jobs: &mut Vec<Job>) {
    let (works, replies): (Vec<Work>, Vec<Reply>) =
        jobs.drain(..).map(|job| (job.work, job.reply)).unzip();
    let answers = ledger.settle(&works).await;
    for ((work, reply), answer) in works.into_iter().zip(replies).zip(answers) {
        reply(work, answer);
    }
}
