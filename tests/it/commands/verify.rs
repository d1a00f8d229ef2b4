//! `verify`: its words and its exit codes. What it checks is tested on the stores.

use sqlx::Connection as _;

use super::program::run;
use crate::support::databases;

#[tokio::test]
async fn books_that_agree_exit_with_0_and_others_name_the_account_and_exit_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let database = databases::sqlite().await;
    let args = ["verify", "--database-url", &database.url];
    let ended = run(folder.path(), &args, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, "0 accounts and 0 entries looked at\nall agree\n");

    let mut connection = sqlx::SqliteConnection::connect(&database.url)
        .await
        .unwrap();
    sqlx::raw_sql(
        "INSERT INTO account (tenant, account_id, currency, status, balance, version, revision,
             settings_revision, opened_at, updated_at)
         VALUES ('default', 'forged', 'EUR', 'open', 5, 1, 0, 0, 0, 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let ended = run(folder.path(), &args, &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.starts_with("default/forged: "), "{ended:?}");
}

#[test]
fn a_missing_file_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["verify"], &[]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("there is no database"), "{ended:?}");
    assert!(!folder.path().join("onceledger.db").exists());
}

#[test]
fn settings_of_the_service_do_not_keep_it_from_looking() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["migrate"], &[]).code, Some(0));
    let env = [
        ("ONCELEDGER_HTTP_ADDR", "0.0.0.0:8080"),
        ("ONCELEDGER_API_KEYS_FILE", "keys.toml"),
    ];
    assert_eq!(run(folder.path(), &["verify"], &env).code, Some(0));
}
