//! Examples with which others described systems of this kind, with their numbers: from the first signal to the text of the email.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use mail_parser::MessageParser;
use serde_json::json;
use tidings::registration;
use tidings_harness::{
    env::{Env, event, key, settings},
    relay::Mail,
    wait::wait_for_emails,
    worker::Running,
};
use tidings_mail::render::TemplateRenderer;
use tidings_model::{
    Key, names,
    settings::{DigestSettings, Settings},
};
use tidings_needs::needs;
use tidings_proto::v1;
use tidings_services::StepServices;

const MINUTE: Duration = Duration::from_mins(1);

const FINDINGS: &str = "{{ digest.item_count }} findings since {{ digest.opened_at }}
{% if digest.opened_at == digest.window.opened_at %}In all: {{ digest.sums | list(attribute=\"label\") }}
{% endif %}{% for line in digest.lines %}
{{ line.entity_id }}: {{ line.sums | list(attribute=\"label\") }}
{% endfor %}";

const UPLOADS: &str = "{% for item in digest.items %}{{ item.title }} ({{ item.payload.type }})
{% endfor %}";

/// The digest types of the examples, with a window that everything fits into.
fn examples() -> Settings {
    let mut settings = settings("after 2s", "after 2s");
    for template in ["findings", "uploads"] {
        let cadence = settings.digests["activity"].cadence.clone();
        let digest = DigestSettings { items_per_line: 8, ..DigestSettings::new(template, cadence) };
        settings.digests.insert(template.to_owned(), digest);
    }
    settings
}

fn write_template(folder: &Path, name: &str, subject: &str, text: &str) -> Result<()> {
    let folder = folder.join(name);
    fs::create_dir_all(&folder)?;
    for (file, text) in [("subject.txt", subject), ("body.txt", text), ("body.html", "<p>{{ subject }}</p>")] {
        fs::write(folder.join(file), text)?;
    }
    Ok(())
}

/// The event number `n` of a key, each a second after the one before.
fn numbered(key: &Key, n: i64) -> v1::Event {
    let at = Timestamp::now() - SignedDuration::from_mins(1) + SignedDuration::from_secs(n);
    v1::Event { occurred_at: Some(at.into()), ..event(key, &format!("e{n}")) }
}

/// Ten people like post 7, and one comments on post 9.
fn likes(key: &Key) -> Vec<v1::Event> {
    let like = |n| {
        let (category, entity_type, entity_id) = ("like".to_owned(), "post".to_owned(), "7".to_owned());
        v1::Event { category, entity_type, entity_id, actor: format!("Fan {n}"), ..numbered(key, n) }
    };
    let comment = v1::Event { entity_type: "post".to_owned(), entity_id: "9".to_owned(), ..numbered(key, 11) };
    (1..=10).map(like).chain([comment]).collect()
}

/// Three findings in one repository, and two in another.
fn findings(key: &Key) -> Vec<v1::Event> {
    let (api, web) = ("prod-payments/ghcr.io/acme/api", "prod-web/ghcr.io/acme/web");
    let found = [(api, 1, 1), (api, 1, 0), (api, 0, 0), (web, 2, 0), (web, 1, 0)];
    let finding = |(n, (repository, critical, kev)): (i64, (&str, i64, i64))| v1::Event {
        category: "finding".to_owned(),
        entity_type: "repository".to_owned(),
        entity_id: repository.to_owned(),
        counts: [("critical".to_owned(), critical), ("kev".to_owned(), kev)].into(),
        ..numbered(key, n)
    };
    (0..).zip(found).map(finding).collect()
}

/// Eight files that one person uploads.
fn uploads(key: &Key) -> Result<Vec<v1::Event>> {
    let upload = |n| {
        let payload = json!({"title": format!("scan-{n}.pdf"), "type": "application/pdf"});
        let payload = Some(serde_json::from_value(payload)?);
        let (entity_type, entity_id) = Default::default();
        Ok(v1::Event { category: "upload".to_owned(), entity_type, entity_id, payload, ..numbered(key, n) })
    };
    (1..=8).map(upload).collect()
}

/// The subject and the text of the only email to this user.
fn only_email(mails: &[Mail], user: &str) -> Result<(String, String)> {
    let mut own = mails.iter().filter(|mail| mail.to.iter().any(|to| to.starts_with(&format!("{user}@"))));
    let mail = own.next().context("no email")?;
    assert_eq!(own.count(), 0, "{user} got more than one email");
    let bytes = mail.bytes();
    let parsed = MessageParser::new().parse(&bytes).context("no mail")?;
    let text = parsed.body_text(0).context("no text")?.replace("\r\n", "\n");
    Ok((parsed.subject().unwrap_or_default().to_owned(), text.trim_end().to_owned()))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn likes_findings_and_uploads_are_one_email_each_with_their_sums_and_names() -> Result<()> {
    let templates = tempfile::tempdir()?;
    write_template(templates.path(), "findings", "{{ digest.item_count }} findings", FINDINGS)?;
    let received = "Your {{ digest.item_count }} documents have been received";
    write_template(templates.path(), "uploads", received, UPLOADS)?;
    let mut env = Env::without_worker(examples()).await?;
    let deps = StepServices { renderer: Arc::new(TemplateRenderer::new(Some(templates.path()))?), ..env.activities()? };
    let options = registration::digest_worker(names::TASK_QUEUE, deps)?;

    let events = [likes(&key("activity", "ann")), findings(&key("findings", "dev")), uploads(&key("uploads", "bob"))?];
    // Each call is one of its own, as from a process of its own.
    try_join_all(events.into_iter().flatten().map(|event| env.events.emit(event))).await?;
    env.worker = Some(Running::start(env.temporal.clone(), options)?);
    for key in [key("activity", "ann"), key("findings", "dev"), key("uploads", "bob")] {
        env.completed(&key).await?;
    }
    wait_for_emails(&env.relay, 3, MINUTE).await?;
    let mails = env.relay.mails();

    let (subject, text) = only_email(&mails, "ann")?;
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("* ")).collect();
    assert_eq!(lines, ["* post 7", "* post 9"], "{text}");
    assert!(text.contains("\n  post · 10 likes · Fan 10 and 9 others\n") && subject.starts_with("10 likes"), "{text}");
    assert!(text.contains("\n  and 7 more\n") && text.contains("\n  post · 1 comment\n"), "{text}");

    let (subject, text) = only_email(&mails, "dev")?;
    assert_eq!(subject, "5 findings");
    let (first, rest) = text.split_once('\n').context("one line")?;
    assert!(first.strip_prefix("5 findings since ").is_some_and(|opened_at| !opened_at.is_empty()), "{first}");
    let sums = "In all: 5 critical, 1 kev\n\nprod-payments/ghcr.io/acme/api: 2 critical, 1 kev\n\n\
                prod-web/ghcr.io/acme/web: 3 critical";
    assert_eq!(rest, sums);

    let (subject, text) = only_email(&mails, "bob")?;
    assert_eq!(subject, "Your 8 documents have been received");
    let names: Vec<_> = (1..=8).rev().map(|n| format!("scan-{n}.pdf (application/pdf)")).collect();
    assert_eq!(text, names.join("\n"));
    Ok(())
}
