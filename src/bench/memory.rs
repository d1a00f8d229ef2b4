//! The memory of a service that works off a backlog: a process of its own, as it
//! is deployed.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use tokio::process::{Child, Command};

use super::{broker::Broker, machine::Machine, report::Memory};
use crate::config::Config;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Longer than any backlog that is worth measuring takes.
const AT_MOST: Duration = Duration::from_secs(1_800);

/// Starts the service on a queue that was filled, and watches it until the queue is
/// empty.
pub(super) async fn measure(
    config: &Config,
    broker: &Broker,
    queue: &str,
    machine: &mut Machine,
    backlog: usize,
) -> anyhow::Result<Memory> {
    let mut child = start(config, queue)?;
    let pid = child.id().context("the service did not start")?;
    let began = Instant::now();
    let mut seen = Vec::new();
    let mut empty = 0;
    // The queue looks empty while the last messages are in hand: it must stay so.
    while empty < 10 {
        tokio::time::sleep(LOOK_EVERY).await;
        ensure!(child.try_wait()?.is_none(), "the service ended");
        ensure!(began.elapsed() < AT_MOST, "the backlog does not end");
        seen.extend(machine.resident(pid));
        empty = if broker.ready(queue).await? == 0 {
            empty + 1
        } else {
            0
        };
    }
    // Everything of it is removed with the rest.
    child.kill().await?;
    let most = |bytes: &[u64]| bytes.iter().copied().max().unwrap_or(0);
    Ok(Memory {
        backlog,
        first_quarter: most(&seen[..seen.len().div_ceil(4)]),
        peak: most(&seen),
    })
}

fn start(config: &Config, queue: &str) -> anyhow::Result<Child> {
    let broker = config.amqp_url.as_deref().unwrap_or_default();
    let program = std::env::current_exe().context("the program's own file is not known")?;
    let child = Command::new(program)
        .arg("serve")
        .env("DATABASE_URL", &*config.database_url)
        .env("AMQP_URL", broker)
        .env("ONCELEDGER_AMQP_PREFIX", &config.amqp_prefix)
        .env(
            "ONCELEDGER_QUEUES",
            format!("{}={queue}", super::books::SOURCE),
        )
        .env("ONCELEDGER_HTTP_ADDR", "127.0.0.1:0")
        .env("ONCELEDGER_LANES", config.lanes.to_string())
        .env("ONCELEDGER_PREFETCH", config.prefetch.to_string())
        .env("ONCELEDGER_BATCH_MAX", config.batch_max.to_string())
        .env("ONCELEDGER_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}
