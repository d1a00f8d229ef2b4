//! Looks at the run from outside while it goes: a line each minute, `verify` every
//! so often through the real program, and whether an instance died by itself.

use std::{
    path::PathBuf,
    process::Command,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lapin::{
    Connection as AmqpConnection, ConnectionProperties, options::QueueDeclareOptions,
    types::FieldTable,
};
use sqlx::{Connection, PgConnection};
use tokio::time::{interval, timeout};

use crate::{
    process,
    world::{World, count, read},
};

const ASK_MAX: Duration = Duration::from_secs(20);
const VERIFY_MAX: Duration = Duration::from_secs(120);

/// How often what is looked at, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) line: u64,
    pub(crate) verify: u64,
}

/// The program, to run `verify` with.
#[derive(Clone, Debug)]
pub(crate) struct Verifier {
    pub(crate) program: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) database: String,
}

/// What `verify` said.
#[derive(Debug)]
pub(crate) enum Verdict {
    Clean(String),
    Dirty(String),
    /// It could not look, since the database was away.
    Away,
}

impl Verifier {
    pub(crate) async fn verify(&self) -> anyhow::Result<Verdict> {
        let mut command = Command::new(&self.program);
        command
            .arg("verify")
            .current_dir(&self.work)
            .env_clear()
            .env("DATABASE_URL", &self.database);
        let (status, said) = match process::run(&mut command, &self.work, VERIFY_MAX).await {
            Ok(ended) => ended,
            Err(_) => return Ok(Verdict::Away),
        };
        Ok(if status.success() && said.contains("all agree") {
            Verdict::Clean(said)
        } else if said.contains("looked at") {
            Verdict::Dirty(said)
        } else {
            Verdict::Away
        })
    }
}

/// Runs until the load ends.
pub(crate) async fn run(world: Arc<World>, verifier: Verifier, pace: Pace) {
    let mut ticks = interval(Duration::from_secs(1));
    let mut seconds = 0;
    while !world.ending() {
        ticks.tick().await;
        seconds += 1;
        for instance in &world.instances {
            let (mib, _) = instance.footprint();
            world.figures.largest_mib.fetch_max(mib, Ordering::Relaxed);
            match instance.revive().await {
                Ok(None) => {}
                Ok(Some(what)) => world.surprise(what),
                Err(error) => world.surprise(format!("{error:#}")),
            }
        }
        if seconds % pace.verify == 0 {
            verify(&world, &verifier).await;
        }
        if seconds % pace.line == 0 {
            say(&world).await;
        }
    }
}

async fn verify(world: &World, verifier: &Verifier) {
    match verifier.verify().await {
        Ok(Verdict::Clean(_)) => count(&world.figures.verified),
        Ok(Verdict::Dirty(said)) => world.surprise(format!("verify beside the load: {said}")),
        Ok(Verdict::Away) => world.say("verify: the database is away"),
        Err(error) => world.surprise(format!("verify: {error:#}")),
    }
}

async fn say(world: &World) {
    let faults: usize = world.faults().values().map(Vec::len).sum();
    let queue = match waiting(world, "events").await {
        Some(count) => count.to_string(),
        None => "?".to_owned(),
    };
    let books = match timeout(ASK_MAX, Tally::read(&world.database)).await {
        Ok(Ok(tally)) => tally.to_string(),
        _ => "the books are away".to_owned(),
    };
    let footprints: Vec<String> = world
        .instances
        .iter()
        .map(|instance| {
            let (mib, files) = instance.footprint();
            format!("{mib} MiB/{files} files")
        })
        .collect();
    let figures = &world.figures;
    world.say(&format!(
        "published {} ({} unconfirmed), confirmed {}, queue {queue}, {books}; http {} ({} turned \
         away); {faults} faults; {} times verified; {}",
        read(&figures.published),
        read(&figures.unconfirmed),
        world.book.lock().confirmed,
        read(&figures.answered),
        read(&figures.turned_away),
        read(&figures.verified),
        footprints.join(", "),
    ));
}

/// Messages in a queue that nobody holds; `None`: the broker does not say.
pub(crate) async fn waiting(world: &World, last: &str) -> Option<u32> {
    let asking = async {
        let connecting = AmqpConnection::connect(&world.broker, ConnectionProperties::default());
        let connection = connecting.await.ok()?;
        let channel = connection.create_channel().await.ok()?;
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = format!("{}.{last}", world.prefix);
        let found = channel
            .queue_declare(name.into(), options, FieldTable::default())
            .await;
        let count = found.ok().map(|queue| queue.message_count());
        let _ = connection.close(200, "done".into()).await;
        count
    };
    timeout(ASK_MAX, asking).await.ok().flatten()
}

/// How much stands in the books.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Tally {
    pub(crate) applied: i64,
    pub(crate) rejected: i64,
    pub(crate) parked: i64,
    pub(crate) other: i64,
    pub(crate) letters: i64,
    pub(crate) copies: i64,
    pub(crate) sessions: i64,
}

impl Tally {
    pub(crate) async fn read(database: &str) -> anyhow::Result<Self> {
        let mut books = PgConnection::connect(database).await?;
        let tally = sqlx::query_as(
            "SELECT count(*) FILTER (WHERE status = 'applied' AND type <> 'opening') AS applied, \
                    count(*) FILTER (WHERE status = 'rejected') AS rejected, \
                    count(*) FILTER (WHERE status = 'parked') AS parked, \
                    count(*) FILTER (WHERE status NOT IN ('applied', 'rejected', 'parked')) AS other, \
                    (SELECT count(*) FROM dead_letter) AS letters, \
                    (SELECT coalesce(sum(copies), 0)::bigint FROM event_seen) AS copies, \
                    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS sessions \
             FROM event",
        )
        .fetch_one(&mut books)
        .await?;
        books.close().await?;
        Ok(tally)
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            applied,
            rejected,
            parked,
            other,
            letters,
            copies,
            sessions,
        } = self;
        write!(
            f,
            "applied {applied}, rejected {rejected}, parked {parked}, other {other}, letters \
             {letters}, duplicates {copies}, {sessions} database sessions"
        )
    }
}
