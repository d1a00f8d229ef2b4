//! Every integration test, in one binary, so that the world links once.
#![cfg(test)]
#![expect(unreachable_pub, reason = "nobody is outside of a test binary")]

mod amqp;
mod commands;
mod core;
mod http;
mod scripted;
mod sqlite;
mod store;
mod support;
mod tidy;
