//! Suppression lists from other providers.

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use tidings_model::records::Reason;

use crate::error::Usage;

/// Looks up a column, empty if missing.
pub(super) type Values<'a> = &'a dyn Fn(&str) -> String;
/// The wrong field, and the remedy.
pub(super) type Problem = (&'static str, String);

pub(super) const HELP: &str = "Examples:\n  \
    tidings suppressions import sendgrid-bounces.csv --tenant acme\n  \
    tidings suppressions import spam-reports.csv --tenant acme --reason complaint\n  \
    aws sesv2 list-suppressed-destinations | jq -c '.SuppressedDestinationSummaries[]' |\n    \
    tidings suppressions import - --tenant acme\n\n\
    The first line of a CSV file, or the names in the first line of NDJSON, say the format:\n  \
    sendgrid  status,reason,email,created\n  \
    mailgun   address,code,error,created_at or address,tags,created_at\n  \
    postmark  EmailAddress,SuppressionReason,Origin,CreatedAt\n  \
    ses       EmailAddress,Reason,LastUpdateTime\n  \
    mailjet   Email,IsExcludedFromCampaigns,IsSpamComplaining,UnsubscribedAt,...\n  \
    tidings   address,reason,detail,at\n\n\
    Spam reports and unsubscribes of SendGrid, and complaints of Mailgun, do not say their reason: give --reason.";

/// The origin of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// The lines of `tidings suppressions list --json`, or a file with the same columns
    Tidings,
    /// Bounces, invalid emails, spam reports or unsubscribes of SendGrid
    Sendgrid,
    /// Bounces, complaints or unsubscribes of Mailgun
    Mailgun,
    /// Suppressions of Postmark
    Postmark,
    /// The account-level suppression list of Amazon SES
    Ses,
    /// Contacts of Mailjet
    Mailjet,
}

impl Format {
    const ALL: [Self; 6] = [Self::Tidings, Self::Sendgrid, Self::Mailgun, Self::Postmark, Self::Ses, Self::Mailjet];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tidings => "tidings",
            Self::Sendgrid => "sendgrid",
            Self::Mailgun => "mailgun",
            Self::Postmark => "postmark",
            Self::Ses => "ses",
            Self::Mailjet => "mailjet",
        }
    }

    const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Tidings => &["tenant", "address", "reason", "detail", "at"],
            // Exports of the console; spam reports have `ip`.
            Self::Sendgrid => &["email", "created", "status", "reason", "ip"],
            // documentation.mailgun.com, imports of bounces, complaints and unsubscribes.
            Self::Mailgun => &["address", "created_at", "code", "error", "tags"],
            // postmarkapp.com/developer/api/suppressions-api
            Self::Postmark => &["EmailAddress", "SuppressionReason", "CreatedAt", "Origin"],
            // SES API v2, SuppressedDestinationSummary.
            Self::Ses => &["EmailAddress", "Reason", "LastUpdateTime"],
            // dev.mailjet.com, resource contact.
            Self::Mailjet => &[
                "Email",
                "IsExcludedFromCampaigns",
                "IsSpamComplaining",
                "UnsubscribedAt",
                "ExclusionFromCampaignsUpdatedAt",
                "ID",
                "Name",
                "CreatedAt",
                "DeliveredCount",
                "IsOptInPending",
                "LastActivityAt",
                "LastUpdateAt",
                "UnsubscribedBy",
            ],
        }
    }

    /// Without these columns, a list has another format.
    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Tidings => &["address", "reason"],
            Self::Sendgrid => &["email", "created"],
            Self::Mailgun => &["address", "created_at"],
            Self::Postmark => &["EmailAddress", "SuppressionReason"],
            Self::Ses => &["EmailAddress", "Reason"],
            Self::Mailjet => &["Email", "IsExcludedFromCampaigns"],
        }
    }

    /// Finds the format by its columns.
    ///
    /// # Errors
    /// No format matches, or a column is missing or unknown. The message names it, or the known formats.
    pub fn of(columns: &[String], wanted: Option<Self>) -> Result<Self, Usage> {
        let has =
            |format: Self| format.required().iter().all(|required| columns.iter().any(|column| column == required));
        let unknown = |format: Self| columns.iter().find(|column| !format.columns().contains(&column.as_str()));
        let Some(format) = wanted.or_else(|| Self::ALL.into_iter().find(|format| has(*format))) else {
            let known: Vec<_> = Self::ALL.iter().map(|format| format!("\n  {}", format.words())).collect();
            let columns = columns.join(",");
            return Err(Usage(format!(
                "no format has the columns {columns}; the first line names one of{}",
                known.concat()
            )));
        };
        match unknown(format) {
            Some(column) => Err(Usage(format!("column {column:?} is unknown; {}", format.words()))),
            None if has(format) => Ok(format),
            None => Err(Usage(format!("a column is missing; {}", format.words()))),
        }
    }

    fn words(self) -> String {
        let required = self.required();
        let optional: Vec<_> = self.columns().iter().filter(|column| !required.contains(column)).copied().collect();
        format!("{}: {}, and perhaps {}", self.name(), required.join(","), optional.join(","))
    }

    pub const fn address(self) -> &'static str {
        match self {
            Self::Tidings | Self::Mailgun => "address",
            Self::Sendgrid => "email",
            Self::Postmark | Self::Ses => "EmailAddress",
            Self::Mailjet => "Email",
        }
    }

    /// Returns `None` if the row's address is not suppressed.
    pub fn reason(self, value: Values<'_>) -> Result<Option<Reason>, Problem> {
        match self {
            Self::Tidings => {
                let written = value("reason");
                let known = Reason::named(&written);
                known.map(Some).ok_or_else(|| ("reason", unknown(&written, &Reason::ALL.map(Reason::name))))
            }
            Self::Sendgrid => permanent(&value("status"), &value("reason"), "status").map(Some),
            Self::Mailgun if !value("tags").is_empty() => Ok(Some(Reason::Unsubscribed)),
            Self::Mailgun => permanent(&value("code"), "", "code").map(Some),
            Self::Postmark => among(
                "SuppressionReason",
                &value("SuppressionReason"),
                &[
                    ("HardBounce", Reason::HardBounce),
                    ("SpamComplaint", Reason::Complaint),
                    ("ManualSuppression", Reason::Unsubscribed),
                ],
            ),
            Self::Ses => {
                let known = [("BOUNCE", Reason::HardBounce), ("COMPLAINT", Reason::Complaint)];
                among("Reason", &value("Reason"), &known)
            }
            Self::Mailjet if is_true(&value("IsSpamComplaining")) => Ok(Some(Reason::Complaint)),
            Self::Mailjet => {
                let unsubscribed = !value("UnsubscribedAt").is_empty() || is_true(&value("IsExcludedFromCampaigns"));
                Ok(unsubscribed.then_some(Reason::Unsubscribed))
            }
        }
    }

    /// Returns `None` if the row has no time.
    pub fn since(self, value: Values<'_>) -> Result<Option<Timestamp>, Problem> {
        let columns: &[&str] = match self {
            Self::Tidings => &["at"],
            Self::Sendgrid => &["created"],
            Self::Mailgun => &["created_at"],
            Self::Postmark => &["CreatedAt"],
            Self::Ses => &["LastUpdateTime"],
            Self::Mailjet => &["UnsubscribedAt", "ExclusionFromCampaignsUpdatedAt"],
        };
        let Some((column, written)) =
            columns.iter().map(|column| (*column, value(column))).find(|(_, written)| !written.is_empty())
        else {
            return Ok(None);
        };
        let right = "is not a time; write for example 2026-11-24T08:00:00Z";
        time(&written).map(Some).ok_or_else(|| (column, format!("{written:?} {right}")))
    }
}

