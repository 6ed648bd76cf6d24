//! Do the mails account for the events? Compares what was acknowledged with the ledger and the received mails.

use std::collections::{BTreeMap, BTreeSet};

use tidings_model::{Key, records::DigestRecord, window::Outcome};

use super::mail::Summary;

/// A comparison of a demo's events with its messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reconciliation {
    /// Events that Temporal acknowledged.
    pub events: u64,
    /// Digests that the ledger has for their keys.
    pub digests: u64,
    /// Mails of these digests in the inbox.
    pub mails: u64,
    /// Keys whose events the mails do not account for, each with what is wrong.
    pub open: BTreeMap<Key, String>,
}

impl Reconciliation {
    /// Compares, for each key, the number of events emitted with its digests, and these with the mails.
    pub fn of(emitted: &BTreeMap<Key, u64>, ledger: &[DigestRecord], mails: &[Summary]) -> Self {
        let mut account = Self::default();
        for (key, &events) in emitted {
            let digests: Vec<_> = ledger.iter().filter(|digest| digest.key == *key).collect();
            let ids: BTreeSet<_> = digests.iter().map(|digest| digest.digest_id.to_string()).collect();
            let ours = mails.iter().filter(|mail| mail.digest_id.as_ref().is_some_and(|id| ids.contains(id)));
            account.events += events;
            account.digests += digests.len() as u64;
            account.mails += ours.count() as u64;
            if let Err(problem) = accounts_for(events, &digests, mails) {
                account.open.insert(key.clone(), problem);
            }
        }
        account
    }
}

/// Every digest is sent, has a mail that says the ledger's number of events, and these are the key's events. A second
/// mail is right only after an attempt that was ambiguous (rule 26).
fn accounts_for(events: u64, digests: &[&DigestRecord], mails: &[Summary]) -> Result<(), String> {
    let mut mailed = 0;
    for digest in digests {
        let id = digest.digest_id.to_string();
        match &digest.closed {
            Some(closed) if closed.outcome == Outcome::Sent => {}
            Some(closed) => return Err(format!("digest {id} is {}: {}", closed.outcome.name(), closed.why)),
            None => return Err(format!("digest {id} is {}", digest.state)),
        }
        let ours: Vec<_> = mails.iter().filter(|mail| mail.digest_id.as_ref() == Some(&id)).collect();
        if ours.is_empty() || ours.len() > 1 + digest.ambiguous as usize {
            return Err(format!("digest {id} has {} mails", ours.len()));
        }
        if let Some(wrong) = ours.iter().find(|mail| mail.events != Some(digest.items)) {
            return Err(format!("digest {id} has {} events, its mail says {:?}", digest.items, wrong.events));
        }
        mailed += digest.items;
    }
    if mailed == events { Ok(()) } else { Err(format!("{mailed} of {events} events are in a mail")) }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidings_model::window::Closed;
    use uuid::Uuid;

    use tidings_model::records::DigestState;

    use super::*;

    fn key() -> Key {
        Key::new("demo".into(), "activity".into(), "ann".into()).unwrap()
    }

    fn digest(id: u128, items: u64, outcome: Option<Outcome>) -> DigestRecord {
        DigestRecord {
            digest_id: Uuid::from_u128(id),
            key: key(),
            opened_at: Timestamp::UNIX_EPOCH,
            due_at: Timestamp::UNIX_EPOCH,
            state: if outcome.is_some() { DigestState::Closed } else { DigestState::Claimed },
            claimed_at: None,
            sent_at: None,
            closed: outcome.map(|outcome| Closed { outcome, why: String::new() }),
            closed_at: None,
            returned_at: None,
            purged_at: None,
            items,
            plan_why: String::new(),
            cadence: String::new(),
            zone: String::new(),
            attempts: 1,
            ambiguous: 0,
        }
    }

    fn mail(id: u128, events: u64) -> Summary {
        Summary { digest_id: Some(Uuid::from_u128(id).to_string()), events: Some(events), ..Summary::default() }
    }

    fn open(ledger: &[DigestRecord], mails: &[Summary]) -> Option<String> {
        Reconciliation::of(&BTreeMap::from([(key(), 3)]), ledger, mails).open.remove(&key())
    }

    #[test]
    fn two_mails_with_all_events_account_for_them() {
        let ledger = [digest(1, 2, Some(Outcome::Sent)), digest(2, 1, Some(Outcome::Sent))];
        let account = Reconciliation::of(&BTreeMap::from([(key(), 3)]), &ledger, &[mail(1, 2), mail(2, 1), mail(9, 5)]);
        assert_eq!(account, Reconciliation { events: 3, digests: 2, mails: 2, open: BTreeMap::new() });
    }

    #[test]
    fn a_key_with_a_missing_part_or_a_second_email_stays_open() {
        let sent = [digest(1, 3, Some(Outcome::Sent))];
        for (ledger, mails, problem) in [
            (&[][..], &[][..], "0 of 3 events"),
            (&[digest(1, 2, Some(Outcome::Sent))], &[mail(1, 2)], "2 of 3 events"),
            (&[digest(1, 3, None)], &[mail(1, 3)], "is claimed"),
            (&[digest(1, 3, Some(Outcome::Failed))], &[], "is failed"),
            (&sent, &[], "0 mails"),
            (&sent, &[mail(1, 3), mail(1, 3)], "2 mails"),
            (&sent, &[mail(1, 2)], "its mail says Some(2)"),
        ] {
            let found = open(ledger, mails).expect("nothing was found");
            assert!(found.contains(problem), "{found}");
        }
    }
}
