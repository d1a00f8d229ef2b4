//! What became of an event, in words for people: which rule decided, how the
//! account was found, and what to do now.

use crate::{
    domain::{Content, Found, Identity, Kind, Reason, Record, Status},
    store::EventView,
};

/// Explains where an event stands.
#[must_use]
pub fn explain(view: &EventView) -> String {
    let record = &view.record;
    let content = &record.event.content;
    match record.status {
        Status::Pending => format!(
            "Stored, and not decided yet: {} waits for its turn. Nothing needs to be done.",
            what(content)
        ),
        Status::Applied => applied(record),
        Status::Parked => parked(record),
        Status::Rejected => rejected(record, view.held_by.as_ref()),
        Status::Dead => dead(record),
        Status::Discarded => format!(
            "Given up by a person: {} takes no effect. An operator's replay evaluates it afresh.",
            what(content)
        ),
    }
}

fn applied(record: &Record) -> String {
    let content = &record.event.content;
    let (version, after) = (
        record.version.unwrap_or_default(),
        record.balance_after.unwrap_or_default(),
    );
    if content.kind == Kind::Opening {
        return format!(
            "Opened account {} with a balance of {after}.",
            content.account_id
        );
    }
    format!(
        "Took effect: {} brought the account from version {} to version {version}, which left a balance of {after}.",
        what(content),
        version - 1
    )
}

fn parked(record: &Record) -> String {
    let content = &record.event.content;
    match record.reason {
        Some(Reason::AccountNotFound) => format!(
            "Waits: there is no account {} yet. {} is decided by itself when the account is opened.",
            content.account_id,
            capital(&what(content))
        ),
        _ => format!(
            "Waits: {} wants to find version {}, and the account was at {}. It is decided by itself when the versions \
             before it have come.",
            what(content),
            expected(content),
            at(record.found)
        ),
    }
}

fn rejected(record: &Record, held_by: Option<&Identity>) -> String {
    let content = &record.event.content;
    let what = what(content);
    let id = &content.account_id;
    let found = at(record.found);
    let why = match record.reason {
        Some(Reason::AccountClosed) => format!("account {id} is closed, which is final"),
        Some(Reason::AccountFrozen) => {
            format!("account {id} was frozen (at {found}). Unfreeze it first")
        }
        Some(Reason::CurrencyMismatch) => format!(
            "account {id} is not kept in {}",
            content
                .currency
                .as_ref()
                .map_or("that currency", |c| c.as_str())
        ),
        Some(Reason::VersionConflict) => {
            let holder = held_by.map_or_else(
                || "another event".to_owned(),
                |holder| format!("event {} of source {}", holder.event_id, holder.source),
            );
            return format!(
                "Refused: {what} wanted to find version {}, and the account was at {found}: {holder} has that place. \
                 Look at the account again, and send the same event with the version found, or with none.",
                expected(content)
            );
        }
        Some(Reason::BalanceOverflow) => {
            format!("the balance would leave 64 bits (the account was at {found})")
        }
        Some(Reason::InsufficientFunds) => {
            format!(
                "it would take the balance below the account's floor (the account was at {found})"
            )
        }
        Some(Reason::EventIdReused) => "its id is known with other content".to_owned(),
        other => format!("the reason is {}", other.map_or("unknown", Reason::as_str)),
    };
    format!(
        "Refused: {what} has no effect, since {why}. The same event gets the same answer again; an operator's replay \
         evaluates it afresh, or send the intent anew under a new id."
    )
}

fn dead(record: &Record) -> String {
    let content = &record.event.content;
    let what = what(content);
    let why = match record.reason {
        Some(Reason::AccountNotFoundExpired) => format!(
            "{what} waited longer than the limit, and account {} was not opened",
            content.account_id
        ),
        Some(Reason::VersionGapExpired) => format!(
            "{what} waited longer than the limit for version {}, and the account was at {}",
            expected(content),
            at(record.found)
        ),
        Some(Reason::DeliveryLimit) => format!("the broker gave up delivering {what}"),
        Some(Reason::DeadLettered) => format!("the broker set {what} aside"),
        Some(Reason::StoreRefused) => format!("the database refuses {what} for ever"),
        other => format!(
            "{what} could not be decided ({})",
            other.map_or("unknown", Reason::as_str)
        ),
    };
    format!(
        "Given up: {why}. It has no effect. The same event sent again, or an operator's replay, evaluates it afresh."
    )
}

/// `a debit of 500 CNY on account 4711`
fn what(content: &Content) -> String {
    let kind = match content.kind {
        Kind::Opening => "an opening",
        Kind::Debit => "a debit",
        Kind::Credit => "a credit",
    };
    let currency = content
        .currency
        .as_ref()
        .map(|code| format!(" {code}"))
        .unwrap_or_default();
    format!(
        "{kind} of {}{currency} on account {}",
        content.amount, content.account_id
    )
}

fn expected(content: &Content) -> String {
    content.expected_version.map_or_else(
        || "none in particular".to_owned(),
        |version| version.to_string(),
    )
}

/// `version 3, balance 100`
fn at(found: Option<Found>) -> String {
    found.map_or_else(
        || "no version, since it was not open".to_owned(),
        |found| format!("version {}, balance {}", found.version, found.balance),
    )
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use strum::IntoEnumIterator;

    use super::*;
    use crate::domain::{Event, Timestamp};

    fn view(status: Status, reason: Option<Reason>) -> EventView {
        let event = Event {
            identity: Identity::new("t", "s", "e"),
            derived: false,
            content: Content {
                account_id: "4711".into(),
                kind: Kind::Debit,
                amount: 150,
                currency: None,
                expected_version: Some(2),
            },
            reference: None,
            occurred_at: None,
            metadata: None,
        };
        let mut record = Record::fresh(Arc::new(event), None, Timestamp(0));
        record.status = status;
        record.reason = reason;
        record.found = Some(Found {
            version: 3,
            balance: 100,
        });
        EventView {
            seq: 1,
            record,
            currency: None,
            duplicates: 0,
            held_by: None,
        }
    }

    #[test]
    fn a_conflict_names_who_holds_the_place() {
        let mut view = view(Status::Rejected, Some(Reason::VersionConflict));
        view.held_by = Some(Identity::new("t", "orders", "o-1"));
        let text = explain(&view);
        for part in [
            "150",
            "4711",
            "version 2",
            "version 3, balance 100",
            "event o-1 of source orders",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn everything_that_can_become_of_an_event_has_words() {
        for status in Status::iter() {
            for reason in Reason::iter().map(Some).chain([None]) {
                let text = explain(&view(status, reason));
                assert!(text.ends_with('.') && text.contains("4711"), "{text}");
            }
        }
    }
}
