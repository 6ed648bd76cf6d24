//! DKIM signatures (RFC 6376; relaxed/relaxed). We sign once, before the outbox, so every attempt sends the
//! same bytes.

use std::{collections::BTreeMap, fmt, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use ring::{
    digest::{SHA256, digest},
    error::KeyRejected,
    rand::SystemRandom,
    rsa,
    signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256},
};
use rustls::{
    pki_types::{PrivateKeyDer, alg_id, pem::PemObject},
    sign::public_key_to_spki,
};
use tidings_model::settings::StreamName;

use crate::MailError;

#[cfg(test)]
mod tests;

/// Headers to sign if present, besides all `List-*` headers (required by RFC 8058). Not `Content-Type`, which
/// some relays rewrite.
const SIGNED: [&str; 11] = [
    "from",
    "to",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "reply-to",
    "in-reply-to",
    "references",
    "feedback-id",
    "auto-submitted",
];
/// Listed in `h=` once more than they occur, so adding another breaks the signature (RFC 6376 8.15). RFC 5322
/// 3.6 allows each only once. Not `List-*` and `Feedback-ID`, which a relay may add for us.
const ONCE: [&str; 6] = ["from", "to", "subject", "date", "message-id", "reply-to"];
/// Names per line in `h=`, and base64 characters per line.
const LINE_NAMES: usize = 4;
const LINE_CHARS: usize = 72;

/// `Debug` hides the key.
#[derive(Clone, Debug)]
pub struct DkimSigner {
    selector: String,
    domain: String,
    key: Arc<DkimPrivateKey>,
    second: Option<Box<DkimSigner>>,
}

impl DkimSigner {
    /// Reads the private key in `pem`: RSA with 2048 to 4096 bits as PKCS#1 or PKCS#8, or Ed25519 as PKCS#8.
    /// `selector` and `domain` are DNS names.
    ///
    /// # Errors
    /// [`MailError::DkimKey`] has the problem, but never the key.
    pub fn new(selector: &str, domain: &str, pem: &[u8]) -> Result<Self, MailError> {
        let key = DkimPrivateKey::from_pem(pem)?;
        // An RSA key with inconsistent parts only fails when it signs, so try it now.
        key.sign(b"")?;
        Ok(Self { selector: selector.to_owned(), domain: domain.to_owned(), key: Arc::new(key), second: None })
    }

    /// RFC 8463 3 recommends RSA beside Ed25519.
    #[must_use]
    pub fn with_second(self, second: Option<Self>) -> Self {
        Self { second: second.map(Box::new), ..self }
    }

    #[must_use]
    pub fn second_signer(&self) -> Option<&Self> {
        self.second.as_deref()
    }

    /// Returns `true` if all signatures use Ed25519, which many receivers cannot verify.
    #[must_use]
    pub fn is_ed25519_alone(&self) -> bool {
        let mut keys = [Some(self), self.second_signer()].into_iter().flatten();
        keys.all(|dkim| dkim.key.kind() == "ed25519")
    }

    /// Either `rsa-sha256` or `ed25519-sha256` (RFC 8463).
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        self.key.algorithm()
    }

    /// DNS name for the TXT record.
    #[must_use]
    pub fn record_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    #[must_use]
    pub fn dns_record(&self) -> String {
        format!("v=DKIM1; k={}; p={}", self.key.kind(), BASE64_STANDARD.encode(self.key.public()))
    }

    /// Prepends the signatures. The same message, time and keys always give the same bytes.
    ///
    /// # Errors
    /// [`MailError::DkimKey`] if a key cannot sign.
    pub fn sign(&self, message: &[u8], at: Timestamp) -> Result<Vec<u8>, MailError> {
        let second = self.second_signer().map(|second| second.signature(message, at)).transpose()?.unwrap_or_default();
        Ok([&self.signature(message, at)?, &second, message].concat())
    }

    fn signature(&self, message: &[u8], at: Timestamp) -> Result<Vec<u8>, MailError> {
        let (head, body) = split(message);
        let (names, mut signed) = signed_headers(head);
        let mut header = self.header(&names, body, at);
        canonical_header(header.as_bytes(), &mut signed);
        signed.truncate(signed.len() - b"\r\n".len());
        let signature = BASE64_STANDARD.encode(self.key.sign(&signed)?);
        header.extend(signature.char_indices().flat_map(|(at, char)| {
            let fold = if at % LINE_CHARS == 0 { "\r\n\t" } else { "" };
            fold.chars().chain([char])
        }));
        header.push_str("\r\n");
        Ok(header.into_bytes())
    }

    fn header(&self, names: &[String], body: &[u8], at: Timestamp) -> String {
        let Self { selector, domain, .. } = self;
        let algorithm = self.algorithm();
        let names: Vec<_> = names.chunks(LINE_NAMES).map(|names| names.join(":")).collect();
        let names = names.join(":\r\n\t");
        let body = BASE64_STANDARD.encode(digest(&SHA256, &canonical_body(body)));
        let at = at.max(Timestamp::UNIX_EPOCH).as_second();
        format!(
            "DKIM-Signature: v=1; a={algorithm}; c=relaxed/relaxed; t={at};\r\n\td={domain};\r\n\ts={selector};\r\n\t\
             h={names};\r\n\tbh={body};\r\n\tb="
        )
    }
}

