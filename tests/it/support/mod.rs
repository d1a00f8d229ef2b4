//! What the tests share.

pub mod databases;
pub mod model;
pub mod script;
