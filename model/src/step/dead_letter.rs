//! Dead letters, whose activity is named `bury`: records signals that could not be decoded as dead letters.

use serde::{Deserialize, Serialize};

use crate::decode::DeadLetter;

/// The input of the step. The activity has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLettersInput {
    /// The workflow that received the signals. Not a [`Key`](crate::Key), because a malformed workflow id is a reason for a dead
    /// letter.
    pub workflow_id: String,
    /// The first run of the workflow's chain. Dead letters are numbered within the chain.
    pub run_id: String,
    /// The signals, in the order of arrival.
    pub letters: Vec<DeadLetter>,
}
