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
    /// `None` where the text is no such time, or its year in UTC has not four
    /// digits: then no answer could spell it. Takes no other separator than RFC
    /// 3339 names, which the parser alone would.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let separated = matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' '));
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let utc = at.checked_to_offset(UtcOffset::UTC)?;
        (separated && (0..=9999).contains(&utc.year())).then(|| utc.into())
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
        let micros = at.unix_timestamp_nanos().div_euclid(1_000);
        // Every RFC 3339 year (0000 to 9999) fits 64 bits of microseconds.
        Self(i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_and_spelled_in_utc() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(
                Timestamp::parse(text).map(Timestamp::rfc3339).as_deref(),
                expected,
                "{text}"
            );
        };
        check("2026-11-30T08:00:00Z", Some("2026-11-30T08:00:00Z"));
        check(
            "2026-11-30T08:00:00.1234567+01:00",
            Some("2026-11-30T07:00:00.123456Z"),
        );
        check("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z"));
        for text in [
            "",
            "2026-11-30",
            "2026-11-30T08:00:00",
            "2026-11-30x08:00:00Z",
            "9999-12-31T23:59:59-23:59",
            "0000-01-01T00:00:00+00:01",
            "2026-02-30T00:00:00Z",
        ] {
            check(text, None);
        }
    }
}
