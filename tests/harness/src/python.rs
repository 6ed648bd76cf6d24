//! The other side of what we speak, as others wrote it: Python packages.

use std::{env, ffi::OsString};

/// A Python with the packages of `tests/interop/requirements.txt`, as `./dev test` makes one. `None`, and a line that
/// says so, without.
///
/// # Panics
/// Without one in CI.
#[must_use]
pub fn python() -> Option<OsString> {
    let python = env::var_os("TIDINGS_TEST_PYTHON");
    if python.is_none() {
        assert!(env::var("CI").as_deref() != Ok("true"), "TIDINGS_TEST_PYTHON is not set, and this is CI");
        println!("left out: TIDINGS_TEST_PYTHON is not set");
    }
    python
}
