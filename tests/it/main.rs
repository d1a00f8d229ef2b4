//! Every integration test, in one binary, so that the world links once.
#![cfg(test)]

mod amqp;
mod core;
mod scripted;
mod support;
mod tidy;
