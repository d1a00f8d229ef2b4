//! The outcome of a sent event as JSON.

use serde::Serialize;
use utoipa::ToSchema;

use super::schemas::ReasonJson;
use crate::domain::{Event, Found, Reason, Told};

/// What became of an event that was sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "outcome": "applied", "source": "http", "event_id": "pay-1001", "account_id": "4711",
    "expected_version": 1, "version": 2, "balance": 49500,
}))]
pub struct OutcomeJson {
    /// What became of it.
    #[schema(value_type = OutcomeCode)]
    outcome: &'static str,
    /// Why, where it did not take effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ReasonJson, required = false)]
    reason: Option<&'static str>,
    /// Who produced it.
    #[schema(max_length = 255)]
    source: String,
    /// Its id.
    #[schema(max_length = 255)]
    event_id: String,
    /// The account that it moves.
    #[schema(min_length = 1, max_length = 128)]
    account_id: String,
    /// The version that it wanted to find, where it named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    expected_version: Option<i64>,
    /// Applied or duplicate: the version that it produced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    version: Option<i64>,
    /// Applied or duplicate: the balance after that entry, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    balance: Option<i64>,
    /// Refused or parked: the account's version as it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    account_version: Option<i64>,
    /// Refused or parked: the account's balance as it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    account_balance: Option<i64>,
}

/// What can become of an event that was sent.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) enum OutcomeCode {
    /// It took effect by this call.
    Applied,
    /// It had taken effect before.
    Duplicate,
    /// It waits.
    Parked,
    /// It is refused, and that is remembered; but in an array with
    /// `handling=strict`, `account_not_found` and `version_gap` are not recorded.
    Rejected,
}

/// One outcome, or one for each element of an array.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) enum Outcomes {
    /// For one event.
    One(OutcomeJson),
    /// For an array.
    Many(Vec<OutcomeJson>),
}

impl OutcomeJson {
    /// Shows what an event's sender is told.
    #[must_use]
    pub fn new(told: &Told) -> Self {
        let (outcome, reason) = told.label();
        // An entry says more than the account as it was found.
        let found = told.found.filter(|_| told.version.is_none());
        Self {
            version: told.version,
            balance: told.balance,
            ..Self::without_entry(outcome, reason, &told.event, found)
        }
    }

    /// An element of an array that was refused without becoming an event.
    #[must_use]
    pub fn refused(event: &Event, reason: Reason, found: Option<Found>) -> Self {
        Self::without_entry("rejected", Some(reason), event, found)
    }

    fn without_entry(
        outcome: &'static str,
        reason: Option<Reason>,
        event: &Event,
        found: Option<Found>,
    ) -> Self {
        Self {
            outcome,
            reason: reason.map(Reason::as_str),
            source: event.identity.source.to_string(),
            event_id: event.identity.event_id.to_string(),
            account_id: event.content.account_id.to_string(),
            expected_version: event.content.expected_version,
            version: None,
            balance: None,
            account_version: found.map(|found| found.version),
            account_balance: found.map(|found| found.balance),
        }
    }
}
