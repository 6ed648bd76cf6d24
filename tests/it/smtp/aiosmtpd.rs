//! The mailer against aiosmtpd, an independent server that is strict about the protocol.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use mail_parser::MessageParser;
use tidings_harness::{
    python::python,
    relay::{bytes, deliver, mailer, offer},
};
use tidings_model::attempt::{AttemptClass, AttemptPhase};
use tidings_needs::needs;

/// Takes mail for ann, tells every message by its base64 on standard output, and its port first.
const SERVER: &str = r#"
import asyncio, base64
from aiosmtpd.smtp import SMTP

class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if not address.startswith("ann@"):
            return "550 5.1.1 <%s>: no such user" % address
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 ok"

    async def handle_DATA(self, server, session, envelope):
        print(base64.b64encode(envelope.original_content).decode(), flush=True)
        return "250 2.0.0 kept"

async def main():
    loop = asyncio.get_running_loop()
    factory = lambda: SMTP(Handler(), data_size_limit=500000, enable_SMTPUTF8=True)
    server = await loop.create_server(factory, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"#;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[needs(python)]
#[tokio::test]
async fn aiosmtpd_gets_the_exact_bytes_and_its_replies_are_understood() -> Result<()> {
    let python = python()?;
    let child = Command::new(python).args(["-c", SERVER]).stdout(Stdio::piped()).spawn()?;
    let mut server = Server(child);
    let mut output = BufReader::new(server.0.stdout.take().context("no output")?).lines();
    let port = output.next().context("aiosmtpd did not start")??;
    let mailer = mailer(&format!("smtp://127.0.0.1:{port}"))?;

    for text in ["Three new comments\n", ".\n..\n.dots", "Grüße 🎉"] {
        let message = bytes(text);
        let ready = offer(&mailer, "ann@example.net", &message).await.expect("aiosmtpd takes it");
        assert_eq!(ready.send_dot().await.class, AttemptClass::Sent);
        let kept = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, output.next().context("no mail")??)?;
        assert_eq!(kept, message);
        let parsed = MessageParser::default().parse(&kept).context("no message")?;
        assert_eq!(
            parsed.body_text(0).map(|body| body.replace("\r\n", "\n").trim().to_owned()),
            Some(text.trim().into())
        );
    }

    let refused = deliver(&mailer, "bob@example.net").await;
    assert_eq!((refused.class, refused.phase), (AttemptClass::HardBounce, AttemptPhase::Rcpt));
    let large = offer(&mailer, "ann@example.net", &b"0123456789\r\n".repeat(50_000)).await.err();
    assert_eq!(large.map(|delivery| delivery.class), Some(AttemptClass::TooLarge));
    assert_eq!(deliver(&mailer, "ann@example.net").await.class, AttemptClass::Sent);
    Ok(())
}
