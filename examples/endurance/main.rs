//! The endurance run: several real instances under load while they, RabbitMQ and
//! PostgreSQL are killed, restarted and stalled; then every cent is accounted for.
//!
//! `cargo run --release --example endurance -- --minutes 60` starts servers of its
//! own on free ports (their programs must be installed), builds and starts the
//! program, prints a line a minute and a report, and exits with 1 where anything
//! did not hold. What must not live here: what is sent, broken and checked.

mod book;
mod caller;
mod checks;
mod faults;
mod instance;
mod load;
mod message;
mod process;
mod report;
mod rng;
mod servers;
mod watch;
mod world;

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Parser;
use onceledger::{clock::Clock, tasks::Tasks};
use tokio::time::{Instant, sleep};

use crate::{
    checks::Check,
    faults::Faults,
    instance::{Instance, Settings},
    load::Load,
    report::Facts,
    servers::{Ports, Postgres, RabbitMq},
    watch::{Pace, Tally, Verdict, Verifier},
    world::World,
};

const START_MAX: Duration = Duration::from_secs(60);
/// A `verify` that is running may end.
const WATCH_END_MAX: Duration = Duration::from_secs(150);
const DRAIN_MAX: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(500);
const PREFIX: &str = "endurance";

/// Run onceledger for a while under load and faults, and account for everything
#[derive(Debug, Parser)]
struct Args {
    /// How long faults and load last
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// How many instances run side by side
    #[arg(long, default_value_t = 4)]
    instances: usize,
    /// What load and faults are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Messages a second
    #[arg(long, default_value_t = 400)]
    rate: u64,
    /// Where the report goes, beside standard output
    #[arg(long)]
    report: Option<PathBuf>,
    /// The program to run; without it, it is built
    #[arg(long)]
    program: Option<PathBuf>,
    /// Keep the logs also where everything held
    #[arg(long)]
    keep: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let program = program.canonicalize().context("the program is not there")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let work = work_folder()?;
    let held = runtime.block_on(async {
        tokio::select! {
            held = run(&args, program, work.path()) => held,
            () = interrupted() => anyhow::bail!("interrupted"),
        }
    });
    // Whatever was started ends with what was dropped.
    runtime.shutdown_timeout(Duration::from_secs(5));
    if args.keep || !matches!(held, Ok(true)) {
        eprintln!("the logs are in {}", work.keep().display());
    }
    Ok(if held? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Not below root's own TMPDIR, which may be closed to the servers' users.
fn work_folder() -> anyhow::Result<tempfile::TempDir> {
    let mode = std::fs::Permissions::from_mode(0o711);
    let mut builder = tempfile::Builder::new();
    Ok(builder
        .prefix("onceledger-endurance.")
        .permissions(mode)
        .tempdir_in("/tmp")?)
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let term = async {
        match signal(SignalKind::terminate()) {
            Ok(mut term) => drop(term.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = term => {}
    }
}

/// Builds the program in the same profile, and says where it is: beside the
/// folder of this example.
fn build() -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--bin", "onceledger"]);
    if report::profile() == "release" {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    ensure!(built.success(), "cargo could not build the program");
    let own = std::env::current_exe()?;
    let folder = own
        .parent()
        .and_then(Path::parent)
        .context("this program has no folder")?;
    Ok(folder.join("onceledger"))
}

/// The whole run; answers whether everything held.
async fn run(args: &Args, program: PathBuf, work: &Path) -> anyhow::Result<bool> {
    // Now: it may be another one by the end.
    let commit = report::commit();
    let ports = Ports::new();
    let postgres = Postgres::start(work, &ports).await?;
    let rabbitmq = RabbitMq::start(work, &ports).await?;
    let rabbitmq_version = rabbitmq.control(&["version"]).await?;
    let urls = (postgres.url(), rabbitmq.url());
    let verifier = Verifier {
        program: program.clone(),
        work: work.to_owned(),
        database: urls.0.clone(),
    };
    let settings = Settings {
        program,
        work: work.to_owned(),
        database: urls.0.clone(),
        broker: urls.1.clone(),
        prefix: PREFIX.to_owned(),
    };
    let instances: anyhow::Result<Vec<Instance>> = (1..=args.instances)
        .map(|number| Instance::new(number, ports.free()?, settings.clone()))
        .collect();
    let world = Arc::new(World::new(args.seed, PREFIX.to_owned(), urls, instances?));
    start_instances(&world).await?;
    load::http::open_all(&world).await?;
    world.say("every account is open; the load begins");

    let load = Load::start(&world, args.rate);
    let watching = Tasks::new();
    watching.spawn(
        "watch",
        watch::run(world.clone(), verifier.clone(), pace(args)),
    );
    let mut faults = Faults::new(world.clone(), postgres, rabbitmq);
    let began = Instant::now();
    faults.run(args.minutes).await?;

    world.say("no more faults; the load ends, the queue drains");
    load.end().await;
    watching.stop(WATCH_END_MAX).await;
    let drained = drain(&world).await;
    let mut checks = vec![drained.1];
    for instance in &world.instances {
        faults::stop(&world, instance).await;
    }
    checks.push(queues(&world).await);
    checks.extend(checks::books(&world).await?);
    checks.push(verify(&verifier).await?);
    let facts = Facts {
        commit,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        date: Clock::system().now().rfc3339(),
        took: began.elapsed(),
        drained_in: drained.0,
        tally: Tally::read(&world.database).await?,
        postgres: postgres_version(&world.database).await?,
        rabbitmq: rabbitmq_version,
    };
    let text = report::markdown(&world, &facts, &checks);
    println!("{text}");
    if let Some(path) = &args.report {
        std::fs::write(path, &text)?;
    }
    // Orderly, so that their logs end well.
    faults.rabbitmq.end("TERM").await?;
    faults.postgres.end("INT").await?;
    Ok(checks.iter().all(Check::holds) && world.surprises().is_empty())
}

fn pace(args: &Args) -> Pace {
    match args.minutes {
        ..=5.0 => Pace {
            line: 15,
            verify: 20,
        },
        _ => Pace {
            line: 60,
            verify: 120,
        },
    }
}

/// All at once: they race for the migrations and the topology.
async fn start_instances(world: &World) -> anyhow::Result<()> {
    for instance in &world.instances {
        instance.start().await?;
    }
    for instance in &world.instances {
        let ready = instance.ready(START_MAX).await;
        ready.with_context(|| format!("{} is not ready in {START_MAX:?}", instance.name))?;
    }
    Ok(())
}

/// Waits until everything sent is in the books and nothing waits.
async fn drain(world: &World) -> (Duration, Check) {
    let (identities, letters) = {
        let inner = world.book.lock();
        (
            inner.identities().len() as i64,
            inner.letters().len() as i64,
        )
    };
    let mut check = Check::new("the queue drained, and no event waits");
    let began = Instant::now();
    loop {
        let tally = Tally::read(&world.database).await;
        if let Ok(tally) = &tally
            && tally.applied + tally.rejected >= identities
            && tally.letters >= letters
            && tally.parked == 0
            && watch::waiting(world, "events").await == Some(0)
        {
            return (began.elapsed(), check);
        }
        if began.elapsed() > DRAIN_MAX {
            check.wrong(format!(
                "after {DRAIN_MAX:?} of {identities} and {letters}: {tally:?}"
            ));
            return (began.elapsed(), check);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// With every consumer gone, what it held is in the queue again.
async fn queues(world: &World) -> Check {
    let mut check = Check::new("the queues are empty, the dead queue too");
    for last in ["events", "dead", "commands"] {
        let began = Instant::now();
        let mut left = watch::waiting(world, last).await;
        // The broker may need a moment for the last acknowledgements.
        while left != Some(0) && began.elapsed() < Duration::from_secs(10) {
            sleep(LOOK_EVERY).await;
            left = watch::waiting(world, last).await;
        }
        if left != Some(0) {
            check.wrong(format!("{left:?} in {PREFIX}.{last}"));
        }
    }
    check
}

async fn verify(verifier: &Verifier) -> anyhow::Result<Check> {
    match verifier.verify().await? {
        Verdict::Clean(said) => {
            let said = said.lines().find(|line| line.contains("looked at"));
            Ok(Check::new(format!(
                "`onceledger verify`: {}",
                said.unwrap_or_default()
            )))
        }
        Verdict::Dirty(said) => {
            let mut check = Check::new("`onceledger verify`");
            check.wrong(said);
            Ok(check)
        }
        Verdict::Away => anyhow::bail!("verify could not look"),
    }
}

async fn postgres_version(database: &str) -> anyhow::Result<String> {
    use sqlx::Connection;
    let mut books = sqlx::PgConnection::connect(database).await?;
    let version = sqlx::query_scalar("SHOW server_version")
        .fetch_one(&mut books)
        .await?;
    books.close().await?;
    Ok(version)
}
