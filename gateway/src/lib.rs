//! Tidings over HTTP: links and pages of recipients, and what providers report.

pub mod webhooks;
