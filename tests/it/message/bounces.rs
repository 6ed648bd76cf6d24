//! Messages that came back, read by `tidings bounces read`: from a mail server's pipe, from a Maildir, and from a real Postfix
//! and Exim.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use tidings_harness::{
    cli_env::{binary, command},
    env::{Env, activities, sqlite_url},
    exim::Exim,
    message_env::{ANN, MessageEnv, of, submission, waits},
    postfix::Postfix,
    relay::{Act, At, Fault},
    wait::eventually,
    worker::Running,
};
use tidings_model::{
    link_keys::LinkKeys,
    names,
    records::{MessageRecord, MessageState, SuppressionReason},
    settings::{ReturnPath, Settings},
};
use tidings_needs::needs;
use tidings_operations::submit::{MessageSubmission, SubmissionRecipient};
use tidings_services::StepServices;
use tidings_store::prelude::*;
use tokio::io::AsyncWriteExt as _;

const MINUTE: Duration = Duration::from_mins(1);
/// The exit code by which a mail server keeps a message.
const TRY_LATER: i32 = 75;

/// Messages with a return path whose tokens `keys` sign.
fn with_return_path(keys: &str) -> Result<Settings> {
    let mut settings = waits(&[]);
    settings.link_keys = Some(keys.parse()?);
    let path = ReturnPath { local: "bounce".to_owned(), domain: "mail.acme.example".to_owned() };
    settings.streams.transactional.return_path = Some(path);
    Ok(settings)
}

/// A message of ours that was sent, and the command that reads what came back.
struct Sent {
    messages: MessageEnv,
    keys: String,
}

impl Sent {
    async fn start() -> Result<Self> {
        let keys = LinkKeys::generate().context("no randomness")?;
        let messages = MessageEnv::start(with_return_path(&keys)?).await?;
        messages.send(&submission("k")).await?;
        assert_eq!(messages.ended(&of("k")).await?, MessageState::Sent);
        let sent = Self { messages, keys };
        sent.configure()?;
        Ok(sent)
    }

    fn configure(&self) -> Result<()> {
        let folder = self.messages.env.folder.path();
        let config = format!("database_url = \"{}\"\n", sqlite_url(folder));
        Ok(fs::write(folder.join("tidings.toml"), config)?)
    }

    /// Runs `tidings bounces read --json` with this input; returns the exit code and the answer.
    async fn read(&self, arguments: &[&str], input: &str, keys: &str) -> Result<(i32, String)> {
        let env = &self.messages.env;
        let mut read = command(&binary()?, env.folder.path(), &env.server.target());
        read.env("TIDINGS_LINK_KEYS", keys).args(["bounces", "read", "--json"]).args(arguments);
        let mut read = read.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = read.stdin.take().context("no input")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = read.wait_with_output().await?;
        let code = output.status.code().context("killed")?;
        let said = if code == 0 { output.stdout } else { output.stderr };
        Ok((code, String::from_utf8(said)?))
    }

    async fn state(&self) -> Result<(MessageState, Vec<SuppressionReason>)> {
        let store = &self.messages.env.store;
        let message = store.message(of("k").message_id()).await?.context("no message")?;
        Ok((message.state, store.suppression_reasons("acme", ANN).await?))
    }
}

/// A bounce for this address, about the message with this id.
fn bounce(to: &str, id: &str) -> String {
    format!(
        "From: MAILER-DAEMON@mx.example.net\nTo: {to}\nDate: Mon, 23 Nov 2026 08:00:00 +0000\nMIME-Version: 1.0\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\
         Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.net\n\n\
         Final-Recipient: rfc822; {ANN}\nAction: failed\nStatus: 5.1.1\n\n--b\nContent-Type: text/rfc822-headers\n\n\
         X-Tidings-Message: {id}\n\n--b--\n"
    )
}

