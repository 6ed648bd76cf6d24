//! A relay that says anything: the attempt ends, with a class.

use std::time::Duration;

use tidings_mail::smtp::{AttemptOutcome, PoolLimits, SendLane, SmtpEvent, SmtpMailer, SmtpTimeouts, classify};
use tidings_model::attempt::{AttemptClass, AttemptPhase};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    time::timeout,
};

use super::{lines::lines, presentable::assert_presentable, reply};

/// More than an attempt takes whose peer says all at once and hangs up.
const LONGEST: Duration = Duration::from_secs(10);
const FROM: &str = "digest@acme.example";
const TO: &str = "ann@recipient.example";
const MAIL: &[u8] = b"Subject: Hello\r\n\r\nHello\r\n";

thread_local! {
    /// Runs the attempts of a thread, and listens for them.
    static PEER: (Runtime, TcpListener) = {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a free port");
        (runtime, listener)
    };
}

/// All that a relay says, from its greeting on, before it hangs up; where it says `AUTH`, we log in. Each of its lines is
/// looked at as a reply of its own, too.
///
/// # Panics
/// Where a rule is broken.
pub fn smtp(bytes: &[u8]) {
    for line in lines(bytes) {
        let (code, text) = line.split_at_checked(3).unwrap_or(("", &line));
        reply::reply(code.parse().unwrap_or(550), text);
    }
    PEER.with(|(runtime, listener)| {
        let attempted = runtime.block_on(async { timeout(LONGEST, attempt(listener, bytes)).await });
        ended(&attempted.expect("an attempt ends"));
    });
}

async fn attempt(listener: &TcpListener, said: &[u8]) -> AttemptOutcome {
    let port = listener.local_addr().expect("the port is known").port();
    let offers_login = said.windows(4).any(|said| said == b"AUTH");
    let login = if offers_login { "digest:secret@" } else { "" };
    let relay = format!("smtp://{login}127.0.0.1:{port}").parse().expect("a relay");
    let mailer = SmtpMailer::new(relay, PoolLimits::default(), SmtpTimeouts::default()).expect("a mailer");
    let peer = async {
        let (socket, _) = listener.accept().await.expect("the attempt connects");
        say(socket, said).await;
    };
    let offer = async {
        let slot = mailer.acquire_slot(SendLane::Transactional, TO).await.expect("the mailer is open");
        let offered = slot.offer(FROM, TO, MAIL).await;
        let delivery = match offered {
            Ok(ready) => ready.send_dot().await,
            Err(delivery) => {
                let before = delivery.phase < AttemptPhase::Dot
                    && !matches!(delivery.class, AttemptClass::Sent | AttemptClass::Ambiguous);
                assert!(before, "{delivery:?}");
                delivery
            }
        };
        // With it go its connections, and the peer hears the end.
        drop(mailer);
        delivery
    };
    tokio::join!(offer, peer).0
}

/// Says it, hangs up, and listens to the end. The other side may be gone before.
async fn say(mut socket: TcpStream, said: &[u8]) {
    if socket.write_all(said).await.is_ok() {
        let _ = socket.shutdown().await;
        let mut heard = [0; 1024];
        while socket.read(&mut heard).await.is_ok_and(|count| count > 0) {}
    }
}

fn ended(delivery: &AttemptOutcome) {
    let AttemptOutcome { phase, reply, class, detail } = delivery;
    assert_presentable("a detail", detail, 2_000);
    assert!(!detail.is_empty() && !detail.contains(TO), "{detail}");
    assert_eq!(*class == AttemptClass::Sent, *phase == AttemptPhase::Done, "{delivery:?}");
    if let Some(reply) = reply {
        reply::fit(reply);
        let asked = if *phase == AttemptPhase::Done { AttemptPhase::Dot } else { *phase };
        assert_eq!(classify(asked, &SmtpEvent::Reply(reply.clone())), *class, "{delivery:?}");
    }
}
