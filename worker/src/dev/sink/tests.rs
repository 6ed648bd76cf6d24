//! A raw socket against the sink.

use tokio::io::Lines;

use super::*;

struct Peer {
    answers: Lines<BufReader<tokio::net::tcp::OwnedReadHalf>>,
    write: tokio::net::tcp::OwnedWriteHalf,
    mailbox: Arc<Mailbox>,
    _folder: tempfile::TempDir,
}

impl Peer {
    async fn connect() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Arc::new(Mailbox::open(folder.path()).await.unwrap());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::clone(&mailbox)));
        let (read, write) = TcpStream::connect(address).await.unwrap().into_split();
        let mut peer = Self { answers: BufReader::new(read).lines(), write, mailbox, _folder: folder };
        assert_eq!(peer.answer().await, "220");
        peer
    }

    /// The code of the next answer, past its continuation lines.
    async fn answer(&mut self) -> String {
        loop {
            let line = self.answers.next_line().await.unwrap().expect("the sink hung up");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line[..3].to_owned();
            }
        }
    }

    async fn say(&mut self, text: &str) -> String {
        self.write.write_all(text.as_bytes()).await.unwrap();
        self.answer().await
    }

    async fn envelope(&mut self) {
        assert_eq!(self.say("EHLO laptop\r\n").await, "250");
        assert_eq!(self.say("MAIL FROM:<digest@tidings.invalid> BODY=8BITMIME\r\n").await, "250");
        assert_eq!(self.say("RCPT TO:<ann@dev.invalid>\r\n").await, "250");
        assert_eq!(self.say("DATA\r\n").await, "354");
    }
}

#[tokio::test]
async fn a_mail_is_kept_as_it_was_sent_with_its_envelope_above() {
    let mut peer = Peer::connect().await;
    peer.envelope().await;
    assert_eq!(peer.say("Subject: hello\r\n\r\n..a dot\r\nand 8 bits: é\r\n.\r\n").await, "250");

    let listed = peer.mailbox.list_emails();
    assert_eq!(listed.len(), 1);
    let kept = peer.mailbox.read_email(listed[0].id).await.unwrap().unwrap();
    let expected = "Return-Path: <digest@tidings.invalid>\r\nDelivered-To: ann@dev.invalid\r\n\
                    Subject: hello\r\n\r\n.a dot\r\nand 8 bits: é\r\n";
    assert_eq!(String::from_utf8(kept).unwrap(), expected);
    assert_eq!(peer.say("QUIT\r\n").await, "221");
}

#[tokio::test]
async fn pipelined_commands_are_answered_in_order() {
    let mut peer = Peer::connect().await;
    assert_eq!(peer.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n").await, "250");
    assert_eq!(peer.answer().await, "250");
    assert_eq!(peer.answer().await, "354");
    assert_eq!(peer.say("Subject: x\r\n\r\n.\r\nNOOP\r\n").await, "250");
    assert_eq!(peer.answer().await, "250");
    assert_eq!(peer.mailbox.list_emails().len(), 1);
}

#[tokio::test]
async fn a_mail_over_the_limit_is_refused_and_the_session_goes_on() {
    let mut peer = Peer::connect().await;
    peer.envelope().await;
    let line = format!("{}\r\n", "x".repeat(1 << 20));
    for _ in 0..=MAX_MAIL_BYTES >> 20 {
        peer.write.write_all(line.as_bytes()).await.unwrap();
    }
    assert_eq!(peer.say(".\r\n").await, "552");
    assert!(peer.mailbox.list_emails().is_empty());
    peer.envelope().await;
}
