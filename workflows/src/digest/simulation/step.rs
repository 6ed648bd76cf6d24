//! Steps of a simulation.

use proptest::prelude::*;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// `id` may repeat; `kilobytes` make a state too large to carry.
    Add {
        id: u16,
        kilobytes: u8,
        urgent: bool,
    },
    /// By id, or all of the even or odd ones that have occurred so far.
    Retract {
        id: u16,
        entity: bool,
    },
    /// The recipient's preferences change. The signal may be lost.
    Choose {
        signalled: bool,
    },
    /// An operator pauses the key's tenant, for these minutes or until a resume. The signal may be lost.
    Pause {
        minutes: Option<u16>,
        signalled: bool,
    },
    Resume {
        signalled: bool,
    },
    /// The recipient pauses for these minutes; none ends it. The signal may be lost.
    Rest {
        minutes: u16,
        signalled: bool,
    },
    /// To this time, or to a new plan's.
    Retime {
        minutes: Option<u16>,
    },
    Reopen {
        digest: Choice,
    },
    Flush,
    /// For these minutes, or until a release.
    Hold {
        minutes: Option<u16>,
    },
    Release {
        spread: bool,
    },
    Drop,
    Tick {
        minutes: u16,
    },
    /// Carry out what the state decides. `lost`: the activity ran, its answer did not arrive.
    Act {
        lost: bool,
        answer: Answer,
    },
    Roll,
    Cancel,
    /// The workflow task ends, and history has the answers so far.
    Commit,
    /// The worker dies: what activities did stays done, their answers since the last commit are forgotten.
    Crash,
}

/// One of the digests that there are when it is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub nth: u8,
    pub chosen: Option<Uuid>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Good,
    Later,
    Deferred,
    Failed,
    TooLarge,
    /// The relay accepts, and the ledger refuses to record it.
    Refused,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let answer = prop_oneof![4 => Just(Answer::Good), 1 => Just(Answer::Later), 2 => Just(Answer::Deferred), 1 => Just(Answer::Failed), 1 => Just(Answer::TooLarge), 1 => Just(Answer::Refused)];
    prop_oneof![
        6 => (0..400u16, prop_oneof![3 => Just(0u8), 1 => Just(15u8)], prop::bool::weighted(0.05))
            .prop_map(|(id, kilobytes, urgent)| Step::Add { id, kilobytes, urgent }),
        2 => (0..400u16, prop::bool::weighted(0.3)).prop_map(|(id, entity)| Step::Retract { id, entity }),
        1 => any::<bool>().prop_map(|signalled| Step::Choose { signalled }),
        1 => (prop::option::of(0..90u16), any::<bool>())
            .prop_map(|(minutes, signalled)| Step::Pause { minutes, signalled }),
        1 => any::<bool>().prop_map(|signalled| Step::Resume { signalled }),
        1 => (prop_oneof![1 => Just(0), 2 => 1..300u16], any::<bool>())
            .prop_map(|(minutes, signalled)| Step::Rest { minutes, signalled }),
        1 => prop::option::of(0..90u16).prop_map(|minutes| Step::Retime { minutes }),
        1 => any::<u8>().prop_map(|nth| Step::Reopen { digest: Choice { nth, chosen: None } }),
        1 => Just(Step::Flush),
        1 => prop::option::of(0..90u16).prop_map(|minutes| Step::Hold { minutes }),
        1 => any::<bool>().prop_map(|spread| Step::Release { spread }),
        1 => Just(Step::Drop),
        3 => (0..90u16).prop_map(|minutes| Step::Tick { minutes }),
        8 => (prop::bool::weighted(0.2), answer).prop_map(|(lost, answer)| Step::Act { lost, answer }),
        1 => Just(Step::Roll),
        2 => Just(Step::Commit),
        2 => Just(Step::Crash),
    ]
}
