//! Decides who may use a relay's connections, as a pure function of slots and time, for [`super::pool`].
//!
//! - A relay has as many slots as it accepts connections, at most [`bound`](Slots::new). A refused connection
//!   lowers this number; it grows back over time.
//! - Transactional messages go first. They keep the last slot to themselves while messages take longer than
//!   [`STALL`].
//! - While messages to other domains wait, a domain gets at most half the slots, or one if it stalls. If it
//!   already has more, its stalled messages are interrupted.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

/// A message stalls if it uses its connection for longer. Its domain then counts as stalled, too.
const STALL: Duration = Duration::from_secs(1);
/// Wait after a refused connection, and between further steps, before trying one more.
const GROW: Duration = Duration::from_mins(1);
/// For how long, and for how many domains, we remember the pace.
const REMEMBERED: Duration = Duration::from_mins(5);
const DOMAINS: usize = 1_000;

/// Classes that compete for a relay's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendLane {
    /// Somebody is waiting for this email.
    Transactional,
    /// Single messages in the stream `bulk`.
    Bulk,
    Digests,
}

/// Lower ids requested their slot first.
pub(super) type SlotId = u64;

#[derive(Debug)]
struct SlotWaiter {
    id: SlotId,
    lane: SendLane,
    domain: Arc<str>,
}

#[derive(Debug)]
struct SlotHolder {
    waiter: SlotWaiter,
    stage: SlotStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotStage {
    Connecting,
    /// Before the final dot, so it can still be interrupted.
    Offering {
        since: Instant,
    },
    Interrupted {
        since: Instant,
    },
    Offered {
        since: Instant,
    },
}

impl SlotStage {
    const fn since(self) -> Option<Instant> {
        match self {
            Self::Connecting => None,
            Self::Offering { since } | Self::Interrupted { since } | Self::Offered { since } => Some(since),
        }
    }
}

impl SlotHolder {
    fn stalls(&self, now: Instant) -> bool {
        self.stage.since().is_some_and(|since| now.duration_since(since) > STALL)
    }
}

#[derive(Clone, Copy, Debug)]
struct DomainPace {
    stalled: bool,
    at: Instant,
}

#[derive(Debug)]
pub(super) struct SlotScheduler {
    bound: usize,
    size: usize,
    resized_at: Option<Instant>,
    waiting: Vec<SlotWaiter>,
    users: Vec<SlotHolder>,
    paces: HashMap<Arc<str>, DomainPace>,
    next_id: SlotId,
}

impl SlotScheduler {
    pub fn new(bound: usize) -> Self {
        let bound = bound.max(1);
        Self {
            bound,
            size: bound,
            resized_at: None,
            waiting: Vec::new(),
            users: Vec::new(),
            paces: HashMap::new(),
            next_id: 0,
        }
    }

    pub fn request(&mut self, lane: SendLane, domain: &str) -> SlotId {
        let id = self.next_id;
        self.next_id += 1;
        self.waiting.push(SlotWaiter { id, lane, domain: domain.to_ascii_lowercase().into() });
        id
    }

    pub fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn admit(&mut self, now: Instant) -> Vec<SlotId> {
        let mut admitted = Vec::new();
        while let Some(index) = self.next(now) {
            let waiter = self.waiting.remove(index);
            admitted.push(waiter.id);
            self.users.push(SlotHolder { waiter, stage: SlotStage::Connecting });
        }
        admitted
    }

    fn next(&self, now: Instant) -> Option<usize> {
        if self.users.len() >= self.size {
            return None;
        }
        // Only look at the first waiter for each lane and domain, since a thousand waiting digests are mostly
        // alike.
        let mut seen = HashSet::new();
        let firsts = self.waiting.iter().enumerate().filter(|(_, waiter)| seen.insert((waiter.lane, &*waiter.domain)));
        let may_begin = |waiter: &SlotWaiter| self.leaves_last_slot(waiter, now) && self.is_within_share(waiter, now);
        let first = firsts.filter(|(_, waiter)| may_begin(waiter)).min_by_key(|(index, waiter)| {
            let of_lane = self.users.iter().filter(|user| user.waiter.lane == waiter.lane).count();
            (waiter.lane != SendLane::Transactional, of_lane, self.used_by(&waiter.domain), *index)
        });
        first.map(|(index, _)| index)
    }

    fn leaves_last_slot(&self, waiter: &SlotWaiter, now: Instant) -> bool {
        let others = self.users.iter().filter(|user| user.waiter.lane != SendLane::Transactional).count();
        let is_brisk = || {
            let pace = self.domain_pace(&waiter.domain, now);
            pace.is_some_and(|pace| !pace.stalled) && !self.users.iter().any(|user| user.stalls(now))
        };
        waiter.lane == SendLane::Transactional || self.size == 1 || others + 1 < self.size || is_brisk()
    }

