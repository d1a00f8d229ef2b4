//! What only SQLite can get wrong: its one writer, its file, its plans, its
//! arithmetic. What every store must do is said elsewhere, for all of them.

mod file;
mod reading;
mod verify;
mod waiting;
mod writing;

use std::sync::Arc;

use onceledger::{
    clock::Clock,
    copies::Copies,
    domain::{
        AccountKey, Answer, Ask, Content, Currency, Event, Identity, Kind, Opening, Raw,
        Submission, Timestamp, Work,
    },
    ledger::Ledger,
    store::{self, SqliteStore, Store, StoreOptions},
    telemetry::Metrics,
};
use sqlx::{ConnectOptions as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

/// A file of its own, with the schema in place.
struct Books {
    folder: TempDir,
    url: String,
    store: Arc<dyn Store>,
}

impl Books {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("books.db").display());
        store::migrate(&url).await.unwrap();
        let store = SqliteStore::connect(&url, &StoreOptions::default())
            .await
            .unwrap();
        Self {
            folder,
            url,
            store: Arc::new(store),
        }
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(
            self.store.clone(),
            Clock::standing_at(Timestamp(1_000_000)),
            Metrics::default(),
            Copies::default(),
        )
    }

    /// A connection past the store, as of another program.
    async fn outsider(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.folder.path().join("books.db"))
            .connect()
            .await
            .unwrap()
    }

    /// Settles works of which each must have an answer.
    async fn settle(&self, works: &[Work]) -> Vec<Answer> {
        let answers = self.ledger().settle(works).await;
        answers.into_iter().map(Result::unwrap).collect()
    }
}

fn key(id: &str) -> AccountKey {
    AccountKey::new("default", id)
}

fn open(id: &str, balance: i64, floor: Option<i64>) -> Work {
    Work {
        account: key(id),
        ask: Ask::Open(Box::new(Opening {
            currency: Currency::parse("EUR").unwrap(),
            balance,
            floor,
            metadata: None,
        })),
    }
}

fn event(account: &str, id: &str, kind: Kind, amount: i64, version: Option<i64>) -> Work {
    Work::submit(Submission {
        event: Arc::new(Event {
            identity: Identity::new("default", "s", id),
            derived: false,
            content: Content {
                account_id: account.into(),
                kind,
                amount,
                currency: None,
                expected_version: version,
            },
            reference: None,
            occurred_at: None,
            metadata: Some("{\"n\":1}".into()),
        }),
        raw: Arc::new(Raw {
            queue: "q".into(),
            body: id.as_bytes().to_vec(),
            headers: "{}".into(),
            marks: "".into(),
        }),
        if_version: None,
        strict: false,
    })
}