#[must_use]
pub fn strip_signatures(message: &[u8]) -> &[u8] {
    let (head, _) = split(message);
    let signatures = fields(head).into_iter().take_while(|field| name(field) == "dkim-signature");
    &message[signatures.map(<[u8]>::len).sum()..]
}

/// Names for `h=` and their canonical headers.
fn signed_headers(head: &[u8]) -> (Vec<String>, Vec<u8>) {
    let mut names = Vec::new();
    let mut signed = Vec::new();
    // RFC 6376 5.4.2: take headers with the same name from the bottom up.
    for field in fields(head).into_iter().rev() {
        let name = name(field);
        if name.starts_with("list-") || SIGNED.contains(&name.as_str()) {
            canonical_header(field, &mut signed);
            names.push(name);
        }
    }
    names.extend(ONCE.map(str::to_owned));
    (names, signed)
}

// Relaxed canonicalisation (RFC 6376 3.4.2 and 3.4.4) removes differences that relays may introduce.

fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let end = message.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, body) = message.split_at(end.map_or(message.len(), |end| end + 2));
    (head, body.strip_prefix(b"\r\n").unwrap_or(body))
}

fn fields(head: &[u8]) -> Vec<&[u8]> {
    let starts = head.windows(3).enumerate().filter(|(_, bytes)| bytes.starts_with(b"\r\n") && !is_space(bytes[2]));
    let starts: Vec<_> = [0].into_iter().chain(starts.map(|(at, _)| at + 2)).chain([head.len()]).collect();
    starts.windows(2).map(|ends| &head[ends[0]..ends[1]]).filter(|field| !field.is_empty()).collect()
}

fn name(field: &[u8]) -> String {
    let name = field.split(|byte| *byte == b':').next().unwrap_or_default();
    String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase()
}

/// Lower-case name, one line, single spaces.
fn canonical_header(field: &[u8], out: &mut Vec<u8>) {
    let value = field.iter().position(|byte| *byte == b':').map_or(&[][..], |colon| &field[colon + 1..]);
    out.extend_from_slice(name(field).as_bytes());
    out.push(b':');
    let breaks_or_space = |byte: &u8| is_space(*byte) || matches!(byte, b'\r' | b'\n');
    let words: Vec<_> = value.split(breaks_or_space).filter(|word| !word.is_empty()).collect();
    out.extend(words.join(&b' '));
    out.extend_from_slice(b"\r\n");
}

/// Collapses spaces, and drops empty lines at the end.
fn canonical_body(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 2);
    for line in body.split(|byte| *byte == b'\n') {
        line_of_body(line.strip_suffix(b"\r").unwrap_or(line), &mut out);
        out.extend_from_slice(b"\r\n");
    }
    while out.ends_with(b"\r\n\r\n") {
        out.truncate(out.len() - 2);
    }
    if out == b"\r\n" {
        out.clear();
    }
    out
}

