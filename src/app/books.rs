//! The way to the books that the settings name, with their schema seen to.

use std::sync::Arc;

use crate::{
    config::Config,
    store::{self, Result, Store, StoreOptions},
};

/// What to do about the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// Bring it up to date.
    Migrate,
    /// Only check it: nothing is made or changed.
    Check,
}

/// Opens the books.
pub(crate) async fn open(config: &Config, schema: Schema) -> Result<Arc<dyn Store>> {
    match schema {
        Schema::Migrate => store::migrate(&config.database_url).await?,
        Schema::Check => store::check_schema(&config.database_url).await?,
    }
    let lanes = u32::try_from(config.lanes).unwrap_or(u32::MAX);
    let options = StoreOptions {
        // One for each lane, and some for what is kept beside the lanes: dead
        // letters and counts.
        ledger_connections: lanes.saturating_add(2),
        ..StoreOptions::default()
    };
    store::open(&config.database_url, &options).await
}
