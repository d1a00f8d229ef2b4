//! One moment, as the ledger keeps it.

use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// A moment in microseconds since 1970-01-01T00:00:00Z.
///
/// An integer, so that both databases store, compare and index it alike, and so
/// that it never carries an offset that somebody could forget to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads RFC 3339 with an offset. Digits past the microsecond are cut off.
    /// `None` where the text is no such time.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        OffsetDateTime::parse(text, &Rfc3339).ok().map(Self::from)
    }

    /// RFC 3339 in UTC, as every answer and message carries it.
    #[must_use]
    pub fn rfc3339(self) -> String {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .ok()
            .and_then(|at| at.format(&Rfc3339).ok())
            .unwrap_or_else(|| format!("unrepresentable time {}", self.0))
    }

    /// This moment minus a number of seconds; stops at the ends of the range.
    #[must_use]
    pub fn minus_secs(self, secs: u64) -> Self {
        let micros = i64::try_from(secs)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000);
        Self(self.0.saturating_sub(micros))
    }
}

impl From<OffsetDateTime> for Timestamp {
    fn from(at: OffsetDateTime) -> Self {
        let micros = at
            .to_offset(UtcOffset::UTC)
            .unix_timestamp_nanos()
            .div_euclid(1_000);
        // Every RFC 3339 year (0000 to 9999) fits 64 bits of microseconds.
        Self(i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX }))
    }
}
