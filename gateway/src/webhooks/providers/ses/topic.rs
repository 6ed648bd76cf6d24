//! Topics of SNS, and the only addresses that are fetched because of a request.

use std::fmt;

/// A topic of SNS that the operator configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    arn: String,
    host: String,
}

/// An address over HTTPS, built by [`Topic`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The host, on port 443.
    pub host: String,
    /// Path and query.
    pub path: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.host, self.path)
    }
}

const CERTIFICATE: &str = "/SimpleNotificationService-";
const CERTIFICATE_DIGITS: usize = 32;

impl Topic {
    /// Reads an Amazon resource name.
    ///
    /// # Errors
    /// Says what would be right.
    pub fn parse(arn: &str) -> Result<Self, String> {
        let wrong = || "is not the ARN of a topic, like arn:aws:sns:eu-west-1:123456789012:tidings-events".to_owned();
        let parts: Vec<_> = arn.split(':').collect();
        let ["arn", partition, "sns", region, account, name] = parts[..] else { return Err(wrong()) };
        let suffix = match partition {
            "aws" | "aws-us-gov" => "amazonaws.com",
            "aws-cn" => "amazonaws.com.cn",
            _ => return Err(wrong()),
        };
        let account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        if !account || !is_region(region) || !is_name(name) {
            return Err(wrong());
        }
        Ok(Self { arn: arn.to_owned(), host: format!("sns.{region}.{suffix}") })
    }

    /// The Amazon resource name.
    #[must_use]
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// The root of the server that has the certificates of the topic. SNS answers something there.
    #[must_use]
    pub fn server(&self) -> Address {
        Address { host: self.host.clone(), path: "/".to_owned() }
    }

    /// The address of the certificate that `url` names, or `None` if SNS has no certificate for this topic there.
    pub(crate) fn certificate(&self, url: &str) -> Option<Address> {
        let name = url.strip_prefix("https://")?.strip_prefix(&self.host)?.strip_prefix(CERTIFICATE)?;
        let digits = name.strip_suffix(".pem").filter(|digits| digits.len() == CERTIFICATE_DIGITS)?;
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let path = format!("{CERTIFICATE}{digits}.pem");
        digits.bytes().all(hex).then(|| Address { host: self.host.clone(), path })
    }

    /// The address that confirms a subscription.
    pub(super) fn confirmation(&self, token: &str) -> Address {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("Action", "ConfirmSubscription")
            .append_pair("TopicArn", &self.arn)
            .append_pair("Token", token);
        Address { host: self.host.clone(), path: format!("/?{}", query.finish()) }
    }
}

/// `eu-west-1`, `us-gov-west-1`: words, and a number at the end. The region of a bucket of S3 has fewer parts, or one like
/// `s3-us-west-2`, whose first word has a digit.
fn is_region(region: &str) -> bool {
    let Some((words, number)) = region.rsplit_once('-') else { return false };
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number && words.contains('-') && words.split('-').all(word)
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=256).contains(&name.len()) && name.bytes().all(fits)
}
