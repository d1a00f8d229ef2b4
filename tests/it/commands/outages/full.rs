//! A disk that is really full: a small file system of the test's own. It takes a
//! root user, or sudo without a password, to make one.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{Service, debit, debited, end, open, until};
use crate::{
    amqp::broker::{self, Broker},
    support::servers::OwnPostgres,
};

/// A small file system, gone when it is dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn new(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=0777");
        let path = folder.path().to_str().unwrap().to_owned();
        let mount = ["mount", "-t", "tmpfs", "-o", &options, "tmpfs", &path];
        assert!(
            as_root(&mount),
            "a small tmpfs could not be mounted on {path}: run the tests as root, or as a user \
             with sudo and no password, where mounting is allowed"
        );
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves no byte free, until the file is removed.
    fn fill(&self) -> PathBuf {
        use std::io::Write as _;
        let path = self.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [65_536, 4_096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let path = self.folder.path().to_str().unwrap().to_owned();
        if !as_root(&["umount", "--lazy", &path]) {
            eprintln!("{path} could not be unmounted");
        }
    }
}

fn as_root(command: &[&str]) -> bool {
    let ran = |mut it: Command| it.status().is_ok_and(|status| status.success());
    let mut plain = Command::new(command[0]);
    plain.args(&command[1..]);
    let mut sudo = Command::new("sudo");
    sudo.arg("-n").args(command);
    ran(plain) || ran(sudo)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_sqlite_is_told_and_everything_applies_once_there_is_room() {
    let disk = SmallDisk::new("16m");
    let url = format!("sqlite://{}", disk.path().join("books.db").display());
    full_and_free(&disk, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_postgres_is_told_and_everything_applies_once_there_is_room() {
    let disk = SmallDisk::new("40m");
    let postgres = OwnPostgres::start().await;
    let place = disk.path().join("books");
    std::fs::create_dir(&place).unwrap();
    postgres.user.own(&place);
    let mut connection = PgConnection::connect(&postgres.url).await.unwrap();
    for statement in [
        format!("CREATE TABLESPACE small LOCATION '{}'", place.display()),
        "CREATE DATABASE books TABLESPACE small".to_owned(),
    ] {
        let statement = sqlx::raw_sql(AssertSqlSafe(statement));
        statement.execute(&mut connection).await.unwrap();
    }
    let mut url = url::Url::parse(&postgres.url).unwrap();
    url.set_path("books");
    full_and_free(&disk, url.as_str()).await;
}

async fn full_and_free(disk: &SmallDisk, url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::new().await;
    let amqp = broker::url();
    let mut service = Service::start(
        folder.path(),
        &["--database-url", url],
        &[
            ("AMQP_URL", &amqp),
            ("ONCELEDGER_AMQP_PREFIX", &broker.prefix),
        ],
    );
    service.answers("/readyz", 200).await;
    open(&service, "1").await;

    let filler = disk.fill();
    let queue = broker.name("events");
    let bodies = (0..2_000).map(|n| debit(&format!("e{n}"), "1").to_string());
    broker.publish(&queue, bodies).await;
    service.logged("takes no writes");
    service.answers("/readyz", 503).await;
    let (_, metrics) = service.get("/metrics").await;
    assert!(metrics.contains("database_up 1"), "{metrics}");
    assert!(metrics.contains("database_writable 0"), "{metrics}");
    // It stays so, though the database answers every question.
    let applied = debited(&service, "1").await.unwrap();
    for _ in 0..10 {
        assert_eq!(service.get("/readyz").await.0, 503);
        assert_eq!(debited(&service, "1").await, Some(applied));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert!(applied < 2_000);

    std::fs::remove_file(filler).unwrap();
    service.answers("/readyz", 200).await;
    until("all debits", async || {
        debited(&service, "1").await == Some(2_000)
    })
    .await;
    until("nothing in the queue", async || {
        broker.waiting(&queue).await == Some(0)
    })
    .await;
    assert_eq!(broker.waiting(&broker.name("dead")).await, Some(0));
    let (_, letters) = service.get("/v1/dead-letters").await;
    assert!(letters.contains("\"items\":[]"), "{letters}");
    let log = service.log();
    assert_eq!(log.matches("trying on without").count(), 1, "{log}");
    end(service, folder.path(), url);
}
