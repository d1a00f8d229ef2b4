//! What an event looks like when it is sent, for the OpenAPI document only; the
//! reading itself is in [`crate::envelope`].

use serde::Serialize;
use utoipa::ToSchema;

use super::schemas::{IdIn, PositiveIn, TextIn};

/// An event to apply. Fields that are not known are passed over.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "event_id": "pay-1001", "type": "debit", "account_id": "4711", "amount": 500, "currency": "CNY",
    "version": 1, "reference": "order-77", "occurred_at": "2026-11-30T08:00:00Z", "metadata": {},
}))]
pub(super) struct EventIn {
    /// The producer's id of this business intent, the same on every retry, 1 to
    /// 255 bytes. Left out: `Idempotency-Key`, else `{account_id}:v{version}`.
    #[schema(value_type = Option<TextIn>)]
    event_id: Option<String>,
    /// Who produces it.
    #[schema(min_length = 1, max_length = 255, default = "http")]
    source: Option<String>,
    /// `debit` takes from the balance, `credit` adds to it.
    #[schema(inline, default = "debit")]
    r#type: Option<Direction>,
    /// The account; `id` is read as the same where this is absent.
    #[schema(value_type = IdIn)]
    account_id: String,
    /// Minor units, at least 1; `money` is read as the same where this is absent.
    #[schema(value_type = PositiveIn)]
    amount: i64,
    /// Must be the account's, where it is given.
    #[schema(pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: Option<String>,
    /// The version at which the event wants to find the account, at least 1.
    #[schema(value_type = Option<PositiveIn>)]
    version: Option<i64>,
    /// The producer's own reference, at most 255 bytes.
    #[schema(max_length = 255)]
    reference: Option<String>,
    /// When it happened; RFC 3339 with an offset.
    #[schema(format = DateTime, max_length = 64)]
    occurred_at: Option<String>,
    /// Kept as it comes.
    #[schema(value_type = Option<Object>)]
    metadata: Option<()>,
}

/// A CloudEvent 1.0 in structured form. Its `id` and `source` are the event's
/// identity; other attributes are passed over.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "specversion": "1.0", "id": "pay-1001", "source": "/shop", "type": "shop.debit",
    "data": {"account_id": "4711", "amount": 500},
}))]
pub(super) struct CloudEventIn {
    /// Always `1.0`.
    #[schema(pattern = "^1\\.0$")]
    specversion: String,
    /// The producer's id of this business intent, 1 to 255 bytes.
    #[schema(value_type = TextIn)]
    id: String,
    /// Who produces it.
    #[schema(min_length = 1, max_length = 255)]
    source: String,
    /// Its last dotted segment tells the direction where the data does not.
    #[schema(min_length = 1)]
    r#type: String,
    /// The event itself.
    data: DataIn,
}

/// The data of a CloudEvent: an event as it is sent, but for its identity.
#[derive(Serialize, ToSchema)]
pub(super) struct DataIn {
    /// `debit` takes from the balance, `credit` adds to it.
    #[schema(inline)]
    r#type: Option<Direction>,
    /// The account.
    #[schema(value_type = IdIn)]
    account_id: String,
    /// Minor units, at least 1.
    #[schema(value_type = PositiveIn)]
    amount: i64,
    /// Must be the account's, where it is given.
    #[schema(pattern = "^[A-Z][A-Z0-9]{2,9}$")]
    currency: Option<String>,
    /// The version at which the event wants to find the account, at least 1.
    #[schema(value_type = Option<PositiveIn>)]
    version: Option<i64>,
}

/// Which way the money moves.
#[derive(Serialize, ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
enum Direction {
    Debit,
    Credit,
}

/// One event, or an array of them.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "written down for the OpenAPI document")]
pub(super) enum Sent {
    /// One.
    One(Box<EventIn>),
    /// Up to 1000.
    Many(Vec<EventIn>),
}
