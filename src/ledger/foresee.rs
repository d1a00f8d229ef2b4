//! What would become of an ask, without any of it being written.

use crate::{
    domain::{Answer, Ask, Book, Form, Status, Timestamp, Work},
    store::{Result, Store},
};

/// Decides one ask on the books as they are now and writes nothing. Nobody is held up
/// for it, so that it may turn out otherwise when it is done. `None`: its account has
/// more to release first, and can't be foreseen right now.
///
/// # Errors
/// [`crate::store::StoreError`].
pub async fn foresee(store: &dyn Store, now: Timestamp, work: &Work) -> Result<Option<Answer>> {
    let accounts = [work.account.clone()];
    let pages = accounts.iter().cloned().zip(store.load(&accounts).await?);
    let pages = pages.collect();
    let mut known = match work.key() {
        Some(key) => store.lookup(&[key]).await?,
        None => Vec::new(),
    };
    if let Ask::Replay(replay) = &work.ask
        && matches!(replay.form, Form::Corrected { .. })
    {
        // It would leave the account that it waits for first.
        for record in &mut known {
            let elsewhere = record.event.content.account_id != work.account.id;
            if record.status == Status::Parked && elsewhere {
                record.status = Status::Pending;
            }
        }
    }
    let decided = Book::decide(pages, known, &[work], now);
    Ok(decided.answers.into_iter().next().flatten())
}
