//! The rules, on the model in memory: scripts, random histories, and the path
//! of a batch when its store misbehaves.

mod asks;
mod histories;
mod identities;
pub mod scripts;
mod setbacks;
mod waiting;
