//! Reads the scripts of `tests/scripts` and plays them: see the README there.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use onceledger::{
    domain::{
        AccountKey, AccountStatus, Answer, Ask, Content, Currency, Event, Identity, Kind,
        OpenRefusal, Opening, Patch, PatchRefusal, Raw, Submission, Unmet, Verdict, Work,
    },
    store::{LetterFilter, Store},
};

/// The tenant of every script.
pub const TENANT: &str = "default";

/// One line of a script.
#[derive(Clone, Debug)]
pub struct Line {
    /// `file:line`, for messages.
    pub place: String,
    words: Vec<String>,
    options: HashMap<String, String>,
    /// What an act must come to; looks have none.
    pub expected: Option<String>,
}

/// All scripts, by file name.
pub fn all() -> Vec<(String, Vec<Line>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let lines = parse(&name, &fs::read_to_string(path).unwrap());
            (name, lines)
        })
        .collect();
    scripts.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(scripts.len() >= 9, "the scripts are missing");
    scripts
}

fn parse(name: &str, text: &str) -> Vec<Line> {
    text.lines()
        .enumerate()
        .map(|(n, line)| (n + 1, line.split('#').next().unwrap().trim()))
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| {
            let (act, expected) = match line.split_once(" = ") {
                Some((act, expected)) => (act, Some(expected.trim().to_owned())),
                None => (line, None),
            };
            let (options, words) = act
                .split_whitespace()
                .partition::<Vec<_>, _>(|w| w.contains('='));
            let options = options
                .into_iter()
                .map(|o| {
                    o.split_once('=')
                        .map(|(k, v)| (k.to_owned(), v.to_owned()))
                        .unwrap()
                })
                .collect();
            let words = words.into_iter().map(str::to_owned).collect();
            Line {
                place: format!("{name}:{n}"),
                words,
                options,
                expected,
            }
        })
        .collect()
}

impl Line {
    fn word(&self, n: usize) -> &str {
        self.words
            .get(n)
            .unwrap_or_else(|| panic!("{}: too few words", self.place))
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.options.get(name).map(|text| text.parse().unwrap())
    }

    fn floor(&self) -> Option<Option<i64>> {
        self.options
            .get("floor")
            .map(|text| (text != "none").then(|| text.parse().unwrap()))
    }

    /// Who sends the event of this line.
    pub fn source(&self) -> &str {
        self.options.get("src").map_or("s", String::as_str)
    }

    /// The ask that this line makes; `None` for a look. Names get a suffix, so
    /// that one script can be played many times on one database.
    pub fn work(&self, suffix: &str) -> Option<Work> {
        let account = AccountKey::new(TENANT, format!("{}{suffix}", self.word(1)));
        let ask = match self.word(0) {
            "open" => Ask::Open(Box::new(Opening {
                currency: Currency::parse(self.word(2)).unwrap(),
                balance: self.word(3).parse().unwrap(),
                floor: self.floor().unwrap_or(Some(0)),
                metadata: None,
            })),
            "set" => Ask::Patch(Box::new(Patch {
                status: self
                    .options
                    .get("status")
                    .map(|s| s.parse::<AccountStatus>().unwrap()),
                floor: self.floor(),
                subject: "script".to_owned(),
                ..Patch::default()
            })),
            "debit" | "credit" => Ask::Submit(self.submission(&account, suffix)),
            "account" | "event" | "letters" => return None,
            other => panic!("{}: unknown act {other}", self.place),
        };
        Some(Work { account, ask })
    }

    /// The native body of the event that this line sends.
    pub fn body(&self, suffix: &str) -> serde_json::Value {
        let mut body = serde_json::json!({
            "account_id": format!("{}{suffix}", self.word(1)),
            "amount": self.word(2).parse::<i64>().unwrap(),
            "type": self.word(0),
        });
        if let Some(id) = self.options.get("id") {
            body["event_id"] = renamed(id, suffix).into();
        }
        if let Some(version) = self.number("v") {
            body["version"] = version.into();
        }
        if let Some(currency) = self.options.get("cur") {
            body["currency"] = currency.clone().into();
        }
        body
    }

