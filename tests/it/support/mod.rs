//! What the tests share.

pub mod app;
pub mod databases;
pub mod model;
pub mod script;