fn line_of_body(line: &[u8], out: &mut Vec<u8>) {
    let mut space = false;
    for byte in line {
        if is_space(*byte) {
            space = true;
            continue;
        }
        if space {
            out.push(b' ');
        }
        space = false;
        out.push(*byte);
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

const RIGHT: &str = "RSA of 2048 to 4096 bits, or Ed25519, as it comes from \"openssl genpkey -algorithm rsa -pkeyopt \
                     rsa_keygen_bits:2048\" or \"openssl genpkey -algorithm ed25519\"";

/// RFC 8301 recommends 2048 bits for RSA; receivers may ignore signatures with less than 1024.
enum DkimPrivateKey {
    Rsa(rsa::KeyPair),
    Ed25519(Ed25519KeyPair),
}

impl DkimPrivateKey {
    pub fn from_pem(pem: &[u8]) -> Result<Self, MailError> {
        // Do not show the parser's error: it may quote lines from the key.
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
            MailError::DkimKey(format!("there is no private key in PEM without a password; use {RIGHT}"))
        })?;
        let refused = |why: KeyRejected| MailError::DkimKey(format!("the key is refused ({why}); use {RIGHT}"));
        match &der {
            PrivateKeyDer::Pkcs1(key) => rsa::KeyPair::from_der(key.secret_pkcs1_der()).map(Self::Rsa),
            PrivateKeyDer::Pkcs8(key) => {
                let key = key.secret_pkcs8_der();
                // The checking parser requires the public key in the file, but OpenSSL does not write it.
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(key)
                    .map(Self::Ed25519)
                    .or_else(|_| rsa::KeyPair::from_pkcs8(key).map(Self::Rsa))
            }
            _ => return Err(MailError::DkimKey(format!("the key is neither RSA nor Ed25519; use {RIGHT}"))),
        }
        .map_err(refused)
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa-sha256",
            Self::Ed25519(_) => "ed25519-sha256",
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa",
            Self::Ed25519(_) => "ed25519",
        }
    }

    /// Value for `p=` in the DNS record: a SubjectPublicKeyInfo for RSA (erratum 3017 of RFC 6376), the bare
    /// key for Ed25519 (RFC 8463 4).
    pub fn public(&self) -> Vec<u8> {
        match self {
            Self::Rsa(key) => public_key_to_spki(&alg_id::RSA_ENCRYPTION, key.public_key()).to_vec(),
            Self::Ed25519(key) => key.public_key().as_ref().to_vec(),
        }
    }

    /// Ed25519 signs the hash (RFC 8463 3).
    pub fn sign(&self, data: &[u8]) -> Result<Vec<u8>, MailError> {
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), data, &mut signature).map_err(|_| {
                    MailError::DkimKey("the key does not sign: its parts contradict each other".to_owned())
                })?;
                Ok(signature)
            }
            Self::Ed25519(key) => Ok(key.sign(digest(&SHA256, data).as_ref()).as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for DkimPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, ***)", self.algorithm())
    }
}

/// Unless the relay signs.
#[derive(Clone, Debug, Default)]
pub struct TenantSigners {
    pub general: StreamSigners,
    /// These override the general keys.
    pub tenants: BTreeMap<String, StreamSigners>,
}

/// A stream without a key stays unsigned.
#[derive(Clone, Debug, Default)]
pub struct StreamSigners {
    pub bulk: Option<DkimSigner>,
    pub transactional: Option<DkimSigner>,
}

impl TenantSigners {
    /// Signs a tenant's message. If this fails, do not send it unsigned: receivers would treat it as forged.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, tenant: &str, stream: StreamName, bytes: Vec<u8>, at: Timestamp) -> Result<Vec<u8>, MailError> {
        match self.signer_for(tenant, stream) {
            Some(dkim) => dkim.sign(&bytes, at),
            None => Ok(bytes),
        }
    }

    /// DNS name and text for each key signing this tenant's messages.
    #[must_use]
    pub fn dns_records(&self, tenant: &str, stream: StreamName) -> Vec<[String; 2]> {
        let first = self.signer_for(tenant, stream);
        let keys = [first, first.and_then(DkimSigner::second_signer)].into_iter().flatten();
        keys.map(|dkim| [dkim.record_name(), dkim.dns_record()]).collect()
    }

    pub fn all_records(&self) -> impl Iterator<Item = String> {
        let streams = [&self.general].into_iter().chain(self.tenants.values());
        let first = streams.flat_map(|of| [&of.bulk, &of.transactional]).flatten();
        first
            .flat_map(|dkim| [Some(dkim), dkim.second_signer()])
            .flatten()
            .map(|dkim| dkim.record_name() + " " + &dkim.dns_record())
    }

    fn signer_for(&self, tenant: &str, stream: StreamName) -> Option<&DkimSigner> {
        let StreamSigners { bulk, transactional } = self.tenants.get(tenant).unwrap_or(&self.general);
        match stream {
            StreamName::Transactional => transactional.as_ref(),
            StreamName::Bulk => bulk.as_ref(),
        }
    }
}
