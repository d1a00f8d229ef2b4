//! A client of the REST API as one should be: any instance will do, whoever is
//! away or busy is asked again later, and everything else is an answer.

use std::time::Duration;

use anyhow::Context;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    rng::Rng,
    world::{World, count},
};

const ANSWER_MAX: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(200);
/// Longer than any fault lasts.
const INSIST_MAX: Duration = Duration::from_secs(240);

/// One client.
#[derive(Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) world: &'a World,
    pub(crate) rng: Rng,
    client: Client,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(world: &'a World, rng: Rng) -> anyhow::Result<Self> {
        let client = Client::builder().timeout(ANSWER_MAX).build()?;
        Ok(Self { world, rng, client })
    }

    /// Asks one instance once. `None`: nobody there, or a 503.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(StatusCode, Value)> {
        let instance = self.rng.pick(&self.world.instances)?;
        let mut request = self
            .client
            .request(method.clone(), format!("{}{path}", instance.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = async {
            let response = request.send().await.ok()?;
            let status = response.status();
            let text = response.text().await.ok()?;
            Some((status, text))
        };
        match answer.await {
            Some((status, text)) if status != StatusCode::SERVICE_UNAVAILABLE => {
                count(&self.world.figures.answered);
                if status.is_server_error() {
                    self.world
                        .surprise(format!("{method} {path}: {status} {text}"));
                    return None;
                }
                let json = serde_json::from_str(&text).unwrap_or(Value::String(text));
                Some((status, json))
            }
            _ => {
                count(&self.world.figures.turned_away);
                None
            }
        }
    }

    /// Asks again until there is an answer.
    ///
    /// # Errors
    /// Nobody answered for longer than any fault lasts.
    pub(crate) async fn insist(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let until = Instant::now() + INSIST_MAX;
        while Instant::now() < until {
            if let Some(answer) = self.ask(method.clone(), path, body).await {
                return Ok(answer);
            }
            sleep(AGAIN).await;
        }
        None.with_context(|| format!("{method} {path} got no answer for {INSIST_MAX:?}"))
    }
}
