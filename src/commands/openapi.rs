//! `onceledger openapi`: the description of the HTTP interface.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;

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
        io::stdout().write_all(http::openapi_json()?.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
