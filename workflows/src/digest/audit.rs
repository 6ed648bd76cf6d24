//! Step `audit`: the audit trail records operators' commands.

use jiff::Timestamp;
use tidings_model::step::AuditInput;

use super::state::State;

/// The input: all notes that the audit trail does not have yet.
pub(super) fn input(state: &State, _: Timestamp) -> Option<AuditInput> {
    Some(AuditInput { key: state.key.clone()?, notes: state.audit_notes.clone() })
}

/// Removes the recorded notes from the state.
pub(super) fn apply(state: &mut State, done: &AuditInput, (): (), _: Timestamp) {
    state.audit_notes.drain(..done.notes.len().min(state.audit_notes.len()));
}
