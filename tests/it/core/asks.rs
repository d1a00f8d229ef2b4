//! Asks in few words.

use std::sync::Arc;

use onceledger::domain::{
    AccountKey, Ask, Content, Currency, Event, Identity, Kind, Opening, Raw, Submission, Work,
};

pub fn key(account: i64) -> AccountKey {
    AccountKey::new("default", format!("a{account}"))
}

pub fn open(account: i64, balance: i64) -> Work {
    let currency = Currency::parse("EUR").unwrap();
    let opening = Opening {
        currency,
        balance,
        floor: Some(0),
        metadata: None,
    };
    Work {
        account: key(account),
        ask: Ask::Open(Box::new(opening)),
    }
}

pub fn event(account: i64, id: String, kind: Kind, amount: i64, version: Option<i64>) -> Work {
    Work::submit(Submission {
        event: Arc::new(Event {
            identity: Identity::new("default", "s", id),
            derived: false,
            content: Content {
                account_id: key(account).id,
                kind,
                amount,
                currency: None,
                expected_version: version,
            },
            reference: None,
            occurred_at: None,
            metadata: None,
        }),
        raw: Arc::new(Raw::default()),
        if_version: None,
        strict: false,
    })
}

/// A debit that carries no id: the bare optimistic lock.
pub fn bare(account: i64, amount: i64, version: i64) -> Work {
    let id = Event::derived_id(&key(account).id, version);
    let mut work = event(account, id, Kind::Debit, amount, Some(version));
    if let Ask::Submit(submission) = &mut work.ask {
        Arc::make_mut(&mut submission.event).derived = true;
    }
    work
}
