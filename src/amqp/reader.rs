//! How a consumer reads what its queue delivers.
//!
//! What must not live here: what becomes of it ([`super::session`]).

use std::sync::Arc;

use lapin::message::Delivery;

use super::{dead::Graveyard, delivery::arrival, held::Errand};
use crate::{
    domain::{Submission, Work},
    envelope::{self, Origin},
};

/// What a queue is there for.
#[derive(Clone, Debug)]
pub(super) enum Reader {
    /// It brings events.
    Events(Origin),
    /// It brings what the broker gave up.
    Dead(Graveyard),
}

impl Reader {
    /// What is to be done with a delivery.
    pub(super) fn errand(&self, delivery: &Delivery) -> Errand {
        match self {
            Self::Events(origin) => event(delivery, origin),
            Self::Dead(graveyard) => Errand::Bury(Box::new(graveyard.read(delivery))),
        }
    }
}

fn event(delivery: &Delivery, origin: &Origin) -> Errand {
    match envelope::read(&arrival(delivery), origin) {
        Ok(reading) => Errand::Submit(Work::submit(Submission {
            event: reading.event,
            raw: reading.raw,
            if_version: None,
            strict: false,
        })),
        Err(malformed) => {
            let tenant: Arc<str> = origin.tenant.clone();
            Errand::SetAside(Box::new(malformed.letter(tenant)))
        }
    }
}
