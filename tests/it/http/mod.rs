//! HTTP from outside: a service on a port of its own, on both databases.

mod accounts;
mod by_hand;
mod conditions;
mod events;
mod export;
mod history;
mod letters;
mod life;
mod lookup;
mod moments;
mod openapi;
mod pages;
mod probes;
mod problems;
mod reading_events;
