//! The file: where it may be, and who makes it.

use onceledger::store::{self, SqliteStore, Store as _, StoreError, StoreOptions};
use sqlx::Connection as _;

use super::Books;

#[tokio::test]
async fn a_missing_file_is_made_by_migrate_and_by_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("books.db");
    let url = format!("sqlite://{}", path.display());
    for refused in [
        store::open(&url, &StoreOptions::default()).await.map(drop),
        store::check_schema(&url).await,
    ] {
        assert!(matches!(refused, Err(StoreError::Schema(_))), "{refused:?}");
    }
    assert!(!path.exists());
    store::migrate(&url).await.unwrap();
    store::check_schema(&url).await.unwrap();
    store::open(&url, &StoreOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/no/books.db", folder.path().display());
    let Err(StoreError::Other(said)) = store::migrate(&url).await else {
        panic!("it must be refused");
    };
    assert!(said.contains("there is no folder"), "{said}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("books.db");
    std::fs::write(&path, "this is a letter to my aunt".repeat(1000)).unwrap();
    let url = format!("sqlite://{}", path.display());
    let Err(StoreError::Other(said)) = store::open(&url, &StoreOptions::default()).await.map(drop)
    else {
        panic!("it must be refused");
    };
    assert!(said.contains("no SQLite database"), "{said}");
}

#[tokio::test]
async fn a_file_without_the_schema_is_no_ledger_yet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("books.db");
    let url = format!("sqlite://{}", path.display());
    let store = SqliteStore::connect_or_create(&url, &StoreOptions::default())
        .await
        .unwrap();
    let missing = store.check_schema().await;
    assert!(matches!(missing, Err(StoreError::Schema(_))), "{missing:?}");
    let missing = store.ping().await;
    assert!(matches!(missing, Err(StoreError::Schema(_))), "{missing:?}");
}

#[tokio::test]
async fn several_processes_may_migrate_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("books.db").display());
    let all = futures_util::future::join_all((0..6).map(|_| store::migrate(&url)));
    for done in all.await {
        done.unwrap();
    }
    store::check_schema(&url).await.unwrap();
}

#[tokio::test]
async fn commits_are_durable_and_closing_leaves_one_file() {
    let books = Books::new().await;
    let mut outsider = books.outsider().await;
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut outsider)
        .await
        .unwrap();
    assert_eq!(mode, "wal");
    outsider.close().await.unwrap();
    books.store.ping().await.unwrap();
    books.store.close().await;
    let files = std::fs::read_dir(books.folder.path()).unwrap().count();
    assert_eq!(files, 1, "the write-ahead log is in the file");
    assert!(matches!(books.store.ping().await, Err(StoreError::Away(_))));
}
