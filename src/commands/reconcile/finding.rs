//! What a comparison finds, in words and as JSON.

use serde::Serialize;
use strum::IntoStaticStr;

/// One disagreement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// What kind of one.
    pub(super) finding: Kind,
    /// Where in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    /// Who produced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) event_id: Option<String>,
    /// What is the matter.
    pub(super) what: String,
}

/// Which way file and ledger disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(super) enum Kind {
    /// In the file, and it took no effect in the ledger.
    Missing,
    /// In both, with other content.
    Differing,
    /// It took effect in the ledger and is not in the file.
    Extra,
    /// More than once in the file.
    Twice,
    /// A line that can't be read.
    Unreadable,
}

/// How much was compared, and what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Summary {
    pub(super) lines: u64,
    pub(super) agreeing: u64,
    pub(super) missing: u64,
    pub(super) differing: u64,
    pub(super) extra: u64,
    pub(super) twice: u64,
    pub(super) unreadable: u64,
}

impl Summary {
    pub(super) fn count(&mut self, kind: Kind) {
        *match kind {
            Kind::Missing => &mut self.missing,
            Kind::Differing => &mut self.differing,
            Kind::Extra => &mut self.extra,
            Kind::Twice => &mut self.twice,
            Kind::Unreadable => &mut self.unreadable,
        } += 1;
    }

    /// Whether file and ledger say the same.
    pub(super) fn agrees(&self) -> bool {
        self.missing + self.differing + self.extra + self.twice + self.unreadable == 0
    }

    pub(super) fn text(&self) -> String {
        let Self {
            lines,
            agreeing,
            missing,
            differing,
            extra,
            twice,
            unreadable,
        } = self;
        format!(
            "{lines} lines: {agreeing} agree, {missing} missing, {differing} differing, {twice} twice, \
             {unreadable} unreadable; {extra} extra in the ledger\n"
        )
    }
}

impl Finding {
    /// One line for people.
    pub(super) fn text(&self) -> String {
        let kind: &'static str = self.finding.into();
        let mut text = format!("{kind:<10} ");
        if let (Some(source), Some(event_id)) = (&self.source, &self.event_id) {
            text += &format!("{source}/{event_id} ");
        }
        if let Some(line) = self.line {
            text += &format!("(line {line}) ");
        }
        text.truncate(text.trim_end().len());
        format!("{text}: {}\n", self.what)
    }
}
