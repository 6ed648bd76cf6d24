//! Links of single messages.

use tidings_model::settings::{DeliveryStreams, RecipientPages, ReturnPath, SenderIdentity, StreamSettings};
use tidings_store::SqliteStore;

use super::*;

fn settings() -> Settings {
    let sender = SenderIdentity {
        name: "Acme".into(),
        address: "a@b.example".parse().unwrap(),
        reply_to: None,
        domain: "b.example".into(),
    };
    let return_path = Some(ReturnPath { local: "bounce".into(), domain: "mail.b.example".into() });
    let stream = StreamSettings { return_path, ..StreamSettings::new(&[], sender) };
    Settings {
        pages: RecipientPages { public_url: Some("https://mail.b.example".into()), ..RecipientPages::default() },
        link_keys: Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap()),
        ..Settings::new(DeliveryStreams { bulk: stream.clone(), transactional: stream })
    }
}

async fn headers(stream: StreamName) -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
    store.migrate().await.unwrap();
    let submission = MessageSubmission {
        tenant: "acme".into(),
        idempotency_key: "k".into(),
        stream,
        to: SubmissionRecipient::Address { address: "ann@example.net".parse().unwrap(), name: String::new() },
        content: SubmissionContent::Parts { subject: "News".into(), text: "Hi".into(), html: None },
        reply_to: None,
        attachments: Vec::new(),
    };
    let (renderer, signers, settings) = (TemplateRenderer::new(None).unwrap(), TenantSigners::default(), settings());
    let key = MessageKey::new("acme".into(), "k".into()).unwrap();
    let (renderer, signers, settings) = (&renderer, &signers, &settings);
    let making =
        MessageBuilder { store: &store, directory: None, renderer, signers, settings, submission: &submission };
    String::from_utf8(making.message(key, String::new()).await.unwrap().bytes).unwrap()
}

#[tokio::test]
async fn bulk_messages_offer_to_unsubscribe_and_transactional_ones_do_not() {
    let bulk = headers(StreamName::Bulk).await;
    assert!(bulk.contains("<https://mail.b.example/u/AWZz") && bulk.contains("<mailto:bounce+"), "{bulk}");
    assert!(bulk.contains("\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"), "{bulk}");
    let transactional = headers(StreamName::Transactional).await;
    assert!(!transactional.contains("List-Unsubscribe"), "{transactional}");
}
