//! docs/webhooks-out.md: the table of types, a sample of each, and the program that verifies a request.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;
use tidings_activities::subscriptions;
use tidings_harness::{
    notice_receiver::{NoticeReceiver, SECRET},
    python::python,
};
use tidings_model::{
    attempt::AttemptClass,
    delivery_events::BounceKind,
    records::MessageState,
    subscription::{NoticeFact, NoticeType, notice_body},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tokio::process::Command;

const PAGE: &str = include_str!("../../../docs/webhooks-out.md");

/// The samples of the table: type and body.
fn samples() -> Result<BTreeMap<String, Value>> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| type | sent when")).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once('`').context("no type")?;
        let data = rest.rsplit('`').nth(1).context("no sample")?;
        Ok((name.to_owned(), serde_json::from_str(data).with_context(|| data.to_owned())?))
    })
    .collect()
}

#[test]
fn each_type_has_a_sample_that_tidings_would_send() -> Result<()> {
    let samples = samples()?;
    let types: BTreeSet<_> = NoticeType::ALL.map(|event| event.name().to_owned()).into();
    assert_eq!(samples.keys().cloned().collect::<BTreeSet<_>>(), types);
    let outcomes: BTreeSet<_> = DigestOutcome::ALL
        .map(DigestOutcome::name)
        .into_iter()
        .chain(MessageState::ALL.map(MessageState::name))
        .collect();
    let reasons: BTreeSet<_> = AttemptClass::ALL
        .map(AttemptClass::name)
        .into_iter()
        .chain(BounceKind::ALL.map(BounceKind::name))
        .chain(["person", "machine"])
        .collect();
    for (event, data) in samples {
        let text = |name: &str| data[name].as_str().map(str::to_owned);
        let about = NoticeFact {
            occurred_at: Timestamp::UNIX_EPOCH,
            tenant: text("tenant").with_context(|| event.clone())?,
            digest_type: text("digest_type").unwrap_or_default(),
            user: text("user").unwrap_or_default(),
            digest_id: text("digest_id").map(|id| id.parse()).transpose()?,
            message_id: text("message_id").map(|id| id.parse()).transpose()?,
            outcome: text("outcome"),
            reason: text("reason"),
        };
        let sent: Value = serde_json::from_slice(&notice_body(&event, &about)?)?;
        assert_eq!(sent["data"], data, "{event}");
        ensure!(about.outcome.is_none_or(|outcome| outcomes.contains(outcome.as_str())), "{event}: outcome");
        ensure!(about.reason.is_none_or(|reason| reasons.contains(reason.as_str())), "{event}: reason");
    }
    Ok(())
}

#[needs(python)]
#[tokio::test(flavor = "multi_thread")]
async fn the_program_of_the_page_accepts_only_what_tidings_signed() -> Result<()> {
    let receiver = NoticeReceiver::start(|_, _| 200).await?;
    subscriptions::test(&receiver.subscription(&[NoticeType::DigestSent])?, Timestamp::now()).await;
    let request = receiver.received()?.pop().context("no request")?;
    let program = PAGE.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).context("no program")?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("notices.py"), program)?;
    let caller = "import sys, json\nfrom notices import verify\n\
                  id, timestamp, signature, body = json.load(sys.stdin)\n\
                  print(verify({'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature}, body.encode()))\n";
    fs::write(folder.path().join("caller.py"), caller)?;
    let body = String::from_utf8(request.body.clone())?;
    let late = (request.timestamp.parse::<i64>()? - 301).to_string();
    for (id, timestamp, signature, body, right) in [
        (request.id.as_str(), request.timestamp.as_str(), request.signature.as_str(), body.as_str(), true),
        (&request.id, &request.timestamp, &format!("v1,AAAA {}", request.signature), &body, true),
        ("another", &request.timestamp, &request.signature, &body, false),
        (&request.id, &late, &request.signature, &body, false),
        (&request.id, &request.timestamp, "v1,", &body, false),
        (&request.id, &request.timestamp, &request.signature, &body.replace("test", "tset"), false),
    ] {
        let input = serde_json::to_string(&[id, timestamp, signature, body])?;
        fs::write(folder.path().join("input"), input)?;
        let mut verify = Command::new(python()?);
        verify.arg("caller.py").current_dir(folder.path()).env("NOTICES_SECRET", SECRET);
        let output = verify.stdin(fs::File::open(folder.path().join("input"))?).output().await?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let failed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(said == if right { "True" } else { "False" }, "{id} {timestamp} {signature}: {said}{failed}");
    }
    Ok(())
}
