//! Sends messages by SMTP.
