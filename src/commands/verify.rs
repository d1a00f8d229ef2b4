//! `onceledger verify`: do the books agree with themselves?

use std::{fmt::Display, process::ExitCode};

use clap::Args;

use super::{Unusable, output::print, prepare};
use crate::{
    app::books::{self, Schema},
    config::{DATABASE, Flags, LOGS, Purpose},
    store::{Offence, Verified},
};

/// Check every balance and version against the history
///
/// Works in one snapshot, also while the service runs, and changes nothing. Names
/// every account that breaks a rule, and then exits with 1; where the books can't be
/// read, with 2.
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
        // Not the exit code of books that do not agree: these were not looked at.
        let unusable = |error: &dyn Display| Unusable(error.to_string());
        let opened = books::open(&config, Schema::Check).await;
        let store = opened.map_err(|error| unusable(&error))?;
        let verified = store.verify().await;
        store.close().await;
        let Verified {
            accounts,
            entries,
            offences,
        } = verified.map_err(|error| unusable(&error))?;
        let mut text = String::new();
        for Offence {
            tenant,
            account_id,
            what,
        } in &offences
        {
            text += &format!("{tenant}/{account_id}: {what}\n");
        }
        text += &format!("{accounts} accounts and {entries} entries looked at\n");
        text += &match offences.len() {
            0 => "all agree\n".to_owned(),
            Verified::OFFENCES_MAX => format!("{} offences or more\n", Verified::OFFENCES_MAX),
            count => format!("{count} offences\n"),
        };
        print(&text)?;
        Ok(if offences.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
