//! The report: what was run where, what was broken, what was found.

use std::{fmt::Write, process::Command, time::Duration};

use crate::{
    checks::Check,
    watch::Tally,
    world::{World, read},
};

/// What the report says beside the figures.
pub(crate) struct Facts {
    pub(crate) commit: String,
    pub(crate) command: String,
    pub(crate) date: String,
    pub(crate) took: Duration,
    pub(crate) drained_in: Duration,
    pub(crate) tally: Tally,
    pub(crate) postgres: String,
    pub(crate) rabbitmq: String,
}

/// Markdown.
pub(crate) fn markdown(world: &World, facts: &Facts, checks: &[Check]) -> String {
    let mut text = String::new();
    // Writing to a string never fails.
    let _ = write(&mut text, world, facts, checks);
    text
}

fn write(text: &mut String, world: &World, facts: &Facts, checks: &[Check]) -> std::fmt::Result {
    let surprises = world.surprises();
    let held = checks.iter().all(Check::holds) && surprises.is_empty();
    let verdict = if held {
        "everything held"
    } else {
        "NOT everything held"
    };
    writeln!(text, "# Endurance run: {verdict}\n")?;
    machine(text, world, facts)?;
    figures(text, world, facts)?;
    faults(text, world)?;
    writeln!(text, "\n## What was checked at the end\n")?;
    for check in checks {
        writeln!(text, "- {}", check.summary())?;
    }
    writeln!(text, "\n## What should not have happened\n")?;
    if surprises.is_empty() {
        writeln!(text, "Nothing did.")?;
    }
    for surprise in surprises {
        writeln!(text, "- {surprise}")?;
    }
    Ok(())
}

fn machine(text: &mut String, world: &World, facts: &Facts) -> std::fmt::Result {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .lines()
        .next()
        .unwrap_or_default()
        .replace("MemTotal:", "");
    writeln!(text, "| | |\n| --- | --- |")?;
    for (name, value) in [
        ("date", facts.date.clone()),
        ("command", format!("`{}`", facts.command)),
        ("seed", world.seed.to_string()),
        ("commit", facts.commit.clone()),
        (
            "compiler",
            format!("{}, profile {}", said("rustc", &["--version"]), profile()),
        ),
        ("system", said("uname", &["-srm"])),
        ("machine", format!("{cpus} processors,{memory} of memory")),
        (
            "PostgreSQL",
            format!("{} (fsync and synchronous_commit on)", facts.postgres),
        ),
        ("RabbitMQ", facts.rabbitmq.clone()),
        ("instances", world.instances.len().to_string()),
        (
            "took",
            format!(
                "{:.0} s, drained in {:.1} s",
                facts.took.as_secs_f64(),
                facts.drained_in.as_secs_f64()
            ),
        ),
    ] {
        writeln!(text, "| {name} | {value} |")?;
    }
    Ok(())
}

/// What is checked out now.
pub(crate) fn commit() -> String {
    said("git", &["describe", "--always", "--dirty", "--abbrev=10"])
}

/// How this was built.
pub(crate) fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    }
}

fn figures(text: &mut String, world: &World, facts: &Facts) -> std::fmt::Result {
    let (tally, figures) = (&facts.tally, &world.figures);
    writeln!(text, "\n## Figures\n\n| | |\n| --- | --- |")?;
    for (name, value) in [
        ("messages given to the broker", read(&figures.published)),
        (
            "of these, again since they were not confirmed",
            read(&figures.unconfirmed),
        ),
        ("copies sent on purpose", read(&figures.copies)),
        (
            "different things sent and confirmed",
            world.book.lock().confirmed,
        ),
        ("events applied", tally.applied.unsigned_abs()),
        ("events rejected", tally.rejected.unsigned_abs()),
        ("dead letters", tally.letters.unsigned_abs()),
        ("duplicates counted", tally.copies.unsigned_abs()),
        ("HTTP requests answered", read(&figures.answered)),
        (
            "HTTP requests turned away (nobody there, or 503) and made again",
            read(&figures.turned_away),
        ),
        (
            "`verify` runs beside the load, all clean",
            read(&figures.verified),
        ),
        ("SIGTERMs that ended with 0 in time", read(&figures.stopped)),
        ("longest of them, in ms", read(&figures.longest_stop_ms)),
        (
            "most memory of an instance, in MiB",
            read(&figures.largest_mib),
        ),
    ] {
        writeln!(text, "| {name} | {value} |")?;
    }
    Ok(())
}

fn faults(text: &mut String, world: &World) -> std::fmt::Result {
    writeln!(text, "\n## Faults\n")?;
    writeln!(
        text,
        "How long after the end of the fault every instance was ready again.\n"
    )?;
    writeln!(
        text,
        "| fault | times | median | longest |\n| --- | --- | --- | --- |"
    )?;
    for (kind, mut took) in world.faults() {
        took.sort();
        let median = took.get(took.len() / 2).copied().unwrap_or_default();
        let longest = took.last().copied().unwrap_or_default();
        let (median, longest) = (median.as_secs_f64(), longest.as_secs_f64());
        writeln!(
            text,
            "| {kind} | {} | {median:.1} s | {longest:.1} s |",
            took.len()
        )?;
    }
    Ok(())
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "unknown".to_owned())
}