    fn is_within_share(&self, waiter: &SlotWaiter, now: Instant) -> bool {
        let half = (self.size / 2).max(1);
        let mut others = self.waiting.iter().filter(|other| other.domain != waiter.domain).peekable();
        let others_wait = others.peek().is_some();
        let share = if self.domain_stalls(&waiter.domain, now) == Some(true) {
            // If every domain stalls, the relay is to blame.
            let another_does_not = others.any(|other| self.domain_stalls(&other.domain, now) != Some(true));
            if another_does_not {
                1
            } else if others_wait {
                half
            } else {
                self.size
            }
        } else if others_wait || self.domain_pace(&waiter.domain, now).is_none() {
            half
        } else {
            self.size
        };
        self.used_by(&waiter.domain) < share
    }

    /// Picks messages that must give back their slots: they stall and use more than one slot for their
    /// domain, while others wait. If all other domains stall as well, the relay is slow, and this would gain
    /// nothing.
    pub fn interrupt(&mut self, now: Instant) -> Vec<SlotId> {
        if !self.users.iter().any(|user| matches!(user.stage, SlotStage::Offering { .. }) && user.stalls(now)) {
            return Vec::new();
        }
        let deserves = |waiter: &&SlotWaiter| {
            let is_new = self.used_by(&waiter.domain) == 0 && self.domain_stalls(&waiter.domain, now) != Some(true);
            waiter.lane == SendLane::Transactional || is_new
        };
        let under_way = self.users.iter().filter(|user| matches!(user.stage, SlotStage::Interrupted { .. })).count();
        let mut wanted = self.waiting.iter().filter(deserves).count().saturating_sub(under_way);
        let mut left: HashMap<Arc<str>, usize> = HashMap::new();
        for user in &self.users {
            *left.entry(user.waiter.domain.clone()).or_default() += 1;
        }
        let mut interrupted = Vec::new();
        for user in &mut self.users {
            let SlotStage::Offering { since } = user.stage else { continue };
            let of_domain = left.entry(user.waiter.domain.clone()).or_default();
            let mut others = self.paces.iter().filter(|(domain, _)| **domain != user.waiter.domain).peekable();
            let others_stall = others.peek().is_some() && others.all(|(_, pace)| pace.stalled);
            if wanted == 0 || *of_domain < 2 || others_stall || !user.stalls(now) {
                continue;
            }
            user.stage = SlotStage::Interrupted { since };
            *of_domain -= 1;
            wanted -= 1;
            interrupted.push(user.waiter.id);
        }
        interrupted
    }

    /// The message has a connection. With the `idle` ones, this may prove the relay accepts more than
    /// expected.
    pub fn mark_connected(&mut self, id: SlotId, idle: usize, now: Instant) {
        if let Some(user) = self.user(id) {
            user.stage = SlotStage::Offering { since: now };
        }
        let working = idle + self.working_count();
        self.size = self.size.max(working.min(self.bound));
    }

    pub fn mark_offered(&mut self, id: SlotId) {
        if let Some(user) = self.user(id)
            && let Some(since) = user.stage.since()
        {
            user.stage = SlotStage::Offered { since };
        }
    }

    /// The relay refused a connection for this message. Returns `true` if we have others, including `idle`
    /// ones and those still connecting, because the relay may have reached its limit. Otherwise it is down,
    /// so the number stays.
    pub fn mark_refused(&mut self, id: SlotId, idle: usize, now: Instant) -> bool {
        let others = idle + self.users.iter().filter(|user| user.waiter.id != id).count();
        if others == 0 {
            self.size = self.bound;
            return false;
        }
        if let Some(user) = self.user(id) {
            user.stage = SlotStage::Connecting;
        }
        self.size = self.size.min(others);
        self.resized_at = Some(now);
        true
    }

    /// Allows one more connection after a while.
    pub fn grow(&mut self, now: Instant) {
        if self.size < self.bound && self.resized_at.is_none_or(|at| now.duration_since(at) >= GROW) {
            self.size += 1;
            self.resized_at = Some(now);
        }
    }

    pub fn wait_again(&mut self, id: SlotId, now: Instant) {
        if let Some(waiter) = self.take_waiter(id, now) {
            let index = self.waiting.partition_point(|other| other.id < id);
            self.waiting.insert(index, waiter);
        }
    }

    pub fn release(&mut self, id: SlotId, now: Instant) {
        self.waiting.retain(|waiter| waiter.id != id);
        self.take_waiter(id, now);
    }

