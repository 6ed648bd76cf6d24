//! Makes messages and moves them: templates become subject, HTML and text, these become signed MIME, and SMTP carries it.

pub mod mailer;
pub mod renderer;
