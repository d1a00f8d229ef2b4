//! The consumers against a real broker: what is published takes effect once and
//! is acknowledged only then, whatever goes away meanwhile.

pub(crate) mod broker;
mod dead;
mod delivery;
mod fleet;
mod frames;
mod holding;
mod killed;
mod outages;
mod poison;
mod proxy;
mod scripted;
mod service;
mod stopping;
mod topology;
mod unwritable;
