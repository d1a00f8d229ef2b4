//! How a store is set up. What each setting means to a user is said where the
//! settings are read, not here.

use std::time::Duration;

/// The settings of a store; what one database has no use for, it passes over.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Connections for the path of an event: at least one a lane.
    pub ledger_connections: u32,
    /// Connections for everything that only reads, so that a rush of readers
    /// never takes the ledger's.
    pub read_connections: u32,
    /// Prepared statements kept for each connection. 0 behind a pooler that
    /// gives every transaction another server connection.
    pub statement_cache: usize,
    /// How long to wait for a connection before the database counts as away.
    pub acquire_timeout: Duration,
    /// How long the path of an event waits for an answer before the database
    /// counts as away: a server that went without a word sends none, ever.
    pub answer_timeout: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            ledger_connections: 4,
            read_connections: 8,
            statement_cache: 100,
            acquire_timeout: Duration::from_secs(3),
            answer_timeout: Duration::from_secs(30),
        }
    }
}
