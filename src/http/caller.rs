//! Who calls: whose ledger a request is about, under which name, with which rights.

use std::{convert::Infallible, sync::Arc};

use axum::{extract::FromRequestParts, http::request::Parts};

use crate::domain::DEFAULT_TENANT;

/// Somebody who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose ledger.
    pub tenant: Arc<str>,
    /// The name under which acts are kept in the audit.
    pub subject: String,
    /// What the caller may do.
    pub role: Role,
}

/// What a caller may do; each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at everything.
    Read,
    /// Open accounts and send events.
    Write,
    /// Replay, discard, change settings.
    Operate,
}

/// Reads from a request who calls. Without keys every caller is the default
/// tenant's operator.
#[must_use]
pub fn caller(_request: &Parts) -> Caller {
    Caller {
        tenant: DEFAULT_TENANT.into(),
        subject: "anonymous".to_owned(),
        role: Role::Operate,
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(caller(parts))
    }
}
