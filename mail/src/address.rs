//! Addresses as lettre takes them.

use lettre::Address;
use tidings_model::EmailAddress;

/// An address is checked already. lettre 0.11.23 would check it in its own way, and refuse emoji.
pub(crate) fn checked(address: &EmailAddress) -> Address {
    Address::new_dangerous(address.local_part(), address.domain())
}