    fn take_waiter(&mut self, id: SlotId, now: Instant) -> Option<SlotWaiter> {
        let index = self.users.iter().position(|user| user.waiter.id == id)?;
        let user = self.users.swap_remove(index);
        if user.stage.since().is_some() {
            if self.paces.len() >= DOMAINS {
                self.paces.retain(|_, pace| now.duration_since(pace.at) < REMEMBERED);
            }
            if self.paces.len() < DOMAINS || self.paces.contains_key(&user.waiter.domain) {
                self.paces.insert(user.waiter.domain.clone(), DomainPace { stalled: user.stalls(now), at: now });
            }
        }
        Some(user.waiter)
    }

    fn user(&mut self, id: SlotId) -> Option<&mut SlotHolder> {
        self.users.iter_mut().find(|user| user.waiter.id == id)
    }

    fn working_count(&self) -> usize {
        self.users.iter().filter(|user| user.stage != SlotStage::Connecting).count()
    }

    fn used_by(&self, domain: &str) -> usize {
        self.users.iter().filter(|user| &*user.waiter.domain == domain).count()
    }

    fn domain_pace(&self, domain: &str, now: Instant) -> Option<DomainPace> {
        self.paces.get(domain).copied().filter(|pace| now.duration_since(pace.at) < REMEMBERED)
    }

