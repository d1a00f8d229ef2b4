//! The rules, on the model in memory: scripts, and random histories.

mod histories;
mod scripts;
