//! onceledger: an account ledger that makes each debit event take effect exactly once.
//!
//! The path of an event, in reading order:
//! [`envelope`] makes an event of bytes, [`lane`] brings it to the one loop that
//! writes its account, [`ledger`] loads, decides ([`domain`]) and commits
//! ([`store`]) until what was decided was true, and the answer goes back to
//! [`amqp`] (which acknowledges) or [`http`] (which answers).

pub mod amqp;
pub mod app;
pub mod bench;
pub mod clock;
pub mod commands;
pub mod config;
pub mod copies;
pub mod domain;
pub mod envelope;
pub mod explain;
pub mod http;
pub mod lane;
pub mod ledger;
pub mod store;
pub mod sweeper;
pub mod tasks;
pub mod telemetry;
