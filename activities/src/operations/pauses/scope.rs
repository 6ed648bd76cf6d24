//! The words of `--where` as the scope of a pause.

use tidings_model::pause::Scope;

use crate::operations::key_filter::KeyFilter;

const NOT_ONE_USER: &str = "a pause stops tenants and digest types, and no single user; \
     hold the key with `tidings digest hold TENANT/TYPE/USER --why TEXT`, \
     or set the recipient's own pause with `tidings preferences set TENANT/TYPE/USER --pause-until TIME`";

/// Parses `tenant=`, `type=` or both, or `all`.
///
/// # Errors
/// Points at the wrong word, or says what to do for a single user.
pub fn scope(words: &str) -> Result<Scope, String> {
    if words.trim() == "all" {
        return Ok(Scope::default());
    }
    let KeyFilter { tenant, digest_type, user } = words.parse().map_err(|error| format!("{error}"))?;
    match user {
        Some(_) => Err(NOT_ONE_USER.to_owned()),
        None => Ok(Scope { tenant, digest_type }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_name_tenants_and_types_and_no_user() {
        for (words, expected) in [
            ("tenant=acme", "tenant=acme"),
            ("type=alerts and tenant='big corp'", "tenant='big corp' and type=alerts"),
            (" all ", "all"),
        ] {
            let scope = scope(words).unwrap();
            assert_eq!(scope.to_string(), expected);
            assert_eq!(super::scope(&scope.to_string()), Ok(scope), "the words come back");
        }
        for (words, problem) in [
            ("tenant=acme and user=ann", "tidings digest hold"),
            ("user=ann", "--pause-until"),
            ("all and tenant=acme", "\"all\" selects nothing"),
            ("", "write tenant="),
        ] {
            assert!(scope(words).unwrap_err().contains(problem), "{words:?}");
        }
    }
}
