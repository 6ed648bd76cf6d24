//! A digest's DKIM signature, from the event to the relay, verified by dkimpy.

use std::{
    ffi::OsString,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use tidings_harness::{
    env::{Env, event, key, settings},
    python::python,
    wait::wait_for_emails,
};
use tidings_mail::dkim::DkimSigner;
use tidings_model::{
    Provider,
    settings::{ReturnPath, Settings},
};
use tidings_needs::needs;
use uuid::Uuid;

const RSA: &str = include_str!("../../data/dkim/rsa.pem");
const ED25519: &str = include_str!("../../data/dkim/ed25519.pem");

/// The names in `h=` of every digest: the headers that are present, and again those that must not be added.
const SIGNED: &str = "mime-version:feedback-id:auto-submitted:list-unsubscribe-post:list-unsubscribe:list-id:message-id:date:subject:to:from:\
                      from:to:subject:date:message-id:reply-to";

/// Settings whose digests offer both ways to unsubscribe.
fn with_links() -> Result<Settings> {
    let mut settings = settings("instant", "instant");
    settings.link_keys = Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse()?);
    settings.pages.public_url = Some("https://mail.tidings.example".to_owned());
    let (local, domain) = ("bounce".to_owned(), "mail.tidings.example".to_owned());
    settings.streams.bulk.return_path = Some(ReturnPath { local, domain });
    Ok(settings)
}

/// The mail of one event, as the relay got it.
async fn digest(dkim: DkimSigner) -> Result<String> {
    let mut env = Env::without_worker(with_links()?).await?;
    env.signers.general.bulk = Some(dkim);
    env.start_worker()?;
    let ann = key("activity", "ann");
    env.events.emit(event(&ann, "event-1")).await?;
    wait_for_emails(&env.relay, 1, Duration::from_mins(1)).await?;
    let mail = env.relay.mails().pop().context("no mail")?;
    Ok(String::from_utf8(mail.bytes())?)
}

/// Of each mail, whether the signature holds.
fn verify(python: &OsString, dkim: &DkimSigner, mails: &[String]) -> Result<Vec<bool>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/verify_dkim.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    for mail in mails {
        let message = BASE64_STANDARD.encode(mail);
        writeln!(input, "{}", json!({"message": message, "name": dkim.record_name(), "record": dkim.dns_record()}))?;
    }
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "verify_dkim.py: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.lines().count() == mails.len(), "{said:?}");
    Ok(said.lines().map(|line| line == "holds").collect())
}

/// `mail` with `from` replaced; it must be there once.
fn changed(mail: &str, from: &str, to: &str) -> Result<String> {
    ensure!(mail.matches(from).count() == 1, "{from:?} is not there once in\n{mail}");
    Ok(mail.replace(from, to))
}

/// Forged variants of an email, and variants that relays make.
fn forged_and_relayed(mail: &str) -> Result<(Vec<String>, Vec<String>)> {
    let last = mail.rfind("</html>").context("no HTML")?;
    let forged = vec![
        format!("{}H{}", &mail[..last + 2], &mail[last + 3..]),
        changed(mail, "\r\nSubject: ", "\r\nSubject: Re: ")?,
        changed(mail, "\r\nTo: ", "\r\nTo: eve@example.org, ")?,
        changed(mail, "\r\nList-Id: <", "\r\nList-Id: <x")?,
        changed(mail, "<https://mail.tidings.example/u/", "<https://mail.eve.example/u/")?,
        changed(mail, "<mailto:bounce+", "<mailto:eve+")?,
        changed(mail, "\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click", "\r\nList-Unsubscribe-Post: no")?,
        changed(mail, "\r\nFeedback-ID: ", "\r\nFeedback-ID: x")?,
        changed(mail, "\r\nAuto-Submitted: auto-generated", "\r\nAuto-Submitted: no")?,
        changed(mail, "\r\nMIME-Version: 1.0", "\r\nMIME-Version: 1.1")?,
        format!("From: eve@example.org\r\n{mail}"),
        format!("Reply-To: eve@example.org\r\n{mail}"),
        format!("Subject: urgent\r\n{mail}"),
    ];
    let headers = Provider::ALL.map(|provider| provider.headers(Uuid::from_u128(7), Some("marketing")) + mail);
    let mut relayed = headers.to_vec();
    relayed.extend([
        mail.to_owned(),
        format!("Received: from a by b\r\n{mail}"),
        format!("{mail}\r\n\r\n"),
        changed(mail, "\r\nSubject: ", "\r\nSUBJECT:\r\n\t ")?,
        changed(mail, "\r\nX-Tidings-Events: 1", "\r\nX-Tidings-Events: 2")?,
        format!("List-Unsubscribe: <mailto:leave@relay.example>\r\n{mail}"),
    ]);
    Ok((forged, relayed))
}

async fn verifies_until_the_email_is_changed(pem: &str, algorithm: &str) -> Result<()> {
    let python = python()?;
    let dkim = DkimSigner::new("s1", "tidings.example", pem.as_bytes())?;
    let mail = digest(dkim.clone()).await?;
    assert!(mail.starts_with(&format!("DKIM-Signature: v=1; a={algorithm}; c=relaxed/relaxed;")), "{mail}");
    let header = mail.split("\r\nFrom: ").next().unwrap_or_default();
    let header: String = header.split_whitespace().collect();
    assert!(header.contains(&format!("h={SIGNED};")), "{header}");

    let (forged, relayed) = forged_and_relayed(&mail)?;
    assert_eq!(verify(&python, &dkim, &relayed)?, vec![true; relayed.len()]);
    assert_eq!(verify(&python, &dkim, &forged)?, vec![false; forged.len()]);
    Ok(())
}

#[needs(temporal, python)]
#[tokio::test(flavor = "multi_thread")]
async fn an_rsa_signature_verifies_until_the_email_is_changed() -> Result<()> {
    verifies_until_the_email_is_changed(RSA, "rsa-sha256").await
}

#[needs(temporal, python)]
#[tokio::test(flavor = "multi_thread")]
async fn an_ed25519_signature_verifies_until_the_email_is_changed() -> Result<()> {
    verifies_until_the_email_is_changed(ED25519, "ed25519-sha256").await
}
