//! The PostgreSQL and the RabbitMQ of this run: on free ports of 127.0.0.1, with
//! data of their own. What must not live here: when they are broken.

mod postgres;
mod rabbitmq;

use std::{
    collections::HashSet,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use anyhow::Context;

pub(crate) use self::{postgres::Postgres, rabbitmq::RabbitMq};
use crate::rng::Rng;

/// Chooses free ports below the range that the kernel gives to clients, so that
/// nobody takes one while its server restarts.
#[derive(Debug)]
pub(crate) struct Ports {
    drawn: Mutex<(Rng, HashSet<u16>)>,
}

impl Ports {
    pub(crate) fn new() -> Self {
        // Two runs at once must not draw the same ones.
        let rng = Rng::new(u64::from(std::process::id()), 0);
        Self {
            drawn: Mutex::new((rng, HashSet::new())),
        }
    }

    pub(crate) fn free(&self) -> anyhow::Result<u16> {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let (rng, chosen) = &mut *drawn;
        for _ in 0..1000 {
            let port = u16::try_from(rng.between(20_000, 31_999))?;
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && chosen.insert(port) {
                return Ok(port);
            }
        }
        anyhow::bail!("no port between 20000 and 31999 is free")
    }
}

/// The newest of the folders `{parent}/{version}{rest}` that is there.
fn newest(parent: &str, prefix: &str, rest: &str) -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(parent).with_context(|| format!("{parent} is not there"))?;
    let version = |name: &str| -> Vec<u32> {
        let digits = name.trim_start_matches(prefix);
        digits
            .split('.')
            .map(|part| part.parse().unwrap_or(0))
            .collect()
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .max_by_key(|name| version(name))
        .map(|name| PathBuf::from(parent).join(name).join(rest))
        .filter(|path| path.is_dir())
        .with_context(|| format!("there is no {parent}/{prefix}*/{rest}: install the server"))
}
