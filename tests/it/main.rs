//! Every integration test, in one binary, so that the world links once.
#![cfg(test)]

mod amqp;
mod commands;
mod core;
mod http;
mod scripted;
mod sqlite;
mod store;
mod support;
mod tidy;
