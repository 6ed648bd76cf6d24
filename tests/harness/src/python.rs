//! Python programs that tests compare Tidings with.

use std::{env, ffi::OsString};

use anyhow::{Context, Result};

/// A Python with the packages of `tests/interop/requirements.txt`, which `./dev test` installs.
///
/// # Errors
/// When `TIDINGS_TEST_PYTHON` is not set.
pub fn python() -> Result<OsString> {
    env::var_os("TIDINGS_TEST_PYTHON").context("TIDINGS_TEST_PYTHON is not set")
}
