//! `onceledger migrate`: the schema, brought up to date, and nothing else.

use std::process::ExitCode;

use clap::Args;

use super::{output::print, prepare};
use crate::{
    app::books::{self, Schema},
    config::{DATABASE, Flags, LOGS, Purpose},
};

/// Bring the database's schema up to date
///
/// `serve` does so at its start; this is for those who let another user do it, and
/// then run `serve --no-migrate`. Doing it again changes nothing.
///
/// Example:
///   DATABASE_URL=postgres://owner:…@db/ledger onceledger migrate
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Migrate {
    #[command(flatten)]
    flags: Flags<{ DATABASE | LOGS }>,
}

impl Migrate {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let config = prepare(&self.flags.0, Purpose::Look)?.config;
        let store = books::open(&config, Schema::Migrate).await?;
        store.close().await;
        print(&format!(
            "the schema of {} is up to date\n",
            config.database_url
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}
