//! The window shown in a message.

use super::*;

#[test]
fn a_shown_window_ends_when_it_was_claimed_and_not_when_due() {
    let at = |text: &str| text.parse().unwrap();
    let zone = TimeZone::UTC;
    let (opened, due) = (at("2025-02-03T07:00:00Z"), at("2025-02-03T08:00:00Z"));
    let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
    let recipient = Recipient::for_development(&key);
    let window = Window { key, digest_id: Uuid::nil(), opened_at: opened, due_at: due };
    for (claimed_at, language, span) in [
        (None, "en", "Mon, Feb 3, 7:00 AM to 8:00 AM"),
        (None, "en-GB", "Mon 3 Feb, 07:00 to 08:00"),
        (Some(at("2025-02-03T07:10:00Z")), "de", "Mo., 3. Feb., 07:00 bis 07:10"),
        (Some(at("2025-02-03T07:00:05Z")), "en", "Mon, Feb 3, 7:00 AM"),
        (Some(at("2025-02-04T07:00:00Z")), "en", "Mon, Feb 3, 7:00 AM to Tue, Feb 4, 7:00 AM"),
        (Some(at("2025-02-04T09:00:00Z")), "en", "Mon, Feb 3, 7:00 AM to Tue, Feb 4, 9:00 AM"),
        (Some(at("2026-01-01T09:00:00Z")), "en", "Mon, Feb 3, 2025, 7:00 AM to Thu, Jan 1, 2026, 9:00 AM"),
    ] {
        let contents = DigestContents { claimed_at, items: 0, line_count: 0, counts: [].into(), lines: Vec::new() };
        let links = ViewLinks::default();
        let input = ViewInput {
            contents: &contents,
            window: &window,
            recipient: &recipient,
            zone: &zone,
            title: None,
            cadence: "",
            links: &links,
            brand: &settings::TenantBrand::default(),
            phrases: renderer().phrases([language]),
        };
        let shown = TemplateView::new(&input).digest.window;
        assert_eq!(shown.span.replace('\u{a0}', " "), span);
    }
}
