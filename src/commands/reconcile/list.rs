//! A producer's own list: CSV with a header, or JSON objects a line.
//!
//! What lives here: making a claim of each line, or saying what is wrong with it.
//! What must not: the ledger's side.

use std::io::{BufRead, Read};

use serde_json::{Map, Value};

use crate::domain::{AccountKey, Currency, Identity, Kind, parse_integer};

/// What the producer says of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Its line in the file, from 1.
    pub(super) line: u64,
    /// Who produced it.
    pub(super) source: String,
    /// Its id.
    pub(super) event_id: String,
    /// The account that it moves.
    pub(super) account: String,
    /// Minor units.
    pub(super) amount: i64,
    /// Which way, where the list says.
    pub(super) kind: Option<Kind>,
    /// The currency, where the list says.
    pub(super) currency: Option<Currency>,
}

/// A line that is no claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    /// Its line in the file, from 1.
    pub(super) line: u64,
    /// What is wrong with it.
    pub(super) what: String,
}

/// Reads claims one by one.
pub(super) type Claims = Box<dyn Iterator<Item = Result<Claim, BadLine>>>;

/// The mark that some programs put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The names under which a column is known, the proper one first.
const SOURCE: &[&str] = &["source"];
const EVENT_ID: &[&str] = &["event_id"];
const ACCOUNT: &[&str] = &["account_id", "account"];
const AMOUNT: &[&str] = &["amount"];

/// Recognises the form by its first character: a brace begins JSON. `source` holds
/// where a line names none.
///
/// # Errors
/// Where the list can't be read at all, or its header lacks a column.
pub(super) fn read(
    mut input: impl BufRead + 'static,
    source: Option<String>,
) -> anyhow::Result<Claims> {
    let start = input.fill_buf()?;
    let mark = match start.starts_with(BYTE_ORDER_MARK) {
        true => BYTE_ORDER_MARK.len(),
        false => 0,
    };
    input.consume(mark);
    let first = input
        .fill_buf()?
        .iter()
        .find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(b'{') => Ok(json_lines(input, source)),
        _ => csv(input, source),
    }
}

