//! Opening an account and changing its settings.

use std::sync::Arc;

use serde_json::json;

use super::desk::Desk;
use crate::domain::{
    Account, AccountStatus, Answer, Audit, OpenRefusal, Opening, Patch, PatchRefusal, Record,
    Status,
};

impl Desk<'_> {
    /// Opens the account, or says that it is open already.
    pub(super) fn open(&mut self, opening: &Opening) -> Answer {
        self.sheet.answered = true;
        let event = opening.event(self.key);
        let key = event.identity.key();
        if let Some(account) = self.sheet.account.clone().filter(Account::is_opened) {
            let first = self.lines.get(&key).map(|line| &line.record);
            let same = first.is_some_and(|first| {
                first.event.content.agrees(&event.content)
                    && first.floor == opening.floor
                    && same_json(first.event.metadata.as_deref(), opening.metadata.as_deref())
            });
            return match same {
                true => Answer::Opened {
                    account: Box::new(account),
                    fresh: false,
                },
                false => Answer::OpenRefused(OpenRefusal::Exists(Box::new(account))),
            };
        }
        let (row, revision) = self
            .sheet
            .account
            .as_ref()
            .map_or((0, 0), |awaited| (awaited.row, awaited.revision));
        let account = Account {
            row,
            currency: Some(opening.currency),
            balance: opening.balance,
            version: 1,
            revision,
            settings_revision: 0,
            floor: opening.floor,
            status: AccountStatus::Open,
            metadata: opening.metadata.clone(),
            opened_at: self.now,
            updated_at: self.now,
        };
        let mut record = Record::fresh(Arc::new(event), None, self.now);
        record.status = Status::Applied;
        record.version = Some(1);
        record.balance_after = Some(opening.balance);
        record.floor = opening.floor;
        record.decision = 1;
        self.sheet.account = Some(account.clone());
        self.write(record);
        self.release();
        self.judge_waiting_anew();
        Answer::Opened {
            account: Box::new(self.sheet.account.clone().unwrap_or(account)),
            fresh: true,
        }
    }

    /// Changes the account's settings.
    pub(super) fn patch(&mut self, patch: &Patch) -> Answer {
        self.sheet.answered = true;
        let Some(account) = self.sheet.account.clone().filter(Account::is_opened) else {
            return Answer::PatchRefused(PatchRefusal::NotFound);
        };
        if patch
            .if_match
            .as_ref()
            .is_some_and(|tags| !tags.contains(&account.tag()))
        {
            return Answer::PatchRefused(PatchRefusal::Stale(Box::new(account)));
        }
        let mut after = account.clone();
        after.status = patch.status.unwrap_or(account.status);
        after.floor = patch.floor.unwrap_or(account.floor);
        after.metadata = patch
            .metadata
            .clone()
            .unwrap_or_else(|| account.metadata.clone());
        let changes = after != account;
        if changes && account.status == AccountStatus::Closed {
            return Answer::PatchRefused(PatchRefusal::Closed(Box::new(account)));
        }
        let closes = after.status == AccountStatus::Closed && account.status != after.status;
        if closes && account.balance != 0 {
            return Answer::PatchRefused(PatchRefusal::NotEmpty(Box::new(account)));
        }
        if changes {
            after.settings_revision += 1;
            after.updated_at = self.now.max(account.updated_at);
            self.sheet.revised = true;
        }
        self.sheet.audits.push(Audit {
            tenant: self.key.tenant.clone(),
            subject: patch.subject.clone(),
            action: "account.patched".into(),
            account_id: Some(self.key.id.clone()),
            detail: json!({
                "status": {"from": account.status.as_str(), "to": after.status.as_str()},
                "floor": {"from": account.floor, "to": after.floor},
                "metadata_replaced": patch.metadata.is_some(),
            }),
            note: patch.note.clone(),
        });
        self.sheet.account = Some(after.clone());
        if closes {
            // Closed is final: what waits can never apply.
            self.judge_waiting_anew();
        }
        // The revision moves when the sheet is finished; the answer shows none.
        Answer::Patched(Box::new(after))
    }
}

/// Whether two optional JSON texts mean the same, however they are spaced.
fn same_json(a: Option<&str>, b: Option<&str>) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || read(a).is_some() && read(a) == read(b),
        _ => false,
    }
}
