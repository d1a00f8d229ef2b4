//! Every integration test, in one binary, so that the world links once.
#![cfg(test)]

mod core;
mod scripted;
mod store;
mod support;
mod tidy;
