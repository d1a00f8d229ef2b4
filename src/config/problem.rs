//! What is wrong with the settings, told for the person who can put it right.

use std::fmt;

/// One setting that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting by the name under which it was given.
    pub setting: String,
    /// What was given, without passwords.
    pub given: Option<String>,
    /// What is allowed, or what to do.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.setting)?;
        if let Some(given) = &self.given {
            write!(f, "{given:?} given; ")?;
        }
        f.write_str(&self.allowed)
    }
}

/// All that is wrong with the settings, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub Vec<Problem>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("one setting can't be used:")?,
            count => write!(f, "{count} settings can't be used:")?,
        }
        for problem in &self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}