/// Permanent means SMTP code 5xx. If `code` is empty, `text` may begin with one.
fn permanent(code: &str, text: &str, column: &'static str) -> Result<Reason, Problem> {
    match [code, text].into_iter().find_map(|said| said.bytes().next().filter(u8::is_ascii_digit)) {
        Some(b'5') => Ok(Reason::HardBounce),
        Some(_) => Err((
            column,
            format!("{code:?} is a temporary failure, which suppresses nothing; --reason decides otherwise"),
        )),
        None => Err((column, "does not say why the address is suppressed; name the reason with --reason".to_owned())),
    }
}

fn among(column: &'static str, written: &str, known: &[(&str, Reason)]) -> Result<Option<Reason>, Problem> {
    let found = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(written));
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    found.map(|(_, reason)| Some(*reason)).ok_or_else(|| (column, unknown(written, &names)))
}

fn unknown(written: &str, known: &[&str]) -> String {
    format!("{written:?} is not a reason; write one of {}", known.join(", "))
}

fn is_true(written: &str) -> bool {
    written.eq_ignore_ascii_case("true") || written == "1"
}

/// Accepts RFC 3339, RFC 2822, or seconds since 1970.
fn time(written: &str) -> Option<Timestamp> {
    // Mailgun writes the zone as `UTC`, which RFC 2822 does not allow.
    let mail = written.strip_suffix("UTC").map_or_else(|| written.to_owned(), |time| format!("{time}+0000"));
    let seconds = written.parse::<f64>().ok().and_then(|seconds| jiff::SignedDuration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.and_then(|seconds| Timestamp::from_duration(seconds).ok());
    written.parse().ok().or(seconds).or_else(|| DateTimeParser::new().parse_timestamp(&mail).ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(header: &str, wanted: Option<Format>) -> Result<Format, String> {
        let columns: Vec<_> = header.split(',').map(str::to_owned).collect();
        Format::of(&columns, wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn the_columns_say_the_format() {
        for (header, format) in [
            ("address,reason", Format::Tidings),
            ("tenant,address,reason,detail,at", Format::Tidings),
            ("status,reason,email,created", Format::Sendgrid),
            ("ip,email,created", Format::Sendgrid),
            ("email,created", Format::Sendgrid),
            ("address,code,error,created_at", Format::Mailgun),
            ("address,tags,created_at", Format::Mailgun),
            ("EmailAddress,SuppressionReason,Origin,CreatedAt", Format::Postmark),
            ("EmailAddress,Reason,LastUpdateTime", Format::Ses),
            ("ID,Email,IsExcludedFromCampaigns,IsSpamComplaining,UnsubscribedAt", Format::Mailjet),
        ] {
            assert_eq!(of(header, None), Ok(format), "{header}");
        }
    }

    #[test]
    fn a_column_that_the_format_does_not_have_is_named() {
        for (header, wanted, says) in [
            ("email,created,sender", None, "column \"sender\" is unknown; sendgrid: email,created, and perhaps status"),
            (
                "mail,since",
                None,
                "no format has the columns mail,since; the first line names one of\n  tidings: address",
            ),
            ("address,reason", Some(Format::Ses), "column \"address\" is unknown; ses: EmailAddress,Reason"),
            ("EmailAddress", Some(Format::Ses), "a column is missing; ses: EmailAddress,Reason"),
        ] {
            let error = of(header, wanted).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
    }

    fn row(row: &[(&'static str, &'static str)]) -> impl Fn(&str) -> String {
        let row: BTreeMap<_, _> = row.iter().copied().collect();
        move |column| row.get(column).copied().unwrap_or_default().to_owned()
    }

    #[test]
    fn reasons_are_those_of_the_provider() {
        for (format, values, reason) in [
            (Format::Tidings, &[("reason", "complaint")][..], Some(Reason::Complaint)),
            (Format::Sendgrid, &[("status", "5.1.1"), ("reason", "550 no such user")], Some(Reason::HardBounce)),
            (Format::Sendgrid, &[("reason", "550 no such user")], Some(Reason::HardBounce)),
            (Format::Mailgun, &[("code", "550")], Some(Reason::HardBounce)),
            (Format::Mailgun, &[("tags", "*")], Some(Reason::Unsubscribed)),
            (Format::Postmark, &[("SuppressionReason", "HardBounce")], Some(Reason::HardBounce)),
            (Format::Postmark, &[("SuppressionReason", "SpamComplaint")], Some(Reason::Complaint)),
            (Format::Postmark, &[("SuppressionReason", "ManualSuppression")], Some(Reason::Unsubscribed)),
            (Format::Ses, &[("Reason", "BOUNCE")], Some(Reason::HardBounce)),
            (Format::Ses, &[("Reason", "COMPLAINT")], Some(Reason::Complaint)),
            (Format::Mailjet, &[("IsSpamComplaining", "true")], Some(Reason::Complaint)),
            (Format::Mailjet, &[("IsExcludedFromCampaigns", "True")], Some(Reason::Unsubscribed)),
            (Format::Mailjet, &[("UnsubscribedAt", "2026-01-01T00:00:00Z")], Some(Reason::Unsubscribed)),
            (Format::Mailjet, &[("IsExcludedFromCampaigns", "false")], None),
        ] {
            assert_eq!(format.reason(&row(values)), Ok(reason), "{format:?} {values:?}");
        }
        for (format, values, field, says) in [
            (
                Format::Tidings,
                &[("reason", "bounce")][..],
                "reason",
                "\"bounce\" is not a reason; write one of hard_bounce",
            ),
            (Format::Sendgrid, &[("status", "4.2.2")], "status", "\"4.2.2\" is a temporary failure"),
            (
                Format::Sendgrid,
                &[],
                "status",
                "does not say why the address is suppressed; name the reason with --reason",
            ),
            (Format::Mailgun, &[("code", "452")], "code", "temporary failure"),
            (Format::Ses, &[("Reason", "")], "Reason", "write one of BOUNCE, COMPLAINT"),
        ] {
            let (wrong, problem) = format.reason(&row(values)).unwrap_err();
            assert!(wrong == field && problem.contains(says), "{wrong}: {problem}");
        }
    }

    #[test]
    fn times_are_those_of_the_provider() {
        let time = "2026-11-20T08:00:00Z".parse().unwrap();
        for (format, column, written) in [
            (Format::Tidings, "at", "2026-11-20T08:00:00Z"),
            (Format::Sendgrid, "created", "1795161600"),
            (Format::Mailgun, "created_at", "Fri, 20 Nov 2026 08:00:00 UTC"),
            (Format::Mailgun, "created_at", "Fri, 20 Nov 2026 08:00:00 GMT"),
            (Format::Postmark, "CreatedAt", "2026-11-20T03:00:00-05:00"),
            (Format::Ses, "LastUpdateTime", "1795161600.000"),
            (Format::Mailjet, "ExclusionFromCampaignsUpdatedAt", "2026-11-20T08:00:00Z"),
        ] {
            assert_eq!(format.since(&row(&[(column, written)])), Ok(Some(time)), "{format:?} {written}");
        }
        assert_eq!(Format::Ses.since(&row(&[])), Ok(None));
        let (field, problem) = Format::Sendgrid.since(&row(&[("created", "yesterday")])).unwrap_err();
        assert!(field == "created" && problem.starts_with("\"yesterday\" is not a time"), "{problem}");
    }
}