fn csv(input: impl Read + 'static, source: Option<String>) -> anyhow::Result<Claims> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(input);
    let names: Vec<String> = reader
        .headers()?
        .iter()
        .map(str::to_ascii_lowercase)
        .collect();
    let needed = [EVENT_ID, ACCOUNT, AMOUNT];
    let source_too = source.is_none().then_some(SOURCE);
    for column in needed.into_iter().chain(source_too) {
        if !column.iter().any(|name| names.iter().any(|it| it == name)) {
            anyhow::bail!(
                "the header has no column {} (it has: {}){}",
                column.join(" or "),
                names.join(", "),
                if column == SOURCE {
                    "; --source NAME says it for all lines"
                } else {
                    ""
                },
            );
        }
    }
    Ok(Box::new(reader.into_records().map(move |record| {
        let record = record.map_err(|error| BadLine {
            line: error.position().map_or(0, csv::Position::line),
            what: error.to_string(),
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells = names.iter().cloned().zip(record.iter());
        let members = cells
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(name, cell)| (name, Value::from(cell)))
            .collect();
        claim(line, &members, source.as_deref())
    })))
}

fn json_lines(input: impl BufRead + 'static, source: Option<String>) -> Claims {
    let numbered = (1..).zip(input.lines());
    let filled = numbered.filter(|(_, text)| !text.as_ref().is_ok_and(|it| it.trim().is_empty()));
    Box::new(filled.map(move |(line, text)| {
        let bad = |what: String| BadLine { line, what };
        let text = text.map_err(|error| bad(error.to_string()))?;
        match serde_json::from_str(&text) {
            Ok(Value::Object(members)) => claim(line, &members, source.as_deref()),
            Ok(_) => Err(bad("it is no JSON object".to_owned())),
            Err(error) => Err(bad(format!("it is no JSON: {error}"))),
        }
    }))
}

fn claim(line: u64, members: &Map<String, Value>, source: Option<&str>) -> Result<Claim, BadLine> {
    let bad = |what: String| BadLine { line, what };
    let get = |names: &[&str]| {
        let found = names.iter().find_map(|name| members.get(*name));
        found.filter(|value| !value.is_null())
    };
    let text = |names: &[&str]| match get(names) {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) if number.is_i64() => Ok(Some(number.to_string())),
        Some(_) => Err(bad(format!("{} must be text or an integer", names[0]))),
        None => Ok(None),
    };
    let required = |names: &[&str]| {
        text(names)?.ok_or_else(|| bad(format!("{} is missing", names.join(" or "))))
    };
    let name = |text: String, what: &str| match (1..=Identity::TEXT_MAX).contains(&text.len()) {
        true => Ok(text),
        false => Err(bad(format!("{what} must have 1 to 255 bytes"))),
    };
    let source = match text(SOURCE)?.or_else(|| source.map(str::to_owned)) {
        Some(source) => name(source, "source")?,
        None => {
            return Err(bad(
                "source is missing; --source NAME says it for all lines".into(),
            ));
        }
    };
    let account = required(ACCOUNT)?;
    if !AccountKey::id_is_valid(&account) {
        return Err(bad(format!("{account:?} can't be an account's id")));
    }
    let amount = required(AMOUNT)?;
    let integer = parse_integer(&amount).ok().filter(|amount| *amount >= 1);
    let word = |names: &[&str]| text(names).map(Option::unwrap_or_default);
    let (kind, currency) = (word(&["type"])?, word(&["currency"])?);
    Ok(Claim {
        line,
        source,
        event_id: name(required(EVENT_ID)?, "event_id")?,
        account,
        amount: integer.ok_or_else(|| {
            bad(format!(
                "amount must be a whole number from 1, not {amount:?}"
            ))
        })?,
        kind: match kind.as_str() {
            "" => None,
            "debit" => Some(Kind::Debit),
            "credit" => Some(Kind::Credit),
            other => return Err(bad(format!("type must be debit or credit, not {other:?}"))),
        },
        currency: match currency.as_str() {
            "" => None,
            code => Some(
                Currency::parse(code)
                    .ok_or_else(|| bad(format!("{code:?} can't be a currency")))?,
            ),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &'static str, source: Option<&str>) -> Vec<Result<Claim, BadLine>> {
        read(text.as_bytes(), source.map(str::to_owned))
            .unwrap()
            .collect()
    }

    fn pay(line: u64) -> Claim {
        Claim {
            line,
            source: "orders".into(),
            event_id: "pay-1".into(),
            account: "7".into(),
            amount: 500,
            kind: None,
            currency: None,
        }
    }

    #[test]
    fn csv_and_json_lines_say_the_same() {
        let full = Claim {
            kind: Some(Kind::Credit),
            currency: Currency::parse("EUR"),
            ..pay(3)
        };
        let csv = "\u{feff}Source, event_id,account,amount,type,currency,note\n\
             orders,pay-1,7,500,,,x\norders,pay-1,7,500,credit,EUR,\"a,b\"\n";
        assert_eq!(all(csv, None), [Ok(pay(2)), Ok(full.clone())]);
        let json = "{\"source\":\"orders\",\"event_id\":\"pay-1\",\"account_id\":7,\"amount\":\"500\"}\n\n\
             {\"event_id\":\"pay-1\",\"account\":\"7\",\"amount\":500,\"type\":\"credit\",\"currency\":\"EUR\"}\n";
        assert_eq!(all(json, Some("orders")), [Ok(pay(1)), Ok(full)]);
        assert_eq!(
            all("event_id,account_id,amount\npay-1,7,500", Some("orders")),
            [Ok(pay(2))]
        );
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_and_the_next_is_read() {
        let check = |cells: &str, said: &str| {
            let text =
                format!("source,event_id,account_id,amount,type,currency\n{cells}\na,b,c,1,,\n");
            let found: Vec<_> = read(std::io::Cursor::new(text), None).unwrap().collect();
            let bad = found[0].as_ref().unwrap_err();
            assert_eq!(bad.line, 2);
            assert!(bad.what.contains(said), "{cells}: {}", bad.what);
            assert!(found[1].is_ok());
        };
        check(",b,c,1,,", "source is missing");
        check("a,,c,1,,", "event_id is missing");
        check("a,b,,1,,", "account_id or account is missing");
        check("a,b,c d,1,,", "can't be an account's id");
        for amount in ["0", "-1", "1.5", "1e3", "12345678901234567890", "x"] {
            check(&format!("a,b,c,{amount},,"), "amount must be");
        }
        check("a,b,c,1,refund,", "type must be");
        check("a,b,c,1,,euro", "can't be a currency");
        check("a,b,c", "record");
        let json =
            "{\"source\":\"a\",\"event_id\":\"b\",\"account\":\"c\",\"amount\":1.5}\n[]\nnothing\n";
        let found = all(Box::leak(format!("{json}{{}}").into_boxed_str()), None);
        assert_eq!(found.iter().filter(|it| it.is_err()).count(), 4);
    }

    #[test]
    fn a_header_without_a_column_is_told() {
        let error = read("event_id,amount\n".as_bytes(), None).err().unwrap();
        assert!(
            error.to_string().contains("account_id or account"),
            "{error}"
        );
        let error = read("event_id,account,amount\n".as_bytes(), None)
            .err()
            .unwrap();
        assert!(error.to_string().contains("--source"), "{error}");
    }
}
