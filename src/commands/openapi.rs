//! `onceledger openapi`: the description of the HTTP interface.

use std::process::ExitCode;

use clap::Args;

use super::output::print;
use crate::http;

/// Print the OpenAPI document of the HTTP interface
///
/// Example:
///   onceledger openapi > openapi.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Openapi;

impl Openapi {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        print(&http::openapi_json()?)?;
        Ok(ExitCode::SUCCESS)
    }
}