    fn submission(&self, account: &AccountKey, suffix: &str) -> Submission {
        let version = self.number("v");
        let event_id = self.options.get("id").map(|id| renamed(id, suffix));
        let derived = event_id.is_none();
        let event_id = event_id.unwrap_or_else(|| {
            Event::derived_id(&account.id, version.expect("a bare event names a version"))
        });
        let event = Event {
            identity: Identity::new(TENANT, self.source(), event_id),
            derived,
            content: Content {
                account_id: account.id.clone(),
                kind: self.word(0).parse::<Kind>().unwrap(),
                amount: self.word(2).parse().unwrap(),
                currency: self.options.get("cur").map(|c| Currency::parse(c).unwrap()),
                expected_version: version,
            },
            reference: None,
            occurred_at: None,
            metadata: None,
        };
        Submission {
            event: Arc::new(event),
            raw: Arc::new(Raw {
                queue: "script".into(),
                body: self.body(suffix).to_string().into_bytes(),
                headers: "{}".into(),
                marks: self.source().into(),
            }),
            if_version: self.number("if"),
            strict: self.words.iter().any(|word| word == "strict"),
        }
    }

    /// Whether a line can be played through a queue: events without conditions.
    pub fn is_plain_event(&self) -> bool {
        matches!(self.word(0), "debit" | "credit")
            && !self.options.contains_key("if")
            && !self.words.iter().any(|word| word == "strict")
    }

    /// For a look: what was found where it differs from what is said.
    pub async fn look(&self, store: &dyn Store, suffix: &str) -> Result<(), String> {
        let want = |name: &str, got: Option<i64>| match self.number(name) {
            Some(expected) if got != Some(expected) => {
                Err(format!("{}: {name} is {got:?}, not {expected}", self.place))
            }
            _ => Ok(()),
        };
        match self.word(0) {
            "account" => {
                let key = AccountKey::new(TENANT, format!("{}{suffix}", self.word(1)));
                let account = store.account(&key).await.unwrap();
                want("b", account.as_ref().map(|a| a.balance))?;
                want("v", account.as_ref().map(|a| a.version))
            }
            "event" => {
                let id = Identity::new(TENANT, self.source(), renamed(self.word(1), suffix));
                let Some(view) = store.event(&id).await.unwrap() else {
                    return Err(format!("{}: no such event", self.place));
                };
                let record = view.record;
                let mut got = vec![record.status.as_str()];
                got.extend(record.reason.map(|reason| reason.as_str()));
                let said: Vec<&str> = self.words[2..].iter().map(String::as_str).collect();
                if got != said {
                    return Err(format!("{}: it is {got:?}", self.place));
                }
                want("v", record.version)?;
                want("b", record.balance_after)
            }
            "letters" => {
                let filter = LetterFilter {
                    event_id: Some(renamed(self.word(1), suffix)),
                    reason: Some(self.word(2).parse().unwrap()),
                    ..LetterFilter::default()
                };
                let count = store
                    .letters(TENANT, &filter, None, 100)
                    .await
                    .unwrap()
                    .len();
                let expected: usize = self.word(3).parse().unwrap();
                if count != expected {
                    return Err(format!("{}: {count} letters", self.place));
                }
                Ok(())
            }
            other => panic!("{}: {other} is no look", self.place),
        }
    }
}

/// An event id with the suffix, which in a derived id belongs to the account.
fn renamed(id: &str, suffix: &str) -> String {
    match id.split_once(":v") {
        Some((account, version)) => format!("{account}{suffix}:v{version}"),
        None => format!("{id}{suffix}"),
    }
}

/// An answer in the words of the scripts.
pub fn spell(answer: &Answer) -> String {
    match answer {
        Answer::Opened { fresh: true, .. } => "opened".to_owned(),
        Answer::Opened { fresh: false, .. } => "known".to_owned(),
        Answer::OpenRefused(OpenRefusal::Exists(_)) => "exists".to_owned(),
        Answer::Patched(_) => "set".to_owned(),
        Answer::PatchRefused(refusal) => match refusal {
            PatchRefusal::NotFound => "not_found",
            PatchRefusal::Stale(_) => "stale",
            PatchRefusal::NotEmpty(_) => "not_empty",
            PatchRefusal::Closed(_) => "closed",
        }
        .to_owned(),
        Answer::Discarded { fresh, .. } => format!("discarded {fresh}"),
        Answer::Elsewhere(account) => format!("elsewhere {account:?}"),
        Answer::Event(told) | Answer::Replayed(told) => match told.verdict {
            Verdict::Applied | Verdict::Duplicate => format!(
                "{} v={} b={}",
                told.label().0,
                told.version.unwrap(),
                told.balance.unwrap()
            ),
            Verdict::Parked(reason) => format!("parked {}", reason.as_str()),
            Verdict::Rejected(reason) => format!("rejected {}", reason.as_str()),
            Verdict::Unmet(Unmet::Version) => "unmet version".to_owned(),
            Verdict::Unmet(Unmet::Strict(reason)) => format!("unmet {}", reason.as_str()),
        },
        Answer::Released => "released".to_owned(),
        Answer::Expired(died) => format!("expired {died:?}"),
    }
}
