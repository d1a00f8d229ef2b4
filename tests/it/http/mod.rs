//! HTTP from outside: a service on a port of its own, on both databases.

mod accounts;
mod conditions;
mod events;
mod history;
mod letters;
mod openapi;
mod pages;
mod probes;
mod problems;
mod reading_events;
