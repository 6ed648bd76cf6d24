//! Webhooks of providers through HTTP, store and workflow: the message, the address, the breaker and the open window.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_gateway::{
    AdmissionLimits, GatewayState,
    fetch::HttpFetcher,
    recorder::TrackingRecorder,
    routes, server,
    webhooks::{RelayWebhook, SigningSecret, WebhookContext, ses::CertificateCache},
};
use tidings_harness::{
    env::{Env, event, key, settings},
    wait::eventually,
};
use tidings_mail::words::LocalizedWords;
use tidings_model::{
    Provider,
    records::{MessageState, SuppressionReason},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use super::delivery_events::{collects, digest, know, state};

/// Made for this test.
const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";

/// Serves the webhook of the relay `default` over the store and the server of `env`.
async fn serve(env: &Env) -> Result<SocketAddr> {
    let mut hook = RelayWebhook::new(Provider::Other);
    hook.add_secret(SECRET).map_err(anyhow::Error::msg)?;
    let temporal = watch::channel(Some(env.temporal.clone())).1;
    let settings = Arc::new(env.settings.clone());
    let state = GatewayState {
        store: env.store.clone(),
        directory: None,
        settings: settings.clone(),
        words: Arc::new(LocalizedWords::new(None)?),
        recorder: TrackingRecorder::start(env.store.clone(), settings).0,
        temporal,
    };
    let webhooks = WebhookContext {
        state: state.clone(),
        hooks: [("default".to_owned(), hook)].into(),
        certificates: CertificateCache::new(HttpFetcher::new()),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let router = routes::router(state, webhooks, AdmissionLimits::default());
    tokio::spawn(server::serve(listener, router, server::ConnectionLimits::default(), CancellationToken::new()));
    Ok(address)
}

/// Posts signed events, and returns the status.
async fn post(to: SocketAddr, events: &Value) -> Result<u16> {
    let (body, now) = (events.to_string(), Timestamp::now().as_second());
    let signature = SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?.sign("id", now, body.as_bytes());
    let request = format!(
        "POST /webhooks/default HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: {}\r\nwebhook-id: id\r\n\
         webhook-timestamp: {now}\r\nwebhook-signature: {signature}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).context("no status")?.parse()?)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_reaches_message_address_breaker_and_open_window() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    know(&env, &["ann", "bo", "cy"]).await?;
    let (ann, bo, cy) = (key("activity", "ann"), key("activity", "bo"), key("activity", "cy"));
    let (to_ann, _) = digest(&env, &ann, "e1").await?;
    let (to_bo, _) = digest(&env, &bo, "e1").await?;
    let (to_cy, _) = digest(&env, &cy, "e1").await?;
    collects(&env, &ann, "e2").await?;
    let gateway = serve(&env).await?;
    let at = Timestamp::now().to_string();
    let events = json!([
        {"kind": "bounced", "bounce": "hard", "message": to_bo, "status": "5.1.1", "occurred_at": at},
        {"kind": "unsubscribed", "message": to_ann, "occurred_at": at},
        {"kind": "complained", "never_sent": true, "message": to_cy, "occurred_at": at},
        {"kind": "opened", "message": "00000000-0000-0000-0000-000000000000", "occurred_at": at},
        {"kind": "eaten"},
    ]);
    for _ in 0..2 {
        assert_eq!(post(gateway, &events).await?, 200);
    }

    assert_eq!(state(&env, to_bo).await?, (MessageState::Failed, "bounced: 5.1.1".to_owned()));
    assert_eq!(env.store.suppression_reasons("acme", "bo@example.net").await?, [SuppressionReason::HardBounce]);
    assert_eq!(state(&env, to_cy).await?, (MessageState::Failed, "complained, never sent".to_owned()));
    assert_eq!(env.store.suppression_reasons("acme", "cy@example.net").await?, [SuppressionReason::Complaint]);
    let breaker = env.store.breakers().await?.remove("default").context("nothing was counted")?.breaker;
    assert_eq!(breaker.bounced, 1, "the bounce, once");
    assert_eq!(env.count("SELECT COUNT(*) FROM delivery_events").await?, 3);
    assert_eq!(env.count("SELECT COUNT(*) FROM webhook_dead_letters WHERE relay = 'default'").await?, 1);

    // The window hears of the withdrawn consent long before it is due.
    let ended = async || {
        let last = env.store.digests(&ann, 1).await?.pop().and_then(|digest| digest.closed);
        Ok(last.filter(|closed| closed.outcome == DigestOutcome::Skipped))
    };
    let closed = eventually("the open window ends", Duration::from_mins(1), ended).await?;
    assert_eq!(closed.why, "the recipient opted out");

    // An address that bounced gets no digest.
    env.events.emit(event(&bo, "e2")).await?;
    env.completed(&bo).await?;
    assert_eq!(env.relay.mails().len(), 3);
    Ok(())
}
