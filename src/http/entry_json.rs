//! An entry of a history as JSON and as a line of CSV.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Api,
    account_json::{code, raw},
    reversal::{reversal_of, reverses},
};
use crate::{
    domain::{Account, Identity, Kind, Record, Timestamp},
    store::StoreError,
};

/// One entry of an account's history. Fields that do not apply are left out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "version": 2, "expected_version": 1, "type": "debit", "amount": 500, "currency": "CNY",
    "balance_before": 50000, "balance_after": 49500, "event_id": "pay-1001", "source": "http",
    "reference": "order-77", "occurred_at": "2026-11-30T08:00:00Z", "applied_at": "2026-11-30T08:00:01Z",
}))]
pub(super) struct EntryJson {
    /// The version that the entry produced.
    #[schema(minimum = 1)]
    version: i64,
    /// The version that the event wanted to find, where it named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 1)]
    expected_version: Option<i64>,
    /// What it did.
    #[serde(rename = "type")]
    kind: EntryType,
    /// Minor units; of an opening its balance, which may be negative.
    amount: i64,
    /// The account's currency.
    #[schema(pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: String,
    /// The balance before it, in minor units.
    balance_before: i64,
    /// The balance after it, in minor units.
    balance_after: i64,
    /// The id of the event that it is.
    #[schema(max_length = 255)]
    event_id: String,
    /// Who produced that event.
    #[schema(max_length = 255)]
    source: String,
    /// The producer's own reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 255)]
    reference: Option<String>,
    /// When it happened at the producer's; RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime, max_length = 40)]
    occurred_at: Option<String>,
    /// When it took effect; RFC 3339, UTC; never goes back.
    #[schema(format = DateTime, max_length = 40)]
    applied_at: String,
    /// As the event carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    metadata: Option<Box<RawValue>>,
    /// The version of the entry that this one takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 2)]
    reverses: Option<i64>,
    /// The version of the entry that took this one back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 3)]
    reversed_by: Option<i64>,
}

/// What an entry did.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryType {
    /// Opened the account.
    Opening,
    /// Took the amount from the balance.
    Debit,
    /// Added the amount to the balance.
    Credit,
}

impl EntryType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Debit => "debit",
            Self::Credit => "credit",
        }
    }
}

impl From<Kind> for EntryType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Opening => Self::Opening,
            Kind::Debit => Self::Debit,
            Kind::Credit => Self::Credit,
        }
    }
}

impl EntryJson {
    /// The columns of the same as CSV.
    pub(super) const COLUMNS: [&str; 15] = [
        "version",
        "expected_version",
        "type",
        "amount",
        "currency",
        "balance_before",
        "balance_after",
        "event_id",
        "source",
        "reference",
        "occurred_at",
        "applied_at",
        "metadata",
        "reverses",
        "reversed_by",
    ];

    /// The cells of its columns; empty where one does not apply.
    pub(super) fn cells(&self) -> [String; 15] {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let number = |number: Option<i64>| number.map(|it| it.to_string()).unwrap_or_default();
        [
            self.version.to_string(),
            number(self.expected_version),
            self.kind.as_str().to_owned(),
            self.amount.to_string(),
            self.currency.clone(),
            self.balance_before.to_string(),
            self.balance_after.to_string(),
            self.event_id.clone(),
            self.source.clone(),
            text(&self.reference),
            text(&self.occurred_at),
            self.applied_at.clone(),
            self.metadata
                .as_ref()
                .map(|json| json.get().to_owned())
                .unwrap_or_default(),
            number(self.reverses),
            number(self.reversed_by),
        ]
    }

    /// Shows entries of an account, each with the one that took it back.
    pub(super) async fn all(
        api: &Api,
        account: &Account,
        records: Vec<Record>,
    ) -> Result<Vec<Self>, StoreError> {
        let reversals: Vec<Identity> = records.iter().filter_map(reversal_of).collect();
        let views = api.store.events_of(&reversals).await?;
        let applied: HashMap<i64, i64> = views
            .iter()
            .filter_map(|view| Some((reverses(&view.record)?, view.record.version?)))
            .collect();
        let entries = records.into_iter().map(|record| {
            let version = record.version.unwrap_or_default();
            Self::new(account, &record, applied.get(&version).copied())
        });
        Ok(entries.collect())
    }

    fn new(account: &Account, record: &Record, reversed_by: Option<i64>) -> Self {
        let event = &record.event;
        let amount = event.content.amount;
        let balance_after = record.balance_after.unwrap_or_default();
        Self {
            version: record.version.unwrap_or_default(),
            expected_version: event.content.expected_version,
            kind: event.content.kind.into(),
            amount,
            currency: code(account),
            balance_before: match event.content.kind {
                Kind::Opening => 0,
                Kind::Debit => balance_after.saturating_add(amount),
                Kind::Credit => balance_after.saturating_sub(amount),
            },
            balance_after,
            event_id: event.identity.event_id.to_string(),
            source: event.identity.source.to_string(),
            reference: event.reference.as_deref().map(str::to_owned),
            occurred_at: event.occurred_at.map(Timestamp::rfc3339),
            applied_at: record.decided_at.rfc3339(),
            metadata: event.metadata.as_deref().map(raw),
            reverses: reverses(record),
            reversed_by,
        }
    }
}
