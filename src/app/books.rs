//! The way to the books that the settings name, with their schema seen to.
//!
//! What lives here: opening, and which failures waiting can't cure. What must
//! not: waiting.

use std::{fmt, sync::Arc};

use crate::{
    config::{Config, SecretUrl},
    store::{self, Store, StoreError, StoreOptions},
};

/// What to do about the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// Bring it up to date.
    Migrate,
    /// Only check it: nothing is made or changed.
    Check,
}

/// The books could not be opened.
#[derive(Debug)]
pub(crate) struct Unopened {
    /// What the database says.
    pub(crate) error: StoreError,
    /// Whether waiting does not help.
    pub(crate) hopeless: bool,
    url: SecretUrl,
    schema: Schema,
}

/// Opens the books.
pub(crate) async fn open(config: &Config, schema: Schema) -> Result<Arc<dyn Store>, Unopened> {
    let url = &config.database_url;
    try_open(config, schema).await.map_err(|error| Unopened {
        hopeless: match error {
            StoreError::Schema(_) => true,
            // A file is there or not; nothing brings it but a person.
            StoreError::Away(_) | StoreError::Other(_) => url.starts_with("sqlite:"),
            _ => false,
        },
        error,
        url: url.clone(),
        schema,
    })
}

async fn try_open(config: &Config, schema: Schema) -> store::Result<Arc<dyn Store>> {
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

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} can't be used: {}", self.url, self.error)?;
        // The store does not know of commands where it only compares versions.
        let said = self.error.to_string().contains("onceledger migrate");
        if self.hopeless && self.schema == Schema::Check && !said {
            f.write_str("; `onceledger migrate` brings an older one up to date, a newer one needs a newer program")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unopened {}
