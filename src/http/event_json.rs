//! An event as JSON: where it stands, why, and how it got there.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    account_json::raw,
    entry_json::EntryType,
    letters::{BodyEncoding, body},
    schemas::{EventStatusJson, ReasonJson},
};
use crate::{
    domain::{Past, Reason, Record, Status, Step, Timestamp},
    explain::explain,
    store::EventView,
};

/// What became of an event. Fields that do not apply are left out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "status": "applied",
    "explanation": "Took effect: a debit of 500 on account 4711 brought the account from version 1 to version 2, which left a balance of 49500.",
    "source": "http", "event_id": "pay-1001", "account_id": "4711", "type": "debit", "amount": 500,
    "currency": "CNY", "expected_version": 1, "version": 2, "balance_after": 49500, "duplicates": 0,
    "first_seen_at": "2026-11-30T08:00:01Z", "decided_at": "2026-11-30T08:00:01Z",
    "timeline": [{"at": "2026-11-30T08:00:01Z", "status": "applied", "account_id": "4711", "type": "debit",
        "amount": 500, "expected_version": 1}],
}))]
pub struct EventJson {
    /// Where it stands.
    #[schema(value_type = EventStatusJson)]
    status: &'static str,
    /// Why, where it did not take effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ReasonJson, required = false)]
    reason: Option<&'static str>,
    /// The same in words.
    #[schema(max_length = 10000)]
    explanation: String,
    /// Who produced it.
    #[schema(max_length = 255)]
    source: String,
    /// Its id.
    #[schema(max_length = 255)]
    event_id: String,
    /// The account that it moves.
    #[schema(min_length = 1, max_length = 128)]
    account_id: String,
    /// Which way.
    #[serde(rename = "type")]
    kind: EntryType,
    /// Minor units; of an opening its balance, which may be negative.
    amount: i64,
    /// As the event carried it; where a single event is read, else the account's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: Option<String>,
    /// The version that it wants to find, where it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    expected_version: Option<i64>,
    /// The version that it produced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    version: Option<i64>,
    /// The balance after it, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    balance_after: Option<i64>,
    /// Copies seen; counted aside, written within seconds.
    #[schema(minimum = 0)]
    duplicates: i64,
    /// RFC 3339, UTC.
    #[schema(format = DateTime, max_length = 40)]
    first_seen_at: String,
    /// Left out while it waits; RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime, max_length = 40)]
    decided_at: Option<String>,
    /// The producer's own reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 255)]
    reference: Option<String>,
    /// When it happened at the producer's; RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime, max_length = 40)]
    occurred_at: Option<String>,
    /// As the event carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    metadata: Option<Box<RawValue>>,
    /// Where one event is looked at: the message as it came, where it did not take
    /// effect at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    body: Option<String>,
    /// How `body` is written: `utf8`, or `base64` (RFC 4648 section 4).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BodyEncoding, required = false)]
    body_encoding: Option<BodyEncoding>,
    /// Where one event is looked at: the last body that an operator corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    corrected_body: Option<String>,
    /// Every judgement, oldest first; the last is how it stands.
    #[schema(max_items = 10000)]
    timeline: Vec<StepJson>,
}

/// One judgement of an event.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StepJson {
    /// When it fell; RFC 3339, UTC.
    #[schema(format = DateTime, max_length = 40)]
    at: String,
    /// What it was.
    #[schema(value_type = EventStatusJson)]
    status: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ReasonJson, required = false)]
    reason: Option<String>,
    /// What led to it, where it was not the first: `released`, `expired`, `sent_again`,
    /// `taken_over`, `replayed` or `discarded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 32, pattern = "^[a-z_]+$")]
    cause: Option<&'static str>,
    /// The account that the judged form named.
    #[schema(min_length = 1, max_length = 128)]
    account_id: String,
    /// Which way.
    #[serde(rename = "type")]
    #[schema(value_type = EntryType)]
    kind: String,
    /// Minor units.
    amount: i64,
    /// As the judged form carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: Option<String>,
    /// As the judged form carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    expected_version: Option<i64>,
    /// The account's version, as the judgement found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    account_version: Option<i64>,
    /// The account's balance, as the judgement found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    account_balance: Option<i64>,
    /// There and true where another event took this derived identity over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    displaced: bool,
}

impl EventJson {
    /// Shows an event.
    #[must_use]
    pub fn new(view: &EventView) -> Self {
        let record = &view.record;
        let event = &record.event;
        let content = &event.content;
        // An event that names none takes the account's.
        let currency = content.currency.as_ref().or(view.currency.as_ref());
        let message = record.raw.as_deref().map(|raw| body(&raw.body, false));
        Self {
            status: record.status.as_str(),
            reason: record.reason.map(Reason::as_str),
            explanation: explain(view),
            source: event.identity.source.to_string(),
            event_id: event.identity.event_id.to_string(),
            account_id: content.account_id.to_string(),
            kind: content.kind.into(),
            amount: content.amount,
            currency: currency.map(ToString::to_string),
            expected_version: content.expected_version,
            version: record.version,
            balance_after: record.balance_after,
            duplicates: view.duplicates,
            first_seen_at: record.first_seen_at.rfc3339(),
            decided_at: decided(record).then(|| record.decided_at.rfc3339()),
            reference: event.reference.as_deref().map(str::to_owned),
            occurred_at: event.occurred_at.map(Timestamp::rfc3339),
            metadata: event.metadata.as_deref().map(raw),
            body: message.as_ref().map(|(body, _)| body.clone()),
            body_encoding: message.map(|(_, encoding)| encoding),
            corrected_body: record.correction.as_deref().map(str::to_owned),
            timeline: timeline(record),
        }
    }
}

fn decided(record: &Record) -> bool {
    !matches!(record.status, Status::Pending | Status::Parked)
}

fn timeline(record: &Record) -> Vec<StepJson> {
    let present = Cow::Owned(record.past(None));
    let past = record.trail.iter().map(Cow::Borrowed);
    let mut cause = None;
    past.chain([present])
        .map(|past| step(&past, std::mem::replace(&mut cause, past.then)))
        .collect()
}

fn step(past: &Past, cause: Option<Step>) -> StepJson {
    StepJson {
        at: Timestamp(past.at).rfc3339(),
        status: past.status.clone(),
        reason: past.reason.clone(),
        cause: cause.map(Into::into),
        account_id: past.account_id.to_string(),
        kind: past.kind.clone(),
        amount: past.amount,
        currency: past.currency.clone(),
        expected_version: past.expected_version,
        account_version: past.found.map(|found| found.version),
        account_balance: past.found.map(|found| found.balance),
        displaced: past.displaced,
    }
}
