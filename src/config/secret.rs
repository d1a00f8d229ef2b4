//! URLs that may carry a password: nobody prints one by mistake.
//!
//! What lives here: the one type that holds such a URL, and how it is shown.
//! What must not: reading or checking of settings.

use std::{fmt, ops::Deref};

use url::Url;

/// A URL that shows itself without its password. Where the text itself is
/// needed, to connect, it is had by dereferencing.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Takes a URL as it was given.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }
}

impl Deref for SecretUrl {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", redacted(&self.0))
    }
}

/// The URL with `***` in place of every password. What can't be read as a URL
/// may hide a password anywhere: of that only the scheme is shown.
#[must_use]
pub fn redacted(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else {
        return match text.split_once("://") {
            Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                format!("{scheme}://***")
            }
            _ => "***".to_owned(),
        };
    };
    // Without `//` there is no place for a password that could be told from the
    // rest; a file's name needs none.
    if url.cannot_be_a_base() && url.scheme() != "sqlite" {
        return format!("{}:***", url.scheme());
    }
    if url.password().is_some() {
        // Only a URL without a host refuses, and that one has no password.
        let _ = url.set_password(Some("***"));
    }
    if url.query().is_some() {
        let pairs: Vec<(String, String)> = url
            .query_pairs()
            .map(|(name, value)| {
                let secret = name.to_ascii_lowercase().contains("password");
                let value = if secret { "***".into() } else { value };
                (name.into_owned(), value.into_owned())
            })
            .collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    url.to_string().replace("%2A%2A%2A", "***")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_never_shows_its_password() {
        for (given, shown) in [
            ("postgres://u:geheim@db/l", "postgres://u:***@db/l"),
            (
                "amqps://u:ge%2Fheim@mq:5671/%2f",
                "amqps://u:***@mq:5671/%2f",
            ),
            (
                "postgres://db/l?user=u&password=geheim",
                "postgres://db/l?user=u&password=***",
            ),
            (
                "postgres://db/l?sslmode=require",
                "postgres://db/l?sslmode=require",
            ),
            ("postgres://u:ge/heim@db/l", "postgres://***"),
            ("sqlite://onceledger.db", "sqlite://onceledger.db"),
            ("u:geheim@db", "u:***"),
            ("geheim", "***"),
        ] {
            assert_eq!(redacted(given), shown);
            assert!(!redacted(given).contains("heim"), "{}", redacted(given));
            assert!(!format!("{:?}", SecretUrl::new(given)).contains("heim"));
        }
    }
}
