//! Scores a message with SpamAssassin. Network tests are off.

use std::{io, process::Stdio, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::{
    mime::{MessageDraft, MessageKind, MessageParty, ThreadPosition, UnsubscribeUris},
    render::RenderedEmail,
};
use tidings_model::{EmailAddress, settings::SenderIdentity};
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};
use uuid::Uuid;

use super::making::WorkshopState;

const LIMIT: Duration = Duration::from_secs(30);
const PROGRAM: &str = "spamassassin";
const TABLE: &str = "Content analysis details:";
const UNSUBSCRIBE: &str = "https://mail.example.com/u/sample";

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum SpamScore {
    Scored {
        /// As printed by SpamAssassin. A message counts as spam from 5 on.
        score: String,
        rules: String,
    },
    NotInstalled,
    Failed {
        why: String,
    },
}

pub(super) async fn score_message(bench: &WorkshopState, mail: &RenderedEmail) -> SpamScore {
    let bytes = match compose_message(&bench.config.streams.bulk.settings.sender, mail) {
        Ok(bytes) => bytes,
        Err(error) => return SpamScore::Failed { why: error.to_string() },
    };
    let Ok(_alone) = bench.spam.acquire().await else { return SpamScore::Failed { why: "it ends".to_owned() } };
    match timeout(LIMIT, run(&bytes)).await {
        Err(_) => SpamScore::Failed { why: format!("it did not answer within {} s", LIMIT.as_secs()) },
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => SpamScore::NotInstalled,
        Ok(Err(error)) => SpamScore::Failed { why: error.to_string() },
        Ok(Ok(report)) => parse_report(&report),
    }
}

fn compose_message(sender: &SenderIdentity, mail: &RenderedEmail) -> anyhow::Result<Vec<u8>> {
    let ann: EmailAddress = "ann@example.com".parse()?;
    let draft = MessageDraft {
        from: MessageParty { name: &sender.name, address: &sender.address },
        to: MessageParty { name: "Ann", address: &ann },
        reply_to: sender.reply_to.as_ref(),
        subject: &mail.subject,
        html: Some(&mail.html),
        text: &mail.text,
        id: Uuid::nil(),
        of: MessageKind::Digest {
            tenant: "acme",
            digest_type: "sample",
            events: 1,
            list_host: &sender.domain,
            threading: ThreadPosition::Alone,
        },
        date: Timestamp::now(),
        message_domain: &sender.domain,
        unsubscribe: Some(UnsubscribeUris { url: UNSUBSCRIBE, mailto: None }),
        token: None,
        attachments: &[],
    };
    Ok(draft.compose()?.bytes)
}

async fn run(message: &[u8]) -> io::Result<String> {
    let mut child = Command::new(PROGRAM)
        .args(["--local", "--test-mode"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take();
    let write = async {
        if let Some(stdin) = &mut stdin {
            stdin.write_all(message).await?;
        }
        drop(stdin.take());
        Ok(())
    };
    // SpamAssassin reads everything before it writes. If it closes the pipe early, this is an error.
    let ((), output) = tokio::try_join!(write, child.wait_with_output())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(io::Error::other(format!("it ended with {}", output.status)))
    }
}

fn parse_report(report: &str) -> SpamScore {
    let status = report.lines().find_map(|line| line.strip_prefix("X-Spam-Status: "));
    let score = status.and_then(|status| status.split_whitespace().find_map(|word| word.strip_prefix("score=")));
    let Some(score) = score else { return SpamScore::Failed { why: "its output has no score".to_owned() } };
    let rules = report.rsplit_once(TABLE).and_then(|(_, table)| table.split_once('\n')).unwrap_or_default().1;
    SpamScore::Scored { score: score.to_owned(), rules: rules.trim_matches(['\r', '\n']).trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_and_the_rules_are_those_of_the_report() {
        let report = "X-Spam-Checker-Version: SpamAssassin 4\nX-Spam-Status: No, score=-0.1 required=5.0 tests=A,\n\tB\n\n\
                      Body\nContent analysis details:   (-0.1 points, 5.0 required)\n\n pts rule\n---- ----\n-0.1 A\n\n";
        let scored = SpamScore::Scored { score: "-0.1".into(), rules: " pts rule\n---- ----\n-0.1 A".into() };
        assert_eq!(parse_report(report), scored);
        assert_eq!(parse_report("X-Spam-Status: x\n"), SpamScore::Failed { why: "its output has no score".into() });
    }
}
