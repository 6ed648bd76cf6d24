//! Suppression lists from other providers.

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use tidings_model::records::SuppressionReason;

use crate::error::UsageError;

/// Looks up a column, empty if missing.
pub(super) type RowValues<'a> = &'a dyn Fn(&str) -> String;
/// The wrong field, and the remedy.
pub(super) type FieldProblem = (&'static str, String);

pub(super) const HELP: &str = "Examples:\n  \
    tidings suppressions import sendgrid-bounces.csv --tenant acme\n  \
    tidings suppressions import spam-reports.csv --tenant acme --reason complaint\n  \
    aws sesv2 list-suppressed-destinations | jq -c '.SuppressedDestinationSummaries[]' |\n    \
    tidings suppressions import - --tenant acme\n\n\
    The first line of a CSV file, or the names in the first line of NDJSON, decide the format:\n  \
    sendgrid  status,reason,email,created\n  \
    mailgun   address,code,error,created_at or address,tags,created_at\n  \
    postmark  EmailAddress,SuppressionReason,Origin,CreatedAt\n  \
    ses       EmailAddress,Reason,LastUpdateTime\n  \
    mailjet   Email,IsExcludedFromCampaigns,IsSpamComplaining,UnsubscribedAt,...\n  \
    tidings   address,reason,detail,at\n\n\
    Spam reports and unsubscribes of SendGrid, and complaints of Mailgun, have no reason column: use --reason.";

/// The origin of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ListFormat {
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

impl ListFormat {
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
    pub fn detect_format(columns: &[String], wanted: Option<Self>) -> Result<Self, UsageError> {
        let has =
            |format: Self| format.required().iter().all(|required| columns.iter().any(|column| column == required));
        let unknown = |format: Self| columns.iter().find(|column| !format.columns().contains(&column.as_str()));
        let Some(format) = wanted.or_else(|| Self::ALL.into_iter().find(|format| has(*format))) else {
            let known: Vec<_> = Self::ALL.iter().map(|format| format!("\n  {}", format.describe_columns())).collect();
            let columns = columns.join(",");
            return Err(UsageError(format!(
                "no format has the columns {columns}; the first line names one of{}",
                known.concat()
            )));
        };
        match unknown(format) {
            Some(column) => Err(UsageError(format!("column {column:?} is unknown; {}", format.describe_columns()))),
            None if has(format) => Ok(format),
            None => Err(UsageError(format!("a column is missing; {}", format.describe_columns()))),
        }
    }

    fn describe_columns(self) -> String {
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
    pub fn parse_reason(self, value: RowValues<'_>) -> Result<Option<SuppressionReason>, FieldProblem> {
        match self {
            Self::Tidings => {
                let written = value("reason");
                let known = SuppressionReason::named(&written);
                known.map(Some).ok_or_else(|| {
                    ("reason", unknown_reason(&written, &SuppressionReason::ALL.map(SuppressionReason::name)))
                })
            }
            Self::Sendgrid => bounce_reason(&value("status"), &value("reason"), "status").map(Some),
            Self::Mailgun if !value("tags").is_empty() => Ok(Some(SuppressionReason::Unsubscribed)),
            Self::Mailgun => bounce_reason(&value("code"), "", "code").map(Some),
            Self::Postmark => reason_among(
                "SuppressionReason",
                &value("SuppressionReason"),
                &[
                    ("HardBounce", SuppressionReason::HardBounce),
                    ("SpamComplaint", SuppressionReason::Complaint),
                    ("ManualSuppression", SuppressionReason::Unsubscribed),
                ],
            ),
            Self::Ses => {
                let known = [("BOUNCE", SuppressionReason::HardBounce), ("COMPLAINT", SuppressionReason::Complaint)];
                reason_among("Reason", &value("Reason"), &known)
            }
            Self::Mailjet if is_true(&value("IsSpamComplaining")) => Ok(Some(SuppressionReason::Complaint)),
            Self::Mailjet => {
                let unsubscribed = !value("UnsubscribedAt").is_empty() || is_true(&value("IsExcludedFromCampaigns"));
                Ok(unsubscribed.then_some(SuppressionReason::Unsubscribed))
            }
        }
    }

    /// Returns `None` if the row has no time.
    pub fn parse_since(self, value: RowValues<'_>) -> Result<Option<Timestamp>, FieldProblem> {
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
        parse_time(&written).map(Some).ok_or_else(|| (column, format!("{written:?} {right}")))
    }
}

/// Permanent means SMTP code 5xx. If `code` is empty, `text` may begin with one.
fn bounce_reason(code: &str, text: &str, column: &'static str) -> Result<SuppressionReason, FieldProblem> {
    match [code, text].into_iter().find_map(|said| said.bytes().next().filter(u8::is_ascii_digit)) {
        Some(b'5') => Ok(SuppressionReason::HardBounce),
        Some(_) => Err((
            column,
            format!("{code:?} is a temporary failure, which suppresses nothing; --reason decides otherwise"),
        )),
        None => Err((column, "has no reason for the suppression; name one with --reason".to_owned())),
    }
}

fn reason_among(
    column: &'static str,
    written: &str,
    known: &[(&str, SuppressionReason)],
) -> Result<Option<SuppressionReason>, FieldProblem> {
    let found = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(written));
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    found.map(|(_, reason)| Some(*reason)).ok_or_else(|| (column, unknown_reason(written, &names)))
}

fn unknown_reason(written: &str, known: &[&str]) -> String {
    format!("{written:?} is not a reason; write one of {}", known.join(", "))
}

fn is_true(written: &str) -> bool {
    written.eq_ignore_ascii_case("true") || written == "1"
}

/// Accepts RFC 3339, RFC 2822, or seconds since 1970.
fn parse_time(written: &str) -> Option<Timestamp> {
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

    fn of(header: &str, wanted: Option<ListFormat>) -> Result<ListFormat, String> {
        let columns: Vec<_> = header.split(',').map(str::to_owned).collect();
        ListFormat::detect_format(&columns, wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn the_columns_say_the_format() {
        for (header, format) in [
            ("address,reason", ListFormat::Tidings),
            ("tenant,address,reason,detail,at", ListFormat::Tidings),
            ("status,reason,email,created", ListFormat::Sendgrid),
            ("ip,email,created", ListFormat::Sendgrid),
            ("email,created", ListFormat::Sendgrid),
            ("address,code,error,created_at", ListFormat::Mailgun),
            ("address,tags,created_at", ListFormat::Mailgun),
            ("EmailAddress,SuppressionReason,Origin,CreatedAt", ListFormat::Postmark),
            ("EmailAddress,Reason,LastUpdateTime", ListFormat::Ses),
            ("ID,Email,IsExcludedFromCampaigns,IsSpamComplaining,UnsubscribedAt", ListFormat::Mailjet),
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
            ("address,reason", Some(ListFormat::Ses), "column \"address\" is unknown; ses: EmailAddress,Reason"),
            ("EmailAddress", Some(ListFormat::Ses), "a column is missing; ses: EmailAddress,Reason"),
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
            (ListFormat::Tidings, &[("reason", "complaint")][..], Some(SuppressionReason::Complaint)),
            (
                ListFormat::Sendgrid,
                &[("status", "5.1.1"), ("reason", "550 no such user")],
                Some(SuppressionReason::HardBounce),
            ),
            (ListFormat::Sendgrid, &[("reason", "550 no such user")], Some(SuppressionReason::HardBounce)),
            (ListFormat::Mailgun, &[("code", "550")], Some(SuppressionReason::HardBounce)),
            (ListFormat::Mailgun, &[("tags", "*")], Some(SuppressionReason::Unsubscribed)),
            (ListFormat::Postmark, &[("SuppressionReason", "HardBounce")], Some(SuppressionReason::HardBounce)),
            (ListFormat::Postmark, &[("SuppressionReason", "SpamComplaint")], Some(SuppressionReason::Complaint)),
            (
                ListFormat::Postmark,
                &[("SuppressionReason", "ManualSuppression")],
                Some(SuppressionReason::Unsubscribed),
            ),
            (ListFormat::Ses, &[("Reason", "BOUNCE")], Some(SuppressionReason::HardBounce)),
            (ListFormat::Ses, &[("Reason", "COMPLAINT")], Some(SuppressionReason::Complaint)),
            (ListFormat::Mailjet, &[("IsSpamComplaining", "true")], Some(SuppressionReason::Complaint)),
            (ListFormat::Mailjet, &[("IsExcludedFromCampaigns", "True")], Some(SuppressionReason::Unsubscribed)),
            (ListFormat::Mailjet, &[("UnsubscribedAt", "2026-01-01T00:00:00Z")], Some(SuppressionReason::Unsubscribed)),
            (ListFormat::Mailjet, &[("IsExcludedFromCampaigns", "false")], None),
        ] {
            assert_eq!(format.parse_reason(&row(values)), Ok(reason), "{format:?} {values:?}");
        }
        for (format, values, field, says) in [
            (
                ListFormat::Tidings,
                &[("reason", "bounce")][..],
                "reason",
                "\"bounce\" is not a reason; write one of hard_bounce",
            ),
            (ListFormat::Sendgrid, &[("status", "4.2.2")], "status", "\"4.2.2\" is a temporary failure"),
            (ListFormat::Sendgrid, &[], "status", "has no reason for the suppression; name one with --reason"),
            (ListFormat::Mailgun, &[("code", "452")], "code", "temporary failure"),
            (ListFormat::Ses, &[("Reason", "")], "Reason", "write one of BOUNCE, COMPLAINT"),
        ] {
            let (wrong, problem) = format.parse_reason(&row(values)).unwrap_err();
            assert!(wrong == field && problem.contains(says), "{wrong}: {problem}");
        }
    }

    #[test]
    fn times_are_those_of_the_provider() {
        let time = "2026-11-20T08:00:00Z".parse().unwrap();
        for (format, column, written) in [
            (ListFormat::Tidings, "at", "2026-11-20T08:00:00Z"),
            (ListFormat::Sendgrid, "created", "1795161600"),
            (ListFormat::Mailgun, "created_at", "Fri, 20 Nov 2026 08:00:00 UTC"),
            (ListFormat::Mailgun, "created_at", "Fri, 20 Nov 2026 08:00:00 GMT"),
            (ListFormat::Postmark, "CreatedAt", "2026-11-20T03:00:00-05:00"),
            (ListFormat::Ses, "LastUpdateTime", "1795161600.000"),
            (ListFormat::Mailjet, "ExclusionFromCampaignsUpdatedAt", "2026-11-20T08:00:00Z"),
        ] {
            assert_eq!(format.parse_since(&row(&[(column, written)])), Ok(Some(time)), "{format:?} {written}");
        }
        assert_eq!(ListFormat::Ses.parse_since(&row(&[])), Ok(None));
        let (field, problem) = ListFormat::Sendgrid.parse_since(&row(&[("created", "yesterday")])).unwrap_err();
        assert!(field == "created" && problem.starts_with("\"yesterday\" is not a time"), "{problem}");
    }
}
