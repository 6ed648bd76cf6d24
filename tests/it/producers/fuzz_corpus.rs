//! Inputs of the fuzzer's corpus and random inputs of every shape keep the rules of `tests/fuzz/rules`.

use std::{fs, panic, path::Path};

use anyhow::Result;
use proptest::prelude::*;
use tidings_harness::relay::{deliver, mailer};
use tidings_model::attempt::{AttemptClass, AttemptPhase};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

#[path = "../../fuzz/rules/targets.rs"]
mod targets;

use targets::TARGETS;

/// The files of a target's corpus, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

/// The inputs with which a rule is broken, among those that `parts` makes of the corpora.
fn broken(parts: impl Fn(&[u8]) -> Vec<Vec<u8>>) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() >= 10, "{name} has {} inputs", corpus.len());
        for (file, bytes) in corpus {
            if !parts(&bytes).iter().all(|input| panic::catch_unwind(|| target(input)).is_ok()) {
                broken.push(format!("{name}/{file}"));
            }
        }
    }
    broken
}

#[test]
fn every_input_of_the_corpus_keeps_the_rules() {
    let whole = |bytes: &[u8]| vec![bytes.to_vec()];
    assert_eq!(broken(whole), [""; 0]);
}

#[test]
fn every_truncated_input_of_the_corpus_keeps_the_rules() {
    let half = |bytes: &[u8]| vec![bytes[..bytes.len() / 2].to_vec(), bytes[..bytes.len().saturating_sub(1)].to_vec()];
    assert_eq!(broken(half), [""; 0]);
}

/// Far more than the sockets of both sides hold.
const MANY_BYTES: usize = 64 * 1024 * 1024;

#[tokio::test]
async fn an_endless_reply_is_cut_and_defers_the_message() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mailer = mailer(&format!("smtp://{}", listener.local_addr()?))?;
    let peer = async {
        let (mut socket, _) = listener.accept().await?;
        let mut said = 0;
        while said < MANY_BYTES && socket.write_all(&[b'2'; 4096]).await.is_ok() {
            said += 4096;
        }
        anyhow::Ok(said)
    };
    let (delivery, said) = tokio::join!(deliver(&mailer, "ann@example.net"), peer);
    assert_eq!(
        (delivery.class, delivery.phase),
        (AttemptClass::Deferred, AttemptPhase::Greeting),
        "{}",
        delivery.detail
    );
    assert!(said? < MANY_BYTES, "all of it was read");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_keep_every_rule(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for (_, target) in TARGETS {
            target(&bytes);
        }
    }

    #[test]
    fn any_cron_schedule_keeps_the_rules(
        minute in "(\\*|[0-9]{1,2}|\\*/[0-9]{1,2}|[0-9],[1-5][0-9])", hour in "(\\*|[0-9]|1[0-9]|8-18/[1-5])",
        day in "(\\*|[1-9]|[12][0-9]|31|1-31/2|\\*/[2-9])", month in "(\\*|[1-9]|1[0-2]|feb|jan-jun)",
        weekday in "(\\*|[0-7]|mon-fri|sat-sun|\\*/2)",
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"]),
        opened in 0_i64..7_000_000_000,
    ) {
        targets::cadence::cadence(format!("cron {minute} {hour} {day} {month} {weekday}\n{zone}\n{opened}").as_bytes());
    }

    #[test]
    fn any_three_ids_keep_the_rules_of_keys(parts in prop::collection::vec("(\\PC{0,8}|[a-z/%.]{0,90}|.{0,3})", 7)) {
        targets::key::key(parts.join("\n").as_bytes());
    }

    #[test]
    fn any_link_keeps_the_rules_of_links(scheme in "(https?|mailto|javascript|ftp|)", rest in "\\PC{0,60}|.{0,20}") {
        targets::url::url(format!("{scheme}:{rest}").as_bytes());
        targets::url::url(format!("{scheme}://{rest}").as_bytes());
    }

    #[test]
    fn any_replies_of_a_relay_keep_the_rules(
        replies in prop::collection::vec(("[2-5][0-9]{2}[ -]", "([2-5]\\.[0-9]{1,2}\\.[0-9]{1,3} )?\\PC{0,40}"), 0..9),
    ) {
        let said: String = replies.into_iter().map(|(code, text)| format!("{code}{text}\r\n")).collect();
        targets::smtp::smtp(said.as_bytes());
    }

    #[test]
    fn any_group_keeps_the_rules_of_templates(lines in prop::collection::vec("\\PC{0,80}|.{0,20}", 0..30), copies in 1..50) {
        targets::template::template(format!("{copies}\n{}", lines.join("\n")).as_bytes());
    }
}
