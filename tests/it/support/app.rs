//! The HTTP side of a service on a port of its own, over a database of its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use onceledger::{
    clock::Clock,
    copies::Copies,
    http::{self, Api, BrokerState, Limits, Readiness},
    lane::{Gathering, Lanes},
    ledger::Ledger,
    store::{self, Store, StoreOptions},
    tasks::Tasks,
    telemetry::Metrics,
};
use reqwest::{Method, header::HeaderMap};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::databases::{self, TestDatabase};

/// Which database a test runs on.
#[derive(Clone, Copy, Debug)]
pub enum On {
    Sqlite,
    Postgres,
}

/// A service that answers HTTP.
pub struct TestApp {
    base: String,
    client: reqwest::Client,
    /// What `/readyz` shows.
    pub readiness: Arc<Mutex<Readiness>>,
    /// The books, to look at and to break.
    pub store: Arc<dyn Store>,
    /// The way to everything that writes.
    pub lanes: Lanes,
    tasks: Tasks,
    _database: TestDatabase,
}

/// What a request was answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body; null where there is none, a string where it is no JSON.
    pub body: Value,
}

/// Most bytes of an event here: small, so that a test need not send much.
pub const EVENT_BYTES_MAX: usize = 65_536;

/// Most bytes of a body here.
pub const BODY_BYTES_MAX: usize = 1 << 20;

impl TestApp {
    pub async fn on(on: On) -> Self {
        let (database, store) = Self::books(on).await;
        Self::over(store, database, Clock::system()).await
    }

    /// Books with nothing in them.
    pub async fn books(on: On) -> (TestDatabase, Arc<dyn Store>) {
        let database = match on {
            On::Sqlite => databases::sqlite().await,
            On::Postgres => databases::postgres().await,
        };
        let options = StoreOptions {
            ledger_connections: 2,
            read_connections: 2,
            ..StoreOptions::default()
        };
        let store = store::open(&database.url, &options).await.unwrap();
        (database, store)
    }

    /// A service over a store that the test keeps a hand on.
    pub async fn over(store: Arc<dyn Store>, database: TestDatabase, clock: Clock) -> Self {
        let (tasks, metrics) = (Tasks::new(), Metrics::default());
        let copies = Copies::default();
        let ledger = || {
            Ledger::new(
                store.clone(),
                clock.clone(),
                metrics.clone(),
                copies.clone(),
            )
        };
        let gathering = Gathering {
            batch_max: 100,
            linger: Duration::ZERO,
        };
        let lanes = Lanes::start(vec![ledger(), ledger()], gathering, &tasks);
        tasks.spawn(
            "copies",
            copies
                .clone()
                .run(store.clone(), clock.clone(), tasks.stopping()),
        );
        let readiness = Arc::new(Mutex::new(Readiness {
            database: true,
            broker: BrokerState::NotConfigured,
            queues: BTreeMap::new(),
        }));
        let known = readiness.clone();
        let api = Api {
            store: store.clone(),
            lanes: lanes.clone(),
            clock,
            metrics,
            limits: Limits {
                event_bytes_max: EVENT_BYTES_MAX,
                body_bytes_max: BODY_BYTES_MAX,
            },
            readiness: Arc::new(move || known.lock().unwrap().clone()),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let stop = tasks.stopping();
        tasks.spawn("http", async move {
            http::serve(listener, http::router(api), stop.cancelled_owned())
                .await
                .unwrap();
        });
        Self {
            base,
            client: reqwest::Client::new(),
            readiness,
            store,
            lanes,
            tasks,
            _database: database,
        }
    }

    /// Opens an account of 100 EUR with a floor of 0.
    pub async fn open(&self, id: &str) {
        let account = serde_json::json!({"id": id, "currency": "EUR", "opening_balance": 100});
        self.post("/v1/accounts", account).await.is(201);
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(Method::GET, path, headers, "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_with(path, &[], body).await
    }

    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
        self.json(Method::POST, path, headers, body.to_string())
            .await
    }

    pub async fn patch(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
        self.json(Method::PATCH, path, headers, body.to_string())
            .await
    }

    /// Sends a text as JSON, whatever it is.
    pub async fn json(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Reply {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        self.send(method, path, &all, body).await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Reply {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.body(body).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = match text.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        };
        Reply {
            status,
            headers,
            body,
        }
    }

    /// Sends bytes as they are, and reads until the service hangs up.
    pub async fn raw(&self, request: &str) -> String {
        let mut connection = self.connect().await;
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Sends bytes as they are, and waits for nothing.
    pub async fn hang_up(&self, request: &str) {
        let mut connection = self.connect().await;
        connection.write_all(request.as_bytes()).await.unwrap();
    }

    /// A connection to the service.
    pub async fn connect(&self) -> TcpStream {
        let address = self.base.trim_start_matches("http://");
        TcpStream::connect(address).await.unwrap()
    }

    /// Stops everything; answers whether it ended in time.
    pub async fn stop(&self) -> bool {
        self.tasks.stop(Duration::from_secs(10)).await
    }
}

impl Reply {
    /// Demands a status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:#}", self.body);
        self
    }

    /// Demands that each field named here stands in the body so.
    #[track_caller]
    pub fn has(self, fields: Value) -> Self {
        for (name, value) in fields.as_object().unwrap() {
            assert_eq!(
                self.body.get(name),
                Some(value),
                "{name} in {:#}",
                self.body
            );
        }
        self
    }

    /// Demands that none of these stands in the body.
    #[track_caller]
    pub fn lacks(self, names: &[&str]) -> Self {
        for name in names {
            assert_eq!(self.body.get(name), None, "{name} in {:#}", self.body);
        }
        self
    }

    /// Demands a problem document with its code.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Self {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let status_inside =
            serde_json::json!({"code": code, "status": status, "type": "about:blank"});
        let reply = self.is(status).has(status_inside);
        assert!(reply.body["title"].is_string() && reply.body["detail"].is_string());
        reply
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}
