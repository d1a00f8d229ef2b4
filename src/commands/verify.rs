//! `onceledger verify`: do the books agree with themselves?

use std::process::ExitCode;

use clap::Args;

use super::prepare;
use crate::{
    app::books::{self, Schema},
    config::{DATABASE, Flags, LOGS, Purpose},
    store::Verified,
};

/// Check every balance and version against the history
///
/// Works in one snapshot, also while the service runs, and changes nothing. Names
/// every account that breaks a rule, and then exits with 1.
///
/// Example:
///   onceledger verify --database-url sqlite://onceledger.db
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Verify {
    #[command(flatten)]
    flags: Flags<{ DATABASE | LOGS }>,
}

impl Verify {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let config = prepare(&self.flags.0, Purpose::Look)?.config;
        let store = books::open(&config, Schema::Check).await?;
        let verified = store.verify().await;
        store.close().await;
        let Verified {
            accounts,
            entries,
            offences,
        } = verified?;
        for offence in &offences {
            println!(
                "{}/{}: {}",
                offence.tenant, offence.account_id, offence.what
            );
        }
        println!("{accounts} accounts and {entries} entries looked at");
        if offences.is_empty() {
            println!("all agree");
            return Ok(ExitCode::SUCCESS);
        }
        let more = if offences.len() >= Verified::OFFENCES_MAX {
            " or more"
        } else {
            ""
        };
        println!("{}{more} offences", offences.len());
        Ok(ExitCode::FAILURE)
    }
}