    fn domain_stalls(&self, domain: &str, now: Instant) -> Option<bool> {
        let stalls_now = self.users.iter().any(|user| &*user.waiter.domain == domain && user.stalls(now));
        if stalls_now { Some(true) } else { self.domain_pace(domain, now).map(|pace| pace.stalled) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = "example.net";
    const NOBODY: [SlotId; 0] = [];

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Slots where each domain in `known` does not stall.
    fn slots(bound: usize, known: &[&str], now: Instant) -> SlotScheduler {
        let mut slots = SlotScheduler::new(bound);
        for domain in known {
            send(&mut slots, SendLane::Transactional, domain, now, Duration::ZERO);
        }
        slots
    }

    fn send(slots: &mut SlotScheduler, lane: SendLane, domain: &str, now: Instant, took: Duration) {
        let id = slots.request(lane, domain);
        assert_eq!(slots.admit(now), [id]);
        slots.mark_connected(id, 0, now);
        slots.release(id, now + took);
    }

    fn request(slots: &mut SlotScheduler, lane: SendLane, domain: &str, count: usize) -> Vec<SlotId> {
        (0..count).map(|_| slots.request(lane, domain)).collect()
    }

    fn connect(slots: &mut SlotScheduler, now: Instant) -> Vec<SlotId> {
        let admitted = slots.admit(now);
        for id in &admitted {
            slots.mark_connected(*id, 0, now);
        }
        admitted
    }

    #[test]
    fn one_domain_may_use_all_while_nothing_else_waits() {
        let now = Instant::now();
        let mut slots = slots(10, &[DOMAIN], now);
        request(&mut slots, SendLane::Digests, DOMAIN, 20);
        assert_eq!(connect(&mut slots, now).len(), 10);
    }

    #[test]
    fn an_unknown_domain_has_half_until_its_first_message_is_through() {
        let now = Instant::now();
        for (bound, half) in [(10, 5), (3, 1), (2, 1), (1, 1)] {
            let mut slots = SlotScheduler::new(bound);
            request(&mut slots, SendLane::Digests, DOMAIN, 20);
            assert_eq!(connect(&mut slots, now).len(), half, "{bound}");
        }
    }

    #[test]
    fn a_domain_has_half_while_others_wait() {
        let now = Instant::now();
        let mut slots = slots(10, &["one.example", "two.example"], now);
        let first = request(&mut slots, SendLane::Digests, "one.example", 20);
        let second = request(&mut slots, SendLane::Digests, "two.example", 20);
        let admitted = connect(&mut slots, now);
        assert_eq!(admitted.iter().filter(|id| first.contains(id)).count(), 5);
        assert_eq!(admitted.iter().filter(|id| second.contains(id)).count(), 5);
    }

    #[test]
    fn a_domain_that_stalls_has_one_while_others_wait() {
        let now = Instant::now();
        let mut slots = slots(10, &["well.example"], now);
        send(&mut slots, SendLane::Digests, "slow.example", now, seconds(3));
        let slow = request(&mut slots, SendLane::Digests, "slow.example", 20);
        request(&mut slots, SendLane::Digests, "well.example", 20);
        let admitted = connect(&mut slots, now + seconds(3));
        assert_eq!(admitted.iter().filter(|id| slow.contains(id)).count(), 1);
    }

    #[test]
    fn where_every_domain_stalls_all_slots_are_used() {
        let now = Instant::now();
        let mut slots = SlotScheduler::new(10);
        for domain in ["one.example", "two.example"] {
            send(&mut slots, SendLane::Digests, domain, now, seconds(3));
        }
        for domain in ["one.example", "two.example"] {
            request(&mut slots, SendLane::Digests, domain, 20);
        }
        assert_eq!(connect(&mut slots, now + seconds(3)).len(), 9);
        assert_eq!(slots.interrupt(now + seconds(9)), NOBODY, "nobody is better");
    }

    #[test]
    fn messages_that_stall_give_way_to_those_of_other_domains() {
        let now = Instant::now();
        let mut slots = slots(10, &["slow.example"], now);
        let slow = request(&mut slots, SendLane::Digests, "slow.example", 10);
        assert_eq!(connect(&mut slots, now), slow);
        slots.mark_offered(slow[0]);
        let others = request(&mut slots, SendLane::Digests, "well.example", 3);
        assert_eq!(slots.interrupt(now + STALL), NOBODY);
        let late = now + seconds(2);
        let interrupted = slots.interrupt(late);
        assert_eq!(interrupted, slow[1..4], "not the one that is offered");
        assert_eq!(slots.interrupt(late), NOBODY, "once");
        for id in interrupted {
            slots.wait_again(id, late);
        }
        assert_eq!(connect(&mut slots, late), others[..2], "the last slot is left");
    }

    #[test]
    fn a_domain_that_always_stalled_gives_way_too() {
        let now = Instant::now();
        let mut slots = SlotScheduler::new(10);
        send(&mut slots, SendLane::Digests, "slow.example", now, seconds(3));
        let slow = request(&mut slots, SendLane::Digests, "slow.example", 10);
        let begun = connect(&mut slots, now + seconds(3));
        assert_eq!(begun, slow[..9]);
        request(&mut slots, SendLane::Digests, "well.example", 3);
        assert_eq!(slots.interrupt(now + seconds(5)), slow[..3]);
    }

    #[test]
    fn the_last_message_of_a_domain_that_stalls_goes_on() {
        let now = Instant::now();
        let mut slots = slots(2, &["slow.example"], now);
        let slow = request(&mut slots, SendLane::Digests, "slow.example", 2);
        assert_eq!(connect(&mut slots, now), slow);
        request(&mut slots, SendLane::Digests, "well.example", 9);
        assert_eq!(slots.interrupt(now + seconds(2)).len(), 1);
    }

    #[test]
    fn a_transactional_message_goes_first_and_finds_a_slot_where_mail_stalls() {
        let now = Instant::now();
        let mut slots = SlotScheduler::new(3);
        for domain in ["one.example", "two.example", "three.example"] {
            request(&mut slots, SendLane::Digests, domain, 2);
        }
        assert_eq!(connect(&mut slots, now).len(), 2, "one is left");
        let [message] = request(&mut slots, SendLane::Transactional, DOMAIN, 1)[..] else { unreachable!() };
        assert_eq!(slots.admit(now + seconds(9)), [message]);
    }

    #[test]
    fn digests_do_not_keep_single_messages_waiting() {
        let now = Instant::now();
        let mut slots = slots(4, &[DOMAIN], now);
        request(&mut slots, SendLane::Digests, DOMAIN, 20);
        let digests = connect(&mut slots, now);
        let message = slots.request(SendLane::Bulk, DOMAIN);
        slots.release(digests[0], now);
        assert_eq!(slots.admit(now), [message]);
    }

    #[test]
    fn a_relay_that_takes_three_connections_gets_three() {
        let now = Instant::now();
        let mut slots = slots(10, &[DOMAIN], now);
        request(&mut slots, SendLane::Digests, DOMAIN, 20);
        let admitted = slots.admit(now);
        for id in &admitted[3..] {
            assert!(slots.mark_refused(*id, 0, now));
            slots.wait_again(*id, now);
        }
        for id in &admitted[..3] {
            slots.mark_connected(*id, 0, now);
        }
        assert_eq!(slots.admit(now), NOBODY);
        slots.release(admitted[0], now);
        assert_eq!(slots.admit(now), admitted[3..4], "in the old order");
        slots.grow(now + GROW / 2);
        assert_eq!(slots.admit(now), NOBODY);
        slots.grow(now + GROW);
        assert_eq!(slots.admit(now), admitted[4..5], "one more is tried");
    }

    #[test]
    fn a_refusal_where_there_is_no_other_connection_is_the_relays_fault() {
        let now = Instant::now();
        let mut slots = SlotScheduler::new(10);
        let id = slots.request(SendLane::Digests, DOMAIN);
        slots.admit(now);
        assert!(!slots.mark_refused(id, 0, now));
        assert!(slots.mark_refused(id, 1, now), "an idle connection works");
    }

    #[test]
    fn whoever_leaves_the_queue_gets_no_slot() {
        let now = Instant::now();
        let mut slots = SlotScheduler::new(1);
        let ids = request(&mut slots, SendLane::Digests, DOMAIN, 2);
        slots.release(ids[0], now);
        assert_eq!(slots.admit(now), ids[1..]);
        assert!(!slots.has_waiters());
    }
}
