//! The body of a message as a person reads it.

use mail_parser::{MessageParser, PartType};

/// The body that a program shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Html(String),
    Text(String),
}

impl Body {
    /// Reads a message (RFC 5322); `None` if it has neither HTML nor text.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Self> {
        let message = MessageParser::default().parse(message)?;
        let html = message.html_bodies().find_map(|part| match &part.body {
            PartType::Html(html) => Some(Self::Html(html.clone().into_owned())),
            _ => None,
        });
        let text = || {
            message.text_bodies().find_map(|part| match &part.body {
                PartType::Text(text) => Some(Self::Text(text.clone().into_owned())),
                _ => None,
            })
        };
        html.or_else(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_comes_before_text() {
        let both =
            b"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nHi\r\n\
                     --b\r\nContent-Type: text/html\r\n\r\n<p>Hi</p>\r\n--b--\r\n";
        assert_eq!(Body::read(both), Some(Body::Html("<p>Hi</p>".into())));
        assert_eq!(Body::read(b"Content-Type: text/plain\r\n\r\nHi"), Some(Body::Text("Hi".into())));
        assert_eq!(Body::read(b""), None);
    }
}
