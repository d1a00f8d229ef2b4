//! The program as its users meet it: settings, commands, exit codes, signals.

mod apply;
mod bench;
mod check_config;
mod config;
mod outages;
pub(crate) mod program;
mod queue;
mod reconcile;
mod serve;
mod sweeper;
mod verify;
