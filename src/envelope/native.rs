//! The inner body becomes an event: which id, which source, which direction.
//!
//! What lives here: the order of precedence between what the body, its envelope
//! and the queue say. What must not: how any of them is found.

use std::sync::Arc;

use super::{
    Origin,
    fields::{Fields, bounded},
    flaw::Flaw,
    form::{Body, Form},
};
use crate::domain::{Content, Event, Identity, Kind, RESERVED_PREFIX, Timestamp};

/// What could be read of an identity and its account.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The source, also a reserved one.
    pub(super) source: Option<Arc<str>>,
    /// The event id.
    pub(super) event_id: Option<Arc<str>>,
    /// The account.
    pub(super) account_id: Option<Arc<str>>,
}

impl Known {
    /// Forgets what was read, or derived, from a field that stands twice.
    pub(super) fn forget(&mut self, field: &str) {
        match field {
            "account_id" | "id" | "Id" | "EventId" | "event_id" | "version" | "Message"
            | "data" | "data_base64" => {
                self.event_id = None;
                self.account_id = None;
            }
            "source" => self.source = None,
            _ => {}
        }
    }
}

/// Makes the event, or says the first thing that is wrong.
pub(super) fn event(form: &Form<'_>, origin: &Origin) -> Result<Event, Flaw> {
    let body = form.body.as_ref();
    let fields = Fields::native(body.map_err(Clone::clone)?.object());
    if let Some(flaw) = &form.flaw {
        return Err(flaw.clone());
    }
    let source = source(form, Some(&fields), origin)?;
    let given = given_id(form, Some(&fields))?;
    let account_id = fields.account_id.account_id()?;
    let amount = fields.amount.positive()?;
    let amount = amount.ok_or_else(|| Flaw::required(fields.amount.name))?;
    let version = fields.version.positive()?;
    let derived = given.is_none();
    let event_id = given
        .or_else(|| derived_id(&account_id, version))
        .ok_or_else(no_identity)?;
    Ok(Event {
        identity: Identity::new(origin.tenant.clone(), source, event_id),
        derived,
        content: Content {
            account_id,
            kind: kind(form, &fields, origin)?,
            amount,
            currency: fields.currency.currency()?,
            expected_version: version,
        },
        reference: fields.reference.reference()?,
        occurred_at: occurred_at(form, &fields)?,
        metadata: fields.metadata.object()?,
    })
}

/// All that could be read of a message that is no event.
pub(super) fn known(form: &Form<'_>, origin: &Origin) -> Known {
    let fields = form.body.as_ref().ok();
    let fields = fields.map(Body::object).map(Fields::native);
    let fields = fields.as_ref();
    let account_id = fields.and_then(|fields| fields.account_id.account_id().ok());
    let version = fields.and_then(|fields| fields.version.positive().ok().flatten());
    let event_id = match given_id(form, fields) {
        Ok(None) => account_id.as_deref().and_then(|id| derived_id(id, version)),
        given => given.ok().flatten(),
    };
    let named = named_source(form, fields, origin);
    let named = named.as_ref().map(Option::as_deref);
    let source = match named {
        // As it was named: what comes after must see that it is reserved.
        Ok(Some(name)) if name.starts_with(RESERVED_PREFIX) => Some(name.into()),
        _ => source(form, fields, origin).ok(),
    };
    // U+0000 makes a message invalid, and no store keeps it.
    let clean = |text: &Arc<str>| !text.contains('\0');
    Known {
        source: source.filter(clean),
        event_id: event_id.filter(clean),
        account_id,
    }
}

fn no_identity() -> Flaw {
    let message = "without an `event_id` and without a `version` to derive one from, \
                   a copy could not be told from a new event";
    Flaw::invalid("event_id", "required", message)
}

/// The id that the message carries: the envelope's, the body's, the transport's.
fn given_id(form: &Form<'_>, fields: Option<&Fields<'_>>) -> Result<Option<Arc<str>>, Flaw> {
    if let Some(id) = form.id_before.clone() {
        return id.map(|id| Some(id.into()));
    }
    let inner = fields.map(|fields| fields.event_id.id()).transpose()?;
    if let Some(id) = inner.flatten() {
        return Ok(Some(id.into()));
    }
    let after = form.id_after.clone().transpose()?;
    Ok(after.map(Arc::from))
}

fn derived_id(account_id: &str, version: Option<i64>) -> Option<Arc<str>> {
    version.map(|version| Event::derived_id(account_id, version).into())
}

/// The source that the message itself names, where it has a say.
fn named_source(
    form: &Form<'_>,
    fields: Option<&Fields<'_>>,
    origin: &Origin,
) -> Result<Option<Arc<str>>, Flaw> {
    if let Some(source) = form.source.clone() {
        return source.map(|source| Some(source.into()));
    }
    match fields {
        Some(fields) if origin.body_names_source => Ok(fields.source.name()?.map(Arc::from)),
        _ => Ok(None),
    }
}

fn source(form: &Form<'_>, fields: Option<&Fields<'_>>, origin: &Origin) -> Result<Arc<str>, Flaw> {
    let named = named_source(form, fields, origin)?;
    if named
        .as_ref()
        .is_some_and(|name| name.starts_with(RESERVED_PREFIX))
    {
        let message = "sources that begin with `onceledger` are the service's own";
        return Err(Flaw::invalid("source", "reserved", message));
    }
    let source = named.unwrap_or_else(|| origin.source.clone());
    match &origin.scope {
        None => Ok(source),
        Some(scope) => bounded("source", format!("{scope}/{source}").into()).map(Arc::from),
    }
}

/// The body's type, else the envelope's, else the queue's, else a debit.
fn kind(form: &Form<'_>, fields: &Fields<'_>, origin: &Origin) -> Result<Kind, Flaw> {
    let inner = fields.kind.kind()?;
    let outer = || form.type_name.as_deref().and_then(kind_of_type);
    Ok(inner.or_else(outer).or(origin.kind).unwrap_or(Kind::Debit))
}

/// The direction that the last segment of an envelope's type says, in any case.
fn kind_of_type(type_name: &str) -> Option<Kind> {
    let last = type_name.rsplit('.').next()?;
    let is = |word| last.eq_ignore_ascii_case(word);
    match () {
        () if is("debit") => Some(Kind::Debit),
        () if is("credit") => Some(Kind::Credit),
        () => None,
    }
}

/// The body's time, else the envelope's where that can be read.
fn occurred_at(form: &Form<'_>, fields: &Fields<'_>) -> Result<Option<Timestamp>, Flaw> {
    let inner = fields.occurred_at.time()?;
    Ok(inner.or_else(|| Timestamp::parse(form.time.as_deref()?)))
}