fn counted(name: &str) -> impl Fn(&(i32, String)) -> bool {
    let count = format!("\"{name}\":1");
    move |(code, said)| *code == 0 && said.contains(&count)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn only_a_report_with_our_signature_changes_anything() -> Result<()> {
    let sent = Sent::start().await?;
    let (id, mails) = (of("k").message_id(), sent.messages.env.relay.mails());
    let [mail] = &mails[..] else { panic!("not one mail") };
    let token = mail.header("X-Tidings-Token")?;
    assert_eq!(mail.from, format!("bounce+{token}@mail.acme.example"));

    let other = LinkKeys::generate().context("no randomness")?;
    let forged = with_return_path(&other)?.report_token("acme", id).context("no token")?;
    for to in ["bounce@mail.acme.example".to_owned(), format!("bounce+{forged}@mail.acme.example")] {
        let read = sent.read(&[], &bounce(&to, &id.to_string()), &sent.keys).await?;
        assert!(counted("unauthenticated")(&read), "{to}: {read:?}");
    }
    for (garbage, name) in [("", "unrecognized"), ("Auto-Submitted: auto-replied\n\nI am away", "auto_replies")] {
        let read = sent.read(&["--recipient", &mail.from], garbage, &sent.keys).await?;
        assert!(counted(name)(&read), "{read:?}");
    }
    assert_eq!(sent.state().await?, (MessageState::Sent, vec![]));

    let real = bounce("bounce@mail.acme.example", &id.to_string());
    let (code, _) = sent.read(&["--recipient", &mail.from], &real, "").await?;
    assert_eq!(code, TRY_LATER, "without keys");
    // Some servers change the case, and a rotated key still verifies.
    let (recipient, rotated) = (mail.from.to_uppercase(), format!("{other} {}", sent.keys));
    for name in ["recorded", "known"] {
        let read = sent.read(&["--recipient", &recipient], &real, &rotated).await?;
        assert!(counted(name)(&read), "{read:?}");
    }
    assert_eq!(sent.state().await?, (MessageState::Failed, vec![SuppressionReason::HardBounce]));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_maildir_is_read_once_and_by_several_readers() -> Result<()> {
    let sent = Sent::start().await?;
    let folder = sent.messages.env.folder.path().join("mail");
    for name in ["new", "cur", "tmp"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let mail = &sent.messages.env.relay.mails()[0];
    let complaint = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/feedback-report\n\n\
         Feedback-Type: abuse\n\n--b\nContent-Type: message/rfc822\n\n{}\n--b--\n",
        String::from_utf8_lossy(&mail.bytes())
    );
    fs::write(folder.join("new/1"), complaint)?;
    fs::write(folder.join("new/2"), "Subject: hello\n\nhello\n")?;
    let maildir = folder.to_str().context("no name")?;
    let arguments = ["--maildir", maildir];
    let read = || sent.read(&arguments, "", &sent.keys);
    let (first, second) = tokio::try_join!(read(), read())?;
    assert_eq!((first.0, second.0), (0, 0), "{first:?} {second:?}");
    assert!(counted("recorded")(&first) ^ counted("recorded")(&second), "{first:?} {second:?}");
    assert_eq!(sent.state().await?, (MessageState::Sent, vec![SuppressionReason::Complaint]));
    assert_eq!(fs::read_dir(folder.join("new"))?.count(), 0);
    assert!(folder.join("cur/1:2,S").is_file() && folder.join("cur/2:2,S").is_file());
    let (code, _) = sent.read(&["--maildir", "/nonexistent"], "", &sent.keys).await?;
    assert_eq!(code, TRY_LATER);
    Ok(())
}

#[needs(temporal, postfix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_real_postfix_returns_what_no_mailbox_takes() -> Result<()> {
    let keys = LinkKeys::generate().context("no randomness")?;
    let messages = MessageEnv { worker: None, env: Env::without_worker(with_return_path(&keys)?).await? };
    let sent = Sent { messages, keys };
    sent.configure()?;
    let folder = sent.messages.env.folder.path();
    // The user of the program may not see the folder of the build.
    let (program, tidings) = (folder.join("bounced"), folder.join("tidings"));
    fs::copy(binary()?, &tidings)?;
    let script = format!(
        "#!/bin/sh\nexport TIDINGS_LINK_KEYS='{}'\nexec '{}' --config '{}' bounces read --recipient \"$1\"\n",
        sent.keys,
        tidings.display(),
        folder.join("tidings.toml").display()
    );
    fs::write(&program, script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    // Postfix runs no program as root, so that the user of the program owns the database.
    let owned = Command::new("chown").args(["-R", "nobody"]).arg(folder).status()?;
    assert!(owned.success());
    let postfix = Postfix::start(&program)?;
    let Env { store, settings, temporal, .. } = &sent.messages.env;
    let deps: StepServices = activities(store.clone(), &postfix.url(), settings.clone())?;
    let worker =
        Running::start(temporal.clone(), tidings::registration::transactional_worker(names::TASK_QUEUE, deps)?)?;
    for (domain, state, why, suppressed) in [
        ("unknown", MessageState::Failed, "bounced: 5.1.1", vec![SuppressionReason::HardBounce]),
        ("full", MessageState::Failed, "soft bounce: 5.2.2", vec![]),
        ("silent", MessageState::Failed, "soft bounce: 4.4.1", vec![]),
    ] {
        let address = format!("ann@{domain}.example");
        let to = SubmissionRecipient::Address { address: address.parse()?, name: String::new() };
        let accepted = sent.messages.send(&MessageSubmission { to, ..submission(domain) }).await?;
        let failed = async || {
            let message = store.message(accepted.message.id).await?;
            Ok(message.filter(|message| message.state == MessageState::Failed))
        };
        let returned = eventually(domain, MINUTE, failed).await.with_context(|| postfix.log())?;
        let MessageRecord { state: found, why: said, .. } = returned;
        assert_eq!(found, state, "{domain}");
        assert!(said.starts_with(why), "{domain}: {said}");
        assert_eq!(store.suppression_reasons("acme", &address).await?, suppressed, "{domain}");
        let [report] = &store.delivery_events(accepted.message.id).await?[..] else { panic!("not one report") };
        assert!(report.received_at <= Timestamp::now());
    }
    worker.stop()
}

/// Exim writes 5.0.0 into every report and quotes the reply, which decides.
#[needs(temporal, exim)]
#[tokio::test(flavor = "multi_thread")]
async fn a_real_exim_returns_what_other_servers_refuse() -> Result<()> {
    let keys = LinkKeys::generate().context("no randomness")?;
    let messages = MessageEnv { worker: None, env: Env::without_worker(with_return_path(&keys)?).await? };
    let sent = Sent { messages, keys };
    sent.configure()?;
    let Env { store, settings, temporal, relay: internet, .. } = &sent.messages.env;
    let exim = Exim::start(internet)?;
    let deps: StepServices = activities(store.clone(), &exim.url(), settings.clone())?;
    let worker =
        Running::start(temporal.clone(), tidings::registration::transactional_worker(names::TASK_QUEUE, deps)?)?;
    let maildir = exim.maildir();
    let maildir = maildir.to_str().context("no name")?;
    for (domain, reply, why, suppressed) in [
        ("unknown", "550 5.1.1 no such user", "bounced: 5.1.1", vec![SuppressionReason::HardBounce]),
        ("policy", "550 5.7.1 rejected by policy", "refused by policy: 5.7.1", vec![]),
        ("bare", "550 administrative prohibition", "soft bounce: 5.0.0", vec![]),
        ("full", "452 4.2.2 mailbox full", "soft bounce: 4.2.2", vec![]),
        // Nobody listens.
        ("silent", "", "soft bounce: 5.0.0", vec![]),
    ] {
        let address = format!("ann@{domain}.example");
        internet.fault(Fault::new(At::Rcpt, Act::Reply(reply.to_owned())).to(&address));
        let to = SubmissionRecipient::Address { address: address.parse()?, name: String::new() };
        let accepted = sent.messages.send(&MessageSubmission { to, ..submission(domain) }).await?;
        let failed = async || {
            let (code, said) = sent.read(&["--maildir", maildir], "", &sent.keys).await?;
            assert_eq!(code, 0, "{said}");
            let message = store.message(accepted.message.id).await?;
            Ok(message.filter(|message| message.state == MessageState::Failed))
        };
        let returned = eventually(domain, MINUTE, failed).await.with_context(|| exim.log())?;
        assert!(returned.why.starts_with(why), "{domain}: {}", returned.why);
        assert_eq!(store.suppression_reasons("acme", &address).await?, suppressed, "{domain}");
        assert_eq!(store.delivery_events(accepted.message.id).await?.len(), 1, "{domain}");
    }
    worker.stop()
}
