//! What the tests share.

pub mod app;
pub mod databases;
pub mod flaky;
pub mod model;
pub mod network;
pub mod script;
pub mod servers;
pub mod small_disk;
