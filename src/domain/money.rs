//! Money and the names of currencies: integers in minor units, never a float.

use std::fmt;

use arrayvec::ArrayString;

/// Why a piece of JSON is not an integer that the ledger reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerError {
    /// Neither a JSON integer nor a string that spells one.
    Type,
    /// An integer, but past 64 bits.
    Range,
}

/// Reads an integer exactly from its JSON text: `500`, `-50`, or the same inside
/// quotes. A fraction, an exponent, `-0`, a plus, leading zeros and blanks are
/// refused: nothing is ever rounded.
///
/// # Errors
/// [`IntegerError::Type`] or [`IntegerError::Range`].
pub fn parse_integer(json: &str) -> Result<i64, IntegerError> {
    let text = match json.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').ok_or(IntegerError::Type)?,
        None => json,
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
        && text != "-0";
    if !canonical {
        return Err(IntegerError::Type);
    }
    text.parse().map_err(|_| IntegerError::Range)
}

/// A currency code: `[A-Z][A-Z0-9]{2,9}`, ISO 4217 or longer for other assets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Currency(ArrayString<10>);

impl Currency {
    /// `None` where the text is no currency code.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let head = bytes.next().is_some_and(|b| b.is_ascii_uppercase());
        let tail = bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        let code = ArrayString::from(text).ok()?;
        (head && tail && text.len() >= 3).then_some(Self(code))
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_exactly_or_refused() {
        let check = |json: &str, expected| assert_eq!(parse_integer(json), expected, "{json}");
        check("500", Ok(500));
        check("\"500\"", Ok(500));
        check("\"-50\"", Ok(-50));
        check("0", Ok(0));
        check("9223372036854775807", Ok(i64::MAX));
        check("-9223372036854775808", Ok(i64::MIN));
        check("9007199254740993", Ok(9_007_199_254_740_993));
        check("9223372036854775808", Err(IntegerError::Range));
        check(
            "\"123456789012345678901234567890\"",
            Err(IntegerError::Range),
        );
        for text in [
            "1.0", "1e3", "-0", "\"-0\"", "\"+1\"", "\"01\"", "\" 1\"", "\"\"", "true", "null",
            "\"1", "٣",
        ] {
            check(text, Err(IntegerError::Type));
        }
    }

    #[test]
    fn currencies_are_three_to_ten_capitals_and_digits() {
        for good in ["EUR", "CNY", "USDT0", "A123456789"] {
            assert!(Currency::parse(good).is_some(), "{good}");
        }
        for bad in ["", "EU", "eur", "1EU", "EUR ", "ABCDEFGHIJK", "ÄÖÜ"] {
            assert!(Currency::parse(bad).is_none(), "{bad}");
        }
    }
}
