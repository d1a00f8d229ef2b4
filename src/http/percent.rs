//! Strict percent-decoding: what is not written as it must be is named, never
//! passed on half decoded.

/// Decodes `%XX`; `None` for a `%` without two hexadecimal digits, and for bytes
/// that are not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            plain => plain,
        });
    }
    String::from_utf8(out).ok()
}

fn digit(byte: Option<u8>) -> Option<u8> {
    let digit = char::from(byte?).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_whole_texts_or_none() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        };
        check("a%2Fb", Some("a/b"));
        check("%C3%A4%00", Some("ä\0"));
        check("100%", None);
        check("%2", None);
        check("%zz", None);
        check("%+1", None);
        check("%FF", None);
    }
}
